"""Products and convolutions."""
import string

import ramet

from ._refusal import Refusal


def dot_general(values, equation, a, b):
    (left, right), (left_batch, right_batch) = equation.params["dimension_numbers"]
    letters = iter(string.ascii_letters)
    a, b = values.tensor(a), values.tensor(b)
    names_a, names_b = [None] * a.ndim, [None] * b.ndim
    batch = ""
    for i, j in zip(left_batch, right_batch):
        names_a[i] = names_b[j] = next(letters)
        batch += names_a[i]
    for i, j in zip(left, right):
        names_a[i] = names_b[j] = next(letters)
    free = ""
    for names in (names_a, names_b):
        for axis, name in enumerate(names):
            if name is None:
                names[axis] = next(letters)
                free += names[axis]
    made = ramet.einsum(f"{''.join(names_a)},{''.join(names_b)}->{batch}{free}", [a, b])
    wanted = equation.outvars[0].aval.dtype.name
    return made if ramet.dtype(wanted) == made.dtype else ramet.cast(made, wanted)


def convolution(values, equation, a, b):
    params = equation.params
    if any(extent != 1 for extent in params["lhs_dilation"]):
        raise Refusal("of an input with gaps (a transposed convolution)")
    if params["batch_group_count"] != 1:
        raise Refusal("with groups of samples")
    if any(low < 0 or high < 0 for low, high in params["padding"]):
        raise Refusal("with negative padding")
    order = params["dimension_numbers"]
    a = ramet.transpose(values.tensor(a), list(order.lhs_spec))
    b = ramet.transpose(values.tensor(b), list(order.rhs_spec))
    made = ramet.convolution(a, b, strides=list(params["window_strides"]), dilations=list(params["rhs_dilation"]),
                             low=[low for low, _ in params["padding"]], high=[high for _, high in params["padding"]],
                             groups=params["feature_group_count"])
    back = sorted(range(made.ndim), key=lambda axis: order.out_spec[axis])
    return ramet.transpose(made, back)
