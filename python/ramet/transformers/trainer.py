"""Trainer: the loop of transformers.Trainer over a step that Ramet compiles."""

import dataclasses
import json
import logging
import math
import os
import shutil
import time
import warnings

import numpy
import torch
import transformers
from transformers.trainer_callback import CallbackHandler, DefaultFlowCallback, PrinterCallback, ProgressCallback, TrainerControl, TrainerState
from transformers.trainer_utils import EvalPrediction, PredictionOutput, TrainOutput, get_last_checkpoint

from ramet.errors import Error

from .arguments import TrainingArguments
from .batches import LABELS, FixedShapes, Loader, columns_of, only_columns, rows_of, tensors_of, without_unused
from .compiled import CompiledPrediction, CompiledTraining, class_of_optimizer, complete
from .objective import Objective, ignores_labels
from .overrides import INSTEAD, refuse_overrides

log = logging.getLogger("ramet.transformers")
_NO_DECAY = [r"bias", r"layernorm", r"rmsnorm", r"(?:^|\.)norm(?:$|\.)", r"_norm(?:$|\.)"]
_STATE, _SCHEDULE, _TRAINED, _ARGUMENTS = "trainer_state.json", "scheduler.pt", "ramet", "training_args.json"


class Trainer:
    """Trains, evaluates and predicts with a module of transformers, or any module whose outputs are named.

    The arguments are those of transformers.Trainer. The first batch fixes the shapes; `model` gets the trained weights when
    training ends, when a checkpoint is saved, and in save_model. See docs/hugging-face.md."""

    def __init__(self, model=None, args=None, data_collator=None, train_dataset=None, eval_dataset=None, processing_class=None,
                 model_init=None, compute_loss_func=None, compute_metrics=None, callbacks=None, optimizers=(None, None),
                 optimizer_cls_and_kwargs=None, preprocess_logits_for_metrics=None):
        refuse_overrides(self, Trainer)
        if (model is None) == (model_init is None):
            raise Error("Trainer needs a model or model_init", "Trainer", "both" if model is not None else "neither", "one of them")
        if args is None:
            args = TrainingArguments()
        elif not isinstance(args, TrainingArguments):
            args = TrainingArguments.of_transformers(args)
        if model_init is not None:
            transformers.set_seed(args.seed)
            model = model_init()
        self.model, self.args, self.processing_class = model, args, processing_class
        self.train_dataset, self.eval_dataset = train_dataset, eval_dataset
        self.compute_metrics, self.preprocess_logits = compute_metrics, preprocess_logits_for_metrics
        pads = processing_class is not None and hasattr(processing_class, "pad")
        self.data_collator = data_collator or (transformers.DataCollatorWithPadding(processing_class) if pads else transformers.default_data_collator)
        self.optimizer, self.lr_scheduler = optimizers
        self.optimizer_class = optimizer_cls_and_kwargs
        config = getattr(model, "config", None)
        self.label_names = args.label_names or [name for name in LABELS if name in (columns_of(model, []) or LABELS)]
        ignored = getattr(config, "keys_to_ignore_at_inference", [])
        self.objective = Objective(model, args.label_smoothing_factor, compute_loss_func, [*ignored, "past_key_values"])
        self.compiled = self.prediction = self.shapes = None
        self.state, self.control = TrainerState(), TrainerControl()
        self.callback_handler = CallbackHandler(self._callbacks(callbacks), model, processing_class, self.optimizer, self.lr_scheduler)
        self.control = self.callback_handler.on_init_end(args, self.state, self.control)
        self._said, self._own_schedule = set(), False

    def _callbacks(self, callbacks):
        found = [DefaultFlowCallback, PrinterCallback if self.args.disable_tqdm else ProgressCallback]
        if self.args.report_to not in (None, "none", [], ["none"]):
            from transformers.integrations import get_reporting_integration_callbacks
            found += get_reporting_integration_callbacks(self.args.report_to)
        return found + list(callbacks or [])

    def _say_once(self, text):
        if text not in self._said:
            self._said.add(text)
            log.warning("%s", text)

    # Callbacks.

    def add_callback(self, callback):
        self.callback_handler.add_callback(callback)

    def pop_callback(self, callback):
        return self.callback_handler.pop_callback(callback)

    def remove_callback(self, callback):
        self.callback_handler.remove_callback(callback)

    # Data.

    def _collate(self, samples):
        return tensors_of(self.data_collator(samples), "Trainer")

    def _loader(self, dataset, rows, training):
        if dataset is None:
            raise Error("there is no data set", "Trainer", "", "", f"Pass {'train' if training else 'eval'}_dataset")
        args, collate = self.args, self._collate
        if args.remove_unused_columns and (columns := columns_of(self.model, self.label_names)) is not None:
            columns |= set(getattr(self.data_collator, "columns", ()))
            dataset, unused = without_unused(dataset, columns)
            if unused:
                log.info("columns that the model does not take are removed: %s", ", ".join(unused))
            collate = only_columns(collate, columns)
        workers = {"num_workers": args.dataloader_num_workers}
        if args.dataloader_num_workers:
            workers |= {"persistent_workers": args.dataloader_persistent_workers, "prefetch_factor": args.dataloader_prefetch_factor}
            if isinstance(dataset, torch.utils.data.IterableDataset):
                raise Error("workers need a data set with a length", "TrainingArguments", f"dataloader_num_workers={args.dataloader_num_workers}",
                            "", "Set dataloader_num_workers=0 for an iterable data set")
        seed = args.seed if args.data_seed is None else args.data_seed
        return Loader(dataset, collate, rows, seed, shuffle=training and args.train_sampling_strategy == "random", drop_last=training,
                      workers=workers)

    def _fix_shapes(self, batch):
        pad = getattr(self.processing_class, "pad_token_id", None)
        if pad is None:
            pad = getattr(getattr(self.model, "config", None), "pad_token_id", None)
        self.shapes = FixedShapes(batch, pad)

    # The optimizer and the schedule of learning rates.

    def get_decay_parameter_names(self, model):
        """Names of the parameters that weight decay shrinks: all but biases and those of norms."""
        from transformers.trainer_pt_utils import get_parameter_names
        return get_parameter_names(model, [torch.nn.LayerNorm], _NO_DECAY)

    def create_optimizer(self):
        """The optimizer of the arguments, unless one was given to Trainer."""
        if self.optimizer is None:
            args, decayed = self.args, set(self.get_decay_parameter_names(self.model))
            named = [(name, weight) for name, weight in self.model.named_parameters() if weight.requires_grad]
            groups = [{"params": [weight for name, weight in named if name in decayed], "weight_decay": args.weight_decay},
                      {"params": [weight for name, weight in named if name not in decayed], "weight_decay": 0.0}]
            groups = [group for group in groups if group["params"]]
            kind, settings = self.optimizer_class or (class_of_optimizer(args.optim), args.settings_of_optimizer())
            self.optimizer = kind(groups, **settings)
        return self.optimizer

    def create_scheduler(self, num_training_steps):
        """The schedule of the arguments, unless one was given to Trainer."""
        if self.lr_scheduler is None or self._own_schedule:
            args, self._own_schedule = self.args, True
            self.lr_scheduler = transformers.get_scheduler(args.lr_scheduler_type, optimizer=self.optimizer,
                                                           num_warmup_steps=args.get_warmup_steps(num_training_steps),
                                                           num_training_steps=num_training_steps,
                                                           scheduler_specific_kwargs=dict(args.lr_scheduler_kwargs))
        return self.lr_scheduler

    def _advance_schedule(self, metric=None):
        with warnings.catch_warnings():  # PyTorch expects its own optimizer to step; the compiled step reads the rates instead
            warnings.filterwarnings("ignore", message=".*lr_scheduler.step.*")
            if isinstance(self.lr_scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
                if metric is not None:
                    self.lr_scheduler.step(metric)
            elif metric is None:
                self.lr_scheduler.step()

    # Training.

    def _compile(self):
        """Compiles the step for the shapes of the first batch, unless it is there."""
        if self.compiled is not None:
            return
        rows = self.args.per_device_train_batch_size
        loader = self._loader(self.train_dataset, rows, True)
        example = next(loader.epoch(0), None)
        if example is None:
            self._too_small(rows, len(loader.dataset) if loader.sized else 0)
        self._fix_shapes(example)
        self.create_optimizer()
        self.compiled = CompiledTraining(self.objective, self.optimizer, example, self.args)
        self.prediction = None
        log.info("%s", self.compiled.compiled.memory)

    def _too_small(self, rows, found):
        raise Error("the data set has no complete step", "Trainer", f"{found} samples", f"{rows} samples or more",
                    "Set a smaller per_device_train_batch_size or gradient_accumulation_steps")

    def _length_of_run(self, loader):
        """(steps of the run, epochs, steps of an epoch or None)."""
        args = self.args
        if not loader.sized:
            if args.max_steps <= 0:
                raise Error("an iterable data set has no length", "TrainingArguments", f"max_steps={args.max_steps}", "", "Set max_steps")
            return args.max_steps, args.num_train_epochs, None
        per_epoch = len(loader)
        if per_epoch == 0:
            self._too_small(loader.rows, len(loader.dataset))
        left = len(loader.dataset) - per_epoch * loader.rows
        if left:
            self._say_once(f"each epoch leaves out its last {left} of {len(loader.dataset)} samples, which do not fill a step of {loader.rows}")
        if args.max_steps > 0:
            return args.max_steps, math.ceil(args.max_steps / per_epoch), per_epoch
        return math.ceil(args.num_train_epochs * per_epoch), math.ceil(args.num_train_epochs), per_epoch

    def train(self, resume_from_checkpoint=None):
        """Trains, and writes the weights into `model`. `resume_from_checkpoint` is a checkpoint's folder, or True for the last one
        of output_dir. Returns TrainOutput(steps, mean loss, metrics)."""
        args = self.args
        self._compile()
        loader = self._loader(self.train_dataset, self.compiled.rows_of_step, True)
        steps, epochs, per_epoch = self._length_of_run(loader)
        self.create_scheduler(steps)
        self.state = TrainerState(max_steps=steps, num_train_epochs=epochs, train_batch_size=args.per_device_train_batch_size)
        self._resume(resume_from_checkpoint if resume_from_checkpoint is not None else args.resume_from_checkpoint)
        self.state.compute_steps(args, steps)
        self.state.max_steps, self.state.num_train_epochs = steps, epochs
        handler = self.callback_handler
        handler.optimizer, handler.lr_scheduler, handler.train_dataloader = self.optimizer, self.lr_scheduler, loader
        self.control = handler.on_train_begin(args, self.state, self.control)
        if args.eval_on_start:
            self._evaluate_now()
        self._sum, self._logged_at, self._total, self._norm = 0.0, self.state.global_step, 0.0, None
        began, first = time.time(), self.state.global_step
        self._run_epochs(loader, per_epoch)
        if args.load_best_model_at_end and self.state.best_model_checkpoint is not None:
            self._load_best()
        self.compiled.copy_weights()
        took, done = time.time() - began, self.state.global_step - first
        mean = self._total / max(done, 1)
        metrics = {"train_runtime": took, "train_samples_per_second": done * loader.rows / took, "train_steps_per_second": done / took,
                   "train_loss": mean, "epoch": self.state.epoch}
        self.log(dict(metrics))
        self.control = handler.on_train_end(args, self.state, self.control)
        return TrainOutput(self.state.global_step, mean, metrics)

    def _run_epochs(self, loader, per_epoch):
        args, handler = self.args, self.callback_handler
        epoch, skip = divmod(self.state.global_step, per_epoch) if per_epoch else (0, self.state.global_step)
        if args.ignore_data_skip:
            skip = 0
        self.control.should_training_stop = False
        while self.state.global_step < self.state.max_steps and not self.control.should_training_stop:
            self.state.epoch = float(epoch) if per_epoch else self.state.epoch
            self.control = handler.on_epoch_begin(args, self.state, self.control)
            done = self._run_epoch(loader, epoch, skip, per_epoch)
            if not done and not skip:
                self._too_small(loader.rows, 0)
            self.control = handler.on_epoch_end(args, self.state, self.control)
            self._log_save_evaluate()
            epoch, skip = epoch + 1, 0

    def _run_epoch(self, loader, epoch, skip, per_epoch):
        args, handler, done = self.args, self.callback_handler, 0
        for batch in loader.epoch(epoch, skip):
            self.control = handler.on_step_begin(args, self.state, self.control)
            loss, self._norm = self.compiled.step(self.shapes.fit(batch))
            self._rate = self.optimizer.param_groups[0]["lr"]
            self._sum, self._total, done = self._sum + loss, self._total + loss, done + 1
            self.control = handler.on_optimizer_step(args, self.state, self.control)
            self._advance_schedule()
            self.state.global_step += 1
            self.state.epoch = epoch + (skip + done) / per_epoch if per_epoch else self.state.global_step / self.state.max_steps
            self.control = handler.on_step_end(args, self.state, self.control)
            self._log_save_evaluate()
            if self.control.should_epoch_stop or self.control.should_training_stop or self.state.global_step >= self.state.max_steps:
                break
        return done

    def _log_save_evaluate(self):
        steps = self.state.global_step - self._logged_at
        if self.control.should_log and steps > 0:
            entry = {"loss": self._sum / steps, "learning_rate": self._rate}
            if self._norm is not None:
                entry["grad_norm"] = self._norm
            self._sum, self._logged_at = 0.0, self.state.global_step
            self.log(entry)
        metrics = self._evaluate_now() if self.control.should_evaluate else None
        if self.args.save_strategy == "best":
            self.control.should_save = metrics is not None and self._is_best(metrics)
        elif metrics is not None:
            self._is_best(metrics)
        if self.control.should_save:
            self._save_checkpoint()
            self.control = self.callback_handler.on_save(self.args, self.state, self.control)

    def _evaluate_now(self):
        metrics = self.evaluate()
        self._advance_schedule(metrics.get(self._best_name(), metrics.get("eval_loss")))
        return metrics

    def log(self, logs, start_time=None):
        """Adds an entry to state.log_history, and tells the callbacks."""
        del start_time
        logs = {**logs, "epoch": self.state.epoch} if self.state.epoch is not None else logs
        self.state.log_history.append({**logs, "step": self.state.global_step})
        self.control = self.callback_handler.on_log(self.args, self.state, self.control, logs)

    def hyperparameter_search(self, *_, **__):
        """Refused: a trial compiles a program of its own."""
        raise Error("a search for hyperparameters is not available", "Trainer.hyperparameter_search", "", "",
                    f"Leave the search to your own loop: {INSTEAD['hyperparameter_search']}")

    # Evaluation and prediction.

    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix="eval"):
        """The loss and compute_metrics' values over a data set (a dictionary of data sets: each, under its name)."""
        dataset = self.eval_dataset if eval_dataset is None else eval_dataset
        if isinstance(dataset, dict):
            metrics = {}
            for name, one in dataset.items():
                metrics |= self.evaluate(one, ignore_keys, f"{metric_key_prefix}_{name}")
            return metrics
        only_loss = self.compute_metrics is None or self.args.prediction_loss_only
        found = self._predict(dataset, metric_key_prefix, ignore_keys, only_loss)
        self.log(dict(found.metrics))
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, found.metrics)
        return found.metrics

    def predict(self, test_dataset, ignore_keys=None, metric_key_prefix="test"):
        """PredictionOutput(predictions, label_ids, metrics) of a data set, as NumPy arrays."""
        found = self._predict(test_dataset, metric_key_prefix, ignore_keys, False)
        self.control = self.callback_handler.on_predict(self.args, self.state, self.control, found.metrics)
        return found

    def _program(self, batch):
        """What predicts: the training program's evaluation, or, before training, a program for prediction alone."""
        if self.compiled is not None:
            return self.compiled
        if self.prediction is None or set(self.shapes.shapes) != set(batch) or not self.prediction.is_current():
            self._fix_shapes(batch)
            example = complete(self.shapes.fit(batch), self.args.per_device_eval_batch_size)
            self.prediction = CompiledPrediction(self.objective, example, self.args)
        return self.prediction

    def _rows_of_evaluation(self):
        rows = self.args.per_device_eval_batch_size if self.compiled is None else self.compiled.rows
        if rows != self.args.per_device_eval_batch_size:
            self._say_once(f"evaluation takes batches of {rows} samples, as training does, instead of {self.args.per_device_eval_batch_size}")
        return rows

    def _predict(self, dataset, prefix, ignore_keys, only_loss):
        began, rows = time.time(), self._rows_of_evaluation()
        loader = self._loader(dataset, rows, False)
        self.callback_handler.eval_dataloader = loader
        gathered = _Gathered(only_loss, self.args.include_for_metrics)
        ignored = {*(ignore_keys or []), *getattr(getattr(self.model, "config", None), "keys_to_ignore_at_inference", []), "items", "loss", "losses"}
        for batch in loader.epoch(0):
            self._predict_batch(batch, rows, ignored, gathered)
            self.control = self.callback_handler.on_prediction_step(self.args, self.state, self.control)
        metrics = gathered.metrics(self.compute_metrics)
        metrics = {name if name.startswith(prefix + "_") else f"{prefix}_{name}": value for name, value in metrics.items()}
        took = time.time() - began
        metrics |= {f"{prefix}_runtime": took, f"{prefix}_samples_per_second": gathered.rows / took,
                    f"{prefix}_steps_per_second": gathered.batches / took}
        return PredictionOutput(predictions=gathered.predictions(), label_ids=gathered.labels(), metrics=metrics)

    def _predict_batch(self, batch, rows, ignored, gathered):
        program = self._program(batch)
        missing = set(self.shapes.shapes) - set(batch)
        if missing and missing <= set(self.label_names):
            self._say_once(f"the data set has no {', '.join(sorted(missing))}: no loss is computed")
            batch = batch | {name: self._no_labels(name, rows_of(batch)) for name in missing}
        fitted, count = self.shapes.fit(batch), rows_of(batch)
        outputs = program.predict(complete(fitted, rows))
        loss = outputs["losses"][0] if "losses" in outputs and not missing else None
        if count < rows and loss is not None and not ignores_labels(self.model, fitted):
            self._say_once(f"the loss of evaluation leaves out the last {count} samples, which do not fill a batch of {rows}; predictions have them")
            loss = None
        logits = {name: value[:count] for name, value in outputs.items() if name not in ignored and value.dim() and value.shape[0] == rows}
        labels = {name: batch[name] for name in self.label_names if name in batch and name not in missing}
        if self.preprocess_logits is not None:
            given = tuple(logits.values())
            chosen = self.preprocess_logits(given[0] if len(given) == 1 else given, next(iter(labels.values()), None))
            logits = dict(enumerate(chosen)) if isinstance(chosen, tuple) else {"predictions": chosen}
        main = getattr(self.model, "main_input_name", "input_ids")
        gathered.add(count, loss, logits, labels, batch.get(main))

    def _no_labels(self, name, rows):
        shape, dtype = (rows, *self.shapes.shapes[name]), self.shapes.dtypes[name]
        return torch.zeros(shape, dtype=dtype) if dtype.is_floating_point or name not in ("labels", "label_ids") else torch.full(shape, -100, dtype=dtype)

    # Checkpoints.

    def save_model(self, output_dir=None):
        """Writes the module in the format of save_pretrained, and the tokenizer or processor, into a folder."""
        folder = output_dir or self.args.output_dir
        os.makedirs(folder, exist_ok=True)
        if self.compiled is not None:
            self.compiled.copy_weights()
        if hasattr(self.model, "save_pretrained"):
            self.model.save_pretrained(folder)
        else:
            import safetensors.torch
            safetensors.torch.save_model(self.model, os.path.join(folder, "model.safetensors"))
        if hasattr(self.processing_class, "save_pretrained"):
            self.processing_class.save_pretrained(folder)
        with open(os.path.join(folder, _ARGUMENTS), "w", encoding="utf-8") as file:
            file.write(self.args.to_json_string() + "\n")

    def save_state(self):
        """Writes trainer_state.json into output_dir."""
        os.makedirs(self.args.output_dir, exist_ok=True)
        self.state.save_to_json(os.path.join(self.args.output_dir, _STATE))

    def _folder(self, step):
        return os.path.join(self.args.output_dir, f"checkpoint-{step}")

    def _save_checkpoint(self):
        """Writes checkpoint-N whole: first under another name, which is then renamed."""
        folder = self._folder(self.state.global_step)
        part = folder + ".part"
        shutil.rmtree(part, ignore_errors=True)
        self.save_model(part)
        if not self.args.save_only_model:
            self.compiled.save(os.path.join(part, _TRAINED))
            torch.save(self.lr_scheduler.state_dict(), os.path.join(part, _SCHEDULE))
        if self.state.best_global_step == self.state.global_step:
            self.state.best_model_checkpoint = folder
        self._keep_states_of_callbacks()
        self.state.save_to_json(os.path.join(part, _STATE))
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(part, folder)
        self._forget_old_checkpoints(folder)

    def _keep_states_of_callbacks(self):
        from transformers.trainer_callback import ExportableState
        kept = [callback for callback in [*self.callback_handler.callbacks, self.control] if isinstance(callback, ExportableState)]
        self.state.stateful_callbacks = TrainerState(stateful_callbacks=kept).stateful_callbacks

    def _forget_old_checkpoints(self, newest):
        limit = self.args.save_total_limit
        if not limit or limit < 1:
            return
        names = [name for name in os.listdir(self.args.output_dir) if name.startswith("checkpoint-") and name[11:].isdigit()]
        folders = [os.path.join(self.args.output_dir, name) for name in sorted(names, key=lambda name: int(name[11:]))]
        kept = {newest, self.state.best_model_checkpoint}
        removable = [folder for folder in folders if folder not in kept]
        for folder in removable[:max(0, len(folders) - max(limit, len(kept & set(folders))))]:
            shutil.rmtree(folder)

    def _resume(self, checkpoint):
        if checkpoint is True:
            checkpoint = get_last_checkpoint(self.args.output_dir) if os.path.isdir(self.args.output_dir) else None
            if checkpoint is None:
                raise Error("there is no checkpoint", self.args.output_dir, "", "a folder checkpoint-N", "Start with train() alone")
        if not checkpoint:
            return
        missing = [name for name in (_STATE, _TRAINED, _SCHEDULE) if not os.path.exists(os.path.join(checkpoint, name))]
        if missing:
            raise Error("the folder is no checkpoint that training can resume from", str(checkpoint), "no " + ", ".join(missing), "",
                        "Use a checkpoint that ramet.transformers.Trainer wrote with save_only_model=False")
        self.state = TrainerState.load_from_json(os.path.join(checkpoint, _STATE))
        self.compiled.restore(os.path.join(checkpoint, _TRAINED))
        self.lr_scheduler.load_state_dict(torch.load(os.path.join(checkpoint, _SCHEDULE), weights_only=True))
        for group, rate in zip(self.optimizer.param_groups, self.lr_scheduler.get_last_lr()):
            group["lr"] = rate
        if self.args.restore_callback_states_from_checkpoint:
            self._restore_callbacks()

    def _restore_callbacks(self):
        for callback in self.callback_handler.callbacks:
            kept = (self.state.stateful_callbacks or {}).get(type(callback).__name__)
            if isinstance(kept, dict):
                for name, value in kept.get("attributes", {}).items():
                    setattr(callback, name, value)

    # The best checkpoint.

    def _best_name(self):
        name = self.args.metric_for_best_model or "loss"
        return name if name.startswith("eval_") else "eval_" + name

    def _is_best(self, metrics):
        """Whether these metrics are the best so far; keeps them if so."""
        if self.args.metric_for_best_model is None:
            return False
        name = self._best_name()
        if name not in metrics:
            raise Error("the metric of the best model is missing", "TrainingArguments", ", ".join(metrics), name,
                        "Let compute_metrics return it, or set metric_for_best_model")
        greater = self.args.greater_is_better if self.args.greater_is_better is not None else not name.endswith("loss")
        value, best = metrics[name], self.state.best_metric
        if best is not None and not (value > best if greater else value < best):
            return False
        self.state.best_metric, self.state.best_global_step = value, self.state.global_step
        if self.args.save_strategy in ("steps", "epoch", "best"):
            self.state.best_model_checkpoint = self._folder(self.state.global_step)
        return True

    def _load_best(self):
        path = os.path.join(self.state.best_model_checkpoint, _TRAINED)
        if os.path.isdir(path):
            self.compiled.restore(path)
            return
        raise Error("the best checkpoint has no states", self.state.best_model_checkpoint, "", _TRAINED, "Set save_only_model=False")


@dataclasses.dataclass
class _Gathered:
    """What evaluation gives, batch after batch."""

    only_loss: bool
    asked: list

    def __post_init__(self):
        self.rows = self.batches = self.loss_rows = 0
        self.loss_sum, self.losses, self.logits, self.label_ids, self.inputs = 0.0, [], {}, {}, []

    def add(self, rows, loss, logits, labels, inputs):
        self.rows, self.batches = self.rows + rows, self.batches + 1
        if loss is not None:
            self.loss_sum, self.loss_rows = self.loss_sum + float(loss) * rows, self.loss_rows + rows
            self.losses.append(numpy.full(rows, float(loss), numpy.float32))
        if self.only_loss:
            return
        for kept, values in ((self.logits, logits), (self.label_ids, labels)):
            for name, value in values.items():
                kept.setdefault(name, []).append(value.float().numpy() if value.dtype == torch.bfloat16 else value.numpy())
        if "inputs" in self.asked and inputs is not None:
            self.inputs.append(inputs.numpy())

    def predictions(self):
        return _joined(self.logits)

    def labels(self):
        return _joined(self.label_ids)

    def metrics(self, compute):
        found = {}
        if compute is not None and self.logits and self.label_ids:
            more = {"inputs": _rows_joined(self.inputs)} if "inputs" in self.asked else {}
            more |= {"losses": numpy.concatenate(self.losses)} if "loss" in self.asked and self.losses else {}
            found = dict(compute(EvalPrediction(predictions=self.predictions(), label_ids=self.labels(), **more)))
            found = {name: value.item() if hasattr(value, "item") else value for name, value in found.items()}
        if self.loss_rows:
            found["loss"] = self.loss_sum / self.loss_rows
        return found


def _rows_joined(arrays):
    """Arrays one after another; shorter rows are filled with -100 at their end."""
    longest = max(array.shape[1] for array in arrays) if arrays[0].ndim > 1 else None
    if longest is not None:
        widths = [[(0, 0), (0, longest - array.shape[1])] + [(0, 0)] * (array.ndim - 2) for array in arrays]
        arrays = [numpy.pad(array, width, constant_values=-100) for array, width in zip(arrays, widths)]
    return numpy.concatenate(arrays)


def _joined(named):
    """One array, or a tuple of them, or None."""
    arrays = [_rows_joined(values) for values in named.values()]
    return None if not arrays else arrays[0] if len(arrays) == 1 else tuple(arrays)


class Seq2SeqTrainer(Trainer):
    """Trainer for models with an encoder and a decoder. It trains, and evaluates the loss; it generates nothing."""

    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix="eval", **generation):
        self._refuse_generation(generation)
        return super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)

    def predict(self, test_dataset, ignore_keys=None, metric_key_prefix="test", **generation):
        self._refuse_generation(generation)
        return super().predict(test_dataset, ignore_keys, metric_key_prefix)

    def _refuse_generation(self, generation):
        if generation:
            raise Error("generation is not compiled", "Seq2SeqTrainer", ", ".join(generation), "",
                        "Call save_model, load the folder with transformers, and call generate there")
