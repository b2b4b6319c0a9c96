"""A module as a file that the `ramet` program trains without Python."""

import json

import torch

from . import _export
from ._compile import source_of_inference, source_of_training
from ._options import Options

VERSION = 1


def save(path, module, example, loss=None, optimizer=None, options=None):
    """Writes a .pt2 file: torch.export's own file of the training program, with the evaluation program and what Ramet reads
    beside it. `loss` as for training_model; "none": for prediction alone. Without an optimizer all parameters that require
    a gradient are trained."""
    options = options or Options()
    source = source_of_inference(module, example) if loss == "none" else \
        source_of_training(module, example, loss, optimizer, options)
    tensors = _export.tensors_of(source.module, {}, source.trained)
    about = {
        "version": VERSION,
        "name": type(source.module).__name__,
        "outputs": source.evaluation.outputs,
        "loss": source.loss,
        "loss_items": source.loss_items,
        "trained": sorted(source.trained),
        "storage": {name: storage for name, _, storage, _ in tensors if storage},
        "axes": [[pattern, list(axes)] for pattern, axes in options.axes.items()],
        "parts": list(options.parts),
        "optimizer": {"kind": source.plan.kind.kind, "lr": source.plan.rates()["group0"], **source.plan.options}
        if source.plan else None,
    }
    extra = {"ramet.json": json.dumps(about, indent=1)}
    if source.training:
        extra["ramet_evaluation.json"] = _export.text_of(source.evaluation.exported)
    torch.export.save((source.training or source.evaluation).exported, path, extra_files=extra)
