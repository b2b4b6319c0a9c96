"""Trains PyTorch Geometric's SchNet on molecules, and prints the mean absolute error of the held-out ones as one JSON object.

    python bench/peers/torch_schnet.py --set qm9.safetensors --epochs 30 --column 4 --seed 1

Sizes, batches and the optimizer are those of scripts/graphs.py, which has smaller ones than examples/schnet-qm9.toml; the
graph set, its distances and its split are the same file. The network's first weights are PyTorch Geometric's.
"""

import json

import torch
from torch_geometric.nn.models import SchNet

from torch_graph_train import Graphs
from torch_molecules import learn, parser_of
from torch_tools import begin

HARTREE = 27.211386246  # eV


def main():
    parser = parser_of(__doc__, epochs=30, layers=3, hidden=64, rate=5e-4, warmup=500)
    parser.add_argument("--gaussians", type=int, default=25)
    parser.add_argument("--cutoff", type=float, default=10)
    parser.add_argument("--column", type=int, default=4, help="of the targets")
    args = begin(parser)
    graphs = Graphs(args.set)
    edges = {}
    model = SchNet(args.hidden, args.hidden, args.layers, args.gaussians, args.cutoff,
                   interaction_graph=lambda pos, batch: (edges["edge_index"], edges["edge.distance"]))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.rate, betas=(0.9, 0.999), fused=True)

    def answers(numbers):
        batch = graphs.batch(numbers)
        edges.update(batch)
        return model(batch["node.z"].long(), batch["node.pos"], batch["batch"])[:, 0]

    apart, told = learn(model, optimizer, answers, graphs, args, args.column)
    print(json.dumps({"absolute": apart.abs().mean().item() * HARTREE, **told}))


if __name__ == "__main__":
    main()
