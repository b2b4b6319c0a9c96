"""A module compiled for training."""

import dataclasses
import gc
import os
import time
import warnings

import torch

import ramet
from ramet._words import MODULES, words
from ramet.errors import Error, ShapeError

from . import _export
from ._compile import source_of_training
from ._optimizers import KINDS
from ._options import Options
from ._structure import samples_back
from ._weights import Aside, Weights, give_back, is_released

CLASSES = {"sgd": "Sgd", "adam": "Adam", "adamw": "AdamW", "lamb": "Lamb", "lars": "Lars", "lion": "Lion",
           "adafactor": "Adafactor", "rmsprop": "Rmsprop", "adagrad": "Adagrad"}
NARROW = ("sgd", "adam", "adamw", "lamb")  # whose moments may be bf16
MOMENTS = {"adam": 2, "adamw": 2, "lamb": 2, "lion": 1, "adagrad": 1}  # for each element of a weight, at least
GROUP_OPTIONS = ("weight_decay", "beta1", "beta2", "epsilon", "momentum")


@dataclasses.dataclass(frozen=True)
class StepResult:
    """The result of one optimizer step."""

    step: int
    """Steps done, including this one."""
    loss: float
    """Mean over the step's micro-batches."""
    grad_norm: float
    """Of all gradients, before clipping."""
    skipped: bool
    """Gradients overflowed under an automatic loss scale: no weight changed."""
    learning_rates: dict
    """Of this step, by group."""
    seconds: float
    metrics: dict
    """The scalar outputs of the module, means over micro-batches."""
    outputs: dict
    """Tensors of Options.outputs by name, as the module gave them before the update, without a graph of gradients: the
    samples of the step in order. An output without samples has an entry for each micro-batch, where there are several.
    Empty after a step that was skipped."""


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The loss and metrics of some samples, without dropout."""

    loss: float
    metrics: dict


def _optimizer(plan):
    made = getattr(ramet, CLASSES[plan.kind.kind], None)
    if made is None:
        raise ramet.UnsupportedOp("an optimizer that this build of Ramet does not have", where="optimizer",
                                  found=type(plan.optimizer).__name__)
    return made(**plan.options)


def _train_options(source, model, options: Options):
    weights, plan = set(model.weights), source.plan
    groups, named = [], set()
    for group in plan.groups:
        own = [name for name in group.weights if name in weights]
        if not own:
            continue
        named |= set(own)
        groups.append(ramet.Group(name=group.name, weights=own,
                                  **{key: value for key, value in group.options.items() if key in GROUP_OPTIONS}))
    if rest := sorted(weights - named):
        groups.append(ramet.Group(name="frozen", weights=rest, frozen=True))
    return ramet.TrainOptions(
        optimizer=_optimizer(plan), groups=groups, schedule=ramet.Schedule(learning_rate=plan.rates()["group0"]),
        precision=options.precision, micro_batches=options.micro_batches, lanes=options.lanes, chunks=options.chunks,
        max_gradient_norm=float(options.max_grad_norm or 0),
        loss_scale=0.0 if options.loss_scale is None else float(options.loss_scale),
        loss_mean_of_step=options.loss_mean is not None, moments=options.moments, seed=options.seed,
        update_in_backward=options.update_in_backward, layout=options.layout,
        threads=options.threads, device_memory=options.memory_bytes(), device_memory_share=options.memory_share(),
        device=options.device)


class _Ahead:
    """What is done ahead, while PyTorch exports the module: memory is taken for a part of what the program will hold, that is
    weights and the optimizer's states (other parts depend on the compilation); and weights that the module gives back are
    written into a file."""

    SURE = 0.9  # of the parameters; those that get no gradient have no states

    def __init__(self, optimizer, options):
        self.aside = Aside() if options.release_module else None
        kind, weights, states = KINDS.get(type(optimizer)), 0, 0
        if kind and all(word.startswith("recompute=") for word in options.layout.split()):
            sure = self.SURE * sum(each.numel() for group in optimizer.param_groups for each in group["params"] if each.requires_grad)
            weights, states = int(4 * sure), int(sure * MOMENTS.get(kind.kind, 0) * (2 if options.moments == "bf16" else 4))
        self._grows = weights if options.release_module else 0
        self._reserve = ramet.MemoryReserve(states + weights - self._grows)

    def released(self):
        """The module has given its weights back: the program's take their room, while it is compiled."""
        self._reserve.grow(self._grows)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._reserve.close()
        if self.aside:
            self.aside.close()


class TrainingModel:
    """A module, its loss and its optimizer, compiled as one program. A call makes one optimizer step.

    The weights live in this object: the module that it was made of stays as it was, until `copy_to` (with
    Options(release_module=True) it has NaN meanwhile). The optimizer that
    was given stays the source of learning rates: they are read from its `param_groups` at each step.
    """

    def __init__(self, source, options: Options, began=None, ahead=None):
        """`began`: time.perf_counter() before the export; None: the source was made before. `ahead`: what was done while it
        was made."""
        self._source, self._process, self._stepped = source, os.getpid(), False
        self.options = options
        module = source.module
        self._first_names = self._names_of_states(module)
        before = time.perf_counter()
        weights = Weights(module, source.trained, ahead and ahead.aside)
        arguments = source.arguments(options, weights)
        self._output_types = {name: source.training.type_of(name) for name in options.outputs}
        exported = time.perf_counter()
        self._model = ramet.import_torch(**arguments)
        del arguments
        imported = time.perf_counter()
        if began:
            source.forget_programs()
        if options.release_module:
            source.forget_programs()
            gc.collect()  # graphs of torch.fx refer to each other, and to the weights
            held = set(self._model.weights)
            weights.release({name for name in source.trained if self._first_names[name] in held})
        self._train_options = _train_options(source, self._model, options)
        self._trim()
        if options.release_module and ahead:
            ahead.released()
        try:
            with words(MODULES):
                self._training = ramet.Training(self._model, self._train_options)
        except BaseException:
            weights.restore()
            raise
        weights.close()
        self._trim()
        self.build_seconds = {"export": exported - (began or before), "import": imported - exported,
                              "compile": time.perf_counter() - imported}
        """How long torch.export took for the programs and their text, Ramet's import of them, and their compilation with all
        memory."""
        self._states = set(self._training.states())
        self._groups = {group.name for group in self._train_options.groups if not group.frozen}
        self._plan = None
        # Of tensors that are states only their type is kept.
        self._kept = {name: tensor.detach() if self._first_names.get(name) not in self._states else
                      torch.empty_like(tensor, device="meta")
                      for name, tensor in module.state_dict(keep_vars=True).items() if isinstance(tensor, torch.Tensor)}
        if source.plan.optimizer.state:
            self.load_optimizer_state_dict(source.plan.optimizer.state_dict())

    def _trim(self):
        if self.options.memory == "low":
            ramet.trim_memory()

    @staticmethod
    def _names_of_states(module):
        """Of each parameter and buffer the name of its state: the first of equal storage."""
        first, names = {}, {}
        tensors = list(module.named_parameters(remove_duplicate=False)) + \
            list(module.named_buffers(remove_duplicate=False))
        for name, tensor in tensors:
            names[name] = first.setdefault(_export.storage_of(tensor), name) if tensor.numel() else name
        return names

    # --- what it is ---

    @property
    def plan(self):
        """Bytes of each device and the predicted time of a step. Predicting the time measures the machine for a moment."""
        if self._plan is None:
            self._plan = ramet.plan(self._model, self._train_options)
        return self._plan

    @property
    def memory(self):
        """What each device of the compiled program holds in memory: text, and a picture in a notebook."""
        return self._training.memory()

    @property
    def samples_per_step(self):
        return self._training.samples_per_step

    @property
    def steps_done(self):
        return self._training.steps_done

    @property
    def trained(self):
        """Names of the parameters that are trained."""
        return sorted(set(self._model.weights) - {name for group in self._train_options.groups if group.frozen
                                                  for name in group.weights})

    def weights_hash(self):
        """Hash of all trained weights and statistics. Equal bits give equal hashes, on any layout."""
        return self._training.weights_hash()

    def __repr__(self):
        return (f"<ramet.torch.TrainingModel of {type(self._source.module).__name__}, step {self.steps_done}, layout "
                f"'{self.options.layout}'>")

    def __reduce__(self):
        raise TypeError("a compiled TrainingModel cannot be copied or pickled; save() writes a checkpoint")

    # --- steps ---

    def _check_process(self):
        if os.getpid() != self._process:
            raise Error("a compiled program in a forked process", where="TrainingModel",
                        remedy="Its threads did not survive the fork. Call it in the process that made it, or use the "
                               "start method 'spawn' and compile there")

    def _filled(self, tensors, samples):
        """An incomplete batch with added samples, as Options.pad_last says."""
        fills = self.options.pad_last
        if unknown := sorted(set(fills) - {name for name, _ in tensors}):
            raise Error("no input of this name", where="Options.pad_last", found=", ".join(unknown),
                        expected=", ".join(name for name, _ in tensors))
        filled = []
        for name, tensor in tensors:
            added = tensor[-1:] if name not in fills else torch.full_like(tensor[-1:], fills[name])
            filled.append((name, torch.cat([tensor, added.expand(samples - tensor.shape[0], *tensor.shape[1:])])))
        return filled

    def _tensors(self, arguments, keywords, where, samples=None, fills=False):
        """(samples of a call by the program's names, their number without added ones); `samples`: their number, or a
        multiple of the micro-batch. `fills`: whether an incomplete batch may be filled up."""
        tensors = self._source.inputs.tensors_of(arguments, keywords, where)
        given = count = tensors[0][1].shape[0]
        micro = self._source.inputs.samples
        whole = samples if samples is not None else -(-count // micro) * micro
        if fills and self.options.pad_last and count < whole:
            tensors, count = self._filled(tensors, whole), whole
        if samples is not None and count != samples:
            last = count < samples
            raise ShapeError("samples that are not those of one step" if not last else "an incomplete batch", where=where,
                             found=f"{count} samples",
                             expected=f"{samples}: {micro} of the example's micro-batch x {self.options.micro_batches} "
                                      "micro-batches",
                             remedy="Leave the last batch out (DataLoader(drop_last=True)), or fill it up (Options.pad_last)" if last else
                                    "Compile with Options(micro_batches=...) that fit the batch")
        return self._source.feed(tensors), given

    def _outputs_of(self, result, given):
        """Tensors that a step gives, without samples that were added to the batch."""
        tensors = {name: torch.as_tensor(array).to(self._output_types[name]) for name, array in result.outputs.items()}
        return {name: samples_back(tensor[:given] if given < self.samples_per_step == tensor.shape[0] else tensor,
                                   self.options.batch_dims.get(name, 0))
                for name, tensor in tensors.items()}

    def __call__(self, *arguments, **keywords):
        """One optimizer step on a batch of samples_per_step samples, given as the example was. Raises Error, and changes
        no weight, when the loss is not finite."""
        self._check_process()
        plan = self._source.plan
        feed, given = self._tensors(arguments, keywords, f"step {self.steps_done + 1}", self.samples_per_step, fills=True)
        plan.check_unchanged()
        rates = {name: rate for name, rate in plan.rates().items() if name in self._groups}
        result = self._training.step(feed, group_rates=rates)
        if not self._stepped:
            self._stepped = True
            self._trim()
        plan.optimizer._opt_called = True  # torch's schedulers look whether the optimizer has stepped
        return StepResult(result.step, result.loss, result.gradient_norm, result.skipped, rates, result.seconds,
                          {name: value for name, value in result.metrics.items() if name != "loss"},
                          self._outputs_of(result, given) if self.options.outputs else {})

    def evaluate(self, *arguments, **keywords):
        """The loss and metrics of whole micro-batches of samples, in evaluation mode."""
        self._check_process()
        feed, _ = self._tensors(arguments, keywords, "evaluate()", fills=True)
        metrics = dict(self._training.evaluate(feed))
        return Evaluation(metrics.pop("loss"), metrics)

    def predict(self, *arguments, **keywords):
        """The module's outputs for these samples, in evaluation mode, in the module's own structure."""
        self._check_process()
        if not self.options.predicts:
            raise Error("a program without predictions", where="predict()", remedy="Compile with Options(predicts=True)")
        return self._source.outputs(self._training.predict(self._tensors(arguments, keywords, "predict()")[0]))

    # --- weights ---

    def _value(self, name, like):
        """A state in the type and shape of a tensor."""
        return torch.as_tensor(self._training.state(name)).reshape(like.shape).to(like.dtype)

    def state_dict(self):
        """As module.state_dict(): the weights and buffers as they are now."""
        result = {}
        for name, tensor in self._kept.items():
            state = self._first_names.get(name)
            result[name] = self._value(state, tensor) if state in self._states else tensor.clone()
        return result

    def load_state_dict(self, state_dict):
        """Sets all weights and buffers from what state_dict() of this object or of the module gave."""
        missing = sorted(set(self._kept) - set(state_dict))
        extra = sorted(set(state_dict) - set(self._kept))
        if missing or extra:
            raise Error("a state_dict of another module", where="load_state_dict",
                        found=f"missing: {', '.join(missing[:5]) or 'none'}; unknown: {', '.join(extra[:5]) or 'none'}")
        views = {}
        for name, old in self._kept.items():
            new, state = state_dict[name], self._first_names.get(name)
            if tuple(new.shape) != tuple(old.shape):
                raise ShapeError("a tensor of another shape", where=f"load_state_dict: {name}",
                                 found=str(list(new.shape)), expected=str(list(old.shape)))
            if state in self._states:
                views[state] = self._as_state(state, new)
            elif not torch.equal(new.detach().to(old.dtype), old):
                raise Error("a tensor that is a constant of the program", where=f"load_state_dict: {name}",
                            remedy="Frozen parameters and buffers that training does not change are compiled in. Compile "
                                   "again")
        self._training.set_states(views)

    def _as_state(self, name, tensor):
        return tensor.detach().cpu().to(torch.as_tensor(self._training.state(name)).dtype).contiguous()

    def copy_to(self, module):
        """Writes the weights and buffers into a module with the names and shapes of the one that was compiled."""
        module = _export.unwrapped(module)
        targets = dict(module.named_parameters()) | dict(module.named_buffers())
        wanted = {name for name, state in self._first_names.items() if state in self._states and name == state}
        written = {name: targets[name] for name in wanted if name in targets}
        if missing := sorted(wanted - set(written)):
            raise Error("a module without some of the weights", where="copy_to", found=", ".join(missing[:5]))
        for name, target in written.items():
            shape = tuple(torch.as_tensor(self._training.state(name)).shape)
            if tuple(target.shape) != shape:
                raise ShapeError("a weight of another shape", where=f"copy_to: {name}", found=str(list(target.shape)),
                                 expected=str(list(shape)))
        with torch.no_grad():
            for name, target in written.items():
                if not is_released(target):
                    target.copy_(self._value(name, target))
        give_back(module, self._first_names, self._value)
        return module

    def optimizer_state_dict(self):
        """In the form of torch.optim: load_state_dict of the same optimizer takes it."""
        return self._source.plan.state_dict(self.steps_done, lambda name: torch.as_tensor(self._training.state(name)),
                                            self._states)

    def load_optimizer_state_dict(self, state_dict):
        """Goes on from what torch.optim's state_dict() gave: moments, and the number of steps."""
        steps, tensors = self._source.plan.states_of(state_dict, self._states)
        views = {}
        for name, tensor in tensors.items():
            held = torch.as_tensor(self._training.state(name))
            if held.numel() != tensor.numel():
                raise ShapeError("a state of another shape", where=f"load_optimizer_state_dict: {name}",
                                 found=str(list(tensor.shape)), expected=str(list(held.shape)))
            narrow = self.options.moments == "bf16" and self._source.plan.kind.kind in NARROW
            views[name] = tensor.detach().cpu().to(torch.bfloat16 if narrow else held.dtype).contiguous()
        self._training.set_states(views)
        if steps is not None:
            self._training.set_steps_done(steps)
        if self._source.plan.optimizer.param_groups and "param_groups" in state_dict:
            for own, given in zip(self._source.plan.optimizer.param_groups, state_dict["param_groups"]):
                own["lr"] = given.get("lr", own["lr"])

    # --- checkpoints ---

    def save(self, folder):
        """Saves all that training needs to go on, whole or not at all, and returns the path."""
        self._check_process()
        return self._training.save(str(folder))

    def restore(self, path):
        """Goes on from a checkpoint of any layout: what save() returned, or the newest in its folder."""
        self._check_process()
        for text in self._training.restore(str(path)).splitlines():
            warnings.warn(text, stacklevel=2)

    def save_weights(self, path):
        """Writes the weights to one safetensors file, under the names of the module."""
        self._training.save_weights(str(path))


def training_model(module, optimizer, example, loss=None, options=None):
    """Compiles a module, its loss and its optimizer.

    `example`: a micro-batch, as a dictionary of keyword arguments or a tuple; its shapes are those of the program. `loss`:
    name or index of an output, a function of (outputs, batch), or None for the only scalar output. Raises
    ramet.UnsupportedOp for what Ramet does not have, and ramet.DoesNotFit, before any step.
    """
    if options is None:
        options = Options()
    if not isinstance(options, Options):
        raise Error("no options", where="options", found=type(options).__name__, expected="ramet.torch.Options(...)")
    began = time.perf_counter()
    if options.memory == "low":
        ramet.trim_memory()  # imports have read most of libraries that stay unused
    with _Ahead(optimizer, options) as ahead:
        own = _export.unwrapped(module)
        source = source_of_training(module, example, loss, optimizer, options, apart=options.memory == "low",
                                    meanwhile=lambda: ahead.aside.add_trained(own))
        return TrainingModel(source, options, began, ahead)
