"""What is compiled: a module with its loss, and the number of items that the loss is a mean over."""

import torch
from torch import nn

from ramet.errors import Error

# Classes whose loss is a mean over the labels that are not -100, from the position in `labels` where the loss begins.
_TOKEN_LOSSES = {"ForCausalLM": 1, "LMHeadModel": 1, "ForMaskedLM": 0, "ForTokenClassification": 0, "ForConditionalGeneration": 0, "MTModel": 0}


def first_item(module):
    """The first position of `labels` that counts in the module's loss, or None: the loss is no mean over tokens."""
    name = type(module).__name__
    return next((first for suffix, first in _TOKEN_LOSSES.items() if name.endswith(suffix)), None)


def ignores_labels(module, batch):
    """Whether samples whose labels are -100 add nothing to the loss of this module of transformers."""
    labels = batch.get("labels")
    if labels is None or labels.is_floating_point() or not type(module).__module__.startswith("transformers."):
        return False
    name = type(module).__name__
    if name.endswith("ForSequenceClassification") or name.endswith("ForImageClassification"):
        return module.config.num_labels > 1 and labels.dim() == 1
    return first_item(module) is not None or name.endswith("ForMultipleChoice")


class Objective(nn.Module):
    """Returns a dictionary: `loss`; `losses`, the loss once for each sample (a compiled prediction returns no scalars); `items`, where the
    loss is a mean over tokens; and the module's other outputs.

    `smoothing` is label smoothing as in transformers. `compute_loss(outputs, labels, num_items_in_batch=None)` replaces the
    module's loss, and the module gets no labels, as in transformers; it is traced, so it must be made of tensor operations."""

    def __init__(self, module, smoothing=0.0, compute_loss=None, ignored=()):
        super().__init__()
        self.module, self.smoothing, self.compute_loss = module, smoothing, compute_loss
        self.ignored, self.first = frozenset(ignored), first_item(module)

    def forward(self, **batch):
        returned = self.module(**{name: value for name, value in batch.items() if name != "labels" or self.compute_loss is None})
        outputs = dict(returned) if hasattr(returned, "items") else _named(returned)
        found = {name: value for name, value in outputs.items() if isinstance(value, torch.Tensor) and name not in self.ignored}
        loss = self._loss(returned, outputs, batch)
        found.pop("loss", None)
        if loss is None:
            return found
        found["loss"] = loss if loss.dim() == 0 else loss.mean()
        found["losses"] = found["loss"].expand(len(next(iter(batch.values()))))
        if self.counts_items(batch):
            found["items"] = (batch["labels"][:, self.first:] != -100).sum().to(torch.float32)
        return found

    def counts_items(self, batch):
        """Whether there is an output `items`."""
        labels = batch.get("labels")
        return self.first is not None and self.compute_loss is None and labels is not None and labels.dim() == 2

    def _loss(self, returned, outputs, batch):
        if self.compute_loss is not None:
            return self.compute_loss(returned, batch.get("labels"), num_items_in_batch=None)
        if self.smoothing and "labels" in batch:
            return self._smoothed(outputs, batch["labels"])
        return outputs.get("loss")

    def _smoothed(self, outputs, labels):
        """(1 - s) * cross entropy + s * mean over classes of -log p, over the labels that are not -100."""
        logits = outputs.get("logits")
        if logits is None:
            raise Error("label smoothing needs the output logits", "Trainer", ", ".join(outputs), "", "Set label_smoothing_factor=0")
        first = self.first or 0
        if first:
            logits = logits[:, :-first]
        labels = labels[:, first:] if labels.dim() > 1 else labels
        scores = -torch.log_softmax(logits.to(torch.float32), dim=-1)
        kept = (labels != -100).to(scores.dtype)
        chosen = scores.gather(-1, labels.clamp(min=0)[..., None])[..., 0]
        smooth = scores.mean(-1)
        return (((1 - self.smoothing) * chosen + self.smoothing * smooth) * kept).sum() / kept.sum()


def _named(outputs):
    """The outputs of a module that returns a tuple (`return_dict=False`) or a tensor. Its loss stands first."""
    outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    first = outputs[0] if outputs else None
    has_loss = isinstance(first, torch.Tensor) and first.dim() == 0 and first.is_floating_point()
    return {"loss" if i == 0 and has_loss else f"output_{i}": value for i, value in enumerate(outputs)}
