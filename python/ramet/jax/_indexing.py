"""gather: elements and slices at indices."""
import ramet

from ._refusal import Refusal
from ._values import shape_of


def gather(values, equation, a, indices):
    a, indices = values.tensor(a), values.tensor(indices)
    numbers, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
    if any(sizes[axis] != 1 for axis in numbers.start_index_map) or \
            set(numbers.start_index_map) - set(numbers.collapsed_slice_dims):
        raise Refusal("of slices longer than one element along an indexed axis")
    whole = [axis for axis in range(a.ndim) if axis not in (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)]
    if any(sizes[axis] != shape_of(a)[axis] for axis in whole) or \
            set(numbers.collapsed_slice_dims) != set(numbers.start_index_map):
        raise Refusal("of parts of an axis that has no index")
    if len(numbers.start_index_map) == 1 and not numbers.operand_batching_dims:
        return select(equation, numbers, a, indices, whole)
    return coordinates(equation, numbers, a, indices, whole)


def arranged(made, kept, offsets):
    """Results whose first `kept` dimensions are those of the indices and whose others are whole axes, in JAX's order."""
    order = [None] * made.ndim
    for place, axis in enumerate(offsets):
        order[axis] = kept + place
    rest = iter(range(kept))
    order = [next(rest) if axis is None else axis for axis in order]
    return made if order == list(range(made.ndim)) else ramet.transpose(made, order)


def select(equation, numbers, a, indices, whole):
    """a[..., indices, ...]."""
    axis = numbers.start_index_map[0]
    kept = indices.ndim - 1
    rows = ramet.reshape(indices, list(shape_of(indices)[:-1]))
    # The indexed axis first: the results then begin with the dimensions of the indices.
    first = a if axis == 0 else ramet.transpose(a, [axis, *whole])
    return arranged(ramet.index_select(first, rows, 0), kept, numbers.offset_dims)


def coordinates(equation, numbers, a, indices, whole):
    """a[i, j] by several indices, and the same for each of shared dimensions (take_along_axis)."""
    shared, theirs = list(numbers.operand_batching_dims), list(numbers.start_indices_batching_dims)
    others = [axis for axis in range(indices.ndim - 1) if axis not in theirs]
    a = ramet.transpose(a, [*shared, *numbers.start_index_map, *whole])
    order = [*theirs, *others]
    indices = ramet.transpose(indices, [*order, indices.ndim - 1])
    made = ramet.gather_nd(a, indices, len(shared))
    # Back to the order in which the indices had their dimensions.
    kept = len(order)
    back = [order.index(axis) for axis in range(kept)] + list(range(kept, made.ndim))
    made = made if back == list(range(made.ndim)) else ramet.transpose(made, back)
    return arranged(made, kept, numbers.offset_dims)
