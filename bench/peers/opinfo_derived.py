"""More entries of bench/peers/opinfo_table.py: operators of PyTorch that take several of Ramet's, constants, types, masked
reductions, and what Ramet refuses whatever its arguments are.
"""
import itertools
import math

import torch

from opinfo_table import (NAMES, TABLE, Refused, axes_of, axis_of, entry, floating, ints_of, lifted, matmul, operand,
                          put_along, reduced, result, scattered, sliced)

# --- element-wise ---

for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh", "erfc", "lgamma", "digamma", "exp2", "log2", "log10", "tan",
             "trunc"):
    entry(name)(lambda p, a, op=name: p.same(a, op))
entry("isnan")(lambda p, a: p.same(a, "is_nan"))
entry("isinf")(lambda p, a: p.same(a, "is_inf"))
entry("frac")(lambda p, a: p.same(a, "subtract", p.same(a, "trunc")))
entry("special.ndtr")(lambda p, a: p.same(p.same(p.same(a, "scale", parameter=-math.sqrt(0.5)), "erfc"), "scale", parameter=0.5))
entry("angle")(lambda p, a: p.op("select", p.same(a, "is_nan"), a, p.op("select", p.same(a, "less", p.number(0)), p.number(math.pi), p.number(0))))
entry("signbit")(lambda p, a: p.op("less", p.op("copysign", p.number(1), a), p.number(0)))
entry("isreal")(lambda p, a: p.op("equal", p.broadcast(p.number(0), a.shape), p.number(0)))

for torch_name, ramet_name in {"remainder": "remainder", "fmod": "fmod", "atan2": "atan2", "hypot": "hypot", "copysign": "copysign",
                               "floor_divide": "floor_divide"}.items():
    entry(torch_name)(lambda p, a, b, op=ramet_name: p.op(op, floating(operand(p, a)), operand(p, b)))
entry("__rmod__")(lambda p, a, b: p.op("remainder", operand(p, b), a))
for name in ("xlogy",):
    entry(name)(lambda p, a, b: p.op("xlogy", operand(p, a), operand(p, b)))
entry("nan_to_num")(lambda p, a, nan=None, posinf=None, neginf=None: p.same(a, "nan_to_num", nan=nan or 0.0, **{
    key: value for key, value in (("high", posinf), ("low", neginf)) if value is not None}))


@entry("round")
def _(p, a, decimals=0):
    if not decimals:
        return p.same(a, "round")
    factor = p.number(10.0 ** abs(decimals))
    ways = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    return p.op(ways[1], p.op("round", p.op(ways[0], a, factor)), factor)


@entry("logit")
def _(p, a, eps=None):
    if eps is not None:
        a = p.op("select", p.op("less", a, p.number(eps)), p.number(eps), p.op("minimum", a, p.number(1 - eps)))
    return p.op("log", p.op("divide", a, p.op("subtract", p.number(1), a)))


@entry("logaddexp2")
def _(p, a, b):
    natural = lambda x: p.op("scale", x, parameter=math.log(2))
    return p.op("scale", p.op("logaddexp", natural(a), natural(b)), parameter=1 / math.log(2))


def unless_nan(p, op, a, b):
    """The extreme of what is not NaN."""
    return p.op("select", p.op("is_nan", a), b, p.op("select", p.op("is_nan", b), a, p.op(op, a, b)))


entry("fmax")(lambda p, a, b: unless_nan(p, "maximum", a, b))
entry("fmin")(lambda p, a, b: unless_nan(p, "minimum", a, b))


@entry("special.xlog1py")
def _(p, a, b):
    a, b = operand(p, a), operand(p, b)
    product_ = p.op("multiply", a, p.op("log1p", b))
    return p.op("select", p.op("is_nan", b), product_, p.op("select", p.op("equal", a, p.number(0)), p.number(0), product_))


@entry("special.entr")
def _(p, a):
    inside = p.op("negate", p.op("xlogy", a, a))
    return p.op("select", p.op("less", a, p.number(0)), p.number(-math.inf), inside)


@entry("sinc")
def _(p, a):
    at = p.same(a, "scale", parameter=math.pi)
    zero = p.same(a, "equal", p.number(0))
    safe = p.op("select", zero, p.number(1), at)
    return p.op("select", zero, p.number(1), p.op("divide", p.op("sin", safe), safe))


@entry("heaviside")
def _(p, a, b):
    step = p.op("select", p.op("greater", a, p.number(0)), p.number(1), p.number(0))
    return p.op("select", p.op("is_nan", a), a, p.op("select", p.op("equal", a, p.number(0)), b, step))


entry("ldexp")(lambda p, a, b: p.op("multiply", a, p.op("exp2", p.op("cast", operand(p, b), dtype_="f32"))))


@entry("float_power")
def _(p, a, b):
    wide = lambda x: p.op("cast", x, dtype_="f64") if hasattr(x, "number") else p.number(x, "f64")
    return p.op("power", wide(a), wide(b))


@entry("isclose")
def _(p, a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    distance = p.op("abs", p.op("subtract", a, b))
    near = p.op("less_equal", distance, p.op("add_scalar", p.op("scale", p.op("abs", b), parameter=rtol), parameter=atol))
    close = p.op("logical_or", p.op("equal", a, b), p.op("logical_and", near, p.op("is_finite", distance)))
    return p.op("logical_or", close, p.op("logical_and", p.op("is_nan", a), p.op("is_nan", b))) if equal_nan else close


@entry("mvlgamma")
def _(p, a, order):
    total = None
    for i in range(order):
        term = p.op("lgamma", p.same(a, "add_scalar", parameter=-i / 2))
        total = term if total is None else p.op("add", total, term)
    return p.op("add_scalar", total, parameter=order * (order - 1) / 4 * math.log(math.pi))


@entry("polygamma")
def _(p, a, n):
    return p.same(a, "polygamma", order=n)


@entry("isin")
def _(p, a, tested, assume_unique=False, invert=False):
    equal = p.op("equal", p.reshape(a, (*a.shape, 1)), p.reshape(tested, (tested.count,)))
    found = p.op("any", equal, axes=[a.rank])
    return p.op("logical_not", found) if invert else found


@entry("nn.functional.rrelu")
def _(p, a, lower=1 / 8, upper=1 / 3, training=False, inplace=False):
    if training:
        raise Refused("random numbers other than PyTorch's")
    return p.same(a, "leaky_relu", parameter=(lower + upper) / 2)


@entry("native_dropout_backward")
def _(p, dy, mask, scale):
    return p.op("multiply", dy, p.op("scale", p.op("cast", mask, dtype_="f32"), parameter=float(scale)))


# --- types ---

for name, dtype in {"bfloat16": "bf16", "half": "f16", "double": "f64", "bool": "bool", "byte": "u8", "char": "i8", "short": "i16", "int": "i32",
                    "long": "i64"}.items():
    entry(name)(lambda p, a, dtype=dtype, **_: p.op("not_equal", a, p.number(0)) if dtype == "bool" else p.op("cast", a, dtype_=dtype))


@entry("to")
def _(p, a, *_, **__):
    return p.op("cast", a, dtype_=p.result_dtypes[0])


@entry("gather")
def _(p, a, dim, index, sparse_grad=False):
    if index.dtype not in ("i32", "i64"):
        index = p.op("cast", index, dtype_="i64", shape=index.shape)
    if index.count == 0:
        index = p.reshape(index, p.result_shapes[0] if a.rank else (0,))
    return result(p, p.op("gather_elements", lifted(p, a), lifted(p, index), axis=dim))


# --- constants ---

def typed(dtype, otherwise="f32"):
    if dtype is None:
        return otherwise
    if dtype not in NAMES:
        raise Refused(f"no element type {str(dtype).removeprefix('torch.')}")
    return NAMES[dtype]


def filled(p, value, dtype):
    return p.op("full", shape=p.result_shapes[0], dtype=dtype, dtype_=dtype, shape_=list(p.result_shapes[0]), value=float(value))


def listed(p, values, shape, dtype="f32"):
    """A constant tensor."""
    return p.op("constant", shape=tuple(shape), dtype=dtype, data={"dtype": dtype, "shape": list(shape), "values": list(values)})


entry("zeros")(lambda p, *_, dtype=None, **__: filled(p, 0, typed(dtype)))
entry("ones")(lambda p, *_, dtype=None, **__: filled(p, 1, typed(dtype)))
entry("full")(lambda p, _, value, dtype=None, **__: filled(p, value, typed(dtype)))
entry("new_zeros")(lambda p, a, *_, dtype=None, **__: filled(p, 0, typed(dtype, a.dtype)))
entry("new_ones")(lambda p, a, *_, dtype=None, **__: filled(p, 1, typed(dtype, a.dtype)))
entry("new_full")(lambda p, a, _, value, dtype=None, **__: filled(p, value, typed(dtype, a.dtype)))
entry("zero_")(lambda p, a: filled(p, 0, a.dtype))
entry("scalar_tensor")(lambda p, value, dtype=None, **_: filled(p, value, typed(dtype)))


@entry("full_like", "fill")
def _(p, a, value, dtype=None, **_):
    return p.broadcast(value, a.shape) if hasattr(value, "number") else filled(p, value, typed(dtype, a.dtype))


for name, value in {"zeros_like": 0, "ones_like": 1}.items():
    entry(name)(lambda p, a, value=value, dtype=None, **_: filled(p, value, typed(dtype, a.dtype)))


@entry("eye")
def _(p, rows, columns=None, dtype=None, **_):
    shape = p.result_shapes[0]
    number = lambda axis: p.op("iota", dtype_="i32", shape_=list(shape), axis=axis)
    return p.op("cast", p.op("equal", number(0), number(1)), dtype_=typed(dtype))


@entry("arange")
def _(p, *bounds, dtype=None, **_):
    start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    dtype = typed(dtype, "f32" if any(isinstance(each, float) for each in bounds) else "i64")
    return listed(p, [start + i * step for i in range(p.result_shapes[0][0])], p.result_shapes[0], dtype)


def evenly_spaced(p, start, end, steps):
    """From either bound to the middle, as PyTorch computes them."""
    if not hasattr(start, "number") and not hasattr(end, "number"):
        return listed(p, torch.linspace(start, end, steps, dtype=torch.float64).tolist(), (steps,))
    start, end = (p.op("cast", operand(p, each), dtype_="f32") for each in (start, end))
    step = p.op("scale", p.op("subtract", end, start), parameter=1 / max(1, steps - 1))
    places = listed(p, range(steps), (steps,))
    before = p.op("add", start, p.op("multiply", step, places))
    behind = p.op("subtract", end, p.op("multiply", step, p.op("reverse", places, axes=[0])))
    return p.op("select", listed(p, [int(i < steps / 2) for i in range(steps)], (steps,), "bool"), before, behind)


@entry("linspace")
def _(p, start, end, steps, dtype=None, **_):
    return p.op("cast", evenly_spaced(p, start, end, steps), dtype_=typed(dtype))


@entry("logspace")
def _(p, start, end, steps, base=10.0, dtype=None, **_):
    if not hasattr(start, "number") and not hasattr(end, "number"):
        return listed(p, torch.logspace(start, end, steps, base, dtype=torch.float64).tolist(), (steps,), typed(dtype))
    if base < 0:
        raise Refused("powers of a number below 0")
    return p.op("power", p.number(base), evenly_spaced(p, start, end, steps))


for name, up in (("fft.fftshift", 0), ("fft.ifftshift", 1)):
    @entry(name)
    def _(p, a, dim=None, up=up):
        axes = axes_of(dim, a.rank)
        return p.op("roll", a, shifts=[(a.shape[d] + up) // 2 for d in axes], axes=axes)


# --- shapes ---

def strided(a, size, stride, offset):
    places = [sum(i * s for i, s in zip(at, stride)) + offset for at in itertools.product(*map(range, size))]
    if any(place >= a.count for place in places):
        raise Refused("elements of a storage that the tensor does not hold")
    return places


@entry("as_strided", "as_strided_copy")
def _(p, a, size, stride, storage_offset=0):
    places = listed(p, strided(a, size, stride, storage_offset), (math.prod(size),), "i64")
    return result(p, p.op("index", p.reshape(a, (a.count,)), places))


@entry("as_strided_scatter", no_gradients="PyTorch gives a gradient to elements that are overwritten")
def _(p, a, source, size, stride, storage_offset=0):
    places = listed(p, strided(a, size, stride, storage_offset), (math.prod(size),), "i64")
    return result(p, p.op("index_put", p.reshape(a, (a.count,)), places, p.reshape(source, (source.count,)), accumulate=False))


@entry("block_diag")
def _(p, *tensors):
    tensors = [p.reshape(each, (1,) * (2 - each.rank) + each.shape) for each in tensors]
    columns, rows, before = sum(each.shape[1] for each in tensors), [], 0
    for each in tensors:
        rows.append(p.op("pad", each, low=[0, before], high=[0, columns - before - each.shape[1]], value=0.0))
        before += each.shape[1]
    return p.op("concat", *rows, axis=0)


@entry("cartesian_prod")
def _(p, *tensors):
    if len(tensors) == 1:
        return p.reshape(tensors[0], tensors[0].shape)
    grids = p.op("meshgrid", *tensors, results=len(tensors), xy=False)
    return p.op("concat", *[p.reshape(each, (p.result_shapes[0][0], 1)) for each in grids], axis=1)


@entry("combinations")
def _(p, a, r=2, with_replacement=False):
    draw = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = [i for each in draw(range(a.count), r) for i in each]
    return result(p, p.op("index", a, listed(p, places, (len(places),), "i64")))


@entry("rot90")
def _(p, a, k=1, dims=(0, 1)):
    first, second = (axis_of(d, a.rank) for d in dims)
    order = list(range(a.rank))
    order[first], order[second] = second, first
    return {0: lambda: p.reshape(a, a.shape), 1: lambda: p.permute(p.same(a, "reverse", axes=[second]), order),
            2: lambda: p.same(a, "reverse", axes=[first, second]),
            3: lambda: p.permute(p.same(a, "reverse", axes=[first]), order)}[k % 4]()


entry("resize_", "resize_as_")(lambda p, a, *_, **__: p.reshape(a, p.result_shapes[0]))


@entry("_chunk_cat")
def _(p, tensors, dim, chunks):
    dim, cut = axis_of(dim, min(each.rank for each in tensors)), []
    for each in tensors:
        extent = -(-each.shape[dim] // chunks)
        high = [0] * each.rank
        high[dim] = extent * chunks - each.shape[dim]
        whole = p.op("pad", each, low=[0] * each.rank, high=high, value=0.0)
        cut.append(p.reshape(whole, (*each.shape[:dim], chunks, math.prod((extent, *each.shape[dim + 1:])))))
    return p.op("concat", *cut, axis=dim + 1)


@entry("diag_embed")
def _(p, a, offset=0, dim1=-2, dim2=-1):
    rank = a.rank + 1
    dim1, dim2 = axis_of(dim1, rank), axis_of(dim2, rank)
    made = p.op("diagonal_embed", a, offset=offset if dim1 < dim2 else -offset)
    size = a.shape[-1] + abs(offset)
    made.shape = (*a.shape[:-1], size, size)
    first, second = sorted((dim1, dim2))
    rest = iter(range(rank - 2))
    return p.permute(made, [rank - 2 if d == first else rank - 1 if d == second else next(rest) for d in range(rank)])


@entry("narrow", "narrow_copy")
def _(p, a, dim, start, length):
    dim = axis_of(dim, a.rank)
    if not hasattr(start, "number"):
        start = axis_of(start, a.shape[dim])
        return sliced(p, a, dim, start, start + length)
    start = p.op("cast", start, dtype_="i64")
    start = p.op("select", p.op("less", start, p.number(0, "i64")), p.op("add", start, p.number(a.shape[dim], "i64")), start)
    places = p.op("add", p.op("iota", dtype_="i64", shape_=[length], axis=0), start)
    return p.op("index_select", a, places, axis=dim)


@entry("take_along_dim")
def _(p, a, indices, dim=None):
    if dim is None:
        a, indices, dim = p.reshape(a, (a.count,)), p.reshape(indices, (indices.count,)), 0
    shape = [max(x, y) for x, y in zip(a.shape, indices.shape)]
    wide, dim = shape[:], axis_of(dim, a.rank)
    wide[dim], shape[dim] = a.shape[dim], indices.shape[dim]
    from_end = p.op("add", indices, p.number(a.shape[dim], indices.dtype))
    indices = p.op("select", p.op("less", indices, p.number(0, indices.dtype)), from_end, indices)
    return p.op("gather_elements", p.broadcast(a, wide), p.broadcast(indices, shape), axis=dim)


@entry("put")
def _(p, a, index, source, accumulate=False):
    flat = lambda x: p.reshape(x, (x.count,))
    return result(p, p.op("index_put", flat(a), flat(index), flat(source), accumulate=accumulate))


@entry("index_reduce")
def _(p, a, dim, index, source, reduce, include_self=True):
    by = {"prod": "mul", "mean": "mean", "amax": "max", "amin": "min"}[reduce]
    if by != "mean":
        return put_along(p, a, dim, index, source, by, include_self=include_self)
    whole, source = lifted(p, a), lifted(p, source)
    dim = axis_of(dim, whole.rank)
    wide = p.reshape(index, [index.count if d == dim else 1 for d in range(whole.rank)])
    return scattered(p, whole, dim, p.broadcast(wide, source.shape), source, by, include_self)


plain_getitem = TABLE["__getitem__"].build


def getitem(p, a, index):
    """Lists of numbers are constant index tensors; integers beside index tensors are, too."""
    is_list = lambda item: isinstance(item, list) and all(isinstance(i, int) for i in item)
    tensor = lambda item: listed(p, item, (len(item),), "i64") if is_list(item) else item
    if is_list(index):
        return p.op("index", a, tensor(index))
    items = [tensor(item) for item in index] if isinstance(index, (list, tuple)) else index
    return plain_getitem(p, a, tuple(items) if isinstance(index, (list, tuple)) else items)


TABLE["__getitem__"] = TABLE["__getitem__"]._replace(build=getitem)


# --- reductions ---

@entry("aminmax")
def _(p, a, dim=None, keepdim=False):
    return [reduced(p, op, a, dim, keepdim) if a.rank else p.reshape(a, ()) for op in ("reduce_min", "reduce_max")]


def without_nan(p, a):
    return p.op("select", p.op("is_nan", a), p.number(0), a, shape=a.shape)


@entry("nansum")
def _(p, a, dim=None, keepdim=False, dtype=None):
    typed(dtype)
    return reduced(p, "reduce_sum", without_nan(p, lifted(p, a)), dim if a.rank else None, keepdim and a.rank > 0)


@entry("nanmean")
def _(p, a, dim=None, keepdim=False, dtype=None):
    whole = lifted(p, a)
    there = p.op("select", p.op("is_nan", whole), p.number(0), p.number(1), shape=whole.shape)
    total, count = (reduced(p, "reduce_sum", each, dim if a.rank else None, keepdim) for each in (without_nan(p, whole), there))
    return result(p, p.op("divide", total, count))


def picked(p, a, dim, place, results):
    """The element that stands at `place` when the axis is in order, and its index."""
    whole = lifted(p, a)
    dim = axis_of(dim, whole.rank)
    values, indices = p.op("sort", whole, results=2, axis=dim, descending=False)
    values.shape = indices.shape = whole.shape
    made = [result(p, sliced(p, each, dim, place, place + 1), number) for number, each in enumerate((values, indices)[:results])]
    return made if results > 1 else made[0]


entry("kthvalue")(lambda p, a, k, dim=-1, keepdim=False: picked(p, a, dim, k - 1, 2))


@entry("median")
def _(p, a, dim=None, keepdim=False):
    if dim is None:
        return picked(p, p.reshape(a, (a.count,)), 0, (a.count - 1) // 2, 1)
    extent = a.shape[dim] if a.rank else 1
    # Of equal elements PyTorch may name another one: the index is left out.
    return [picked(p, a, dim, (extent - 1) // 2, 2)[0], None]


def quantiles_of_data(p, a, q, dim, interpolation):
    place = p.op("scale", lifted(p, q), parameter=float(a.shape[dim] - 1))
    low, high = p.op("floor", place), p.op("ceil", place)
    apart = p.op("subtract", high, low)
    weight = {"linear": lambda: p.op("subtract", place, low), "lower": lambda: p.number(0), "higher": lambda: apart,
              "midpoint": lambda: p.op("scale", apart, parameter=0.5),
              "nearest": lambda: p.op("subtract", p.op("round", place), low)}[interpolation]()
    # The axis goes to the front, where PyTorch has that of the quantiles.
    front = p.permute(a, [dim] + [d for d in range(a.rank) if d != dim])
    sorted_ = p.op("sort", front, results=2, axis=0, descending=False)[0]
    at = lambda places: p.op("gather", sorted_, p.op("cast", places, dtype_="i64"))
    count = lifted(p, q).count
    weight = p.reshape(p.broadcast(weight, (count,)), (count,) + (1,) * (a.rank - 1))
    return result(p, p.op("add", at(low), p.op("multiply", weight, p.op("subtract", at(high), at(low)))))


@entry("quantile")
def _(p, a, q, dim=None, keepdim=False, interpolation="linear"):
    if dim is None:
        a, dim = p.reshape(a, (a.count,)), 0
    whole = lifted(p, a)
    dim = axis_of(dim, whole.rank)
    if hasattr(q, "number"):
        return quantiles_of_data(p, whole, q, dim, interpolation)
    place = q * (whole.shape[dim] - 1)
    low, high = math.floor(place), math.ceil(place)
    sorted_ = p.op("sort", whole, results=2, axis=dim, descending=False)[0]
    sorted_.shape = whole.shape
    at = lambda i: result(p, sliced(p, sorted_, dim, i, i + 1))
    weight = {"linear": place - low, "lower": 0.0, "higher": float(high > low), "midpoint": 0.5 * (high > low),
              "nearest": float(round(place) - low)}[interpolation]
    return p.op("add", at(low), p.op("scale", p.op("subtract", at(high), at(low)), parameter=weight))


def vector_norm(p, a, order, axes, keepdim=False):
    return p.op("vector_norm", lifted(p, a), order=float(order), axes=axes, keep_dims=bool(keepdim))


def matrix_norm(p, a, order, dims):
    rows, columns = dims
    if order in ("fro", None):
        return result(p, vector_norm(p, a, 2, list(dims)))
    if order == "nuc" or abs(order) == 2:
        raise Refused("singular values")
    if order not in (1, -1, math.inf, -math.inf):
        raise Refused("norms of matrices of other orders")
    summed, kept = (rows, columns) if abs(order) == 1 else (columns, rows)
    sums = p.op("reduce_sum", p.same(a, "abs"), axes=[summed], keep_dims=True)
    return result(p, p.op("reduce_max" if order > 0 else "reduce_min", sums, axes=[kept], keep_dims=True))


@entry("linalg.matrix_norm")
def _(p, a, ord="fro", dim=(-2, -1), keepdim=False, dtype=None):
    return matrix_norm(p, a, ord, [axis_of(d, a.rank) for d in dim])


@entry("linalg.norm")
def _(p, a, ord=None, dim=None, keepdim=False, dtype=None):
    if dim is None and ord is None:
        return result(p, vector_norm(p, a, 2, axes_of(None, max(1, a.rank))))
    dims = axes_of(dim, max(1, a.rank))
    if len(dims) == 2:
        return matrix_norm(p, a, ord, dims)
    return result(p, vector_norm(p, a, 2 if ord is None else ord, dims))


@entry("norm")
def _(p, a, order="fro", dim=None, keepdim=False, dtype=None, **options):
    order = options.get("p", order)
    if order == "nuc":
        raise Refused("singular values")
    return result(p, vector_norm(p, a, 2 if order in ("fro", None) else order, axes_of(dim, max(1, a.rank))))


@entry("dist")
def _(p, a, b, order=2, **options):
    apart = p.op("subtract", a, b)
    return p.op("vector_norm", apart, order=float(options.get("p", order)), axes=[])


@entry("nn.functional.normalize")
def _(p, a, /, dim=1, eps=1e-12, **options):
    whole = lifted(p, a)
    norm = vector_norm(p, whole, options.get("p", 2.0), [axis_of(dim, whole.rank)], True)
    return result(p, p.op("divide", whole, p.op("maximum", norm, p.number(eps))))


@entry("renorm")
def _(p, a, order, dim, maxnorm):
    axes = [d for d in range(a.rank) if d != axis_of(dim, a.rank)]
    norm = vector_norm(p, a, order, axes, True)
    factor = p.op("divide", p.number(maxnorm), p.op("add_scalar", norm, parameter=1e-7))
    return p.op("multiply", a, p.op("select", p.op("greater", norm, p.number(maxnorm)), factor, p.number(1)))


def covariance(p, a, correction=1):
    rows = a if a.rank == 2 else p.reshape(a, (1, a.count))
    count = rows.shape[1]
    centred = p.op("subtract", rows, p.op("reduce_mean", rows, axes=[1], keep_dims=True), shape=rows.shape)
    divisor = max(0.0, count - correction)
    return p.op("divide", p.op("matmul", centred, centred, transpose_b=True), p.number(divisor))


@entry("cov")
def _(p, a, correction=1, fweights=None, aweights=None):
    if fweights is not None or aweights is not None:
        raise Refused("weights of observations")
    return result(p, covariance(p, a, correction))


@entry("corrcoef")
def _(p, a):
    n = a.shape[0] if a.rank == 2 else 1
    made = p.reshape(covariance(p, a), (n, n))
    deviation = p.op("sqrt", p.op("diagonal", made))
    return result(p, p.op("divide", p.op("divide", made, p.reshape(deviation, (n, 1))), p.reshape(deviation, (1, n))))


def trapezes(p, y, x, dx, dim):
    dim = axis_of(dim, y.rank)
    extent = y.shape[dim]
    neighbours = p.op("add", sliced(p, y, dim, 1, extent), sliced(p, y, dim, 0, extent - 1))
    if x is None:
        return p.op("scale", neighbours, parameter=dx / 2), dim
    if x.rank == 1 and y.rank > 1:
        x = p.reshape(x, [x.count if d == dim else 1 for d in range(y.rank)])
    width = x.shape[dim]
    return p.op("scale", p.op("multiply", neighbours, p.op("subtract", sliced(p, x, dim, 1, width), sliced(p, x, dim, 0, width - 1))),
                parameter=0.5), dim


@entry("trapezoid", "trapz")
def _(p, y, x=None, dx=1.0, dim=-1):
    terms, dim = trapezes(p, y, x, dx, dim)
    return p.op("reduce_sum", terms, axes=[dim])


@entry("cumulative_trapezoid")
def _(p, y, x=None, dx=1.0, dim=-1):
    terms, dim = trapezes(p, y, x, dx, dim)
    return p.op("cumsum", terms, axis=dim)


@entry("logcumsumexp")
def _(p, a, dim):
    whole = lifted(p, a)
    dim = axis_of(dim, whole.rank)
    most = p.op("stop_gradient", p.op("reduce_max", whole, axes=[dim], keep_dims=True))
    sums = p.op("cumsum", p.op("exp", p.op("subtract", whole, most)), axis=dim)
    return result(p, p.op("add", p.op("log", sums), most))


# --- reductions under a mask ---

def masked(p, a, mask, value):
    """`a` where the mask is true, else `value`."""
    whole = lifted(p, a)
    return whole if mask is None else p.op("select", lifted(p, mask), whole, p.number(value), shape=whole.shape)


def enter_masked(name, op, identity):
    @entry("masked." + name)
    def _(p, a, dim=None, keepdim=False, dtype=None, mask=None):
        whole = masked(p, a, mask, identity)
        return result(p, p.op(op, whole, axes=axes_of(dim, whole.rank)))


for each in (("sum", "reduce_sum", 0), ("prod", "reduce_prod", 1), ("amax", "reduce_max", -math.inf), ("amin", "reduce_min", math.inf),
             ("logsumexp", "log_sum_exp", -math.inf)):
    enter_masked(*each)


def counted(p, whole, mask, axes):
    ones = p.broadcast(p.number(1), whole.shape)
    return p.op("reduce_sum", masked(p, ones, mask, 0), axes=axes, keep_dims=True)


@entry("masked.mean")
def _(p, a, dim=None, keepdim=False, dtype=None, mask=None):
    whole = masked(p, a, mask, 0)
    axes = axes_of(dim, whole.rank)
    return result(p, p.op("divide", p.op("reduce_sum", whole, axes=axes, keep_dims=True), counted(p, whole, mask, axes)))


def masked_variance(p, a, dim, unbiased, correction, mask):
    whole = masked(p, a, mask, 0)
    axes = axes_of(dim, whole.rank)
    count = counted(p, whole, mask, axes)
    mean = p.op("divide", p.op("reduce_sum", whole, axes=axes, keep_dims=True), count)
    apart = masked(p, p.op("subtract", lifted(p, a), mean, shape=whole.shape), mask, 0)
    squares = p.op("reduce_sum", p.op("square", apart), axes=axes, keep_dims=True)
    freedom = correction if correction is not None else 0 if unbiased is False else 1
    return p.op("divide", squares, p.op("maximum", p.op("add_scalar", count, parameter=-float(freedom)), p.number(0)))


@entry("masked.var")
def _(p, a, dim=None, unbiased=None, keepdim=False, dtype=None, mask=None, correction=None):
    return result(p, masked_variance(p, a, dim, unbiased, correction, mask))


@entry("masked.std")
def _(p, a, dim=None, unbiased=None, keepdim=False, dtype=None, mask=None, correction=None):
    return result(p, p.op("sqrt", masked_variance(p, a, dim, unbiased, correction, mask)))


@entry("masked.norm")
def _(p, a, order=2.0, dim=None, keepdim=False, dtype=None, mask=None):
    whole = masked(p, a, mask, math.inf if order < 0 else 0)
    return result(p, vector_norm(p, whole, order, axes_of(dim, whole.rank)))


@entry("masked.normalize")
def _(p, a, order, dim, eps=1e-12, dtype=None, mask=None):
    whole = masked(p, a, mask, math.inf if order < 0 else 0)
    norm = vector_norm(p, whole, order, [axis_of(dim, whole.rank)], True)
    return result(p, p.op("divide", masked(p, a, mask, 0), p.op("maximum", norm, p.number(eps))))


for name, op, sign in (("softmax", "softmax", 1), ("log_softmax", "log_softmax", 1), ("softmin", "softmax", -1)):
    @entry("masked." + name)
    def _(p, a, dim, dtype=None, mask=None, op=op, sign=sign):
        whole = masked(p, a if sign == 1 else p.same(a, "negate"), mask, -math.inf)
        return result(p, p.op(op, whole, axis=dim))


for name, op, identity in (("cumsum", "cumsum", 0), ("cumprod", "cumprod", 1)):
    @entry("masked." + name)
    def _(p, a, dim, dtype=None, mask=None, op=op, identity=identity):
        whole = masked(p, a, mask, identity)
        return result(p, p.op(op, whole, axis=axis_of(dim, whole.rank)))


for name, identity in (("argmax", -math.inf), ("argmin", math.inf)):
    @entry("masked." + name)
    def _(p, a, dim=None, keepdim=False, dtype=None, mask=None, op=name, identity=identity):
        whole = masked(p, a, mask, identity)
        if dim is None:
            whole, dim = p.reshape(whole, (math.prod(whole.shape),)), 0
        return result(p, p.op(op, whole, axis=dim))


@entry("masked.logaddexp")
def _(p, a, b, dtype=None, input_mask=None, other_mask=None):
    return p.op("logaddexp", masked(p, a, input_mask, -math.inf), masked(p, b, other_mask, -math.inf))


@entry("torch.ops.aten._safe_softmax.default")
def _(p, a, dim, dtype=None):
    whole = lifted(p, a)
    none = p.op("equal", p.op("reduce_max", whole, axes=[axis_of(dim, whole.rank)], keep_dims=True), p.number(-math.inf))
    safe = p.op("select", none, p.number(0), whole)
    return result(p, p.op("select", none, p.number(0), p.op("softmax", safe, axis=dim)))


@entry("_softmax_backward_data")
def _(p, dy, y, dim, dtype):
    both = p.op("multiply", dy, y)
    return p.op("subtract", both, p.op("multiply", y, p.op("reduce_sum", both, axes=[axis_of(dim, dy.rank)], keep_dims=True)))


# --- products and distances ---

@entry("kron")
def _(p, a, b):
    rank = max(a.rank, b.rank)
    left, right = ((1,) * (rank - each.rank) + each.shape for each in (a, b))
    wide = lambda each, shape, first: p.reshape(each, [v for extent in shape for v in ((extent, 1) if first else (1, extent))])
    return result(p, p.op("multiply", wide(a, left, True), wide(b, right, False)))


@entry("cross", "linalg.cross")
def _(p, a, b, dim=None):
    shape = p.result_shapes[0]
    a, b = p.broadcast(a, shape), p.broadcast(b, shape)
    dim = shape.index(3) if dim is None else axis_of(dim, len(shape))
    turned = lambda x, at: p.op("concat", *[sliced(p, x, dim, i, i + 1) for i in at], axis=dim)
    return p.op("subtract", p.op("multiply", turned(a, (1, 2, 0)), turned(b, (2, 0, 1))),
                p.op("multiply", turned(a, (2, 0, 1)), turned(b, (1, 2, 0))))


TABLE["linalg.cross"] = TABLE["cross"]._replace(build=lambda p, a, b, dim=-1: TABLE["cross"].build(p, a, b, dim))


@entry("linalg.vecdot")
def _(p, a, b, dim=-1):
    shape = tuple(torch.broadcast_shapes(a.shape, b.shape))
    return result(p, p.op("reduce_sum", p.op("multiply", p.broadcast(a, shape), p.broadcast(b, shape)), axes=[axis_of(dim, len(shape))]))


@entry("linalg.matrix_power")
def _(p, a, n):
    if n < 0:
        raise Refused("an inverse")
    if n == 0:
        return p.broadcast(TABLE["eye"].build(p, 0), a.shape) if a.rank == 2 else (_ for _ in ()).throw(Refused("an identity a sample"))
    made = p.reshape(a, a.shape)
    for _ in range(n - 1):
        made = matmul(p, made, a)
    return made


@entry("linalg.vander")
def _(p, a, N=None):
    whole = lifted(p, a)
    count = whole.shape[-1] if N is None else N
    column = p.reshape(whole, (*whole.shape, 1))
    columns = [p.broadcast(p.number(1), column.shape)]
    for _ in range(count - 1):
        columns.append(p.op("multiply", columns[-1], column, shape=column.shape))
    return p.op("concat", *columns, axis=whole.rank)


@entry("nn.functional.bilinear")
def _(p, a, b, weight, bias=None):
    rows_a, rows_b = (p.reshape(each, (each.count // each.shape[-1], each.shape[-1])) for each in (a, b))
    made = result(p, p.op("einsum", rows_a, rows_b, weight, equation="ni,nj,oij->no"))
    return made if bias is None else p.op("add", made, bias)


def distances(p, apart, order, axis):
    return p.op("vector_norm", apart, order=float(order), axes=[axis])


@entry("cdist")
def _(p, a, b, order=2.0, compute_mode=None, **options):
    left, right = p.reshape(a, (*a.shape[:-1], 1, a.shape[-1])), p.reshape(b, (*b.shape[:-2], 1, *b.shape[-2:]))
    apart = p.op("subtract", left, right)
    return result(p, distances(p, apart, options.get("p", order), len(p.result_shapes[0])))


@entry("nn.functional.pdist")
def _(p, a, /, **options):
    pairs = list(itertools.combinations(range(a.shape[0]), 2))
    rows = [p.op("index_select", a, listed(p, [pair[i] for pair in pairs], (len(pairs),), "i64"), axis=0) for i in (0, 1)]
    return result(p, distances(p, p.op("subtract", *rows), options.get("p", 2.0), 1))


@entry("tensordot")
def _(p, a, b, dims=2):
    if hasattr(dims, "number"):
        raise Refused("dimensions that are data")
    left, right = (list(range(a.rank - dims, a.rank)), list(range(dims))) if isinstance(dims, int) else (
        [axis_of(d, a.rank) for d in dims[0]], [axis_of(d, b.rank) for d in dims[1]])
    for i, j in zip(left, right):
        # An extent of 1 stands for the other side's.
        if a.shape[i] != b.shape[j]:
            sides = {True: a, False: b}
            narrow, axis = (True, i) if a.shape[i] == 1 else (False, j)
            other = sides[not narrow]
            summed = p.op("reduce_sum", other, axes=[j if narrow else i], keep_dims=True)
            summed.shape = tuple(1 if d == (j if narrow else i) else e for d, e in enumerate(other.shape))
            a, b = (a, summed) if narrow else (summed, b)
    letters = "abcdefghijklmnopqrstuvwxyz"
    names_a, names_b = list(letters[:a.rank]), list(letters[a.rank:a.rank + b.rank])
    for i, j in zip(left, right):
        names_b[j] = names_a[i]
    out = [n for i, n in enumerate(names_a) if i not in left] + [n for i, n in enumerate(names_b) if i not in right]
    return p.op("einsum", a, b, equation=f"{''.join(names_a)},{''.join(names_b)}->{''.join(out)}")


# --- networks ---

@entry("_batch_norm_with_update")
def _(p, a, weight, bias, mean, variance, momentum, eps):
    return p.op("batch_norm", a, weight, bias, results=3, epsilon=eps)[0]


@entry("nn.functional.embedding_bag")
def _(p, weight, indices, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean", sparse=False,
      per_sample_weights=None, include_last_offset=False, padding_idx=None):
    if indices.rank != 2:
        raise Refused("bags whose bounds are data")
    if max_norm is not None or scale_grad_by_freq or padding_idx is not None:
        raise Refused("an embedding that changes its table, or gradients by frequency, or a padding index of a bag")
    rows = p.op("gather", weight, indices)
    if per_sample_weights is not None:
        rows = p.op("multiply", rows, p.reshape(per_sample_weights, (*per_sample_weights.shape, 1)))
    return p.op({"mean": "reduce_mean", "sum": "reduce_sum", "max": "reduce_max"}[mode], rows, axes=[1])


@entry("nn.functional.ctc_loss")
def _(p, log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    # PyTorch's gradient is that of logits under a log_softmax, which changes no log-probabilities.
    lengths = [each if hasattr(each, "number") else listed(p, each, (len(each),), "i64") for each in (input_lengths, target_lengths)]
    return p.op("ctc_loss", p.op("log_softmax", log_probs, axis=log_probs.rank - 1), targets, *lengths, blank=blank, reduction=reduction,
                zero_infinity=zero_infinity)


@entry("nn.functional.gaussian_nll_loss")
def _(p, a, target, var, full=False, eps=1e-6, reduction="mean"):
    if var.shape != a.shape and var.shape == a.shape[:-1]:
        var = p.reshape(var, (*var.shape, 1))
    return p.op("gaussian_nll_loss", a, target, var, full=full, epsilon=eps, reduction=reduction)


for name in ("multi_margin_loss", "multilabel_margin_loss"):
    @entry("nn.functional." + name)
    def _(p, a, target, /, op=name, weight=None, **options):
        per_row = () if op == "multi_margin_loss" else (1,)
        if a.rank < 2:
            a = lifted(p, a)
            target = p.reshape(target, per_row if op == "multi_margin_loss" else a.shape)
        return result(p, p.op(op, a, target, weight, **options))


@entry("nn.functional.triplet_margin_with_distance_loss")
def _(p, anchor, positive, negative, distance_function=None, margin=1.0, swap=False, reduction="mean"):
    if distance_function is not None:
        raise Refused("a function as an argument")
    return p.op("triplet_margin_loss", anchor, positive, negative, margin=margin, p=2.0, epsilon=1e-6, swap=swap, reduction=reduction)


@entry("nn.functional.linear_cross_entropy")
def _(p, a, linear_weight, target, linear_bias=None, weight=None, ignore_index=-100, label_smoothing=0.0, reduction="mean", options=None):
    # The first dimension of the weight is that of classes, the others are positions with a loss of their own.
    made = p.op("matmul", p.reshape(a, (a.count // a.shape[-1], a.shape[-1])),
                p.reshape(linear_weight, (linear_weight.count // a.shape[-1], a.shape[-1])), transpose_b=True)
    made = p.reshape(made, (*a.shape[:-1], *linear_weight.shape[:-1]))
    if linear_bias is not None:
        made = p.op("add", made, linear_bias)
    return result(p, p.op("cross_entropy_loss", made, target, weight, ignore_index=ignore_index, reduction=reduction,
                          label_smoothing=label_smoothing))


def enter_backward(space):
    @entry(f"nn.functional.max_unpool{space}d",
           no_gradients="windows overlap, and PyTorch gives a gradient to elements that others have overwritten")
    def _(p, a, indices, kernel_size, stride=None, padding=0, output_size=None):
        shape = p.result_shapes[0]
        rows, inside = math.prod(shape[:-space]), math.prod(shape[-space:])
        flat = lambda x: p.reshape(x, (rows, x.count // max(1, rows)))
        empty = p.op("full", shape=(rows, inside), dtype="f32", dtype_="f32", shape_=[rows, inside], value=0.0)
        return result(p, p.op("scatter_elements", empty, flat(indices), flat(a), axis=1, by="set", include_self=True))


for space_ in (1, 2, 3):
    enter_backward(space_)


for name, op, sign in (("softmax", "softmax", 1), ("log_softmax", "log_softmax", 1), ("nn.functional.softmin", "softmax", -1)):
    @entry(name)
    def _(p, a, dim=None, dtype=None, op=op, sign=sign, **_):
        if dim is None:
            raise Refused("a softmax without a dimension")
        whole = lifted(p, a)
        if typed(dtype) != whole.dtype:
            whole = p.op("cast", whole, dtype_=typed(dtype), dtype=typed(dtype))
        return result(p, p.op(op, whole if sign == 1 else p.op("negate", whole), axis=dim))


@entry("searchsorted")
def _(p, a, values, out_int32=False, right=False, side=None, sorter=None):
    return p.op("search_sorted", a, operand(p, values), sorter, right=bool(right or side == "right"))


@entry("clamp")
def _(p, a, min=None, max=None):
    for bound, op in ((min, "maximum"), (max, "minimum")):
        if bound is not None:
            bound = operand(p, bound)
            a = p.op(op, a, bound if bound.dtype == "f32" else p.op("cast", bound, dtype_="f32", dtype="f32"))
    return p.reshape(a, p.result_shapes[0])


# --- what is refused whatever the arguments ---

def refuse(reason, *names):
    for name in names:
        @entry(name)
        def _(p, *_, **__):
            raise Refused(reason)


refuse("random numbers other than PyTorch's", "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal", "rand_like",
       "randint", "randint_like", "randn", "randn_like", "uniform", "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
       "nn.functional.multi_head_attention_forward")
refuse("elements that nobody has written", "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
refuse("complex numbers", "cdouble", "cfloat", "chalf", "complex", "polar", "view_as_complex", "stft", "istft", *(
    "fft." + name for name in ("fft", "fft2", "fftn", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ihfft", "ihfft2", "ihfftn", "irfft",
                               "irfft2", "irfftn", "rfft", "rfft2", "rfftn")))
refuse("a result that is a number of the host, not a tensor", "item", "equal", "allclose", "broadcast_shapes", "hash_tensor")
refuse("a result whose size depends on data", "nonzero_static")
refuse("a sparse tensor", "to_sparse", "sparse.mm.reduce", "sparse.sampled_addmm")
