"""Writes the samples of programs in this folder, as torch.export.save writes models/model.json.

    python tests/samples/front/make_samples.py

The texts lack what the importer does not read (strides, devices, where nodes come from).
"""

import io
import json
import os
import zipfile

import torch
from torch import nn
from torch._export.serde.serialize import ExportedProgramSerializer, _dataclass_to_dict, EnumEncoder

HERE = os.path.dirname(os.path.abspath(__file__))


@torch.library.custom_op("ramet::stop_gradient", mutates_args=())
def stop_gradient(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@stop_gradient.register_fake
def _(x):
    return torch.empty_like(x)


class Mlp(nn.Module):
    """Two layers of one class, tied weights, statistics of every kind, a stopped gradient."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.layers[2].weight = self.layers[0].weight
        self.frozen = nn.Parameter(torch.ones(4), requires_grad=False)
        self.unused = nn.Parameter(torch.ones(4))
        self.register_buffer("steps", torch.tensor(0))
        self.register_buffer("running", torch.zeros(4))
        self.register_buffer("latest", torch.zeros(4))
        self.register_buffer("memory", torch.zeros(4))
        self.register_buffer("offsets", torch.arange(4.0))

    def forward(self, x, target):
        y = self.first(x)
        for layer in self.layers:
            y = layer(y).clamp(min=0) + self.offsets * self.frozen
        mean = stop_gradient(y.mean(0))
        with torch.no_grad():
            self.steps += 1
            self.running.mul_(0.9).add_(mean, alpha=0.1)
            self.latest.copy_(mean)
            self.memory.copy_(self.memory * 0.5 + mean)
        y = y + self.memory
        return {"loss": (y - target).pow(2).mean(), "logits": y.view(-1)}


class Operators(nn.Module):
    """Operators of many kinds, for tests of what breaks them."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        y = torch.einsum("bi,ij->bj", x, self.weight)
        mask = torch.arange(4)[None, :] <= torch.arange(4)[:, None]
        y = torch.where(mask, self.weight, torch.zeros(())) @ y.t()
        a, b = y.t().chunk(2, -1)
        y = torch.cat([b, a, torch.full((2, 2), 0.5)], 1).flip(0).roll(1, 1)
        y = torch.nn.functional.pad(y, (1, 1), mode="reflect").clamp(-1, 1) / 3 + y.mean(0).sum() ** 2
        z = y.unfold(1, 2, 2).permute(2, 0, 1).reshape(2, -1).var(1).max()
        return z + (y[:, 1:-1].abs().log1p().amax(1).std() + y.tril().norm()).float()


def cleaned(program):
    """The text of a program without what the importer does not read, and without paths of this machine."""
    serialized = ExportedProgramSerializer(None, None).serialize(program)
    text = json.loads(json.dumps(_dataclass_to_dict(serialized.exported_program), cls=EnumEncoder))
    graph = text["graph_module"]["graph"]
    for value in graph["tensor_values"].values():
        for key in ("strides", "storage_offset", "device", "requires_grad"):
            value.pop(key, None)
    for node in graph["nodes"]:
        for key in ("from_node", "torch_fn"):
            node["metadata"].pop(key, None)
        trace = node["metadata"].get("stack_trace", "")
        node["metadata"]["stack_trace"] = trace.replace(HERE, "/home/user").replace(
            os.path.dirname(os.path.dirname(torch.__file__)), "/usr/lib/python3/site-packages")
        for key in ("is_hop_single_tensor_return", "name"):
            node.pop(key, None)
    for call in text["graph_module"]["module_call_graph"][1:]:
        text["graph_module"]["module_call_graph"].remove(call)
    for key in ("metadata", "treespec_namedtuple_fields"):
        text["graph_module"].pop(key, None)
    return json.dumps(text, indent=0) + "\n"


def export(module, example):
    return torch.export.export(module, example).run_decompositions({})


def write(name, module, example):
    with open(os.path.join(HERE, name + ".json"), "w") as file:
        file.write(cleaned(export(module, example)))


def write_pt2(name, module, example):
    """A file of torch.export.save with its program cleaned, and without what no importer reads."""
    program, saved = export(module, example), io.BytesIO()
    torch.export.save(program, saved)
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(os.path.join(HERE, name + ".pt2"), "w") as new:
        for entry in old.namelist():
            if entry.endswith("models/model.json"):
                new.writestr(zipfile.ZipInfo(entry), cleaned(program))
            elif "data/weights/" in entry or "data/constants/" in entry or entry.endswith("byteorder"):
                new.writestr(zipfile.ZipInfo(entry), old.read(entry))


torch.manual_seed(0)
EXAMPLE = (torch.randn(2, 3), torch.randn(2, 4))
write("mlp_training", Mlp().train(), EXAMPLE)
write("mlp_evaluation", Mlp().eval(), EXAMPLE)
write("operators", Operators(), (torch.randn(2, 4),))
write_pt2("mlp", Mlp().train(), EXAMPLE)
