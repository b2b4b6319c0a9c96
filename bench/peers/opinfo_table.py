"""How Ramet computes PyTorch's operators: for each name of an OpInfo, a function that writes its calls (bench/op_server.cc).

A function takes the program that it writes and the arguments of the operator, with tensors as `Ref`s, and returns the result's
refs. It raises Refused where Ramet has nothing to call.
"""
import collections
import math

import torch


class Refused(Exception):
    """What this table does not map, and why."""


class Ref:
    """A tensor of a program. `shape` is known of inputs, and of results where the table says it."""

    def __init__(self, of_input, number, shape=None, dtype=None):
        self.of_input, self.number, self.shape, self.dtype = of_input, number, shape, dtype

    @property
    def rank(self):
        return len(self.shape)

    @property
    def count(self):
        return math.prod(self.shape)


class Program:
    """Inputs, and calls that follow one another."""

    def __init__(self, dtypes, outputs):
        self.dtypes, self.result_shapes = dtypes, [tuple(out.shape) for out in outputs]
        self.result_dtypes = [dtypes.get(out.dtype) for out in outputs]
        self.inputs, self.calls, self.results = [], [], 0

    def input(self, tensor):
        if tensor.dtype not in self.dtypes:
            raise Refused(f"no element type {str(tensor.dtype).removeprefix('torch.')}")
        if tensor.layout.__str__() != "torch.strided":
            raise Refused("a sparse tensor")
        for number, known in enumerate(self.inputs):
            if known is tensor:
                break
        else:
            number = len(self.inputs)
            self.inputs.append(tensor)
        return Ref(True, number, tuple(tensor.shape), self.dtypes[tensor.dtype])

    def op(self, name, *refs, results=1, shape=None, dtype=None, **attributes):
        """Calls a function or an op; None stands for a tensor that is left out. The attributes `shape` and `dtype` are
        written `shape_` and `dtype_`."""
        for ref in refs:
            if ref is not None and not isinstance(ref, Ref):
                raise Refused(f"an argument of type {type(ref).__name__}")
        self.calls.append({"op": name, "tensors": list(refs), "attributes": {k.rstrip("_"): plain(v) for k, v in attributes.items()}})
        first = self.results
        self.results += results
        if dtype is None and refs and refs[0] is not None:
            dtype = refs[0].dtype
        made = [Ref(False, first + i, shape, dtype) for i in range(results)]
        return made[0] if results == 1 else made

    def number(self, value, dtype="f32"):
        return self.op("full", shape=(), dtype=dtype, dtype_=dtype, shape_=[], value=float(value))

    def same(self, a, name, *more, **attributes):
        """An op whose result has the shape of `a`."""
        return self.op(name, a, *more, shape=a.shape, **attributes)

    def reshape(self, a, shape):
        return self.op("reshape", a, shape=tuple(shape), shape_=list(shape))

    def permute(self, a, order):
        return self.op("transpose", a, shape=tuple(a.shape[i] for i in order), permutation=list(order))

    def broadcast(self, a, shape):
        return self.op("broadcast_to", a, shape=tuple(shape), shape_=list(shape))

    def request(self, outputs, weights, gradients):
        inputs = self.inputs + weights
        number = lambda ref: -1 if ref is None else ref.number + (0 if ref.of_input else len(inputs))
        calls = [{**call, "tensors": [number(ref) for ref in call["tensors"]]} for call in self.calls]
        return {"inputs": [{"dtype": self.dtypes[tensor.dtype], "shape": list(tensor.shape)} for tensor in inputs],
                "calls": calls, "outputs": [number(ref) for ref in outputs], "gradients": gradients}


def plain(value):
    """An attribute as JSON has it: numbers that JSON lacks are texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


NAMES = {torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64", torch.int32: "i32",
         torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool"}
# `no_gradients`: why PyTorch's gradients prove nothing. Variants of an OpInfo named "grad" are compared all the same.
Entry = collections.namedtuple("Entry", "build no_gradients")
TABLE = {}


def entry(*names, no_gradients=""):
    """Enters a function under the names of OpInfos."""
    def enter(build):
        for name in names:
            assert name not in TABLE, name
            TABLE[name] = Entry(build, no_gradients)
        return build
    return enter


def axis_of(axis, rank):
    return axis + rank if axis < 0 else axis


def ints_of(value):
    return [int(v) for v in (value if isinstance(value, (list, tuple)) else [value])]


def only_f32(dtype):
    if dtype is not None and str(dtype) != "torch.float32":
        raise Refused(f"a result of {str(dtype).removeprefix('torch.')}")


def floating(a, *more):
    for ref in (a, *more):
        if isinstance(ref, Ref) and ref.dtype not in ("f32", "f16", "bf16"):
            raise Refused(f"arithmetic of {ref.dtype} and floats")
    return a


def operand(p, value):
    """A tensor, or a number as one."""
    if isinstance(value, Ref):
        return value
    if isinstance(value, complex):
        raise Refused("a complex number")
    return p.number(value)


# --- element-wise ---

def enter_unary(name, op, **attributes):
    entry(name)(lambda p, a: p.same(a, op, **attributes))


for torch_name, ramet_name in {
        "neg": "negate", "abs": "abs", "sign": "sign", "sgn": "sign", "exp": "exp", "log": "log", "log1p": "log1p", "expm1": "expm1",
        "sqrt": "sqrt", "rsqrt": "rsqrt", "reciprocal": "reciprocal", "square": "square", "tanh": "tanh", "sigmoid": "sigmoid",
        "erf": "erf", "sin": "sin", "cos": "cos", "floor": "floor", "ceil": "ceil", "isfinite": "is_finite"}.items():
    enter_unary(torch_name, ramet_name)
for torch_name, factor in {"deg2rad": math.pi / 180, "rad2deg": 180 / math.pi}.items():
    enter_unary(torch_name, "scale", parameter=factor)
for torch_name in ("clone", "contiguous", "positive", "alias_copy", "float", "resolve_conj", "resolve_neg", "conj", "real",
                   "conj_physical"):
    entry(torch_name)(lambda p, a, **_: p.reshape(a, a.shape) if not p.result_shapes else p.reshape(a, p.result_shapes[0]))


for torch_name in ("relu", "silu"):
    entry("nn.functional." + torch_name)(lambda p, a, inplace=False, op=torch_name: p.same(a, op))


@entry("isposinf")
def _(p, a):
    return p.same(a, "equal", p.number(math.inf))


@entry("isneginf")
def _(p, a):
    return p.same(a, "equal", p.number(-math.inf))


@entry("nn.functional.gelu")
def _(p, a, approximate="none"):
    return p.same(a, "gelu" if approximate == "none" else "gelu_tanh")


@entry("nn.functional.leaky_relu")
def _(p, a, negative_slope=0.01, inplace=False):
    return p.same(a, "leaky_relu", parameter=negative_slope)


@entry("nn.functional.elu")
def _(p, a, alpha=1.0, inplace=False):
    return p.same(a, "elu", parameter=alpha)


@entry("nn.functional.celu")
def _(p, a, alpha=1.0, inplace=False):
    return p.same(p.same(p.same(a, "scale", parameter=1 / alpha), "elu", parameter=1), "scale", parameter=alpha)


@entry("nn.functional.selu")
def _(p, a, inplace=False):
    return p.same(p.same(a, "elu", parameter=1.6732632423543772), "scale", parameter=1.0507009873554805)


@entry("nn.functional.hardtanh")
def _(p, a, min_val=-1.0, max_val=1.0, inplace=False):
    return p.same(a, "clamp", parameter=min_val, second=max_val)


@entry("nn.functional.relu6")
def _(p, a, inplace=False):
    return p.same(a, "clamp", parameter=0, second=6)


def hard_sigmoid(p, a):
    shifted = p.same(p.same(a, "add_scalar", parameter=3), "clamp", parameter=0, second=6)
    return p.same(shifted, "scale", parameter=1 / 6)


@entry("nn.functional.hardsigmoid")
def _(p, a, inplace=False):
    return hard_sigmoid(p, a)


@entry("nn.functional.hardswish")
def _(p, a, inplace=False):
    return p.same(a, "multiply", hard_sigmoid(p, a))


@entry("nn.functional.softplus")
def _(p, a, beta=1.0, threshold=20.0):
    soft = p.same(p.same(p.same(a, "scale", parameter=beta), "softplus"), "scale", parameter=1 / beta)
    linear = p.same(p.same(a, "scale", parameter=beta), "greater", p.number(threshold))
    return p.op("select", linear, a, soft, shape=a.shape)


@entry("nn.functional.mish")
def _(p, a, inplace=False):
    return p.same(a, "multiply", p.same(p.same(a, "softplus"), "tanh"))


@entry("nn.functional.logsigmoid")
def _(p, a):
    return p.same(p.same(p.same(a, "negate"), "softplus"), "negate")


@entry("nn.functional.softsign")
def _(p, a):
    return p.same(a, "divide", p.same(p.same(a, "abs"), "add_scalar", parameter=1))


@entry("nn.functional.tanhshrink")
def _(p, a):
    return p.same(a, "subtract", p.same(a, "tanh"))


@entry("nn.functional.softshrink")
def _(p, a, lambd=0.5):
    return p.same(a, "subtract", p.same(a, "clamp", parameter=-lambd, second=lambd))


@entry("nn.functional.hardshrink")
def _(p, a, lambd=0.5):
    return p.op("select", p.same(p.same(a, "abs"), "greater", p.number(lambd)), a, p.number(0), shape=a.shape)


@entry("nn.functional.threshold")
def _(p, a, threshold, value, inplace=False):
    return p.op("select", p.same(a, "greater", p.number(threshold)), a, p.number(value), shape=a.shape)


@entry("nn.functional.prelu")
def _(p, a, weight):
    if a.rank > 1 and weight.count > 1:
        weight = p.reshape(weight, [weight.count] + [1] * (a.rank - 2))
    elif weight.rank > a.rank:
        weight = p.reshape(weight, [])
    return p.op("select", p.same(a, "greater", p.number(0)), a, p.same(a, "multiply", weight), shape=a.shape)


@entry("nn.functional.glu")
def _(p, a, dim=-1):
    half = a.shape[dim] // 2
    first, second = p.op("split", a, results=2, sizes=[half, half], axis=dim)
    return p.op("multiply", first, p.op("sigmoid", second))


@entry("clamp_min")
def _(p, a, other):
    return p.op("maximum", floating(a, other), operand(p, other))


@entry("clamp_max")
def _(p, a, other):
    return p.op("minimum", floating(a, other), operand(p, other))


def enter_binary(name, op):
    entry(name)(lambda p, a, b: p.op(op, operand(p, a), operand(p, b)))


for torch_name, ramet_name in {"mul": "multiply", "true_divide": "divide", "maximum": "maximum", "minimum": "minimum", "pow": "power",
                               "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
                               "ge": "greater_equal"}.items():
    enter_binary(torch_name, ramet_name)


def scaled(p, a, factor):
    return a if factor == 1 else p.op("scale", operand(p, a), parameter=factor, shape=getattr(a, "shape", None))


@entry("add")
def _(p, a, b, alpha=1):
    return p.op("add", operand(p, a), scaled(p, operand(p, b), alpha))


@entry("sub")
def _(p, a, b, alpha=1):
    return p.op("subtract", operand(p, a), scaled(p, operand(p, b), alpha))


@entry("rsub", "__rsub__")
def _(p, a, b, alpha=1):
    return p.op("subtract", operand(p, b), scaled(p, a, alpha))


entry("__radd__")(lambda p, a, b: p.op("add", a, operand(p, b)))
entry("__rmul__")(lambda p, a, b: p.op("multiply", a, operand(p, b)))
entry("__rdiv__")(lambda p, a, b: p.op("divide", operand(p, b), a))
entry("__rpow__")(lambda p, a, b: p.op("power", operand(p, b), a))
entry("__rmatmul__")(lambda p, a, b: product(p, b, a))


@entry("div")
def _(p, a, b, rounding_mode=None):
    quotient = p.op("divide", operand(p, a), operand(p, b))
    if rounding_mode is None:
        return quotient
    if rounding_mode == "floor":
        return p.op("floor", quotient)
    return p.op("multiply", p.op("floor", p.op("abs", quotient)), p.op("sign", quotient))


@entry("lerp")
def _(p, a, b, weight):
    return p.op("add", a, p.op("multiply", operand(p, weight), p.op("subtract", b, a)))


@entry("addcmul")
def _(p, a, b, c, value=1):
    return p.op("add", a, scaled(p, p.op("multiply", b, c), value))


@entry("addcdiv")
def _(p, a, b, c, value=1):
    return p.op("add", a, scaled(p, p.op("divide", b, c), value))


@entry("logaddexp")
def _(p, a, b):
    apart = p.op("negate", p.op("abs", p.op("subtract", a, b)))
    return p.op("add", p.op("maximum", a, b), p.op("log1p", p.op("exp", apart)))


def truth(p, a):
    return a if a.dtype == "bool" else p.same(a, "not_equal", p.number(0, a.dtype), dtype="bool")


@entry("logical_and")
def _(p, a, b):
    return p.op("logical_and", truth(p, a), truth(p, b))


@entry("logical_or")
def _(p, a, b):
    return p.op("logical_or", truth(p, a), truth(p, b))


@entry("logical_xor")
def _(p, a, b):
    return p.op("not_equal", p.op("cast", truth(p, a), dtype_="i32"), p.op("cast", truth(p, b), dtype_="i32"))


@entry("logical_not")
def _(p, a):
    return p.op("logical_not", truth(p, a))


@entry("where")
def _(p, a, condition, other):
    return p.op("select", condition, operand(p, a), operand(p, other))


@entry("masked_fill")
def _(p, a, mask, value):
    return p.op("select", mask, operand(p, value), p.broadcast(a, p.result_shapes[0]))


# --- shapes ---

for torch_name in ("view", "view_copy", "view_as", "reshape", "reshape_as", "flatten", "ravel", "squeeze", "squeeze_copy", "unsqueeze",
                   "unsqueeze_copy", "unflatten", "atleast_1d", "atleast_2d", "atleast_3d"):
    @entry(torch_name)
    def _(p, a, *_, **__):
        if isinstance(a, (list, tuple)):
            return [p.reshape(each, shape) for each, shape in zip(a, p.result_shapes)]
        return p.reshape(a, p.result_shapes[0])

for torch_name in ("expand", "expand_as", "expand_copy", "broadcast_to"):
    entry(torch_name)(lambda p, a, *_, **__: p.broadcast(a, p.result_shapes[0]))

for torch_name in ("broadcast_tensors",):
    entry(torch_name)(lambda p, a, *more: [p.broadcast(each, p.result_shapes[0]) for each in (a, *more)])


@entry("permute", "permute_copy")
def _(p, a, *dims):
    return p.permute(a, [axis_of(d, a.rank) for d in (dims[0] if isinstance(dims[0], (list, tuple)) else dims)])


@entry("transpose", "transpose_copy", "swapaxes")
def _(p, a, first, second):
    order = list(range(a.rank))
    if order:
        first, second = axis_of(first, a.rank), axis_of(second, a.rank)
        order[first], order[second] = order[second], order[first]
    return p.permute(a, order)


@entry("t", "t_copy", "T", "H", "mT", "mH")
def _(p, a):
    order = list(range(a.rank))
    return p.permute(a, order[:-2] + order[-2:][::-1])


@entry("movedim")
def _(p, a, source, destination):
    source = [axis_of(d, a.rank) for d in ints_of(source)]
    destination = [axis_of(d, a.rank) for d in ints_of(destination)]
    rest = iter(d for d in range(a.rank) if d not in source)
    return p.permute(a, [source[destination.index(d)] if d in destination else next(rest) for d in range(a.rank)])


@entry("cat")
def _(p, tensors, dim=0):
    # PyTorch leaves out empty tensors of one dimension.
    kept = [each for each in tensors if each.shape != (0,)] or tensors[:1]
    return p.op("concat", *kept, axis=dim)


@entry("stack")
def _(p, tensors, dim=0):
    dim = axis_of(dim, tensors[0].rank + 1)
    grown = [p.reshape(each, each.shape[:dim] + (1,) + each.shape[dim:]) for each in tensors]
    return p.op("concat", *grown, axis=dim)


def enter_joining(name, rank, axis):
    @entry(name)
    def _(p, tensors):
        def grown(a):
            if name == "column_stack":
                return a if a.rank > 1 else p.reshape(a, (a.count, 1))
            if a.rank >= rank:
                return a
            if name == "dstack":
                return p.reshape(a, {0: (1, 1, 1), 1: (1, *a.shape, 1), 2: (*a.shape, 1)}[a.rank])
            return p.reshape(a, (1,) * (rank - a.rank) + a.shape)
        tensors = [grown(each) for each in tensors]
        return p.op("concat", *tensors, axis=0 if name == "hstack" and tensors[0].rank == 1 else axis)


for joining in (("hstack", 1, 1), ("vstack", 2, 0), ("dstack", 3, 2), ("column_stack", 2, 1)):
    enter_joining(*joining)


def cut(p, a, axis):
    """Parts along an axis whose extents are those of the results."""
    made = p.op("split", a, results=len(p.result_shapes), sizes=[shape[axis] for shape in p.result_shapes], axis=axis)
    return made if isinstance(made, list) else [made]


@entry("split", "split_with_sizes", "split_with_sizes_copy", "chunk", "tensor_split", "unsafe_chunk", "unsafe_split")
def _(p, a, _sizes, dim=0):
    return cut(p, a, axis_of(dim, a.rank))


@entry("hsplit")
def _(p, a, _sizes):
    return cut(p, a, 0 if a.rank == 1 else 1)


entry("vsplit")(lambda p, a, _: cut(p, a, 0))
entry("dsplit")(lambda p, a, _: cut(p, a, 2))


@entry("unbind", "unbind_copy")
def _(p, a, dim=0):
    dim = axis_of(dim, a.rank)
    if a.shape[dim] == 0:
        return []
    made = p.op("split", a, results=a.shape[dim], sizes=[1] * a.shape[dim], axis=dim)
    return [p.reshape(each, shape) for each, shape in zip(made if isinstance(made, list) else [made], p.result_shapes)]


def sliced(p, a, dim, start, stop, step=1):
    starts, stops, steps = [0] * a.rank, list(a.shape), [1] * a.rank
    starts[dim], stops[dim], steps[dim] = start, stop, step
    shape = list(a.shape)
    shape[dim] = max(0, -(-(stop - start) // step))
    return p.op("slice", a, start=starts, stop=stops, stride=steps, shape=tuple(shape))


@entry("slice")
def _(p, a, dim=0, start=None, end=None, step=1):
    dim = axis_of(dim, a.rank)
    start, stop, step = slice(start, end, step).indices(a.shape[dim])
    return sliced(p, a, dim, start, max(start, stop), step)


@entry("select")
def _(p, a, dim, index):
    dim = axis_of(dim, a.rank)
    index = axis_of(index, a.shape[dim])
    return p.reshape(sliced(p, a, dim, index, index + 1), p.result_shapes[0])


@entry("flip")
def _(p, a, dims):
    return p.same(a, "reverse", axes=ints_of(dims)) if len(ints_of(dims)) else p.reshape(a, a.shape)


entry("fliplr")(lambda p, a: p.same(a, "reverse", axes=[1]))
entry("flipud")(lambda p, a: p.same(a, "reverse", axes=[0]))


@entry("roll")
def _(p, a, shifts, dims=None):
    shape = a.shape
    if dims is None or dims == ():
        a, dims = p.reshape(a, (a.count,)), [0]
    for shift, dim in zip(ints_of(shifts), ints_of(dims)):
        extent = a.shape[dim]
        if extent == 0:
            continue
        at = -shift % extent
        dim = axis_of(dim, a.rank)
        a = p.op("concat", sliced(p, a, dim, at, extent), sliced(p, a, dim, 0, at), axis=dim, shape=a.shape)
    return p.reshape(a, shape)


@entry("repeat", "tile")
def _(p, a, *dims):
    dims = ints_of(dims[0] if isinstance(dims[0], (list, tuple)) else dims)
    dims = [1] * (a.rank - len(dims)) + dims
    shape = (1,) * (len(dims) - a.rank) + a.shape
    inside = [extent for size in shape for extent in (1, size)]
    wide = [extent for times, size in zip(dims, shape) for extent in (times, size)]
    return p.reshape(p.broadcast(p.reshape(a, inside), wide), p.result_shapes[0])


def padded(p, a, pads, value):
    low, high = [0] * a.rank, [0] * a.rank
    for i in range(len(pads) // 2):
        low[a.rank - 1 - i], high[a.rank - 1 - i] = pads[2 * i], pads[2 * i + 1]
    for dim in range(a.rank):
        start, stop = max(0, -low[dim]), a.shape[dim] - max(0, -high[dim])
        if (start, stop) != (0, a.shape[dim]):
            a = sliced(p, a, dim, start, stop)
    return p.op("pad", a, low=[max(0, v) for v in low], high=[max(0, v) for v in high], value=float(value or 0))


@entry("constant_pad_nd")
def _(p, a, pads, value=0):
    return padded(p, a, pads, value)


@entry("nn.functional.pad")
def _(p, a, pads, mode="constant", value=None):
    if mode == "constant":
        return padded(p, a, pads, value)
    low, high = [0] * a.rank, [0] * a.rank
    for i in range(len(pads) // 2):
        low[a.rank - 1 - i], high[a.rank - 1 - i] = pads[2 * i], pads[2 * i + 1]
    return p.op("pad_by", a, low=low, high=high, mode={"replicate": "edge", "circular": "wrap"}.get(mode, mode))


# --- reductions ---

def axes_of(dim, rank):
    if dim is None or dim == () or dim == []:
        return list(range(rank))
    return [axis_of(d, rank) for d in ints_of(dim)]


def reduced(p, op, a, dim=None, keepdim=False):
    if a.rank == 0:
        return p.reshape(a, ())
    return p.op(op, floating(a), axes=axes_of(dim, a.rank), keep_dims=bool(keepdim))


for torch_name, ramet_name in {"sum": "reduce_sum", "mean": "reduce_mean", "amax": "reduce_max", "amin": "reduce_min",
                               "prod": "reduce_prod"}.items():
    entry(torch_name)(lambda p, a, dim=None, keepdim=False, dtype=None, op=ramet_name: (
        only_f32(dtype), reduced(p, op, a, dim, keepdim))[1])


@entry("sum_to_size")
def _(p, a, *sizes):
    shape = p.result_shapes[0]
    lead = a.rank - len(shape)
    axes = [d for d in range(a.rank) if d < lead or (shape[d - lead] == 1 and a.shape[d] != 1)]
    return p.reshape(p.op("reduce_sum", a, axes=axes, keep_dims=True) if axes else a, shape)


def extreme(p, a, name, dim, keepdim):
    if isinstance(dim, Ref):
        return p.op("maximum" if name == "max" else "minimum", a, dim)
    if dim is None:
        return reduced(p, "reduce_" + name, a)
    if a.rank == 0:
        return [p.reshape(a, ()), p.op("full", dtype_="i64", shape_=[], value=0.0)]
    dim = axis_of(dim, a.rank)
    index = p.reshape(p.op("arg" + name, a, axis=dim), p.result_shapes[1])
    return [reduced(p, "reduce_" + name, a, dim, keepdim), index]


entry("max")(lambda p, a, dim=None, keepdim=False: extreme(p, a, "max", dim, keepdim))
entry("min")(lambda p, a, dim=None, keepdim=False: extreme(p, a, "min", dim, keepdim))


def arg_extreme(p, a, name, dim, keepdim):
    if dim is None or a.rank == 0:
        a, dim = p.reshape(a, (a.count,)), 0
    return p.reshape(p.op(name, a, axis=dim), p.result_shapes[0])


entry("argmax")(lambda p, a, dim=None, keepdim=False: arg_extreme(p, a, "argmax", dim, keepdim))
entry("argmin")(lambda p, a, dim=None, keepdim=False: arg_extreme(p, a, "argmin", dim, keepdim))


def degrees(unbiased, correction):
    return correction if correction is not None else 0 if unbiased is False else 1


@entry("cumsum")
def _(p, a, dim, dtype=None):
    only_f32(dtype)
    return p.reshape(a, ()) if a.rank == 0 else p.same(a, "cumsum", axis=dim)


# --- matrix products ---

def product(p, a, b):
    """torch.matmul."""
    shape = p.result_shapes[0]
    left = p.reshape(a, (1, a.count)) if a.rank == 1 else a
    right = p.reshape(b, (b.count, 1)) if b.rank == 1 else b
    return p.reshape(p.op("matmul", left, right), shape)


entry("matmul", "mm", "bmm", "mv", "dot", "vdot")(product)


def matmul(p, a, b):
    return p.op("matmul", a, b)


def with_beta(p, a, other, beta, alpha):
    other = scaled(p, other, alpha)
    return p.broadcast(other, p.result_shapes[0]) if beta == 0 else p.op("add", scaled(p, a, beta), other)


@entry("addmm", "baddbmm")
def _(p, a, b, c, beta=1, alpha=1):
    return with_beta(p, a, matmul(p, b, c), beta, alpha)


@entry("addbmm")
def _(p, a, b, c, beta=1, alpha=1):
    return with_beta(p, a, p.op("reduce_sum", matmul(p, b, c), axes=[0]), beta, alpha)


@entry("addmv")
def _(p, a, b, c, beta=1, alpha=1):
    made = p.reshape(matmul(p, b, p.reshape(c, (c.count, 1))), (b.shape[0],))
    return with_beta(p, a, made, beta, alpha)


def outer(p, a, b):
    return p.op("multiply", p.reshape(a, (a.count, 1)), p.reshape(b, (1, b.count)))


entry("outer", "ger")(outer)


@entry("addr")
def _(p, a, b, c, beta=1, alpha=1):
    return with_beta(p, a, outer(p, b, c), beta, alpha)


@entry("inner")
def _(p, a, b):
    if a.rank == 0 or b.rank == 0:
        return p.op("multiply", a, b)
    width = a.shape[-1]
    rows = lambda ref: p.reshape(ref, (ref.count // width if width else math.prod(ref.shape[:-1]), width))
    return p.reshape(p.op("matmul", rows(a), rows(b), transpose_b=True), p.result_shapes[0])


@entry("einsum")
def _(p, tensors, equation):
    return p.op("einsum", *tensors, equation=equation.replace(" ", ""))


@entry("linalg.multi_dot")
def _(p, tensors):
    first = tensors[0] if tensors[0].rank > 1 else p.reshape(tensors[0], (1, tensors[0].count))
    last = tensors[-1] if tensors[-1].rank > 1 else p.reshape(tensors[-1], (tensors[-1].count, 1))
    made = first
    for each in (*tensors[1:-1], last):
        made = matmul(p, made, each)
    return p.reshape(made, p.result_shapes[0])


@entry("nn.functional.linear")
def _(p, a, weight, bias=None):
    rows = a if a.rank > 1 else p.reshape(a, (1, a.count))
    weights = weight if weight.rank > 1 else p.reshape(weight, (1, weight.count))
    if bias is None:
        made = p.op("matmul", rows, weights, transpose_b=True)
    else:
        made = p.op("linear", rows, weights, bias if bias.rank else p.reshape(bias, (1,)), transpose_weight=True)
    return p.reshape(made, p.result_shapes[0])


# --- networks ---


def rows_of(p, a, normalized):
    width = math.prod(normalized)
    return p.reshape(a, a.shape[:a.rank - len(normalized)] + (width,)), width


@entry("nn.functional.layer_norm", "native_layer_norm")
def _(p, a, normalized, weight=None, bias=None, eps=1e-5):
    rows, width = rows_of(p, a, normalized)
    fill = lambda value: p.op("full", dtype_="f32", shape_=[width], value=float(value))
    gain = fill(1) if weight is None else p.reshape(weight, (width,))
    shift = fill(0) if bias is None else p.reshape(bias, (width,))
    made, *statistics = p.op("layer_norm", rows, gain, shift, results=3, epsilon=eps)
    return p.reshape(made, a.shape)


@entry("nn.functional.rms_norm")
def _(p, a, normalized, weight=None, eps=None):
    rows, width = rows_of(p, a, normalized)
    gain = p.op("full", dtype_="f32", shape_=[width], value=1.0) if weight is None else p.reshape(weight, (width,))
    made, _ = p.op("rms_norm", rows, gain, results=2, epsilon=2.0 ** -23 if eps is None else eps)
    return p.reshape(made, a.shape)


@entry("nn.functional.embedding")
def _(p, weight, indices, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    if max_norm is not None:
        raise Refused("an embedding that changes its table (max_norm)")
    if scale_grad_by_freq:
        raise Refused("gradients by frequency")
    if padding_idx is not None:
        rows = p.op("iota", dtype_="i32", shape_=[weight.shape[0], 1], axis=0)
        padding = p.op("equal", rows, p.number(axis_of(padding_idx, weight.shape[0]), "i32"))
        weight = p.op("select", padding, p.op("stop_gradient", weight), weight)
    return p.op("gather", weight, indices)


@entry("nn.functional.scaled_dot_product_attention")
def _(p, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if dropout_p:
        raise Refused("dropout of other random numbers than PyTorch's")
    # [samples, positions, head] has one head; beside tensors of four dimensions it has no samples.
    if any(each.rank == 4 for each in (query, key, value)):
        samples = max(each.shape[0] for each in (query, key, value) if each.rank == 4)
        query, key, value = (each if each.rank == 4 else p.broadcast(each, (samples, *each.shape)) for each in (query, key, value))
    images = [each if each.rank == 4 else p.reshape(each, (each.shape[0], 1, *each.shape[1:])) for each in (query, key, value)]
    if any(each.rank != 4 for each in images):
        raise Refused("attention of more dimensions than four")
    alike = all(each.shape == images[0].shape for each in images)
    if attn_mask is not None:
        shape = (1,) * (query.rank - attn_mask.rank) + attn_mask.shape
        attn_mask = p.reshape(attn_mask, shape if query.rank == 4 else (shape[0], 1, *shape[1:]))
    heads_last = [p.permute(each, [0, 2, 1, 3]) for each in images]
    if alike and attn_mask is None:
        made = p.op("attention", *heads_last, None, causal=is_causal, scale=scale or 0.0)
    else:
        mask, bias = (attn_mask, None) if attn_mask is None or attn_mask.dtype == "bool" else (None, attn_mask)
        made = p.op("attention_with", *heads_last, mask, bias, causal=is_causal, scale=scale or 0.0)
    made.shape = (images[0].shape[0], images[0].shape[2], images[0].shape[1], images[2].shape[3])
    return result(p, p.permute(made, [0, 2, 1, 3]))


@entry("nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d", "nn.functional.alpha_dropout",
       "nn.functional.feature_alpha_dropout")
def _(p, a, /, training=True, inplace=False, **options):
    if training and options.get("p", 0.5) != 0:
        raise Refused("dropout of other random numbers than PyTorch's")
    return p.reshape(a, a.shape)


# --- resizing ---

def resized(p, a, sizes, mode, scales=None, corners=False, antialias=False):
    scales = [0.0 if scale is None else scale for scale in scales or []]
    if mode in ("linear", "bilinear", "trilinear") and not antialias:
        # Where extents are equal PyTorch copies, whatever the scale.
        scales = [0.0 if a.shape[2 + i] == sizes[i] else scale for i, scale in enumerate(scales)]
    return p.op("resize", a, mode=mode, sizes=list(sizes), scales=scales, corners=bool(corners), antialias=antialias)


@entry("nn.functional.interpolate", "nn.functional.upsample_nearest")
def _(p, a, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None, antialias=False):
    if mode == "area":
        return p.op("adaptive_average_pool", a, sizes=list(p.result_shapes[0][2:]))
    sizes = p.result_shapes[0][2:]
    scales = None
    if scale_factor is not None and not recompute_scale_factor:
        scales = scale_factor if isinstance(scale_factor, (list, tuple)) else [scale_factor] * len(sizes)
    return resized(p, a, sizes, mode, scales, align_corners, antialias)


@entry("nn.functional.upsample_bilinear")
def _(p, a, size=None, scale_factor=None):
    return resized(p, a, p.result_shapes[0][2:], "bilinear", corners=True)


@entry("_upsample_bilinear2d_aa")
def _(p, a, output_size=None, align_corners=False, scale_factors=None, scales_h=None, scales_w=None):
    scales = scale_factors or (None if scales_h is None and scales_w is None else [scales_h or 0.0, scales_w or 0.0])
    return resized(p, a, p.result_shapes[0][2:], "bilinear", scales, align_corners, True)


def sampled(p, a, grid, mode, padding, corners):
    method = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}[mode]
    return p.op("grid_sample", a, grid, method=method, padding=padding, corners=bool(corners))


@entry("nn.functional.grid_sample")
def _(p, a, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    return sampled(p, a, grid, mode, padding_mode, align_corners)


@entry("grid_sampler_2d", "grid_sampler_3d")
def _(p, a, grid, mode, padding, corners):
    return sampled(p, a, grid, ("bilinear", "nearest", "bicubic")[mode], ("zeros", "border", "reflection")[padding], corners)


entry("nn.functional.pixel_shuffle")(lambda p, a, upscale_factor: p.op("pixel_shuffle", a, factor=upscale_factor))
entry("nn.functional.pixel_unshuffle")(lambda p, a, downscale_factor: p.op("pixel_unshuffle", a, factor=downscale_factor))
entry("nn.functional.channel_shuffle")(lambda p, a, groups: p.op("channel_shuffle", a, groups=groups))


@entry("nn.functional.unfold")
def _(p, a, kernel_size, dilation=1, padding=0, stride=1):
    pair = lambda value: ints_of(value) * (2 if len(ints_of(value)) == 1 else 1)
    image = a if a.rank == 4 else p.reshape(a, (1, *a.shape))
    made = p.op("im2col", image, taps=pair(kernel_size), dilations=pair(dilation), low=pair(padding), high=pair(padding),
                strides=pair(stride))
    return p.reshape(made, p.result_shapes[0])


# --- elements by index, order ---

def lifted(p, a):
    """A scalar as a vector of one element."""
    return a if a.rank else p.reshape(a, (1,))


def result(p, a, number=0):
    return p.reshape(a, p.result_shapes[number])


@entry("index_select")
def _(p, a, dim, index):
    return result(p, p.op("index_select", lifted(p, a), lifted(p, index), axis=dim))


@entry("take")
def _(p, a, index):
    return result(p, p.op("index", p.reshape(a, (a.count,)), index))


def scattered(p, a, dim, index, source, by, include_self=True):
    index = lifted(p, index)
    if not isinstance(source, Ref):
        source = p.broadcast(p.number(source), index.shape)
    else:
        source = lifted(p, source)
        for axis in range(len(index.shape)):
            if index.shape[axis] < source.shape[axis]:
                source = sliced(p, source, axis, 0, index.shape[axis])
    return result(p, p.op("scatter_elements", lifted(p, a), index, source, axis=dim, by=by, include_self=include_self))


@entry("scatter")
def _(p, a, dim, index, source=None, value=None, reduce=None):
    by = {None: "set", "add": "add", "multiply": "mul"}[reduce]
    return scattered(p, a, dim, index, value if source is None else source, by)


entry("scatter_add")(lambda p, a, dim, index, source: scattered(p, a, dim, index, source, "add"))
REDUCES = {"sum": "add", "prod": "mul", "mean": "mean", "amax": "max", "amin": "min"}
entry("scatter_reduce")(lambda p, a, dim, index, source, reduce, include_self=True: scattered(
    p, a, dim, index, source, REDUCES[reduce], include_self))


def put_along(p, a, dim, index, source, by, **options):
    return result(p, p.op("put_along", lifted(p, a), lifted(p, index), lifted(p, source), axis=axis_of(dim, max(1, a.rank)), by=by,
                          **options))


@entry("index_add")
def _(p, a, dim, index, source, alpha=1):
    source = lifted(p, source)
    return put_along(p, a, dim, index, source if alpha == 1 else p.same(source, "scale", parameter=alpha), "add")


entry("index_copy")(lambda p, a, dim, index, source: put_along(p, a, dim, index, source, "set"))


@entry("index_fill")
def _(p, a, dim, index, value):
    whole, index = lifted(p, a), lifted(p, index)
    dim = axis_of(dim, whole.rank)
    shape = whole.shape[:dim] + index.shape + whole.shape[dim + 1:]
    return put_along(p, whole, dim, index, p.broadcast(operand(p, value), shape), "set")


@entry("index_put")
def _(p, a, indices, values, accumulate=False):
    return p.op("index_put", a, *indices, values, accumulate=accumulate)


@entry("__getitem__")
def _(p, a, index):
    items = list(index) if isinstance(index, (list, tuple)) else [index]
    if isinstance(index, list):
        raise Refused("an index that is a list")
    known = sum(1 for item in items if item is not None and item is not Ellipsis)
    if Ellipsis in [item for item in items if not isinstance(item, Ref)]:
        at = next(i for i, item in enumerate(items) if item is Ellipsis)
        items[at:at + 1] = [slice(None)] * (a.rank - known)
    if any(isinstance(item, (Ref, list)) for item in items):
        if not all(isinstance(item, Ref) or item == slice(None) for item in items):
            raise Refused("index tensors beside other indices")
        return p.op("index", a, *[item if isinstance(item, Ref) else None for item in items])
    if any(item is None or isinstance(item, bool) for item in items):
        raise Refused("new dimensions in an index")
    for dim, item in enumerate(items):
        if isinstance(item, slice):
            start, stop, step = item.indices(a.shape[dim])
            a = sliced(p, a, dim, start, max(start, stop), step)
        else:
            item = axis_of(int(item), a.shape[dim])
            a = sliced(p, a, dim, item, item + 1)
    return result(p, a)


entry("masked_scatter")(lambda p, a, mask, source: p.op("masked_scatter", a, mask, source))
for torch_name in ("nonzero", "masked_select", "unique", "unique_consecutive", "argwhere"):
    @entry(torch_name)
    def _(p, *_, **__):
        raise Refused("a result whose size depends on data")


@entry("sort")
def _(p, a, dim=-1, descending=False, stable=False):
    values, indices = p.op("sort", lifted(p, a), results=2, axis=dim, descending=descending)
    return [result(p, values), result(p, indices, 1)]


@entry("msort")
def _(p, a):
    return result(p, p.op("sort", lifted(p, a), results=2, axis=0)[0])


@entry("argsort")
def _(p, a, dim=-1, descending=False, stable=False):
    return result(p, p.op("argsort", lifted(p, a), axis=dim, descending=descending))


@entry("topk")
def _(p, a, k, dim=-1, largest=True, sorted=True):
    values, indices = p.op("top_k_along", lifted(p, a), results=2, k=k, axis=dim, largest=largest)
    return [result(p, values), result(p, indices, 1)]


@entry("bucketize")
def _(p, a, boundaries, out_int32=False, right=False):
    return p.op("search_sorted", boundaries, a, right=right)


@entry("cumprod")
def _(p, a, dim, dtype=None):
    only_f32(dtype)
    return result(p, p.op("cumprod", lifted(p, a), axis=dim))


for torch_name in ("cummax", "cummin"):
    @entry(torch_name)
    def _(p, a, dim, op=torch_name):
        values, indices = p.op(op, lifted(p, a), results=2, axis=dim)
        return [result(p, values), result(p, indices, 1)]


# --- shapes and reductions that are made of other ops ---

entry("tril")(lambda p, a, diagonal=0: p.op("tril", a, diagonal=diagonal))
entry("triu")(lambda p, a, diagonal=0: p.op("triu", a, diagonal=diagonal))
entry("diagonal", "diagonal_copy", "linalg.diagonal")(lambda p, a, offset=0, dim1=None, dim2=None, default=(0, 1): p.op(
    "diagonal", a, offset=offset, axis1=default[0] if dim1 is None else dim1, axis2=default[1] if dim2 is None else dim2))
TABLE["linalg.diagonal"] = TABLE["diagonal"]._replace(
    build=lambda p, a, offset=0, dim1=-2, dim2=-1: TABLE["diagonal"].build(p, a, offset, dim1, dim2))


@entry("diag")
def _(p, a, diagonal=0):
    return p.op("diagonal_embed" if a.rank == 1 else "diagonal", a, offset=diagonal)


entry("diagflat")(lambda p, a, offset=0: p.op("diagonal_embed", p.reshape(a, (a.count,)), offset=offset))
entry("trace")(lambda p, a: p.op("reduce_sum", p.op("diagonal", a)))


@entry("diagonal_scatter")
def _(p, a, source, offset=0, dim1=0, dim2=1):
    return p.op("diagonal_scatter", a, source, offset=offset, axis1=dim1, axis2=dim2)


@entry("select_scatter")
def _(p, a, source, dim, index):
    return p.op("select_scatter", a, source, axis=dim, index=index)


@entry("slice_scatter")
def _(p, a, source, dim=0, start=None, end=None, step=1):
    dim = axis_of(dim, a.rank)
    start, stop, step = slice(start, end, step).indices(a.shape[dim])
    return p.op("slice_scatter", a, source, axis=dim, start=start, stop=stop, step=step)


@entry("unfold", "unfold_copy")
def _(p, a, dim, size, step):
    return result(p, p.op("windows", lifted(p, a), axis=dim, size=size, step=step))


@entry("repeat_interleave")
def _(p, a, repeats, dim=None, output_size=None):
    if isinstance(repeats, Ref):
        raise Refused("repeats that are data")
    if dim is None:
        a, dim = p.reshape(a, (a.count,)), 0
    return p.op("repeat_interleave", a, repeats=int(repeats), axis=dim)


@entry("meshgrid")
def _(p, first, *more, indexing="ij"):
    tensors = first if isinstance(first, (list, tuple)) else [first, *more]
    tensors = [lifted(p, each) for each in tensors]
    made = p.op("meshgrid", *tensors, results=len(tensors), xy=indexing == "xy")
    return made if isinstance(made, list) else [made]


@entry("diff")
def _(p, a, n=1, dim=-1, prepend=None, append=None):
    # PyTorch joins nothing where there is no difference to take.
    parts = [each for each in (prepend, a, append) if each is not None] if n > 0 else [a]
    return p.op("difference", p.op("concat", *parts, axis=dim) if len(parts) > 1 else a, axis=dim, n=n)


def enter_moments_of_library(name, op, both):
    @entry(name)
    def _(p, a, dim=None, unbiased=None, keepdim=False, correction=None):
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        a = lifted(p, a)
        axes = axes_of(dim, a.rank)
        made = result(p, p.op(op, a, axes=axes, correction=float(degrees(unbiased, correction))))
        return [made, result(p, p.op("reduce_mean", a, axes=axes), 1)] if both else made


for moment in (("var", "variance", False), ("std", "standard_deviation", False), ("var_mean", "variance", True),
               ("std_mean", "standard_deviation", True)):
    enter_moments_of_library(*moment)


@entry("logsumexp")
def _(p, a, dim, keepdim=False):
    a = lifted(p, a)
    return result(p, p.op("log_sum_exp", floating(a), axes=axes_of(dim, a.rank)))


@entry("linalg.vector_norm")
def _(p, a, ord=2, dim=None, keepdim=False, dtype=None):
    only_f32(dtype)
    a = lifted(p, a)
    return result(p, p.op("vector_norm", a, order=float(ord), axes=axes_of(dim, a.rank)))


for torch_name in ("any", "all"):
    @entry(torch_name)
    def _(p, a, dim=None, keepdim=False, op=torch_name):
        a = lifted(p, a)
        return result(p, p.op(op, a, axes=axes_of(dim, a.rank)))


@entry("count_nonzero")
def _(p, a, dim=None):
    a = lifted(p, a)
    return result(p, p.op("count_nonzero", a, axes=axes_of(dim, a.rank)))


# --- convolutions, pools, norms over channels ---

def per_dimension(value, count):
    values = ints_of(value)
    return values * count if len(values) == 1 else values


def batched(p, a, space):
    """An activation with a dimension of samples."""
    return a if a.rank == space + 2 else p.reshape(a, (1, *a.shape))


def enter_convolutions(space):
    @entry(f"nn.functional.conv{space}d")
    def _(p, a, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        taps, dilations = weight.shape[2:], per_dimension(dilation, space)
        if padding == "same":
            around = [d * (k - 1) for d, k in zip(dilations, taps)]
            low = [each // 2 for each in around]
            high = [each - before for each, before in zip(around, low)]
        else:
            low = high = [0] * space if padding == "valid" else per_dimension(padding, space)
        return result(p, p.op("convolution", batched(p, a, space), weight, bias, strides=per_dimension(stride, space),
                              dilations=dilations, low=low, high=high, groups=groups))

    @entry(f"nn.functional.conv_transpose{space}d")
    def _(p, a, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        low = per_dimension(padding, space)
        return result(p, p.op("convolution_transposed", batched(p, a, space), weight, bias, strides=per_dimension(stride, space),
                              dilations=per_dimension(dilation, space), low=low, high=low, groups=groups,
                              output_padding=per_dimension(output_padding, space)))


def enter_pools(space):
    @entry(f"nn.functional.max_pool{space}d")
    def _(p, a, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        taps, around = per_dimension(kernel_size, space), per_dimension(padding, space)
        values, indices = p.op("max_pool", batched(p, a, space), results=2, taps=taps,
                               strides=per_dimension(stride, space) if stride not in (None, [], ()) else taps, low=around,
                               high=around, dilations=per_dimension(dilation, space), ceil_mode=ceil_mode)
        return [result(p, values), result(p, indices, 1)] if return_indices else result(p, values)

    @entry(f"nn.functional.avg_pool{space}d")
    def _(p, a, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        taps, around = per_dimension(kernel_size, space), per_dimension(padding, space)
        return result(p, p.op("average_pool", batched(p, a, space), taps=taps,
                              strides=per_dimension(stride, space) if stride not in (None, [], ()) else taps, low=around,
                              high=around, ceil_mode=ceil_mode, count_padding=count_include_pad, divisor=divisor_override or 0))

    def sizes_of(a, output_size):
        return [a.shape[a.rank - space + i] if size is None else int(size) for i, size in enumerate(
            output_size if isinstance(output_size, (list, tuple)) else [output_size] * space)]

    @entry(f"nn.functional.adaptive_avg_pool{space}d")
    def _(p, a, output_size):
        return result(p, p.op("adaptive_average_pool", batched(p, a, space), sizes=sizes_of(a, output_size)))

    @entry(f"nn.functional.adaptive_max_pool{space}d")
    def _(p, a, output_size, return_indices=False):
        values, indices = p.op("adaptive_max_pool", batched(p, a, space), results=2, sizes=sizes_of(a, output_size))
        return [result(p, values), result(p, indices, 1)] if return_indices else result(p, values)


for space_ in (1, 2, 3):
    enter_convolutions(space_)
    enter_pools(space_)


def normalized(p, a, mean, variance, weight, bias, training, eps):
    if training:
        return p.op("batch_norm", a, weight, bias, results=3, epsilon=eps)[0]
    return p.op("batch_norm_apply", a, weight, bias, mean, variance, epsilon=eps)


@entry("nn.functional.batch_norm")
def _(p, a, mean, variance, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    return normalized(p, a, mean, variance, weight, bias, training, eps)


@entry("native_batch_norm")
def _(p, a, weight, bias, mean, variance, training, momentum, eps):
    return normalized(p, a, mean, variance, weight, bias, training, eps)


@entry("_native_batch_norm_legit")
def _(p, a, weight, bias, *rest):
    mean, variance, training, momentum, eps = rest if len(rest) == 5 else (None, None, *rest)
    return normalized(p, a, mean, variance, weight, bias, training, eps)


@entry("nn.functional.group_norm")
def _(p, a, groups, weight=None, bias=None, eps=1e-5):
    return p.op("group_norm", a, weight, bias, groups=groups, epsilon=eps)


@entry("native_group_norm")
def _(p, a, weight, bias, samples, channels, space, groups, eps):
    return p.op("group_norm", a, weight, bias, groups=groups, epsilon=eps)


@entry("nn.functional.instance_norm")
def _(p, a, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5):
    if not use_input_stats:
        raise Refused("an instance norm with given statistics")
    return p.op("instance_norm", a, weight, bias, epsilon=eps)


@entry("nn.functional.local_response_norm")
def _(p, a, size, alpha=1e-4, beta=0.75, k=1.0):
    return p.op("local_response_norm", a, size=size, alpha=alpha, beta=beta, k=k)


# --- losses ---

@entry("nn.functional.cross_entropy")
def _(p, logits, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0):
    return p.op("cross_entropy_loss", logits, target, weight, ignore_index=ignore_index, reduction=reduction,
                label_smoothing=label_smoothing)


@entry("nn.functional.nll_loss")
def _(p, a, target, weight=None, ignore_index=-100, reduction="mean"):
    return p.op("nll_loss", a, target, weight, ignore_index=ignore_index, reduction=reduction)


def enter_loss(name, op, **renamed):
    """A loss whose arguments beside tensors are numbers and words; `renamed` are those with other names here."""
    @entry(name)
    def _(p, /, *tensors, **options):
        if tensors and not isinstance(tensors[-1], Ref):
            raise Refused("a loss with options by position")
        weights = [options.pop(key, None) for key in ("weight", "pos_weight")]
        attributes = {renamed.get(key, key): value for key, value in options.items()}
        return p.op(op, *tensors, *weights, **attributes)


for loss in ("binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
             "margin_ranking_loss", "hinge_embedding_loss", "soft_margin_loss", "multilabel_soft_margin_loss", "cosine_embedding_loss"):
    enter_loss("nn.functional." + loss, loss)


enter_loss("nn.functional.poisson_nll_loss", "poisson_nll_loss", eps="epsilon")
enter_loss("nn.functional.triplet_margin_loss", "triplet_margin_loss", eps="epsilon")


@entry("nn.functional.kl_div")
def _(p, a, target, reduction="mean", log_target=False):
    return p.op("kl_divergence", a, target, log_target=log_target, batch_mean=reduction == "batchmean",
                reduction="mean" if reduction == "batchmean" else reduction)


@entry("nn.functional.cosine_similarity")
def _(p, a, b, dim=1, eps=1e-8):
    return p.op("cosine_similarity", a, b, axis=dim, epsilon=eps)


@entry("nn.functional.pairwise_distance")
def _(p, a, b, /, eps=1e-6, keepdim=False, **options):
    return p.op("pairwise_distance", a, b, p=options.get("p", 2.0), epsilon=eps, keep_dims=keepdim)
