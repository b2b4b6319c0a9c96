"""Trains PyTorch Geometric's GATConv, GCNConv or SAGEConv on the nodes of one graph, and prints the accuracy of the test
nodes at the lowest loss of validation as one JSON object.

    python bench/peers/torch_nodes.py --set citeseer.safetensors --kind gat --seed 1

The graph set is the file that Ramet reads, with its self loops, weights of edges and split. What is not given is as in the
rows of scripts/graphs.py for GAT.
"""

import argparse
import json

import torch
from torch.nn import functional

from torch_graph_train import TEST, TRAIN, VALIDATION, Convolutions, Graphs
from torch_tools import begin


def parser_of_nodes():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", required=True, help="graph set")
    parser.add_argument("--kind", choices=["gat", "gcn", "sage"], default="gat")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=8)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--dropout", type=float, default=0.6)
    parser.add_argument("--attention-dropout", type=float, default=0.6)
    parser.add_argument("--rate", type=float, default=0.005)
    parser.add_argument("--decay", type=float, default=5e-4, help="of all weights, as a part of the gradient")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--every", type=int, default=5, help="steps from one evaluation to the next")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    return parser


def main():
    args = begin(parser_of_nodes())
    graph = Graphs(args.set).batch([0])
    x, labels = graph["node.x"].float(), graph["node.y"].long()
    train, validation, test = (graph["node.split"] == part for part in (TRAIN, VALIDATION, TEST))
    model = Convolutions(args.kind, x.shape[1], int(labels.max()) + 1, args)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.rate, weight_decay=args.decay, fused=True)

    def answers():
        return model(x, graph["edge_index"], graph.get("edge.weight"))

    best = None
    for step in range(1, args.steps + 1):
        model.train()
        loss = functional.cross_entropy(answers()[train], labels[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % args.every:
            continue
        model.eval()
        with torch.no_grad():
            found = answers()
        held_out = functional.cross_entropy(found[validation], labels[validation]).item()
        right = (found[test].argmax(1) == labels[test]).float().mean().item()
        if best is None or held_out < best[0]:
            best = (held_out, right, step)
    print(json.dumps({"accuracy": best[1], "validation_loss": best[0], "step": best[2], "peer": f"torch {torch.__version__}"}))


if __name__ == "__main__":
    main()
