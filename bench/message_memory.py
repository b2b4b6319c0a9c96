"""Planned memory of a training step of each network for graphs, and of messages of one's own, on one graph: which of them have tensors of
edges x features at the peak. Nothing is run.

    PYTHONPATH=build/python python bench/message_memory.py
    PYTHONPATH=build/python python bench/message_memory.py --edges 1000000
"""
import argparse
import re

import numpy as np

import ramet
from ramet import graphs


def made(nodes, edges, seed=0):
    """A random graph in which each edge goes in both directions, with all that any network reads."""
    draw = np.random.default_rng(seed)
    half = draw.integers(0, nodes, (2, edges // 2))
    edge_index = np.concatenate([half, half[::-1]], 1)
    distance = draw.random(edges // 2, "f4") + 0.5
    return graphs.GraphSet.of([{"node.x": draw.random((nodes, 64), "f4"), "node.kind": draw.integers(0, 5, nodes), "node.y": draw.integers(0, 2, nodes),
                                "edge_index": edge_index, "edge.weight": np.ones(edges, "f4"), "edge.bond": np.ones((edges, 4), "f4"),
                                "edge.distance": np.concatenate([distance, distance]), "graph.size": np.float32(draw.random())}
                               for draw in (np.random.default_rng(seed), np.random.default_rng(seed + 1))])


def network(kind, data, width):
    options = graphs.GraphNetOptions(kind, hidden=width // 8 if kind in ("gat", "gatv2") else width, heads=8, dropout=0.0)
    if kind in ("gine", "mpnn", "gps"):
        options.edge_features = ["edge.bond"]
    if kind == "schnet":
        options.features, options.label = ["node.kind"], "graph.size"
    return graphs.graph_net(options, data)


def own(nodes, edges, width):
    m = ramet.ModelBuilder("own")
    graph, x = graphs.Graph(m, nodes, edges), m.input("x", "f32", [1, nodes, width])
    of_target, of_source = (ramet.matmul(x, m.weight(name, [width, width], ramet.Init.fan_in())) for name in ("to", "of"))
    sums = graph.sum(ramet.relu(graph.of_targets(of_target) + graph.of_sources(of_source)))
    m.loss(ramet.reduce_mean(sums * sums))
    return m.build()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10000)
    parser.add_argument("--edges", type=int, default=100000)
    parser.add_argument("--width", type=int, default=64)
    args = parser.parse_args()
    data = made(args.nodes, args.edges)
    whole = args.edges * args.width * 4 / 2**20
    print(f"{args.nodes} nodes, {args.edges} edges, {args.width} features: a tensor of edges x features has {whole:.1f} MiB")
    print("| messages | device memory, MiB | buffers of at least edges x features at the peak |\n| --- | --- | --- |")
    for kind in ("own", *graphs.graph_net_kinds()):
        model = own(args.nodes, args.edges, args.width) if kind == "own" else network(kind, data, args.width)
        plan = ramet.plan(model, time=False)
        large = [float(size) for size in re.findall(r"^ *([\d.]+) MiB  activations", plan.text, re.M)]
        print(f"| {kind} | {plan.device_bytes[0] / 2**20:.1f} | {sum(size > 0.99 * whole for size in large)} |", flush=True)


if __name__ == "__main__":
    main()
