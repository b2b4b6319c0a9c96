"""What the loaders of graphs of one type and of several types share."""

import numpy as np

from ramet.errors import ShapeError, UnsupportedOp

# Options of the loaders of PyTorch and PyTorch Geometric, with values by which they ask for what these loaders do anyway.
AS_ALWAYS = {"num_workers": (0,), "pin_memory": (False,), "drop_last": (False,), "persistent_workers": (False,), "timeout": (0,),
             "follow_batch": (None, [], ()), "collate_fn": (None,), "worker_init_fn": (None,), "prefetch_factor": (None,),
             "generator": (None,), "sampler": (None,), "batch_sampler": (None,), "multiprocessing_context": (None,),
             "collater_args": (None,), "replace": (False,), "directed": (True,), "subgraph_type": ("directional",),
             "disjoint": (False,), "input_time": (None,), "time_attr": (None,), "weight_attr": (None,), "transform": (None,),
             "transform_sampler_output": (None,), "filter_per_worker": (None, False), "is_sorted": (False,)}


def padded(rows, count, fill, dtype=None):
    """Rows and, behind them, `fill` up to `count` rows; of the type of the rows, unless another is given."""
    made = np.full((count, *rows.shape[1:]), fill, dtype or rows.dtype)
    made[:len(rows)] = rows
    return made


class Epochs:
    """An endless sequence of epochs; each iteration is the next one. A loader has `batches(epoch)` and `batch(epoch, number)`."""

    def __init__(self, others):
        """`others`: arguments that the loader has no name for. Those that would change something are refused."""
        others = [key for key, value in others.items() if not any(value is each or value == each for each in AS_ALWAYS.get(key, ()))]
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

    def _check_room(self, batch_size):
        """Refuses batches of whole graphs with no room for one, or with other room than the options have."""
        if batch_size < 2:
            raise ShapeError("a batch without a real graph", where=f"FixedSizeDataLoader(batch_size={batch_size})", expected="2 or more",
                             remedy="batch_size counts the graph of padding: for one graph a batch give 2")
        if self.fixed_size_options and self.fixed_size_options.num_graphs != batch_size:
            raise ShapeError("a batch size that is not the room for graphs", where="FixedSizeDataLoader", found=str(batch_size),
                             expected=f"num_graphs of the fixed_size_options, {self.fixed_size_options.num_graphs}")

    def _check_number(self, epoch, number):
        if not 0 <= number < self.batches(epoch):
            raise IndexError(f"batch {number} of {self.batches(epoch)}")
