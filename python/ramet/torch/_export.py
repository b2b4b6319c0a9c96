"""A PyTorch module as a traced program: torch.export, marks where gradients stop, names of the user's module."""

import collections
import dataclasses
import inspect
import traceback
import warnings

import torch
from torch import nn
from torch.fx.proxy import TracerBase

from ramet.errors import Error, ShapeError, UnsupportedOp

from . import _capture, _ctc, _loops, _marks
from ._known import Known, changing_buffers
from ._places import frames_of_forward, place_in, place_of, place_of_error, remedy_at
from ._structure import InputTree, OutputTree
from ._weights import is_released

PREFIX = "module."
LAYER_DROPS = ("layerdrop", "encoder_layerdrop", "decoder_layerdrop", "layer_drop")


def unwrapped(module):
    """The module itself, without what torch.compile and data parallelism put around it."""
    if isinstance(module, torch.jit.ScriptModule):
        raise UnsupportedOp("a module of TorchScript", where="module", found=type(module).__name__,
                            remedy="Pass the nn.Module that it was made of")
    if not isinstance(module, nn.Module):
        raise UnsupportedOp("no torch.nn.Module", where="module", found=type(module).__name__,
                            remedy="Write the model as a subclass of torch.nn.Module")
    while True:
        if hasattr(module, "_orig_mod"):
            module = module._orig_mod
        elif isinstance(module, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            module = module.module
        else:
            return module


def check_module(module):
    """Refuses modules that cannot be traced, before the trace: with every reason in one message."""
    reasons = []
    for path, each in module.named_modules():
        where = f"module '{path}' ({type(each).__name__})" if path else type(each).__name__
        if type(each).__name__ in ("FullyShardedDataParallel", "FSDPModule"):
            reasons.append(f"{where} is sharded by FSDP: pass the module inside; the layout shards the states (r=2 rts=all)")
        if path and hasattr(each, "_orig_mod"):
            reasons.append(f"{where} was given to torch.compile: pass the model without torch.compile")
        if type(each).__module__.startswith(("torch.ao.nn.quantized", "torch.nn.quantized", "bitsandbytes")):
            reasons.append(f"{where} is quantised: pass the model in f32")
        if isinstance(each, torch.jit.ScriptModule):
            reasons.append(f"{where} is TorchScript: pass the nn.Module that it was made of")
        if each._backward_hooks or getattr(each, "_backward_pre_hooks", None):
            reasons.append(f"{where} has backward hooks: remove them; Ramet calls no Python during a step")
    reasons += _parameter_reasons(module)
    if reasons:
        raise UnsupportedOp("a module that Ramet cannot take", where=type(module).__name__, found="; ".join(reasons))


def _parameter_reasons(module):
    reasons = []
    for name, parameter in module.named_parameters():
        where = f"parameter '{name}'"
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            reasons.append(f"{where} has no shape yet: call the lazy module once on a batch")
            continue
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            reasons.append(f"{where} has hooks: remove them; Ramet calls no Python during a step")
        if is_released(parameter):
            reasons.append(f"{where} was released (Options.release_module): call copy_to(module) of the model that has it")
        if parameter.is_meta:
            reasons.append(f"{where} is on the meta device: give it values, with module.to_empty(device='cpu')")
        elif parameter.device.type != "cpu":
            reasons.append(f"{where} is on {parameter.device}: call module.cpu()")
        if parameter.is_sparse or parameter.layout != torch.strided:
            reasons.append(f"{where} is sparse")
        if parameter.dtype.is_complex:
            reasons.append(f"{where} is complex: keep torch.view_as_real of it, and take torch.view_as_complex in forward")
        elif parameter.requires_grad and parameter.dtype != torch.float32:
            reasons.append(f"{where} is {parameter.dtype}: call module.float(); Options(precision='bf16') computes in bf16")
    return reasons[:20]


def check_layer_drop(module):
    """LayerDrop decides in Python which layers run: a trace would fix the decision."""
    found = []
    places = [(path or type(module).__name__, each) for path, each in module.named_modules()]
    places += [("config", module.config)] if hasattr(module, "config") else []
    for path, each in places:
        for name in LAYER_DROPS:
            value = getattr(each, name, None)
            if isinstance(value, float) and value > 0:
                found.append(f"{path}.{name} = {value}")
    if found:
        config = [each for each in found if each.startswith("config.")]
        raise UnsupportedOp("LayerDrop: Python decides in each step which layers run", where=type(module).__name__,
                            found=", ".join(config or found[:4]), expected="0",
                            remedy="Set it to 0 before the model is built")


class _Program(nn.Module):
    """The module as a function of flat tensors that returns flat tensors. A call puts into `made` the tree of outputs and
    their names; torch.export would restore an attribute."""

    def __init__(self, module, inputs: InputTree, batch_dims, loss, items, select, made, known):
        super().__init__()
        self.module = module

        def forward(*tensors):
            arguments, keywords = inputs.fill(tensors)
            if known:
                known.begin(module)
            with _capture.Traps(known.call if known else None):
                outputs = module(*arguments, **keywords)
                tree, found = OutputTree.of(outputs, batch_dims)
                names = [name for name in tree.names if name]
                batch = keywords if keywords else arguments
                self._add(loss, "loss", outputs, batch, names, found)
                self._add(items, "loss_items", outputs, batch, names, found)
            made[:] = tree, names
            if select is not None:
                found = [found[names.index(name)] for name in select]
            return tuple(found)

        forward.__signature__ = inspect.Signature(
            [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
             for name in _identifiers(inputs.tensor_names())])
        self.forward = forward

    @staticmethod
    def _add(function, name, outputs, batch, names, found):
        """The value of a function of the outputs and the batch, as an output more."""
        if not callable(function):
            return
        value = function(outputs, batch)
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            raise ShapeError(f"the {name} function does not return a scalar tensor", where=name,
                             found=type(value).__name__ if not isinstance(value, torch.Tensor)
                             else f"a tensor of shape {list(value.shape)}", expected="a tensor of one element",
                             remedy="Return the mean of the losses, computed from tensors")
        if name in names:
            position = names.index(name)
            names[position] = name + "_of_module"
        names.append(name)
        found.append(value.reshape(()).float() if name == "loss_items" else value.reshape(()))


def _identifiers(names):
    """Names that Python allows, each once."""
    taken, result = set(), []
    for name in names:
        word = "".join(letter if letter.isalnum() else "_" for letter in name)
        word = word if word.isidentifier() else "input_" + word
        while word in taken:
            word += "_"
        taken.add(word)
        result.append(word)
    return result


@dataclasses.dataclass
class Traced:
    """A program of the module in one mode."""

    exported: object    # ExportedProgram, marked and decomposed
    inputs: list        # names that the program gives to the inputs, in the order of InputTree.tensor_names()
    outputs: list       # names of the outputs, in order
    tree: OutputTree    # of the module's own outputs
    known: bool = False  # whether values of buffers were asked for

    def output_node(self, name):
        return list(self.exported.graph_signature.user_outputs)[self.outputs.index(name)]

    def output_value(self, name):
        nodes = self.exported.graph.output_node().args[0]
        first = len(nodes) - len(self.outputs)
        return nodes[first + self.outputs.index(name)].meta["val"]

    def type_of(self, name):
        """The element type of an output."""
        return self.output_value(name).dtype

    def written(self):
        return Written(text_of(self.exported), self.inputs, self.outputs, {name: self.type_of(name) for name in self.outputs},
                       {name: value for name, value in self.exported.constants.items() if isinstance(value, torch.Tensor)})

    def forget(self):
        """Lets go of the graph, which holds the module's tensors."""
        self.exported = None

    def counts(self):
        """Number of calls of each operator."""
        return collections.Counter(name_of_op(node) for node in self.exported.graph.nodes if node.op == "call_function"
                                   and "getitem" not in str(node.target))


@dataclasses.dataclass
class Written:
    """What a model is made of: a traced program without its graph."""

    text: str        # of models/model.json in a .pt2 file
    inputs: list     # as of Traced
    outputs: list
    types: dict      # of the outputs
    constants: dict  # tensors that are in the program

    def type_of(self, name):
        return self.types[name]

    def written(self):
        return self

    def forget(self):
        self.text, self.constants = "", {}


def name_of_op(node):
    """ "aten.add" """
    return ".".join(str(node.target).split(".")[:2])


def trace(module, inputs: InputTree, example, training, batch_dims, loss=None, items=None, select=None, known=False):
    """Traces the module on an example in training or evaluation mode. The module stays as it is. Where the trace asks for
    values, they are computed from the buffers that the module does not change. `batch_dims`: Options.batch_dims. `known`:
    another trace of it did."""
    arguments = [leaf.detach() for _, leaf in inputs.tensors_of(*example, "example")]
    how = {"training": training, "batch_dims": batch_dims, "loss": loss, "items": items, "select": select}
    if not known:
        try:
            return _traced(module, inputs, arguments, None, **how)
        except UnsupportedOp:
            if next(module.buffers(), None) is None:
                raise
    changing = changing_buffers(module)
    while True:
        known = Known.of(module, changing)
        traced = _traced(module, inputs, arguments, known, **how)
        changed = set(traced.exported.graph_signature.buffers_to_mutate.values()) & set(known.values)
        if not changed:
            return traced
        changing |= changed


def _traced(module, inputs, arguments, known, training, batch_dims, loss, items, select):
    with _capture.capturing(module):
        if training and not module.training:
            module.train()
        elif not training:
            module.eval()
        if training:
            check_layer_drop(module)
        made = []
        program = _Program(module, inputs, batch_dims, loss, items, select, made, known)
        program.train(module.training) if not training else None
        exported = _exported(program, tuple(arguments), module)
        tree, names = made
        _refuse_unknown_sizes(exported)
        _loops.unroll(exported)
        _marks.set_marks(exported)
        _keep_lines_of_regions(exported)
        try:
            exported = exported.run_decompositions({})
        except Exception as error:
            raise _reworded(error, module) from error
    _ctc.restore(exported)
    _take_own_names(exported)
    user = list(exported.graph_signature.user_inputs)
    return Traced(exported, user, list(select) if select is not None else names, tree, known is not None)


def _exported(program, arguments, module):
    # torch.export records lines of functions named "forward" alone. A line of a function that forward calls says more.
    code = program.forward.__code__
    lines = _capture.replaced(TracerBase, _filter_traceback_frames=lambda self, stack: frames_of_forward(stack, code))
    try:
        with lines, warnings.catch_warnings():
            # Of LSTM, GRU and RNN, whose weights are parameters all the same.
            warnings.filterwarnings("ignore", r"The tensor attributes? (self\.[\w.]*_flat_weights\[\d+\](, )?)+ (was|were) assigned")
            return torch.export.export(program, arguments, strict=False)
    except Error:
        raise
    except Exception as error:
        cause = error
        while cause is not None:  # torch.export wraps what the user's code raised
            if isinstance(cause, Error):
                raise cause from None
            cause = cause.__cause__ or cause.__context__
        raise _reworded(error, module) from error


def _keep_lines_of_regions(exported):
    """Lets run_decompositions() keep the lines of inner graphs: an interpreter tells them, generated code does not."""
    for graph in exported.graph_module.modules():
        if isinstance(graph, torch.fx.GraphModule) and graph is not exported.graph_module:
            graph.forward = torch.fx.Interpreter(graph).run


RECURRENT = ("torch/nn/modules/rnn.py", "torch/nn/utils/rnn.py")  # which read values of packed sequences alone
DEPENDS_ON_DATA = ("GuardOnDataDependentSymNode", "DataDependentOutputException", "DynamicOutputShapeException")


def _reworded(error, module):
    """An exception of torch.export in Ramet's words, with the user's line."""
    text = str(error).strip().split("\n\n")[0].split("\n")[0]
    place = place_in(str(error)) or place_of_error(error) or type(module).__name__
    kind = type(error).__name__
    wants_number = "FakeTensor" in text  # PyTorch's code reads a value that the trace does not have
    frames = traceback.extract_tb(error.__traceback__)
    if wants_number and any(frame.filename.endswith(RECURRENT) for frame in frames):
        return UnsupportedOp("a packed sequence, whose sizes depend on the lengths", where=place, found=text,
                             remedy="Give the recurrent layer the padded batch, and mask what stands behind the lengths")
    if kind in DEPENDS_ON_DATA or wants_number or "data-dependent" in str(error) or "unbacked" in str(error):
        return UnsupportedOp("the forward pass depends on the value of a tensor", where=place, found=text,
                             remedy=remedy_at(place, "A compiled program computes the same operations in every step. Use torch.where, "
                                              "or decide by a number that is known before the first step"))
    ran = (TypeError, ValueError, IndexError, KeyError, AttributeError, AssertionError)
    if isinstance(error, ran) or (kind == "RuntimeError" and place_of_error(error)):
        return Error(f"the module fails on the example: {kind}", where=place, found=text,
                     remedy="Call module(**example) yourself to see the error in full")
    return UnsupportedOp(f"torch.export cannot trace the module: {kind}", where=place, found=text,
                         remedy="Call torch.export.export on the module to see the error in full")


def _refuse_unknown_sizes(exported):
    """Refuses ops that give a size or a number that is known only when the program runs."""
    found = []
    for graph in _graphs(exported.graph_module):
        for node in graph.nodes:
            if node.op == "call_function" and _is_symbolic(node.meta.get("val")) and \
                    not any(_is_symbolic(each.meta.get("val")) for each in node.all_input_nodes):
                found.append((name_of_op(node), place_of(node)))
    if found:
        counts = collections.Counter(op for op, _ in found)
        places = {op: list(dict.fromkeys(place for other, place in found if other == op and place)) for op in counts}
        raise UnsupportedOp(
            "results whose size or value is known only when the program runs", where=found[0][1],
            found=", ".join(f"{op} ({'; '.join([f'{count}x', *places[op][:3]])})" for op, count in counts.items()),
            remedy=remedy_at(found[0][1], "Keep fixed sizes: use a mask and torch.where instead of choosing elements. What is the same in "
                             "every step, such as the edges of a fixed graph, may be a buffer of the module: its values are known"))


def _graphs(module):
    for each in module.modules():
        if isinstance(each, torch.fx.GraphModule):
            yield each.graph


def _is_symbolic(value):
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return True
    if isinstance(value, torch.Tensor):
        return any(isinstance(size, torch.SymInt) for size in value.shape)
    return isinstance(value, (tuple, list)) and any(_is_symbolic(each) for each in value)


def _take_own_names(exported):
    """Names of parameters and paths of modules without the wrapper around the module."""
    strip = lambda name: name.removeprefix(PREFIX) if isinstance(name, str) else name
    signature = exported.graph_signature
    for spec in signature.input_specs + signature.output_specs:
        spec.target = strip(spec.target)
    state = {strip(name): value for name, value in exported.state_dict.items()}
    exported._state_dict = state
    exported._constants = {strip(name): value for name, value in exported.constants.items()}
    for node in exported.graph.nodes:
        node.meta.pop("from_node", None)  # numbers of graphs, which differ from trace to trace
        stack = node.meta.get("nn_module_stack")
        if stack:
            node.meta["nn_module_stack"] = {
                key: (("" if path == "module" else strip(path)), kind)
                for key, (path, kind) in stack.items() if path != ""}
    if len(exported.module_call_graph) > 1:
        exported._module_call_graph = [each for each in exported.module_call_graph if each.fqn == ""]


def text_of(exported):
    """The program as torch.export writes it in models/model.json of a .pt2 file."""
    from torch._export.serde import serialize

    serializer = serialize.ExportedProgramSerializer({}, serialize.DEFAULT_PICKLE_PROTOCOL)
    made = serializer.serialize(exported, serialize_state_dict=False, serialize_constants=False,
                                serialize_example_inputs=False)
    return serialize._to_json_bytes(made.exported_program).decode()


def storage_of(tensor):
    """Equal for tensors that are the same elements of the same memory."""
    return f"{tensor.untyped_storage().data_ptr():x}+{tensor.storage_offset()}:{list(tensor.shape)}:{list(tensor.stride())}"


def tensors_of(module, constants, trained):
    """(name, tensor, storage, whether it is trained) of all that programs read, which have these constants (by name) of
    their own; in the order of the module."""
    own = dict(module.named_parameters(remove_duplicate=False))
    own |= dict(module.named_buffers(remove_duplicate=False))
    found, storages = [], {}
    for name, tensor in own.items():
        key = storage_of(tensor)
        pointer = tensor.untyped_storage().data_ptr()
        if isinstance(tensor, nn.Parameter) and tensor.requires_grad and pointer:
            other = storages.setdefault(pointer, (key, name, tensor))
            if other[0] != key and _overlap(other[2], tensor):
                raise UnsupportedOp("two parameters that share memory, but not the same elements",
                                    where=f"'{other[1]}' and '{name}'",
                                    remedy="Tie whole parameters (a.weight = b.weight), and transpose in forward")
        found.append((name, _numbers(tensor), key if tensor.numel() else "", name in trained))
    named = {name for name, _, _, _ in found}
    return found + [(name, _numbers(tensor), "", False) for name, tensor in constants.items() if name not in named]


def _numbers(tensor):
    """A tensor as a program reads it: complex numbers as pairs in a last dimension."""
    tensor = tensor.detach().resolve_conj()
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).contiguous()


def _overlap(a, b):
    first = lambda t: t.storage_offset()
    last = lambda t: t.storage_offset() + sum((n - 1) * s for n, s in zip(t.shape, t.stride()))
    return first(a) <= last(b) and first(b) <= last(a)
