"""Writes the samples of programs in this folder, as torch.export.save writes models/model.json.

    python tests/samples/front/make_samples.py

The texts lack what the importer does not read (strides, devices, where nodes come from).
"""

import json
import os

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


def write(name, module, example):
    program = torch.export.export(module, example).run_decompositions({})
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
    for key in ("module_call_graph", "metadata", "treespec_namedtuple_fields"):
        text["graph_module"].pop(key, None)
    with open(os.path.join(HERE, name + ".json"), "w") as file:
        json.dump(text, file, indent=0)
        file.write("\n")


torch.manual_seed(0)
EXAMPLE = (torch.randn(2, 3), torch.randn(2, 4))
write("mlp_training", Mlp().train(), EXAMPLE)
write("mlp_evaluation", Mlp().eval(), EXAMPLE)
