"""Trains PyTorch Geometric's GPSConv on molecules, and prints the squared error of the held-out ones as one JSON object.

    python bench/peers/torch_gps.py --set esol/molecules.safetensors --epochs 50 --seed 1

The network, its first weights' distributions, the batches' size and the optimizer are those of examples/gps-esol.toml; the
graph set is the same file, with its split.
"""

import json

import torch

from torch_graph_train import Attention, Graphs
from torch_molecules import EDGES, NODES, categories, learn, one_hot, parser_of
from torch_tools import begin


def main():
    parser = parser_of(__doc__, epochs=100, layers=4, hidden=64, rate=1e-3, warmup=100)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--attention-dropout", type=float, default=0.1)
    args = begin(parser)
    graphs, sizes = Graphs(args.set), categories(args.set)
    positions = [name for name in ("node.returns", "node.laplacian") if name in graphs.fields]
    model = Attention(sum(sizes[f"node.{name}"] for name in NODES), args, sum(sizes[f"edge.{name}"] for name in EDGES),
                      sum(graphs.fields[name].shape[1] for name in positions))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.rate, betas=(0.9, 0.999), weight_decay=1e-5, fused=True)

    def answers(numbers):
        batch = graphs.batch(numbers)
        where = torch.cat([batch[name] for name in positions], 1)
        return model(one_hot(batch, "node", NODES, sizes), batch["edge_index"], one_hot(batch, "edge", EDGES, sizes), where,
                     batch["batch"], len(numbers))[:, 0]

    apart, told = learn(model, optimizer, answers, graphs, args, clip_norm=1)
    print(json.dumps({"squared": (apart ** 2).mean().item(), **told}))


if __name__ == "__main__":
    main()
