"""What the loaders of graphs of one type and of several types share."""

import numpy as np

from ramet.errors import UnsupportedOp


def padded(rows, count, fill, dtype=None):
    """Rows and, behind them, `fill` up to `count` rows; of the type of the rows, unless another is given."""
    made = np.full((count, *rows.shape[1:]), fill, dtype or rows.dtype)
    made[:len(rows)] = rows
    return made


class Epochs:
    """An endless sequence of epochs; each iteration is the next one. A loader has `batches(epoch)` and `batch(epoch, number)`."""

    def __init__(self, others):
        """`others`: arguments that the loader has no name for, which are refused."""
        if others:
            raise UnsupportedOp("options that this loader does not have", where=type(self).__name__, found=", ".join(others),
                                remedy="Batches are made by Ramet in this process: leave options of PyTorch's workers out")
        self.epoch = self.skipped = self.trimmed = 0

    def set_epoch(self, epoch):
        """The next iteration is this epoch."""
        self.epoch = epoch

    def __iter__(self):
        epoch, self.epoch = self.epoch, self.epoch + 1
        for number in range(self.batches(epoch)):
            yield self.batch(epoch, number)

    def __len__(self):
        return self.batches(self.epoch)

    def _check_number(self, epoch, number):
        if not 0 <= number < self.batches(epoch):
            raise IndexError(f"batch {number} of {self.batches(epoch)}")
