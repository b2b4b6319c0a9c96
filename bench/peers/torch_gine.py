"""Trains PyTorch Geometric's GINEConv on molecules, and prints the squared error of the held-out ones as one JSON object.

    python bench/peers/torch_gine.py --set esol/molecules.safetensors --epochs 100 --seed 1

The network, the batches' size and the optimizer are those of examples/gine-esol.toml; the graph set is the same file, with
its split.
"""

import argparse
import json

import torch
from torch_geometric.nn import BatchNorm, GINEConv, global_mean_pool

from torch_graph_train import Graphs
from torch_molecules import EDGES, NODES, categories, learn, one_hot


class Network(torch.nn.Module):
    """Layers of messages with norms, the mean of the atoms, and a dense layer on it."""

    def __init__(self, features, edge_features, hidden, layers):
        super().__init__()
        widths = [features] + [hidden] * layers
        self.convs = torch.nn.ModuleList(
            GINEConv(torch.nn.Sequential(torch.nn.Linear(before, after), torch.nn.ReLU(), torch.nn.Linear(after, after)),
                     train_eps=True, edge_dim=edge_features) for before, after in zip(widths, widths[1:]))
        self.norms = torch.nn.ModuleList(BatchNorm(hidden) for _ in range(layers))
        self.head = torch.nn.Linear(hidden, 1)

    def forward(self, x, edges, edge_features, graph_of_node, graphs):
        for conv, norm in zip(self.convs, self.norms):
            x = norm(conv(x, edges, edge_features)).relu()
        return self.head(global_mean_pool(x, graph_of_node, graphs))[:, 0]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", required=True, help="graph set that `ramet molecules` wrote")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def main():
    args = parse()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    graphs, sizes = Graphs(args.set), categories(args.set)
    model = Network(sum(sizes[f"node.{name}"] for name in NODES), sum(sizes[f"edge.{name}"] for name in EDGES), args.hidden, args.layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.rate, betas=(0.9, 0.999), fused=True)

    def answers(numbers):
        batch = graphs.batch(numbers)
        return model(one_hot(batch, "node", NODES, sizes), batch["edge_index"], one_hot(batch, "edge", EDGES, sizes), batch["batch"],
                     len(numbers))

    apart, told = learn(model, optimizer, answers, graphs, args)
    print(json.dumps({"squared": (apart ** 2).mean().item(), **told}))


if __name__ == "__main__":
    main()
