"""Times a training step of NBFNet's authors' code on PyTorch Geometric, and prints one JSON object: median step seconds, peak
and imported bytes. Run by bench/graphs.py.

    python bench/peers/nbfnet_pyg.py --code NBFNet-PyG --set fb237_v1.safetensors --steps 10 [--rspmm]

NBFNet-PyG is a clone of github.com/KiddoZhu/NBFNet-PyG. Two things stand in for what current releases have not: scatter of
torch_geometric.utils for torch_scatter's, which calls the same kernels of PyTorch on a CPU, and a direct call of a layer's own
message, aggregate and update for MessagePassing.propagate, whose inner names have changed. --rspmm takes the authors' fused
kernel, which a C++ compiler makes at first use. Negatives are drawn before the first step.
"""

import argparse
import json
import statistics
import sys
import time
import types

import torch
import torch_geometric.utils
from safetensors import safe_open
from torch_tools import all_is_imported, memory


def load_code(path):
    scatter = types.ModuleType("torch_scatter")
    scatter.scatter = lambda src, index, dim=-1, dim_size=None, reduce="sum": torch_geometric.utils.scatter(src, index, dim, dim_size, reduce)
    scatter.scatter_add = lambda src, index, dim=-1, dim_size=None: torch_geometric.utils.scatter(src, index, dim, dim_size, "sum")
    sys.modules["torch_scatter"] = scatter
    sys.path.insert(0, path)
    from nbfnet import layers, models, tasks  # pylint: disable=import-error,import-outside-toplevel
    return layers, models, tasks


def propagate_by(fused):
    def propagate(self, edge_index, size=None, *, input, relation, boundary, edge_type, edge_weight):  # pylint: disable=redefined-builtin
        index, nodes = edge_index[1], size[1]
        if fused:
            update = self.message_and_aggregate(edge_index, input, relation, boundary, edge_type, edge_weight, index, nodes)
        else:
            message = self.message(input.index_select(1, edge_index[0]), relation, boundary, edge_type)
            update = self.aggregate(message, edge_weight, index, nodes)
        return self.update(update, input)
    return propagate


class Graph:
    """What the authors' code asks of a Data."""

    def __init__(self, edge_index, edge_type, num_nodes):
        self.edge_index, self.edge_type, self.num_nodes = edge_index, edge_type, num_nodes

    @property
    def num_edges(self):
        return len(self.edge_type)


def graph_of(path):
    """The triples of the part to train on, and both directions of each as edges."""
    with safe_open(path, "pt") as file:
        schema = json.loads(file.metadata()["ramet.graphs"])
        edges, relation, split = (file.get_tensor(name).long() for name in ("edge.index", "edge.relation", "edge.split"))
        nodes = int(file.get_tensor("node.ptr")[-1])
    values = {field["name"]: field["values"] for field in schema["fields"] if field.get("values")}
    relations = len(values["relation"])
    train = split == values["split"].index("train")
    edges, relation = edges[:, train], relation[train]
    data = Graph(torch.cat([edges, edges.flip(0)], dim=1), torch.cat([relation, relation + relations]), nodes)
    return data, torch.stack([edges[0], edges[1], relation], dim=1), relations


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--code", required=True)
    parser.add_argument("--set", required=True)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rspmm", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    layers, models, tasks = load_code(args.code)
    layers.GeneralizedRelationalConv.propagate = propagate_by(args.rspmm)
    if args.rspmm:
        from nbfnet import rspmm  # noqa: F401  pylint: disable=import-error,import-outside-toplevel,unused-import
    all_is_imported()
    data, triples, relations = graph_of(args.set)
    model = models.NBFNet(32, [32] * 6, 2 * relations, short_cut=True, layer_norm=True, dependent=True, remove_one_hop=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, fused=True)
    batches = [tasks.negative_sampling(data, triples[torch.randperm(len(triples))[:args.batch]], 32) for _ in range(args.steps + 2)]

    def step(batch):
        pred = model(data, batch)
        target = torch.zeros_like(pred)
        target[:, 0] = 1
        loss = torch.nn.functional.binary_cross_entropy_with_logits(pred, target, reduction="none")
        weight = torch.ones_like(pred)
        with torch.no_grad():
            weight[:, 1:] = torch.softmax(pred[:, 1:] / 0.5, dim=-1)
        loss = ((loss * weight).sum(dim=-1) / weight.sum(dim=-1)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    seconds = []
    for batch in batches:
        start = time.perf_counter()
        step(batch)
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"step_seconds": statistics.median(seconds[2:]), **memory()}))


if __name__ == "__main__":
    main()
