"""Batches of one shape: which columns of a data set a module takes, the order of samples, and padding to the first batch's shape."""

import inspect
import random
from collections.abc import Mapping

import numpy
import torch

from ramet.errors import Error, ShapeError

# Inputs that may be padded at the end of their last dimension, with the number that pads them. `pad` is the tokenizer's.
_PADS = {"input_ids": "pad", "other_input_ids": "pad", "decoder_input_ids": "pad", "attention_mask": 0, "other_attention_mask": 0,
         "decoder_attention_mask": 0, "token_type_ids": 0, "other_token_type_ids": 0, "special_tokens_mask": 1, "position_ids": 0}
LABELS = ("labels", "start_positions", "end_positions", "next_sentence_label", "sentence_order_label")


def tensors_of(batch, what):
    """The batch as a dictionary of tensors; raises an error for anything else."""
    if not hasattr(batch, "items"):
        raise Error("the data collator gave something else than a dictionary", what, type(batch).__name__, "a dictionary of tensors",
                    "Pass Trainer a data_collator that returns a dictionary")
    tensors = {}
    for name, value in batch.items():
        if value is None:
            continue
        if not isinstance(value, torch.Tensor):
            value = numpy.asarray(value)
            if value.dtype == object or value.dtype.kind in "US":
                raise Error(f"input {name} is not a tensor", what, str(type(batch[name]).__name__), "a tensor or an array of numbers",
                            f"Remove the column {name}, or turn it into numbers")
            value = torch.from_numpy(numpy.ascontiguousarray(value))
        tensors[name] = value
    return tensors


def rows_of(batch):
    """The number of samples: the first extent of any tensor that has dimensions."""
    return next(value.shape[0] for value in batch.values() if value.dim())


class FixedShapes:
    """The shapes of one sample, taken from the first batch. Shorter batches are padded to them."""

    def __init__(self, batch, pad_id=0):
        self.shapes = {name: tuple(value.shape[1:]) for name, value in batch.items()}
        self.dtypes = {name: value.dtype for name, value in batch.items()}
        self.pad_id = pad_id if pad_id is not None else 0

    def fit(self, batch):
        """The batch with these shapes, padded at the end of the last dimension. Raises ShapeError where padding is not exact."""
        if set(batch) != set(self.shapes):
            raise ShapeError("a batch has other inputs than the first batch", "Trainer", ", ".join(sorted(batch)), ", ".join(sorted(self.shapes)),
                             "Let the data collator return the same inputs for every batch")
        return {name: self._padded(name, value.to(self.dtypes[name]), batch) for name, value in batch.items()}

    def _padded(self, name, value, batch):
        found, expected = tuple(value.shape[1:]), self.shapes[name]
        if found == expected:
            return value
        sizes = f"{list(found)} a sample"
        if len(found) == len(expected) and found[:-1] == expected[:-1] and len(found) <= 2:
            if found[-1] > expected[-1]:
                raise ShapeError(f"input {name} of a batch is longer than in the first batch", "Trainer", sizes, f"{list(expected)} a sample",
                                 'Pad every batch to one length: DataCollatorWithPadding(tokenizer, padding="max_length", max_length=N), '
                                 'or tokenizer(..., padding="max_length", truncation=True, max_length=N)')
            pad = self._pad(name, batch)
            if pad is not None:
                return torch.nn.functional.pad(value, (0, expected[-1] - found[-1]), value=pad)
        raise ShapeError(f"input {name} of a batch has another shape than in the first batch", "Trainer", sizes, f"{list(expected)} a sample",
                         "Programs have one shape: resize, crop or pad every sample to it")

    def _pad(self, name, batch):
        """The number that pads an input, or None where padding would change the result."""
        if name in ("labels", "label_ids"):
            return -100 if not self.dtypes[name].is_floating_point else None
        if name not in _PADS:
            return None
        mask = name.replace("input_ids", "attention_mask")
        if name.endswith("input_ids") and not name.startswith("decoder") and mask not in batch:
            return None
        return self.pad_id if _PADS[name] == "pad" else _PADS[name]


def columns_of(module, label_names):
    """The names that the module's forward takes, and those of labels; None: forward takes any name."""
    parameters = inspect.signature(module.forward).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters) and not hasattr(module, "config"):
        return None
    return {parameter.name for parameter in parameters} | {"label", "label_ids"} | set(label_names)


def without_unused(dataset, columns):
    """The data set without the columns that the module does not take, and their names. A data set that names no columns stays."""
    names = getattr(dataset, "column_names", None)
    if not isinstance(names, list):
        return dataset, []
    unused = [name for name in names if name not in columns]
    _check_used(names, unused, columns)
    return (dataset.remove_columns(unused) if unused else dataset), unused


def only_columns(collate, columns):
    """A collator of samples without the entries that the module does not take, as transformers makes it for lists and data sets
    of torch."""
    def kept(sample):
        if not isinstance(sample, Mapping):
            return sample
        unused = [name for name in sample if name not in columns]
        _check_used(sample, unused, columns)
        return {name: value for name, value in sample.items() if name in columns} if unused else sample

    return lambda samples: collate([kept(sample) for sample in samples])


def _check_used(names, unused, columns):
    if len(unused) == len(names):
        raise Error("no column of the data set is an input of the model", "Trainer", ", ".join(names), ", ".join(sorted(columns)),
                    "Rename the columns, or tokenize the texts first; with remove_unused_columns=False the collator gets them")


def _seeded(seed, function):
    """Calls a function with random numbers of this seed, and leaves the generators of torch, NumPy and Python as they were."""
    state, python_state = numpy.random.get_state(), random.getstate()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        numpy.random.seed(seed % 2**32)
        random.seed(seed)
        try:
            return function()
        finally:
            numpy.random.set_state(state)
            random.setstate(python_state)


class _Batches(torch.utils.data.Dataset):
    """Gives the batch of (number, indices): samples and collator draw random numbers that depend on (seed, number) alone, so neither
    workers nor a restart changes a batch."""

    def __init__(self, dataset, collate, seed):
        self.dataset, self.collate, self.seed = dataset, collate, seed

    def __getitem__(self, key):
        number, indices = key
        return _seeded(self.seed + 1000003 * number, lambda: self.collate(self._rows(indices)))

    def _rows(self, indices):
        many = getattr(self.dataset, "__getitems__", None)
        return many(indices) if many is not None else [self.dataset[index] for index in indices]


class Loader:
    """Batches of `rows` samples. Training (`seed` and `epoch` given) shuffles, and drops the last incomplete batch; otherwise the
    order is that of the data set, and the last batch may be smaller."""

    def __init__(self, dataset, collate, rows, seed, shuffle=False, drop_last=False, workers=None):
        self.dataset, self.collate, self.rows, self.seed = dataset, collate, rows, seed
        self.shuffle, self.drop_last, self.workers = shuffle, drop_last, workers or {}

    @property
    def sized(self):
        return hasattr(self.dataset, "__len__") and not isinstance(self.dataset, torch.utils.data.IterableDataset)

    def __len__(self):
        if not self.sized:
            raise TypeError("an iterable data set has no length")
        return len(self.dataset) // self.rows if self.drop_last else -(-len(self.dataset) // self.rows)

    def epoch(self, epoch=0, skip=0):
        """The batches of an epoch without the first `skip`."""
        if not self.sized:
            yield from self._streamed(epoch, skip)
            return
        order = self._order(epoch)
        keys = [(epoch * 2**20 + i, order[i * self.rows:(i + 1) * self.rows]) for i in range(skip, len(self))]
        yield from torch.utils.data.DataLoader(_Batches(self.dataset, self.collate, self.seed), batch_size=None, sampler=keys,
                                               collate_fn=_same, **self.workers)

    def _order(self, epoch):
        """The order that the trainer of transformers takes with the same seed."""
        if not self.shuffle:
            return list(range(len(self.dataset)))
        return torch.randperm(len(self.dataset), generator=torch.Generator().manual_seed(self.seed + epoch)).tolist()

    def _streamed(self, epoch, skip):
        if hasattr(self.dataset, "set_epoch"):
            self.dataset.set_epoch(epoch)
        kept, number = [], 0
        for sample in self.dataset:
            kept.append(sample)
            if len(kept) == self.rows:
                if number >= skip:
                    yield _seeded(self.seed + 1000003 * (epoch * 2**20 + number), lambda: self.collate(kept))
                kept, number = [], number + 1
        if kept and not self.drop_last:
            yield _seeded(self.seed + 1000003 * (epoch * 2**20 + number), lambda: self.collate(kept))


def _same(batch):
    return batch
