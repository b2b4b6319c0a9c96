"""TrainingArguments: the names of transformers that have a meaning here, and those of Ramet. Every other one is refused."""

import dataclasses
import difflib
import functools
import json
import math
import os

from ramet.errors import Error

# Optimizers of transformers, by the class of torch.optim or ramet.torch.optim that computes them. "fused" names an implementation.
OPTIMIZERS = {"adamw_torch": "AdamW", "adamw_torch_fused": "AdamW", "sgd": "SGD", "adafactor": "Adafactor", "adagrad": "Adagrad",
              "rmsprop": "RMSprop"}
STRATEGIES = ("no", "steps", "epoch")

_HUB = "nothing is sent to a hub; save_model writes a folder that other programs can push"
_LAYOUT = "places and parallelism are stated by `layout` (docs/layouts.md)"
_COMPILED = "every program is compiled ahead of time"
_RECOMPUTE = "activations are recomputed where the layout or the device memory asks for it: see `layout` and `device_memory`"
_STATIC = "shapes are fixed by the first batch"

# Names of transformers without a meaning here, with the reason. A value in `_HARMLESS` is taken, and changes nothing.
REFUSED = {
    "push_to_hub": _HUB, "hub_token": _HUB, "hub_private_repo": _HUB, "hub_model_id": _HUB, "hub_strategy": _HUB, "hub_always_push": _HUB,
    "hub_revision": _HUB, "trackio_space_id": _HUB, "trackio_bucket_id": _HUB, "trackio_static_space_id": _HUB, "project": _HUB,
    "fsdp": _LAYOUT, "fsdp_config": _LAYOUT, "deepspeed": _LAYOUT, "accelerator_config": _LAYOUT, "parallelism_config": _LAYOUT,
    "ddp_find_unused_parameters": _LAYOUT, "ddp_bucket_cap_mb": _LAYOUT, "ddp_broadcast_buffers": _LAYOUT, "ddp_static_graph": _LAYOUT,
    "ddp_backend": _LAYOUT, "ddp_timeout": _LAYOUT, "local_rank": _LAYOUT, "average_tokens_across_devices": _LAYOUT,
    "log_on_each_node": _LAYOUT, "save_on_each_node": _LAYOUT, "log_level_replica": _LAYOUT, "eval_use_gather_object": _LAYOUT,
    "torch_compile": _COMPILED, "torch_compile_backend": _COMPILED, "torch_compile_mode": _COMPILED, "use_liger_kernel": _COMPILED,
    "liger_kernel_config": _COMPILED, "torch_empty_cache_steps": _COMPILED, "enable_jit_checkpoint": _COMPILED,
    "tf32": "the precision is f32, bf16 or fp16", "bf16_full_eval": "evaluation runs with the precision of training",
    "fp16_full_eval": "evaluation runs with the precision of training",
    "gradient_checkpointing": _RECOMPUTE, "gradient_checkpointing_kwargs": _RECOMPUTE, "activation_checkpointing": _RECOMPUTE,
    "activation_checkpointing_kwargs": _RECOMPUTE,
    "auto_find_batch_size": "a program that does not fit is refused before it runs; state `device_memory` and a batch size",
    "length_column_name": _STATIC, "group_by_length": _STATIC + ", so grouping by length saves nothing; pack sequences instead",
    "include_num_input_tokens_seen": "the run's log does not count tokens", "neftune_noise_alpha": "hooks of modules are not traced",
    "optim_args": "pass `optimizers=(optimizer, scheduler)` to Trainer", "optim_target_modules": "freeze parameters with requires_grad",
    "logging_nan_inf_filter": "a loss that is not finite is logged as it is", "full_determinism": "every run is deterministic",
    "use_cache": "set `use_cache` in the model's configuration", "debug": "see docs/runs.md for what a run records",
    "skip_memory_metrics": "the plan states the memory before the run", "eval_do_concat_batches": "predictions are always concatenated",
    "eval_accumulation_steps": "predictions are always on the host", "batch_eval_metrics": "compute_metrics sees all predictions at once",
    "dataloader_multiprocessing_context": "state `dataloader_num_workers` alone", "dataloader_in_order": "batches always come in order",
    "predict_with_generate": "generation is not compiled; copy the weights with save_model and generate with transformers",
    "generation_max_length": "generation is not compiled", "generation_num_beams": "generation is not compiled",
    "generation_config": "generation is not compiled", "sortish_sampler": _STATIC,
    "warmup_ratio": "transformers 5 has `warmup_steps` alone: a number below 1 is a ratio",
    "no_cuda": "the programs run on the processors that the layout names", "evaluation_strategy": "the name is `eval_strategy`",
}
_HARMLESS = {
    "hub_strategy": ("every_save",), "hub_always_push": (False,), "project": ("huggingface",), "ddp_timeout": (1800,), "local_rank": (-1, 0),
    "average_tokens_across_devices": (True,), "log_on_each_node": (True,), "log_level_replica": ("warning",), "trackio_space_id": ("trackio",),
    "logging_nan_inf_filter": (False, True), "full_determinism": (True, False), "debug": ("", []), "skip_memory_metrics": (True,),
    "eval_do_concat_batches": (True,), "dataloader_in_order": (True,), "include_num_input_tokens_seen": (False, "no"),
    "length_column_name": ("length",), "fsdp": ("", []), "no_cuda": (True, False), "eval_accumulation_steps": None, "tf32": (False,),
    "use_cache": (False,), "trackio_static_space_id": (False,), "warmup_ratio": (0, 0.0), "torch_empty_cache_steps": None,
}


def refuse(what, found, remedy, expected=""):
    raise Error(what, "TrainingArguments", str(found), expected, remedy)


def _without_unknown(values, known):
    """The values that have a meaning here; raises an error that names all others."""
    faults, kept = [], {}
    for name, value in values.items():
        if name in known:
            kept[name] = value
        elif name in REFUSED:
            if value is not None and value is not False and value not in (_HARMLESS.get(name) or ()):
                faults.append(f"{name}={value!r} has no meaning here: {REFUSED[name]}")
        else:
            close = difflib.get_close_matches(name, [*known, *REFUSED], 1)
            faults.append(f"{name} is unknown" + (f": did you mean {close[0]}?" if close else ""))
    if faults:
        raise Error("arguments are refused", "TrainingArguments", "; ".join(faults), "", "Leave them out")
    return kept


def _refusing(cls):
    """Makes a dataclass refuse unknown names with our error."""
    generated, known = cls.__init__, [field.name for field in dataclasses.fields(cls)]

    @functools.wraps(generated)
    def initialize(self, *positional, **named):
        generated(self, *positional, **_without_unknown(named, known))

    cls.__init__ = initialize
    return cls


@_refusing
@dataclasses.dataclass
class TrainingArguments:
    """How to train. The names, defaults and meanings are those of transformers.TrainingArguments, apart from the last group.

    One optimizer step takes per_device_train_batch_size * gradient_accumulation_steps samples, on any layout: replicas share the
    micro-batches, and `lanes` must be a multiple of their number. A layout changes no bit of the result.
    """

    output_dir: str | None = None  # "trainer_output"
    do_train: bool = False  # taken for scripts that read them; Trainer does not
    do_eval: bool = False
    do_predict: bool = False
    per_device_train_batch_size: int = 8  # samples of a micro-batch
    per_device_eval_batch_size: int | None = None  # as in training: programs have one shape
    gradient_accumulation_steps: int = 1
    num_train_epochs: float = 3.0
    max_steps: int = -1

    learning_rate: float = 5e-5
    lr_scheduler_type: str = "linear"
    lr_scheduler_kwargs: dict | str | None = None
    warmup_steps: float = 0
    optim: str = "adamw_torch"
    weight_decay: float = 0.0
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_epsilon: float = 1e-8
    max_grad_norm: float = 1.0
    label_smoothing_factor: float = 0.0
    bf16: bool = False
    fp16: bool = False

    logging_strategy: str = "steps"
    logging_steps: float = 500
    logging_first_step: bool = False
    log_level: str = "passive"
    disable_tqdm: bool | None = None
    report_to: str | list | None = "none"
    run_name: str | None = None

    eval_strategy: str = "no"
    eval_steps: float | None = None
    eval_delay: float = 0
    eval_on_start: bool = False
    prediction_loss_only: bool = False
    include_for_metrics: list = dataclasses.field(default_factory=list)

    save_strategy: str = "steps"
    save_steps: float = 500
    save_total_limit: int | None = None
    save_only_model: bool = False
    load_best_model_at_end: bool = False
    metric_for_best_model: str | None = None
    greater_is_better: bool | None = None
    resume_from_checkpoint: str | bool | None = None
    ignore_data_skip: bool = False
    restore_callback_states_from_checkpoint: bool = False

    seed: int = 42
    data_seed: int | None = None
    use_cpu: bool = True  # taken, as every program runs on what the layout names

    dataloader_drop_last: bool = False  # training always drops the last incomplete step
    dataloader_num_workers: int = 0
    dataloader_pin_memory: bool = True  # taken, without effect on a CPU
    dataloader_persistent_workers: bool = False
    dataloader_prefetch_factor: int | None = None
    remove_unused_columns: bool = True
    label_names: list | None = None
    train_sampling_strategy: str = "random"

    # Of Ramet alone.
    layout: str = ""  # where the program runs, such as "p=2 r=2 rts=optimizer" (docs/layouts.md)
    device_memory: str | int | None = None  # bytes of a device, such as "4GiB"
    lanes: int | None = None
    chunks: int | None = None
    threads: int | None = None
    parts: list | str | None = None  # paths of the modules that pipelines and phases may cut between, such as "encoder.layer.*"
    axes: dict | None = None  # meaning of the dimensions of weights, for tensor shards (docs/pytorch.md)

    def __post_init__(self):
        self.output_dir = self.output_dir or "trainer_output"
        for name in ("lr_scheduler_type", "optim", "logging_strategy", "eval_strategy", "save_strategy", "train_sampling_strategy"):
            setattr(self, name, str(getattr(getattr(self, name), "value", getattr(self, name))))
        if isinstance(self.lr_scheduler_kwargs, str):
            self.lr_scheduler_kwargs = json.loads(self.lr_scheduler_kwargs)
        self.lr_scheduler_kwargs = self.lr_scheduler_kwargs or {}
        if self.per_device_eval_batch_size is None:
            self.per_device_eval_batch_size = self.per_device_train_batch_size
        self._check_numbers()
        self._check_words()
        if self.eval_strategy == "steps" and not self.eval_steps:
            self.eval_steps = self.logging_steps
        if self.load_best_model_at_end:
            self._check_best()
        if self.disable_tqdm is None:
            self.disable_tqdm = False

    def _check_numbers(self):
        for name in ("per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps"):
            if int(getattr(self, name)) != getattr(self, name) or getattr(self, name) < 1:
                refuse(f"{name} is not a number of samples", getattr(self, name), f"State {name} of 1 or more", "an integer of 1 or more")
        for name in ("learning_rate", "weight_decay", "adam_epsilon", "max_grad_norm", "warmup_steps", "eval_delay"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                refuse(f"{name} is negative or not finite", value, f"State {name} of 0 or more")
        for name in ("adam_beta1", "adam_beta2", "label_smoothing_factor"):
            if not 0 <= getattr(self, name) < 1:
                refuse(f"{name} is out of range", getattr(self, name), f"State a {name} in this range", "0 <= value < 1")
        for name in ("logging_steps", "save_steps"):
            if not getattr(self, name) > 0:
                refuse(f"{name} is not positive", getattr(self, name), f'Use {name.split("_")[0]}_strategy="no" to switch it off')

    def _check_words(self):
        if self.bf16 and self.fp16:
            refuse("two precisions are asked for", "bf16=True, fp16=True", "Choose one of them")
        if self.optim not in OPTIMIZERS:
            refuse("the optimizer is unknown", repr(self.optim),
                   "Make the optimizer yourself, and pass Trainer(optimizers=(optimizer, None)): docs/hugging-face.md lists the classes",
                   ", ".join(OPTIMIZERS))
        for name in ("logging_strategy", "eval_strategy", "save_strategy"):
            allowed = (*STRATEGIES, "best") if name == "save_strategy" else STRATEGIES
            if getattr(self, name) not in allowed:
                refuse(f"{name} is unknown", repr(getattr(self, name)), "Choose one of these", ", ".join(allowed))
        if self.train_sampling_strategy not in ("random", "sequential"):
            refuse("train_sampling_strategy is not available", repr(self.train_sampling_strategy),
                   _STATIC.capitalize() + ", so grouping by length saves nothing; pack sequences instead", "random, sequential")
        for name in self.include_for_metrics:
            if name not in ("inputs", "loss"):
                refuse("include_for_metrics has an unknown word", repr(name), "Leave it out", "inputs, loss")

    def _check_best(self):
        if self.save_strategy != "best" and self.eval_strategy != self.save_strategy:
            refuse("load_best_model_at_end needs an evaluation at each save",
                   f"eval_strategy={self.eval_strategy!r}, save_strategy={self.save_strategy!r}", "State the same strategy for both")
        if self.save_strategy == self.eval_strategy == "steps" and self.save_steps % self.eval_steps:
            refuse("save_steps is not a multiple of eval_steps", f"{self.save_steps} and {self.eval_steps}",
                   "load_best_model_at_end needs an evaluation at each save")
        if self.metric_for_best_model is None:
            self.metric_for_best_model = "loss"
        if self.greater_is_better is None:
            self.greater_is_better = not self.metric_for_best_model.endswith("loss")

    # What callbacks of transformers ask for.

    world_size = n_gpu = 1
    process_index = local_process_index = 0
    should_save = should_log = True
    parallel_mode = "not_distributed"

    @property
    def train_batch_size(self):
        return self.per_device_train_batch_size

    @property
    def eval_batch_size(self):
        return self.per_device_eval_batch_size

    @property
    def logging_dir(self):
        return os.path.join(self.output_dir, "runs")

    @property
    def precision(self):
        return "bf16" if self.bf16 else "f16" if self.fp16 else "f32"

    def get_warmup_steps(self, num_training_steps):
        """The number of warm-up steps; `warmup_steps` below 1 is a ratio."""
        return int(self.warmup_steps) if self.warmup_steps >= 1 else math.ceil(num_training_steps * self.warmup_steps)

    def settings_of_optimizer(self):
        """What the class of `optim` gets beside groups of weights, as in transformers."""
        settings = {"lr": self.learning_rate}
        if OPTIMIZERS[self.optim] == "AdamW":
            settings |= {"betas": (self.adam_beta1, self.adam_beta2), "eps": self.adam_epsilon}
        if OPTIMIZERS[self.optim] == "Adafactor":
            settings |= {"scale_parameter": False, "relative_step": False}
        return settings

    def to_dict(self):
        return dataclasses.asdict(self)

    def to_json_string(self):
        return json.dumps(self.to_dict(), indent=2)

    def to_sanitized_dict(self):
        plain = (bool, int, float, str)
        return {name: value if isinstance(value, plain) else str(value) for name, value in self.to_dict().items()}

    @classmethod
    def of_transformers(cls, arguments, **more):
        """Our arguments with the values of a transformers.TrainingArguments, as far as they differ from its defaults."""
        given = {}
        for field in dataclasses.fields(arguments):
            default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
            value = getattr(arguments, field.name)
            value = getattr(value, "value", value)
            if field.init and value != getattr(default, "value", default) and not _derived(field.name, value, arguments):
                given[field.name] = value
        return cls(**(given | more))


def _derived(name, value, arguments):
    """Whether transformers filled in this value itself."""
    return (name in ("accelerator_config", "fsdp_config", "deepspeed_plugin", "fsdp", "logging_dir", "label_names", "debug", "local_rank",
                     "parallelism_config", "distributed_state", "use_cpu", "disable_tqdm", "dataloader_pin_memory", "do_eval") and not
            (name == "label_names" and value)) or (name == "optim" and value == "adamw_torch_fused") or (
                name == "report_to" and value in ([], ["none"])) or (name == "run_name" and value == arguments.output_dir) or (
                    name == "log_level" and value == "passive")


@_refusing
@dataclasses.dataclass
class Seq2SeqTrainingArguments(TrainingArguments):
    """TrainingArguments of Seq2SeqTrainer. `predict_with_generate` and what belongs to it are refused."""
