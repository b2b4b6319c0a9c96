"""A module as a file that the `ramet` program trains without Python."""

import fnmatch
import json
import re

import torch

from ramet.errors import Error

from . import _export
from ._compile import source_of_inference, source_of_training
from ._options import Options

VERSION = 1
# Keys of a recipe, of options of an optimizer that have another name there.
OPTIMIZER_KEYS = {"alpha": "beta2"}
GROUP_KEYS = ("weight_decay", "beta1", "beta2", "epsilon", "momentum")


def save(path, module, example, loss=None, optimizer=None, options=None):
    """Writes a .pt2 file: torch.export's own file of the training program, with the evaluation program and what Ramet reads
    beside it. `loss` as for training_model; "none": for prediction alone. Without an optimizer all parameters that require
    a gradient are trained. `optimizer` (with its groups and the learning rates that it has now) and `options` are what a
    recipe with the file trains by, where the recipe itself says nothing."""
    if options is not None and not isinstance(options, Options):
        raise Error("no options", where="options", found=type(options).__name__, expected="ramet.torch.Options(...)")
    given, options = options, options or Options()
    source = source_of_inference(module, example, options) if loss == "none" else \
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
        "seed": options.seed,
    }
    extra = {"ramet.json": json.dumps(about, indent=1)}
    if source.training:
        extra["ramet_evaluation.json"] = _export.text_of(source.evaluation.exported)
        keys = (_of_options(options) if given or source.plan else {}) | (_of_plan(source) if source.plan else {})
        if keys:
            extra["ramet_recipe.toml"] = "".join(f"{key} = {_toml(value)}\n" for key, value in keys.items())
    torch.export.save((source.training or source.evaluation).exported, path, extra_files=extra)


def _of_options(options):
    """Keys of a recipe that mean what the options mean."""
    keys = {
        "train.accumulation": options.micro_batches, "train.lanes": options.lanes, "train.chunks": options.chunks,
        "train.precision": options.precision, "train.clip_norm": float(options.max_grad_norm or 0), "train.seed": options.seed,
        "train.loss_scale": "auto" if options.loss_scale is None else float(options.loss_scale),
        "train.loss_mean": "micro" if options.loss_mean is None else "step", "train.optimizer.state": options.moments,
        "train.optimizer.in_backward": options.update_in_backward,
    }
    return keys | ({"layout": options.layout} if options.layout else {})


def _of_plan(source):
    """The same of the optimizer, with its groups where they differ, or where biases shrink as other weights do."""
    plan = source.plan
    options, rates = dict(plan.options), plan.rates()
    kind = "centered_rmsprop" if options.pop("centered", False) else plan.kind.kind
    keys = {"train.optimizer.kind": kind}
    keys |= {f"train.optimizer.{OPTIMIZER_KEYS.get(name, name)}": value for name, value in options.items()}
    first = rates["group0"]
    keys |= {"train.schedule.kind": "constant", "train.schedule.learning_rate": first}
    groups = []
    for group in plan.groups:
        if not (weights := [name for name in group.weights if name in source.trained]):
            continue
        differ = {name: group.options[name] for name in GROUP_KEYS
                  if name in group.options and (group.options[name] != options.get(name) or name == "weight_decay" and group.options[name])}
        if rates[group.name] != first:
            differ |= {"rate": rates[group.name] / first} if first else {"learning_rate": rates[group.name]}
        if differ:
            groups.append({"name": group.name, "weights": _patterns(weights, source.trained), **differ})
    return keys | ({"train.groups": groups} if groups else {})


def _patterns(weights, all_weights):
    """Few patterns that name exactly these weights: numbers of layers become "*" where all layers are of one group."""
    others = set(all_weights) - set(weights)
    if not others:
        return ["*"]
    found = {}
    for name in weights:
        pattern = re.sub(r"(^|\.)\d+(?=\.)", r"\1*", name)
        found[name if any(fnmatch.fnmatchcase(other, pattern) for other in others) else pattern] = None
    return list(found)


def _toml(value):
    """A value as TOML writes it in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    return json.dumps(value)
