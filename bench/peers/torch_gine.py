"""Trains PyTorch Geometric's GINEConv on molecules, and prints the squared error of the held-out ones as one JSON object.

    python bench/peers/torch_gine.py --set esol/molecules.safetensors --epochs 100 --seed 1

The network, the batches' size and the optimizer are those of examples/gine-esol.toml; the graph set is the same file, with
its split.
"""

import json

import torch
from torch_geometric.nn import BatchNorm, GINEConv, global_mean_pool

from torch_graph_train import Graphs
from torch_molecules import EDGES, NODES, categories, learn, one_hot, parser_of
from torch_tools import begin


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


def main():
    args = begin(parser_of(__doc__, epochs=100, layers=4, hidden=128, rate=1e-3, warmup=100))
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
