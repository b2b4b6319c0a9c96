"""From a module to a model of Ramet: what training_model, inference_model, save and supported share."""

import dataclasses

import torch

import ramet
from ramet.errors import Error, ShapeError, UnsupportedOp

from . import _apart, _export, _marks
from ._optimizers import Plan
from ._options import Options
from ._weights import Weights
from ._structure import InputTree, split_call, text_of_type


@dataclasses.dataclass
class Source:
    """A module's programs and tensors as import_torch takes them."""

    module: torch.nn.Module
    inputs: InputTree
    input_names: list      # that the programs give to the inputs
    training: object       # Traced or Written, or None
    evaluation: object     # Traced or Written
    loss: str = ""
    loss_items: str = ""
    plan: Plan | None = None
    trained: frozenset = frozenset()  # names of trained parameters, all names of tied ones

    def arguments(self, options, weights):
        """Keyword arguments of ramet.import_torch. `weights`: where a program reads trained ones."""
        evaluation = self.evaluation.written()
        training = self.training.written() if self.training else None
        constants = evaluation.constants | (training.constants if training else {})
        tensors = _export.tensors_of(self.module, constants, self.trained)
        return dict(
            name=type(self.module).__name__, training=training.text if training else "", evaluation=evaluation.text,
            tensors=[ramet.TorchTensor(name, weights.reader(name) if trained else tensor, storage, trained, tensor.shape)
                     for name, tensor, storage, trained in tensors],
            outputs=evaluation.outputs, loss=self.loss, loss_items=self.loss_items,
            axes=[(pattern, list(axes)) for pattern, axes in options.axes.items()], parts=list(options.parts),
            seed=options.seed, predicts=options.predicts, step_outputs=list(options.outputs) if self.training else [])

    def model(self, options):
        return ramet.import_torch(**self.arguments(options, Weights(self.module, self.trained)))

    def forget_programs(self):
        """Lets go of the programs. Names and structures stay."""
        for traced in (self.training, self.evaluation):
            if traced:
                traced.forget()

    def feed(self, tensors):
        """The samples of a call, by the names of the program's inputs."""
        return {name: tensor for name, (_, tensor) in zip(self.input_names, tensors)}

    def outputs(self, arrays):
        """The module's outputs of a program's arrays."""
        return self.evaluation.tree.fill({name: torch.as_tensor(arrays[name]) for name in arrays})


def names_of_parameters(module):
    """All names of each parameter, by its id."""
    names = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return names


def prepare(module, example, batch_dims):
    """The module without wrappers, and the inputs of its call; refuses what can never be taken."""
    module = _export.unwrapped(module)
    _export.check_module(module)
    return module, InputTree.of(module, example, batch_dims)


def source_of_training(module, example, loss, optimizer, options: Options, apart=False, meanwhile=None):
    """`apart`: torch.export runs in a fork of this process where that can be had, so that this one has nothing of it but the
    programs' text. The result has no structure of outputs then. `meanwhile`: what this process does while that fork works."""
    module, inputs = prepare(module, example, options.batch_dims)
    plan = Plan(optimizer, names_of_parameters(module)) if optimizer is not None else None
    make = lambda: _traced_for_training(module, inputs, plan, split_call(example), _checked_loss(loss), loss, options)
    found = _apart.result_of(lambda: _written(module, *make()), meanwhile) if apart else None
    training, evaluation, *names = found or make()
    return Source(module, inputs, training.inputs, training, evaluation, names[0], names[1], plan, names[2])


def _written(module, training, evaluation, *names):
    """What _traced_for_training returns as another process can read it."""
    own = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))
    programs = training.written(), evaluation.written()
    for program in programs:
        program.constants = {name: value for name, value in program.constants.items() if name not in own}
    return *programs, *names


def _traced_for_training(module, inputs, plan, call, loss_function, loss, options):
    """(training program, evaluation program, names of the loss and of its items, names of the trained parameters)."""
    items = options.loss_mean if callable(options.loss_mean) else None
    how = dict(batch_dims=options.batch_dims, loss=loss_function, items=items)
    evaluation = _export.trace(module, inputs, call, False, **how)
    training = _export.trace(module, inputs, call, True, **how, known=evaluation.known)
    if training.outputs != evaluation.outputs:
        # The modes return different structures: what both have stays.
        common = [name for name in evaluation.outputs if name in training.outputs]
        training = _export.trace(module, inputs, call, True, **how, select=common)
        evaluation = _export.trace(module, inputs, call, False, **how, select=common)
    _check_batch_dims(inputs, training, options.batch_dims)
    _check_step_outputs(training, options.outputs)
    name = "loss" if loss_function else _loss_name(training, loss)
    items_name = "loss_items" if items else _items_name(training, options.loss_mean)
    return training, evaluation, name, items_name, _trained(module, training, name, plan)


def source_of_inference(module, example, options: Options):
    module, inputs = prepare(module, example, options.batch_dims)
    evaluation = _export.trace(module, inputs, split_call(example), False, options.batch_dims)
    _check_batch_dims(inputs, evaluation, options.batch_dims)
    _refuse_changing(module, evaluation)
    if not evaluation.outputs:
        raise ShapeError("a module that returns no tensor", where=type(module).__name__,
                         remedy="Let forward return what is to be predicted")
    return Source(module, inputs, evaluation.inputs, None, evaluation)


def _refuse_changing(module, evaluation):
    """Refuses an evaluation whose later calls would give something else in PyTorch."""
    signature = evaluation.exported.graph_signature
    buffers = {name for name, target in signature.inputs_to_buffers.items()
               if target in signature.buffers_to_mutate.values()}
    nodes = {node.name: node for node in evaluation.exported.graph.nodes}
    seen, stack = set(), [nodes[name] for name in signature.user_outputs if name in nodes]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack += node.all_input_nodes
    found = sorted(signature.inputs_to_buffers[node.name] for node in seen if node.name in buffers)
    if found:
        raise UnsupportedOp("an evaluation whose outputs depend on buffers that it changes", where=type(module).__name__,
                            found=", ".join(found), remedy="Predictions change no buffer. Change buffers in training alone "
                                                           "(if self.training), or pass the value as an input")


def _checked_loss(loss):
    """The function, if the loss is one."""
    if isinstance(loss, torch.nn.Module) and any(True for _ in loss.parameters()):
        raise Error("a loss with parameters of its own", where="loss", found=type(loss).__name__,
                    remedy="Make it a part of the module, so that its parameters are trained and saved")
    if loss is None or isinstance(loss, (str, int)) and not isinstance(loss, bool):
        return None
    if not callable(loss):
        raise Error("no loss", where="loss", found=repr(loss),
                    expected="the name of an output, its index, a function of (outputs, batch), or None")
    return loss


def _is_scalar_float(value):
    return value.numel() == 1 and value.dim() <= 1 and value.dtype.is_floating_point


def _loss_name(traced, loss):
    names = traced.outputs
    if not names:
        raise ShapeError("a module that returns no tensor", where="forward", expected="a loss",
                         remedy="Let forward return the loss, or what loss=lambda outputs, batch: ... needs")
    shown = ", ".join(f"{name} {list(traced.output_value(name).shape)}" for name in names)
    if loss is None:
        scalars = [name for name in names if name != "loss_items" and _is_scalar_float(traced.output_value(name))]
        if len(scalars) != 1:
            raise Error("no output that is the only scalar" if not scalars else "several scalar outputs", where="loss",
                        found=shown, expected="one scalar output of floating-point numbers",
                        remedy="Say which: loss='NAME', or loss=lambda outputs, batch: ...")
        return scalars[0]
    if isinstance(loss, int):
        if not -len(names) <= loss < len(names):
            raise Error("no output of this index", where="loss", found=str(loss), expected=f"one of {shown}",
                        remedy="Name an output, or give loss=lambda outputs, batch: ...")
        loss = names[loss]
    if loss not in names:
        raise Error("no output of this name", where="loss", found=f"'{loss}'", expected=f"one of {shown}",
                    remedy="transformers return a loss where the example has labels")
    if not _is_scalar_float(traced.output_value(loss)):
        raise ShapeError("a loss that is no scalar", where=f"output '{loss}'",
                         found=text_of_type(traced.output_value(loss).dtype, traced.output_value(loss).shape),
                         expected="one number", remedy="Take its mean: loss=lambda outputs, batch: ....mean()")
    return loss


def _items_name(traced, items):
    if items is None:
        return ""
    if items not in traced.outputs:
        raise Error("no output of this name", where="Options.loss_mean", found=f"'{items}'",
                    expected=", ".join(traced.outputs))
    return items


def _check_batch_dims(inputs, traced, batch_dims):
    names = inputs.tensor_names() + [name for name in traced.tree.names if name]
    if unknown := sorted(set(batch_dims) - set(names)):
        raise Error("no input or output of this name", where="Options.batch_dims", found=", ".join(unknown),
                    expected=", ".join(names))


def _check_step_outputs(traced, names):
    tensors = [name for name in traced.outputs if not _is_scalar_float(traced.output_value(name))]
    for name in names:
        if name not in traced.outputs:
            raise Error("no output of this name", where="Options.outputs", found=f"'{name}'",
                        expected=", ".join(tensors) or "none: all outputs are scalars")
        if name not in tensors:
            raise Error("an output that is one number", where="Options.outputs", found=f"'{name}'",
                        expected=", ".join(tensors) or "none: all outputs are scalars",
                        remedy="Each step gives scalars as result.loss and result.metrics")


def _trained(module, training, loss, plan):
    """Names of the parameters that are trained: those of the optimizer that require a gradient and get one, as
    PyTorch's optimizers skip parameters without a gradient."""
    names = names_of_parameters(module)
    reached = _marks.reached_by_gradient(training.exported, training.output_node(loss))
    trained = set()
    for parameter in module.parameters():
        own = names[id(parameter)]
        if parameter.requires_grad and any(name in reached for name in own) and \
                (plan is None or own[0] in plan.weights):
            trained |= set(own)
    if not trained:
        raise Error("the loss depends on no parameter that is trained", where=f"loss '{loss}'",
                    remedy="Check requires_grad of the parameters, and detach() and torch.no_grad() in forward")
    return frozenset(trained)
