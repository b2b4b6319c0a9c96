"""Values that are known while a module is traced: those that follow from buffers and numbers alone.

A module over a fixed graph asks its edges questions in Python (`edge_index[:, mask]`, `int(index.max())`): their answers do
not change from step to step, but a trace of torch.export has no values. `Known` computes, beside the trace, each call whose
operands are known, and answers from that.
"""

import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from ._capture import VALUE_READERS

LARGEST = 1 << 26  # elements of values that are followed: a larger one costs more than its answer is worth
MARK = "_ramet_known"
# Functions whose result has a size that depends on values.
SIZED_BY_VALUES = {torch.nonzero, torch.Tensor.nonzero, torch.argwhere, torch.Tensor.argwhere, torch.unique,
                   torch.Tensor.unique, torch.unique_consecutive, torch.Tensor.unique_consecutive, torch.masked_select,
                   torch.Tensor.masked_select, torch.bincount, torch.Tensor.bincount, torch.repeat_interleave,
                   torch.Tensor.repeat_interleave}
# Functions that read the type and the shape of a tensor, but not its values.
OF_SHAPES = {getattr(owner, name) for owner, names in (
    (torch, ("zeros_like", "ones_like", "full_like")), (torch.Tensor, ("new_zeros", "new_ones", "new_full")))
    for name in names}
WRITERS = {"__setitem__", *(f"__i{name}__" for name in ("add", "sub", "mul", "div", "truediv", "floordiv", "mod", "pow", "and", "or", "xor",
                                                        "lshift", "rshift"))}
INDEXING = {torch.Tensor.__getitem__, torch.Tensor.__setitem__}


def changing_buffers(module):
    """Names of buffers that training changes, as far as their modules' classes tell."""
    return {f"{path}.{name}" if path else name for path, each in module.named_modules()
            if isinstance(each, nn.modules.batchnorm._NormBase) for name, _ in each.named_buffers(recurse=False)}


def _is_plain(tensor):
    """A tensor with values, not one of a trace."""
    return type(tensor) in (torch.Tensor, nn.Parameter) and not torch._is_functional_tensor(tensor)


def _writes(function, keywords):
    name = getattr(function, "__name__", "")
    return "out" in keywords or name in WRITERS or (name.endswith("_") and not name.endswith("__"))


class Known:
    """What is known in one trace. `values`: buffers by name, but for those that training changes."""

    def __init__(self, values):
        self.values = values
        self.fixed = {value.untyped_storage().data_ptr() for value in values.values()}
        self.forgotten = set()  # storages of which something unknown was written

    @staticmethod
    def of(module, changing):
        return Known({name: value.detach() for name, value in module.named_buffers() if name not in changing})

    def begin(self, module):
        """Marks the buffers of the module as it is traced."""
        for name, buffer in module.named_buffers():
            if name in self.values and not _is_plain(buffer):
                setattr(buffer, MARK, self.values[name])

    def value(self, tensor):
        """The value of a tensor of the trace, or None."""
        found = getattr(tensor, MARK, None)
        if found is None and _is_plain(tensor) and not isinstance(tensor, nn.Parameter):
            found = tensor
        if found is None or found.untyped_storage().data_ptr() in self.forgotten:
            return None
        return found

    def call(self, function, arguments, keywords):
        """The result of a call, with its value where that is known."""
        if function in VALUE_READERS and (known := self.value(arguments[0])) is not None:
            with _disable_current_modes():
                return function(known, *arguments[1:], **keywords)
        made = self.computed(function, arguments, keywords)
        if made is not None and function in SIZED_BY_VALUES:
            result = pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, made)  # a constant of the program
        else:
            if function in INDEXING:
                arguments = (arguments[0], self.without_masks(arguments[1]), *arguments[2:])
            result = function(*arguments, **keywords)
        self.mark(result, made)
        return result

    def computed(self, function, arguments, keywords):
        """The call on known values; None where an operand is not known, or the call draws."""
        tensors = [each for each in pytree.tree_leaves((arguments, keywords)) if isinstance(each, torch.Tensor)]
        if _writes(function, keywords) and not self.may_write(keywords.get("out", arguments[:1]), tensors):
            return None
        try:
            with _disable_current_modes(), torch.no_grad():
                if function in OF_SHAPES:
                    like = torch.empty(tuple(arguments[0].shape), dtype=arguments[0].dtype)
                    operands = (like, *arguments[1:]), keywords
                elif all(self.value(each) is not None for each in tensors):
                    operands = pytree.tree_map_only(torch.Tensor, self.value, (arguments, keywords))
                else:
                    return None
                before = torch.get_rng_state()
                made = function(*operands[0], **operands[1])
                if not torch.equal(before, torch.get_rng_state()):
                    torch.set_rng_state(before)
                    return None
        except Exception:  # what PyTorch says of the call itself is said by the trace
            return None
        return made

    def may_write(self, targets, operands):
        """Whether a call that writes into `targets` keeps them known. Otherwise nothing is known of them from now on."""
        targets = [each for each in pytree.tree_leaves(targets) if isinstance(each, torch.Tensor)]
        storages = {known.untyped_storage().data_ptr() for known in map(self.value, targets) if known is not None}
        if len(targets) == 1 and not storages & self.fixed and all(self.value(each) is not None for each in operands):
            return True
        self.forgotten |= storages
        return False

    def without_masks(self, index):
        """An index with known masks replaced by the places of their true elements."""
        parts, changed = [], False
        for each in index if isinstance(index, tuple) else (index,):
            known = self.value(each) if isinstance(each, torch.Tensor) and each.dtype in (torch.bool, torch.uint8) else None
            if known is None or known.dim() == 0:
                parts.append(each)
                continue
            changed = True
            with _disable_current_modes():
                parts += [column.clone() for column in known.nonzero().unbind(1)]
        return (tuple(parts) if isinstance(index, tuple) or len(parts) > 1 else parts[0]) if changed else index

    def mark(self, result, made):
        if made is None:
            return
        leaves, values = pytree.tree_leaves(result), pytree.tree_leaves(made)
        if len(leaves) != len(values):
            return
        for leaf, value in zip(leaves, values):
            if isinstance(leaf, torch.Tensor) and isinstance(value, torch.Tensor) and not _is_plain(leaf) and \
                    value.numel() <= LARGEST and tuple(leaf.shape) == tuple(value.shape):
                setattr(leaf, MARK, value)
