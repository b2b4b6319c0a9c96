"""Values of a walk: ramet.Tensors, and NumPy's arrays for what is known while the model is built."""
import numpy as np

import ramet


def is_known(value):
    return isinstance(value, np.ndarray)


def scalar_of(value):
    """The number that all elements of a known value are; None when there is none."""
    if not is_known(value) or value.size == 0:
        return None
    first = value.reshape(-1)[0]
    return first.item() if value.size == 1 or (value == first).all() else None


class Values:
    """Makes tensors of known values."""

    def __init__(self, builder):
        self.builder = builder

    def tensor(self, value):
        if not is_known(value):
            return value
        number = scalar_of(value)
        if number is not None:
            return self.builder.full(value.dtype.name, list(value.shape), number)
        return self.builder.constant(np.ascontiguousarray(value))

    def operand(self, value):
        """The same for an op that broadcasts: of one number only, where all are equal."""
        number = scalar_of(value)
        return self.tensor(value) if number is None else self.builder.full(value.dtype.name, [], number)


def shape_of(value):
    return tuple(value.shape)


def broadcast(value, shape):
    return value if shape_of(value) == tuple(shape) else ramet.broadcast_to(value, list(shape))
