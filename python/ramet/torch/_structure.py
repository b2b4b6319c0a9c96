"""Nested structures of tensors (tuples, dictionaries, ModelOutputs), as lists of named tensors and back."""

import dataclasses
import inspect
from collections.abc import Mapping

import torch
from torch.utils import _pytree as pytree

from ramet.errors import Error, ShapeError, UnsupportedOp

CONSTANTS = (bool, int, float, str, type(None), torch.dtype, torch.device)


def name_of(path):
    """The name of a leaf, such as "hidden_states.0"."""
    words = []
    for key in path:
        for attribute in ("key", "idx", "name"):
            if hasattr(key, attribute):
                words.append(str(getattr(key, attribute)))
                break
        else:
            words.append(str(key))
    return ".".join(words)


def as_tensor(value):
    """An array as a tensor that shares its memory; other values as they are."""
    if isinstance(value, torch.Tensor) or isinstance(value, CONSTANTS):
        return value
    if hasattr(value, "__array_interface__") or type(value).__module__ == "numpy":
        return torch.as_tensor(value)
    if hasattr(value, "__dlpack__"):
        return torch.from_dlpack(value)
    return value


def plain(value):
    """Dictionaries of other classes (as tokenizers give) as dict, arrays as tensors."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(plain(each) for each in value)
    return as_tensor(value)


def samples_first(tensor, dim):
    """A tensor whose samples lie along `dim`, with them first. A program has all its tensors so."""
    return tensor.movedim(dim, 0) if 0 < dim < tensor.dim() else tensor


def samples_back(tensor, dim):
    """The other way round."""
    return tensor.movedim(0, dim) if 0 < dim < tensor.dim() else tensor


def split_call(batch):
    """(positional arguments, keyword arguments) of a call on a batch."""
    if isinstance(batch, Mapping):
        return (), plain(batch)
    if isinstance(batch, (tuple, list)):
        return plain(tuple(batch)), {}
    return (plain(batch),), {}


@dataclasses.dataclass(frozen=True)
class InputTree:
    """The inputs of a module's call: which leaves are tensors, and what the others are for ever."""

    spec: pytree.TreeSpec
    names: tuple        # of all leaves
    types: tuple        # (dtype, shape with the samples first) of tensors, None for constants
    constants: tuple    # values of constants, None for tensors
    positional: int     # leaves of positional arguments
    dims: tuple         # which dimension of a leaf counts the samples

    @staticmethod
    def of(module, batch, batch_dims):
        """`batch_dims`: Options.batch_dims."""
        arguments, keywords = split_call(batch)
        keywords = {name: value for name, value in keywords.items()}
        names = _argument_names(module, arguments)
        leaves, spec = pytree.tree_flatten_with_path((arguments, keywords))
        found_names, types, constants = [], [], []
        for path, leaf in leaves:
            inner = list(path[1:])
            if path[0].idx == 0:
                name = names[inner[0].idx]
                rest = name_of(inner[1:])
                name = f"{name}.{rest}" if rest else name
            else:
                name = name_of(inner)
            found_names.append(name)
            if isinstance(leaf, torch.Tensor):
                _check_example(name, leaf)
                leaf = samples_first(leaf, batch_dims.get(name, 0))
                types.append((leaf.dtype, tuple(leaf.shape)))
                constants.append(None)
            elif isinstance(leaf, CONSTANTS):
                types.append(None)
                constants.append(leaf)
            else:
                raise _no_tensor(leaf, f"example['{name}']", "an example with a value that is no tensor, number or text")
        positional = sum(1 for path, _ in leaves if path[0].idx == 0)
        dims = tuple(batch_dims.get(name, 0) for name in found_names)
        tree = InputTree(spec, tuple(found_names), tuple(types), tuple(constants), positional, dims)
        tree.check()
        return tree

    def check(self):
        tensors = [(name, kind[1]) for name, kind in zip(self.names, self.types) if kind]
        if not tensors:
            raise ShapeError("an example without a tensor", where="example", expected="the inputs of one micro-batch",
                             remedy="Give a dictionary of the keyword arguments of forward, or a tuple of its arguments")
        for name, shape in tensors:
            if not shape:
                raise ShapeError("an input without dimensions", where=f"example['{name}']",
                                 expected="a first dimension that counts the samples",
                                 remedy="Give a number of Python for what is the same in every step")
        for name, kind, dim in zip(self.names, self.types, self.dims):
            if kind and dim >= len(kind[1]):
                raise ShapeError("no such dimension", where=f"Options.batch_dims['{name}']", found=f"{dim}, of {list(kind[1])}",
                                 expected=f"0 to {len(kind[1]) - 1}")
        sizes = {shape[0] for _, shape in tensors}
        if len(sizes) > 1 or 0 in sizes:
            raise ShapeError("inputs with different numbers of samples", where="example",
                             found=", ".join(f"{name} {list(shape)}" for name, shape in tensors),
                             expected="the same first dimension, the samples of a micro-batch, in all inputs",
                             remedy="Say which dimension counts the samples (Options.batch_dims); make what does not count them a "
                                    "buffer of the module, or compute it in forward")

    @property
    def samples(self):
        return next(kind[1][0] for kind in self.types if kind)

    def tensor_names(self):
        return [name for name, kind in zip(self.names, self.types) if kind]

    def tensor_types(self):
        return [kind for kind in self.types if kind]

    def fill(self, tensors):
        """The call's arguments, with these tensors and the constants."""
        rest = iter(tensors)
        leaves = [samples_back(next(rest), dim) if kind else constant
                  for kind, constant, dim in zip(self.types, self.constants, self.dims)]
        return pytree.tree_unflatten(leaves, self.spec)

    def tensors_of(self, arguments, keywords, where):
        """The tensors of a call with the samples first, checked against the example but for the number of samples."""
        if len(arguments) == 1 and not keywords and isinstance(arguments[0], (Mapping, tuple, list)) and \
                not (self.positional == 1 and isinstance(arguments[0], (tuple, list))):
            arguments, keywords = split_call(arguments[0])
        leaves, spec = pytree.tree_flatten((plain(tuple(arguments)), plain(keywords)))
        if spec != self.spec:
            for leaf in leaves:
                if not isinstance(leaf, (torch.Tensor, *CONSTANTS)):
                    raise _no_tensor(leaf, where, "a batch with a value that is no tensor, number or text")
            raise self._another_structure(arguments, keywords, where)
        tensors = []
        for name, kind, constant, dim, leaf in zip(self.names, self.types, self.constants, self.dims, leaves):
            if kind is None:
                if isinstance(leaf, torch.Tensor) or leaf != constant:
                    raise ShapeError("another constant than the example's", where=f"{where}: {name}", found=repr(leaf),
                                     expected=repr(constant),
                                     remedy="Numbers of Python are compiled into the program. Pass a tensor for what "
                                            "changes")
                continue
            tensors.append((name, _checked(leaf, kind, dim, f"{where}: {name}")))
        counts = {tensor.shape[0] for _, tensor in tensors}
        if len(counts) > 1:
            raise ShapeError("inputs with different numbers of samples", where=where,
                             found=", ".join(f"{name} {tensor.shape[0]}" for name, tensor in tensors))
        return tensors

    def _another_structure(self, arguments, keywords, where):
        """The error of a call whose structure is not the example's."""
        what = "a batch of another structure than the example"
        if not arguments and not self.positional and set(keywords) != set(self.names):
            return ShapeError(what, where=where, found=", ".join(keywords) or "nothing", expected=", ".join(self.names),
                              remedy=_missing_text(set(self.names), set(keywords)))
        example, named = pytree.tree_unflatten(list(self.names), self.spec)
        expected = _call_text(example, named, lambda name: name)
        calls = [f"{len(example)} positional" if example else "", "keywords" if named else ""]
        found = _call_text(plain(tuple(arguments)), plain(keywords), lambda value: "a tensor" if isinstance(value, torch.Tensor) else repr(value))
        return ShapeError(what, where=where, found=found, expected=expected,
                          remedy=f"Call it as the example was given: {' and '.join(each for each in calls if each)}")


def _no_tensor(value, where, what):
    """The error for an object among the inputs; of PyTorch Geometric's data it says how to give the tensors."""
    graphs = any(each.__module__.startswith("torch_geometric.data") for each in type(value).__mro__)
    return UnsupportedOp(what, where=where, found=type(value).__name__,
                         expected="tensors, arrays, numbers, texts and None, in dictionaries, tuples and lists",
                         remedy="Compile ramet.graphs.pyg.OfBatch(module), with example=pyg.inputs_of(batch), and call "
                                "step(**pyg.inputs_of(batch)): these are the tensors of the batch" if graphs else
                         "Take what forward needs out of the object, or make it in forward")


def _call_text(arguments, keywords, leaf):
    """What a call passes, as "positional a list (x, y); keyword mask"."""
    def text(value):
        if isinstance(value, Mapping):
            return f"a dictionary ({', '.join(value)})"
        if isinstance(value, (list, tuple)):
            return f"a {type(value).__name__} ({', '.join(text(each) for each in value)})"
        return leaf(value)

    positional = ", ".join(text(each) for each in arguments)
    named = ", ".join(name if not isinstance(value, (Mapping, list, tuple)) else f"{name}: {text(value)}"
                      for name, value in keywords.items())
    parts = [f"positional {positional}" if positional else "", f"keyword {named}" if named else ""]
    return "; ".join(each for each in parts if each) or "nothing"


def _missing_text(expected, given):
    parts = []
    if missing := sorted(expected - given):
        parts.append("Missing: " + ", ".join(missing))
    if extra := sorted(given - expected):
        parts.append("not in the example: " + ", ".join(extra))
    return "; ".join(parts)


def _argument_names(module, arguments):
    """The names that the module's forward gives to positional arguments."""
    names = []
    try:
        parameters = list(inspect.signature(module.forward).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    for i in range(len(arguments)):
        if i < len(parameters) and parameters[i].kind in (inspect.Parameter.POSITIONAL_ONLY,
                                                          inspect.Parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameters[i].name)
        else:
            names.append(f"input_{i}")
    return names


def _check_example(name, leaf):
    if leaf.layout != torch.strided:
        raise UnsupportedOp("a sparse tensor", where=f"example['{name}']", found=str(leaf.layout),
                            expected="a dense tensor", remedy="Call .to_dense()")
    if leaf.dtype.is_complex:
        raise UnsupportedOp("complex numbers", where=f"example['{name}']", found=str(leaf.dtype),
                            expected="real numbers", remedy="Call torch.view_as_real in the data loader")
    if leaf.dtype == torch.float64:
        raise ShapeError("numbers of 64 bits", where=f"example['{name}']", found="torch.float64",
                         expected="torch.float32", remedy="Call .float()")


def text_of_type(dtype, shape):
    return f"{str(dtype).removeprefix('torch.')}[{', '.join(str(size) for size in shape)}]"


def _checked(leaf, kind, dim, where):
    """A tensor of a batch, in the example's type, the samples first, contiguous, on the CPU."""
    dtype, shape = kind
    expected = text_of_type(dtype, (*shape[1:dim + 1], "samples", *shape[dim + 1:]))
    if isinstance(leaf, (bool, int, float)) or not isinstance(leaf, torch.Tensor):
        raise ShapeError("no tensor or array", where=where, found=type(leaf).__name__, expected=expected)
    given, leaf = leaf.shape, samples_first(leaf, dim)
    if tuple(leaf.shape[1:]) != shape[1:] or leaf.dim() != len(shape):
        raise ShapeError("a tensor of another shape than the example's", where=where,
                         found=text_of_type(leaf.dtype, given), expected=expected,
                         remedy="A program is compiled for one shape; pad the batch, or compile a second program")
    if leaf.dtype != dtype:
        widens = not dtype.is_floating_point and not leaf.dtype.is_floating_point and leaf.dtype != torch.bool and \
            dtype != torch.bool and torch.iinfo(leaf.dtype).min >= torch.iinfo(dtype).min and \
            torch.iinfo(leaf.dtype).max <= torch.iinfo(dtype).max
        widens = widens or (dtype == torch.float32 and leaf.dtype in (torch.bfloat16, torch.float16))
        if not widens:
            raise ShapeError("a tensor of another element type than the example's", where=where,
                             found=str(leaf.dtype), expected=str(dtype), remedy=f"Convert it: .to({dtype})")
        leaf = leaf.to(dtype)
    return leaf.detach().cpu().contiguous()


@dataclasses.dataclass
class OutputTree:
    """The outputs of a module: names of the tensors, and how to put them back."""

    spec: pytree.TreeSpec
    names: list      # of tensors; None for other leaves
    others: list     # leaves that are no tensors
    left_out: list   # names of leaves that cannot leave a program, such as caches
    dims: dict       # which dimension of an output counts the samples, where it is not the first

    @staticmethod
    def of(outputs, batch_dims):
        """(tree, tensors with the samples first) of what a module returned. `batch_dims`: Options.batch_dims."""
        leaves, spec = pytree.tree_flatten_with_path(outputs)
        names, others, tensors, left_out = [], [], [], []
        for path, leaf in leaves:
            if isinstance(leaf, torch.Tensor):
                name = name_of(path) or "output"
                names.append(f"output_{name}" if name[0].isdigit() else name)
                others.append(None)
                tensors.append(samples_first(leaf, batch_dims.get(names[-1], 0)))
                continue
            names.append(None)
            others.append(leaf if isinstance(leaf, CONSTANTS) else None)
            if not isinstance(leaf, CONSTANTS):
                left_out.append(name_of(path) or type(leaf).__name__)
        if len({name for name in names if name}) != len(tensors):
            raise Error("two outputs of one name", where="forward", found=", ".join(name for name in names if name))
        return OutputTree(spec, names, others, left_out, dict(batch_dims)), tensors

    def as_returned(self, name, tensor):
        """An output of the program as the module returns it."""
        return samples_back(tensor, self.dims.get(name, 0))

    def fill(self, tensors):
        """The module's outputs, with tensors of the program by name."""
        leaves = [self.as_returned(name, tensors[name]) if name in tensors else None if name else other
                  for name, other in zip(self.names, self.others)]
        return pytree.tree_unflatten(leaves, self.spec)
