"""Running a module's Python code once, under torch.export, and what must not happen in it.

Some things that a forward pass may do are lost when torch.export traces it: gradients of one's own (autograd.Function),
hooks on tensors, numbers that Python or NumPy drew, values of tensors that Python reads. Each is refused here, with the
user's line, because a program without it would train something else.
"""

import contextlib
import math
import random
import traceback

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from ramet.errors import UnsupportedOp

from . import _ctc
from ._places import is_users, remedy_at, text_of

# Methods that turn a tensor's values into Python's.
VALUE_READERS = {torch.Tensor.item: "item()", torch.Tensor.tolist: "tolist()", torch.Tensor.numpy: "numpy()",
                 torch.Tensor.__bool__: "bool(), as in `if tensor:`", torch.Tensor.__int__: "int()",
                 torch.Tensor.__float__: "float()", torch.Tensor.__index__: "an index of Python",
                 torch.Tensor.__array__: "numpy"}


def place_now():
    """The innermost line of the user's program that is running."""
    users = [frame for frame in traceback.extract_stack() if is_users(frame.filename)]
    return text_of(users[-1].filename, users[-1].lineno, users[-1].name) if users else ""


def reads_value(what, place):
    return UnsupportedOp(
        f"the Python code of the model reads the value of a tensor: {what}", where=place,
        remedy=remedy_at(place, "A compiled program has no Python in it. Use tensor operations (torch.where), or decide by a number "
                                "that is known before the first step"))


class Traps(TorchFunctionMode):
    """Sees every call on tensors while the forward pass is traced. `call` makes the calls that are not refused."""

    def __init__(self, call=None):
        super().__init__()
        self.call = call or (lambda function, arguments, keywords: function(*arguments, **keywords))

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        keywords = keywords or {}
        if getattr(function, "__self__", None) is torch.Tensor.data and function.__name__ == "__get__":
            return arguments[0].detach()
        if function in VALUE_READERS:
            return self.read(function, arguments, keywords)
        if function is torch.Tensor.register_hook:
            raise UnsupportedOp("a hook on a tensor", where=place_now(), remedy="Ramet calls no Python during a step. "
                                "Remove the hook")
        if function is torch.Tensor.backward or function is torch.autograd.grad:
            raise UnsupportedOp("gradients inside of the forward pass", where=place_now(), found=resolve_name(function),
                                remedy="Ramet differentiates the loss once. Remove the inner gradient")
        if function is torch.nn.functional.gaussian_nll_loss:
            return gaussian_nll_loss(*arguments, **keywords)
        loss = _ctc.traced(function, arguments, keywords)
        return self.call(function, arguments, keywords) if loss is None else loss

    def read(self, function, arguments, keywords):
        place = place_now()
        try:
            value = self.call(function, arguments, keywords)
        except Exception as error:
            raise reads_value(VALUE_READERS[function], place) from error
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise reads_value(VALUE_READERS[function], place)
        return value


def refuse_function(cls, *arguments, **keywords):
    """In place of torch.autograd.Function.apply."""
    if cls.__module__ == "torch.utils.checkpoint" and cls.__name__ == "CheckpointFunction":
        return arguments[0](*arguments[2:])  # the same numbers; Ramet's layout decides what is computed again
    # PyTorch's loops are traced as they are: _loops.py unrolls them, and Ramet derives their gradients.
    if not torch.is_grad_enabled() or cls.__module__.startswith("torch._higher_order_ops."):
        return cls.forward(torch.autograd.function.FunctionCtx(), *arguments, **keywords)
    if cls.__module__ == "torch._library.autograd":
        # An operator of torch.library: the table of operators says what it is.
        return super(torch.autograd.Function, cls).apply(*arguments, **keywords)
    what = "a backward hook of a module" if cls.__name__ == "BackwardHookFunction" else \
        f"a gradient of one's own: torch.autograd.Function {cls.__name__}"
    raise UnsupportedOp(what, where=place_now(),
                        remedy="Ramet derives gradients from the forward pass. Write it with PyTorch's operations, or "
                               "register a decomposition")


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """torch.nn.functional's, without the check that no variance is negative, which reads values."""
    if var.shape != input.shape:
        if var.shape == input.shape[:-1]:
            var = var.unsqueeze(-1)
        elif var.dim() != input.dim() or any(mine not in (1, other) for mine, other in zip(var.shape, input.shape)):
            raise ValueError("var is of incorrect size")
    clamped = torch.where(var < eps, var - var.detach() + eps, var)  # the gradient passes
    losses = 0.5 * (torch.log(clamped) + (input - target).square() / clamped)
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.mean()


def is_said_to_be_causal(mask, is_causal=None, size=None):
    """In place of torch.nn.Transformer's look at the values of a mask, by which it chooses a kernel alone."""
    return bool(is_causal)


class _NoInference:
    """torch.inference_mode as torch.no_grad: torch.export records the latter alone."""

    @staticmethod
    def enter(self):
        self.ramet_region = torch.set_grad_enabled(torch.is_grad_enabled() and not self.mode)
        self.ramet_region.__enter__()

    @staticmethod
    def leave(self, *error):
        return self.ramet_region.__exit__(*error)


@contextlib.contextmanager
def replaced(owner, **attributes):
    before = {name: owner.__dict__.get(name, _ABSENT) for name in attributes}
    for name, value in attributes.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            delattr(owner, name) if value is _ABSENT else setattr(owner, name, value)


_ABSENT = object()


def _numpy_state():
    try:
        import numpy
    except ImportError:
        return None
    return numpy.random.get_state(legacy=True)


def _same(a, b):
    return a is None or (a[0] == b[0] and (a[1] == b[1]).all() and a[2:] == b[2:])


@contextlib.contextmanager
def watched_randomness():
    """Restores the generators of Python, NumPy and PyTorch; refuses a model that drew from the first two."""
    python, numbers, state = random.getstate(), _numpy_state(), torch.get_rng_state()
    drew = ""
    try:
        yield
        if random.getstate() != python:
            drew = "Python's `random`"
        elif not _same(numbers, _numpy_state()):
            drew = "NumPy"
    finally:
        random.setstate(python)
        torch.set_rng_state(state)
        if numbers is not None:
            import numpy
            numpy.random.set_state(numbers)
    if drew:
        raise UnsupportedOp(
            f"the forward pass draws random numbers from {drew}", where="forward",
            remedy="They would be drawn once and stay the same in every step. Draw with torch.rand, or turn the feature "
                   "off (in transformers: layerdrop = 0, mask_time_prob = 0, mask_feature_prob = 0)")


@contextlib.contextmanager
def as_it_was(module):
    """Restores what a forward pass or an export sets on the module: attributes, buffers, modes, requires_grad."""
    kept = [(each, dict(each.__dict__), dict(each._parameters), dict(each._buffers), dict(each._modules))
            for each in module.modules()]
    trained = [(parameter, parameter.requires_grad) for parameter in module.parameters()]
    try:
        yield
    finally:
        for each, attributes, parameters, buffers, modules in kept:
            each.__dict__.clear()
            each.__dict__.update(attributes)
            for now, then in ((each._parameters, parameters), (each._buffers, buffers), (each._modules, modules)):
                now.clear()
                now.update(then)
        for parameter, requires in trained:
            parameter.requires_grad_(requires)


@contextlib.contextmanager
def capturing(module):
    """All of the above, no question of PyTorch's own about values, and no module that torch.compile has taken."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(watched_randomness())
        stack.enter_context(as_it_was(module))
        for each in module.modules():
            if getattr(each, "_compiled_call_impl", None) is not None:
                each._compiled_call_impl = None
        stack.enter_context(replaced(torch.autograd.Function, apply=classmethod(refuse_function)))
        stack.enter_context(replaced(torch.inference_mode, __enter__=_NoInference.enter, __exit__=_NoInference.leave))
        stack.enter_context(replaced(torch.nn.modules.transformer, _detect_is_causal_mask=is_said_to_be_causal))
        # Checks of arguments read values, too.
        stack.enter_context(replaced(torch.distributions.Distribution, _validate_args=False))
        stack.enter_context(torch.enable_grad())
        yield
