"""The table of JAX's primitives: what each is in ops of Ramet. An entry takes the values, the equation and its inputs,
and returns the results; Refusal says why it cannot."""
import math

import numpy as np

import ramet

from ._contractions import convolution, dot_general
from ._indexing import gather
from ._refusal import Refusal
from ._values import broadcast, is_known, scalar_of, shape_of
from ._windows import window_max, window_sum

__all__ = ["TABLE", "Refusal"]

TABLE = {"conv_general_dilated": convolution, "dot_general": dot_general, "gather": gather,
         "reduce_window_max": window_max, "reduce_window_sum": window_sum}

UNARY = {"abs": "abs", "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atan": "atan",
         "atanh": "atanh", "ceil": "ceil", "cos": "cos", "cosh": "cosh", "digamma": "digamma", "erf": "erf",
         "erfc": "erfc", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "floor": "floor", "is_finite": "is_finite",
         "lgamma": "lgamma", "log": "log", "log1p": "log1p", "logistic": "sigmoid", "neg": "negate",
         "rsqrt": "rsqrt", "sign": "sign", "sin": "sin", "sinh": "sinh", "sqrt": "sqrt", "square": "square", "tan": "tan",
         "tanh": "tanh"}
BINARY = {"atan2": "atan2", "eq": "equal", "ge": "greater_equal", "gt": "greater",
          "le": "less_equal", "lt": "less", "ne": "not_equal", "rem": "fmod"}
BITWISE = {"and": ramet.bitwise_and, "or": ramet.bitwise_or, "xor": ramet.bitwise_xor}
REDUCTIONS = {"reduce_and": ramet.all, "reduce_max": ramet.reduce_max, "reduce_min": ramet.reduce_min,
              "reduce_or": ramet.any, "reduce_prod": ramet.reduce_prod, "reduce_sum": ramet.reduce_sum}
UNCHANGED = ("copy", "copy_p", "optimization_barrier", "sharding_constraint")


def primitive(*names):
    def enter(make):
        TABLE.update(dict.fromkeys(names, make))
        return make
    return enter


def result_shape(equation):
    return equation.outvars[0].aval.shape


def is_float(equation):
    return equation.outvars[0].aval.dtype.kind not in "biu"


def enter_tables():
    for name, op in UNARY.items():
        TABLE[name] = lambda values, equation, a, op=op: ramet.map_unary(op, a)
    for name, op in BINARY.items():
        TABLE[name] = lambda values, equation, a, b, op=op: broadcast(
            ramet.map_binary(op, values.operand(a), values.operand(b)), result_shape(equation))
    for name, op in BITWISE.items():
        TABLE[name] = lambda values, equation, a, b, op=op: broadcast(
            op(values.operand(a), values.operand(b)), result_shape(equation))
    TABLE["not"] = lambda values, equation, a: ramet.bitwise_not(a)
    for name, op in REDUCTIONS.items():
        TABLE[name] = lambda values, equation, a, op=op: op(a, list(equation.params["axes"])) \
            if equation.params["axes"] else a
    for name in UNCHANGED:
        TABLE[name] = lambda values, equation, *inputs: \
            inputs if equation.primitive.multiple_results else inputs[0]


enter_tables()


# --- element-wise ---


def with_number(values, equation, a, b, op, neutral, op_with_number):
    """op(a, b); where b is one number for all elements of floats, op_with_number(a, number), or a itself if the number is
    neutral."""
    number = scalar_of(b)
    if number is not None and is_float(equation) and shape_of(a) == result_shape(equation):
        return a if number == neutral else op_with_number(a, number)
    return broadcast(op(values.operand(a), values.operand(b)), result_shape(equation))


@primitive("add", "add_any")
def add(values, equation, a, b):
    if scalar_of(a) is not None:
        a, b = b, a
    return with_number(values, equation, a, b, ramet.add, 0, ramet.add_scalar)


@primitive("sub")
def subtract(values, equation, a, b):
    return with_number(values, equation, a, b, ramet.subtract, 0, lambda a, number: ramet.add_scalar(a, -number))


@primitive("mul")
def multiply(values, equation, a, b):
    if scalar_of(a) is not None:
        a, b = b, a
    return with_number(values, equation, a, b, ramet.multiply, 1, ramet.scale)


@primitive("div")
def divide(values, equation, a, b):
    number = scalar_of(b)
    if number is not None and number != 0 and is_float(equation) and shape_of(a) == result_shape(equation):
        return ramet.scale(a, 1 / number)
    return broadcast(ramet.divide(values.operand(a), values.operand(b)), result_shape(equation))


def extreme(op, neutral):
    def make(values, equation, a, b):
        for one, other in ((a, b), (b, a)):
            if scalar_of(one) == neutral and not is_known(other) and shape_of(other) == result_shape(equation):
                return other
        return broadcast(op(values.operand(a), values.operand(b)), result_shape(equation))
    return make


TABLE["max"], TABLE["min"] = extreme(ramet.maximum, -math.inf), extreme(ramet.minimum, math.inf)


@primitive("pow")
def power(values, equation, a, b):
    number = scalar_of(b)
    if number is not None and float(number).is_integer() and abs(number) <= 16:
        return whole_power(a, int(number))
    if number in (0.5, -0.5):
        return a ** number
    return broadcast(ramet.power(values.operand(a), values.operand(b)), result_shape(equation))


@primitive("integer_pow")
def integer_power(values, equation, a):
    return whole_power(a, equation.params["y"])


def whole_power(a, exponent):
    if exponent == 0:
        raise Refusal("to the power 0")
    made, square, left = None, a, abs(exponent)
    while left:
        if left & 1:
            made = square if made is None else ramet.multiply(made, square)
        left >>= 1
        if left:
            square = ramet.multiply(square, square)
    return made if exponent > 0 else ramet.map_unary("reciprocal", made)


@primitive("round")
def rounded(values, equation, a):
    if int(equation.params["rounding_method"]) != 1:
        raise Refusal("of halves away from zero")
    return ramet.map_unary("round", a)


@primitive("clamp")
def clamp(values, equation, low, a, high):
    if not is_known(a) and scalar_of(low) is not None and scalar_of(high) is not None and is_float(equation):
        return ramet.clamp(a, float(scalar_of(low)), float(scalar_of(high)))
    bounded = ramet.maximum(values.operand(a), values.operand(low))
    return broadcast(ramet.minimum(bounded, values.operand(high)), result_shape(equation))


@primitive("select_n")
def select(values, equation, which, *cases):
    if len(cases) != 2 or equation.invars[0].aval.dtype.kind != "b":
        raise Refusal(f"among {len(cases)} cases")
    # A condition of rank 0 chooses a whole case.
    return broadcast(ramet.select(values.operand(which), values.operand(cases[1]), values.operand(cases[0])),
                     result_shape(equation))


@primitive("convert_element_type")
def convert(values, equation, a):
    dtype = equation.params["new_dtype"].name
    return a if ramet.dtype(dtype) == a.dtype else ramet.cast(a, dtype)


@primitive("reduce_precision")
def reduce_precision(values, equation, a):
    if (equation.params["exponent_bits"], equation.params["mantissa_bits"]) != (8, 23):
        raise Refusal("to other types than f32")
    return a


@primitive("stop_gradient")
def stop_gradient(values, equation, a):
    return ramet.stop_gradient(a)


# --- shapes ---


@primitive("broadcast_in_dim")
def broadcast_in_dim(values, equation, a, *dynamic):
    shape, dimensions = equation.params["shape"], equation.params["broadcast_dimensions"]
    here = [1] * len(shape)
    for axis, extent in zip(dimensions, shape_of(a)):
        here[axis] = extent
    return broadcast(a if shape_of(a) == tuple(here) else ramet.reshape(a, here), shape)


@primitive("reshape")
def reshape(values, equation, a, *dynamic):
    if equation.params.get("dimensions") is not None:
        raise Refusal("in another order of dimensions")
    return ramet.reshape(a, list(equation.params["new_sizes"]))


@primitive("squeeze", "expand_dims")
def squeeze(values, equation, a):
    return ramet.reshape(a, list(result_shape(equation)))


@primitive("transpose")
def transpose(values, equation, a):
    return ramet.transpose(a, list(equation.params["permutation"]))


@primitive("concatenate")
def concatenate(values, equation, *parts):
    return ramet.concat([values.tensor(each) for each in parts], equation.params["dimension"])


@primitive("split")
def split(values, equation, a):
    return ramet.split(a, list(equation.params["sizes"]), equation.params["axis"])


@primitive("slice")
def slice_of(values, equation, a):
    strides = equation.params["strides"] or [1] * len(shape_of(a))
    return ramet.slice(a, list(equation.params["start_indices"]), list(equation.params["limit_indices"]), list(strides))


@primitive("dynamic_slice")
def dynamic_slice(values, equation, a, *starts):
    if is_known(a) or not all(is_known(each) for each in starts):
        raise Refusal("whose start depends on data")
    sizes = equation.params["slice_sizes"]
    starts = [min(max(int(start), 0), extent - size) for start, extent, size in zip(starts, shape_of(a), sizes)]
    return ramet.slice(a, starts, [start + size for start, size in zip(starts, sizes)])


@primitive("pad")
def pad(values, equation, a, value):
    number = scalar_of(value)
    config = equation.params["padding_config"]
    if number is None or is_known(a) or any(interior for _, _, interior in config):
        raise Refusal("between elements, or by numbers that depend on data")
    padded = ramet.pad(a, [max(low, 0) for low, _, _ in config], [max(high, 0) for _, high, _ in config], float(number))
    if all(low >= 0 and high >= 0 for low, high, _ in config):
        return padded
    return ramet.slice(padded, [max(-low, 0) for low, _, _ in config],
                       [extent - max(-high, 0) for extent, (_, high, _) in zip(shape_of(padded), config)])


@primitive("rev")
def reverse(values, equation, a):
    return ramet.flip(a, list(equation.params["dimensions"]))


# --- along an axis ---


def extreme_index(op):
    def make(values, equation, a):
        if len(equation.params["axes"]) != 1:
            raise Refusal("over several axes")
        index = op(a, equation.params["axes"][0])
        dtype = equation.params["index_dtype"]
        return index if dtype.name == "int32" else ramet.cast(index, dtype.name)
    return make


TABLE["argmax"], TABLE["argmin"] = extreme_index(ramet.argmax), extreme_index(ramet.argmin)


def running(op):
    def make(values, equation, a):
        axis = equation.params["axis"]
        if not equation.params["reverse"]:
            return op(a, axis)
        return ramet.flip(op(ramet.flip(a, [axis]), axis), [axis])
    return make


TABLE.update(cumsum=running(ramet.cumsum), cumprod=running(ramet.cumprod),
             cummax=running(lambda a, axis: ramet.cummax(a, axis)[0]),
             cummin=running(lambda a, axis: ramet.cummin(a, axis)[0]))


@primitive("sort")
def sort(values, equation, *operands):
    axis = equation.params["dimension"]
    if len(operands) == 1:
        return [ramet.sort(operands[0], axis)[0]]
    if len(operands) != 2 or equation.params["num_keys"] != 1 or not is_numbering(operands[1], axis):
        raise Refusal("of several arrays together")
    return list(ramet.sort(operands[0], axis))


def is_numbering(value, axis):
    """Whether a known value counts 0, 1, 2, ... along an axis, as jnp.argsort sorts together with its argument."""
    if not is_known(value) or value.dtype.name != "int32":
        return False
    shape = [1] * value.ndim
    shape[axis] = value.shape[axis]
    return bool((value == np.arange(value.shape[axis]).reshape(shape)).all())


@primitive("top_k")
def top_k(values, equation, a):
    axis = equation.params.get("axis", len(shape_of(a)) - 1)
    return ramet.top_k(a, equation.params["k"], axis)
