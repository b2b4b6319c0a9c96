"""Times a training step of a network on graphs in PyTorch Geometric and prints one JSON object: median step seconds, peak
memory, and the memory that the interpreter and the libraries took before there was a model.

    python bench/peers/torch_graph_train.py --kind gcn --set cora.safetensors --lists sparse
    python bench/peers/torch_graph_train.py --kind schnet --set qm9.safetensors --batch 128 --compile

The graphs are those of a graph set that `ramet graphs prepare` wrote, with its weights of edges and distances, so nothing
of them is computed in a step. Batches are put together before the first step. With --compile all batches have the room
of the largest: padding is nodes of a graph of their own, so shapes are static. --lists sparse gives layers the adjacency
as a sparse matrix in rows, for which PyTorch Geometric has products; --lists edges gives them sorted lists of edges.
"""

import argparse
import json
import os
import statistics
import time

import torch
from safetensors import safe_open
from torch import nn
from torch.nn import functional
from torch_geometric import nn as geometric
from torch_geometric.nn.models import SchNet

from torch_tools import all_is_imported, memory

TRAIN, VALIDATION, TEST = 0, 1, 2  # values of a set's splits


class Graphs:
    """The tensors of a graph set."""

    def __init__(self, path):
        with safe_open(path, "pt") as file:
            self.fields = {name: file.get_tensor(name) for name in file.keys()}
        self.node_ptr, self.edge_ptr = self.fields["node.ptr"], self.fields["edge.ptr"]
        self.index = self.fields["edge.index"].long()
        self.count = len(self.node_ptr) - 1

    def batch(self, graphs):
        """Nodes, edges and the graph of each node."""
        nodes = torch.cat([torch.arange(self.node_ptr[g], self.node_ptr[g + 1]) for g in graphs])
        edges = torch.cat([torch.arange(self.edge_ptr[g], self.edge_ptr[g + 1]) for g in graphs])
        sizes = (self.node_ptr[1:] - self.node_ptr[:-1])[graphs]
        first = torch.cumsum(sizes, 0) - sizes
        offset = torch.repeat_interleave(first, (self.edge_ptr[1:] - self.edge_ptr[:-1])[graphs])
        made = {"edge_index": self.index[:, edges] + offset, "batch": torch.repeat_interleave(torch.arange(len(graphs)), sizes)}
        for name, field in self.fields.items():
            kind, _, name = name.partition(".")
            if name in ("ptr", "index", ""):
                continue
            made[f"{kind}.{name}"] = field[nodes if kind == "node" else edges if kind == "edge" else graphs]
        return made


def padded(batches, cutoff):
    """Batches of one shape: more nodes in a graph of their own, and edges of the last of these nodes to itself, as long as
    the cutoff."""
    nodes = max(len(batch["batch"]) for batch in batches) + 1
    edges = max(batch["edge_index"].shape[1] for batch in batches)
    graphs = max(int(batch["batch"].max()) for batch in batches) + 2
    made = []
    for batch in batches:
        more_nodes, more_edges = nodes - len(batch["batch"]), edges - batch["edge_index"].shape[1]
        new = {"edge_index": torch.cat([batch["edge_index"], torch.full((2, more_edges), nodes - 1)], 1),
               "batch": torch.cat([batch["batch"], torch.full((more_nodes,), graphs - 1)])}
        for name, field in batch.items():
            more = {"node": more_nodes, "edge": more_edges, "grap": graphs - len(field)}.get(name[:4])
            if "." in name:
                filler = cutoff if name == "edge.distance" else 0
                new[name] = torch.cat([field, field.new_full((more, *field.shape[1:]), filler)])
        made.append(new)
    return made


class Convolutions(nn.Module):
    """GCN, GraphSAGE or GAT: layers with dropout in front of each."""

    def __init__(self, kind, width, classes, args):
        super().__init__()
        sizes = [width] + [args.hidden] * (args.layers - 1) + [classes]
        self.attention, self.dropout, self.convs = kind == "gat", args.dropout, nn.ModuleList()
        for i, (size, out) in enumerate(zip(sizes, sizes[1:])):
            last = i + 2 == len(sizes)
            if kind == "gcn":
                self.convs.append(geometric.GCNConv(size, out, normalize=False, add_self_loops=False))
            elif kind == "sage":
                self.convs.append(geometric.SAGEConv(size, out))
            else:
                self.convs.append(geometric.GATConv(size * (args.heads if i else 1), out, 1 if last else args.heads,
                                                    dropout=args.attention_dropout, add_self_loops=False))
        self.weighted = kind == "gcn"

    def forward(self, x, edge_index, weight):
        for conv in self.convs:
            x = functional.dropout(x, self.dropout, self.training)
            x = conv(x, edge_index, weight) if self.weighted and weight is not None else conv(x, edge_index)
            if conv is not self.convs[-1]:
                x = functional.elu(x) if self.attention else x.relu()
        return x


class Isomorphism(nn.Module):
    def __init__(self, width, classes, args):
        super().__init__()
        def between(size):
            return nn.Sequential(nn.Linear(size, args.hidden), nn.BatchNorm1d(args.hidden), nn.ReLU(),
                                 nn.Linear(args.hidden, args.hidden), nn.BatchNorm1d(args.hidden), nn.ReLU())

        sizes = [width] + [args.hidden] * args.layers
        self.convs = nn.ModuleList(geometric.GINConv(between(size), train_eps=True) for size in sizes[:-1])
        self.linears = nn.ModuleList(nn.Linear(size, classes) for size in sizes)

    def forward(self, x, edge_index, batch, graphs: int):
        answer = self.linears[0](geometric.global_add_pool(x, batch, graphs))
        for conv, linear in zip(self.convs, self.linears[1:]):
            x = conv(x, edge_index)
            answer = answer + linear(geometric.global_add_pool(x, batch, graphs))
        return answer


class Attention(nn.Module):
    """GPS: GPSConv around GINEConv, with positions beside the features of nodes."""

    def __init__(self, width, args, edge_width, positions):
        super().__init__()
        size, part = args.hidden, 16
        def two():
            return nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, size))

        self.node_emb, self.pe_norm, self.pe_lin = nn.Linear(width, size - part), nn.BatchNorm1d(positions), nn.Linear(positions, part)
        self.convs = nn.ModuleList(geometric.GPSConv(
            size, geometric.GINEConv(two(), train_eps=True, edge_dim=edge_width), heads=args.heads, dropout=args.dropout,
            attn_kwargs={"dropout": args.attention_dropout}) for _ in range(args.layers))
        self.mlp = nn.Sequential(nn.Linear(size, size // 2), nn.ReLU(), nn.Linear(size // 2, size // 4), nn.ReLU(), nn.Linear(size // 4, 1))

    def forward(self, x, edge_index, features, positions, batch, graphs: int):
        x = torch.cat([self.node_emb(x), self.pe_lin(self.pe_norm(positions))], 1)
        for conv in self.convs:
            x = conv(x, edge_index, batch, edge_attr=features)
        return self.mlp(geometric.global_add_pool(x, batch, graphs))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=["gcn", "sage", "gat", "gin", "gps", "schnet"], required=True)
    parser.add_argument("--set", required=True, help="graph set")
    parser.add_argument("--batch", type=int, default=1, help="graphs of a batch")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=16)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--dropout", type=float, default=0)
    parser.add_argument("--attention-dropout", type=float, default=0)
    parser.add_argument("--gaussians", type=int, default=50)
    parser.add_argument("--cutoff", type=float, default=10)
    parser.add_argument("--column", type=int, default=4, help="of the targets (schnet, gps)")
    parser.add_argument("--lists", choices=["edges", "sparse"], default="edges")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--batches", type=int, default=16, help="different batches, which take turns")
    return parser.parse_args()


def adjacency(batch, weight):
    """Row i holds the sources of the edges that end in node i."""
    index, nodes = batch["edge_index"], len(batch["batch"])
    values = torch.ones(index.shape[1]) if weight is None else weight
    return torch.sparse_coo_tensor(index.flip(0), values, (nodes, nodes)).coalesce().to_sparse_csr()


def node_features(batch):
    if "node.x" in batch:
        return batch["node.x"].float()
    return functional.one_hot(batch["node.label"].long()).float()


def make_step(args, graphs):
    """The model, and a function from a batch to its loss."""
    fields = graphs.fields
    if args.kind == "schnet":
        now = {}
        model = SchNet(args.hidden, args.hidden, args.layers, args.gaussians, args.cutoff,
                       interaction_graph=lambda pos, batch: (now["edge_index"], now["edge.distance"]))
        y = fields["graph.y"][:, args.column].double()
        mean, deviation = float(y.mean()), float(y.std())

        def loss_of(run, batch):
            now.update(batch)
            found = run(batch["node.z"].long(), batch["node.pos"], batch["batch"])
            target = (batch["graph.y"][:, args.column] - mean) / deviation
            return functional.mse_loss(found[:len(target), 0], target.float())

        return model, loss_of
    if args.kind == "gps":
        width = int(fields["node.z"].max()) + 1
        model = Attention(width, args, 1, fields["node.returns"].shape[1])
        y = fields["graph.y"][:, args.column].double()
        mean, deviation = float(y.mean()), float(y.std())

        def loss_of(run, batch):
            x = functional.one_hot(batch["node.z"].long(), width).float()
            found = run(x, batch["lists"], batch["edge.distance"].reshape(-1, 1), batch["node.returns"], batch["batch"], len(batch["graph.y"]))
            target = (batch["graph.y"][:, args.column] - mean) / deviation
            return functional.mse_loss(found[:, 0], target.float())

        return model, loss_of
    if args.kind == "gin":
        width = int(fields["node.label"].max()) + 1
        model = Isomorphism(width, int(fields["graph.y"].max()) + 1, args)

        def loss_of(run, batch):
            x = functional.one_hot(batch["node.label"].long(), width).float()
            found = run(x, batch["lists"], batch["batch"], len(batch["graph.y"]))
            return functional.cross_entropy(found, batch["graph.y"].long())

        return model, loss_of
    model = Convolutions(args.kind, fields["node.x"].shape[1], int(fields["node.y"].max()) + 1, args)

    def loss_of(run, batch):
        found = run(batch["node.x"], batch["lists"], None if args.lists == "sparse" else batch.get("edge.weight"))
        labels = batch["node.y"].long()
        if "node.split" in batch:
            labels = torch.where(batch["node.split"] == TRAIN, labels, -100)
        return functional.cross_entropy(found, labels)

    return model, loss_of


def main():
    args = parse()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    graphs = Graphs(args.set)
    order = torch.randperm(graphs.count)
    batches = [graphs.batch(order[i * args.batch:(i + 1) * args.batch]) for i in range(min(args.batches, graphs.count // args.batch))]
    if args.compile and args.batch > 1:
        batches = padded(batches, args.cutoff)
    for batch in batches:
        batch["lists"] = adjacency(batch, batch.get("edge.weight")) if args.lists == "sparse" else batch["edge_index"]
    all_is_imported()
    model, loss_of = make_step(args, graphs)
    run = torch.compile(model, dynamic=False) if args.compile else model
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

    def step(batch):
        loss = loss_of(run, batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    seconds = []
    for number in range(args.warmup + args.steps):
        batch = batches[number % len(batches)]
        start = time.perf_counter()
        loss = step(batch)
        if number >= args.warmup:
            seconds.append(time.perf_counter() - start)
    print(json.dumps({
        "peer": f"torch {torch.__version__}" + (" compiled" if args.compile else " eager") + f", {args.lists}",
        "step_seconds": statistics.median(seconds), "step_seconds_min": min(seconds), "step_seconds_max": max(seconds),
        **memory(), "loss": loss.item(), "load_average": os.getloadavg()[0],
    }))


if __name__ == "__main__":
    main()
