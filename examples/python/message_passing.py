"""A network on graphs with a message of its own: each node learns how many of its neighbours are of another colour.

    python examples/python/message_passing.py
    python examples/python/message_passing.py "t=2"
"""
import sys

import numpy as np

import ramet
import ramet.graphs

NODES, EDGES, COLOURS, WIDTH = 200, 1200, 3, 32


def layer(m, graph, x, name):
    """The message of an edge is the ReLU of a layer on both of its nodes; a node sums its messages."""
    width = x.shape[-1]
    to, of = (m.weight(f"{name}.{each}", [WIDTH, width], ramet.Init.fan_in()) for each in ("target", "source"))
    targets = ramet.matmul(x, to, transpose_b=True) + m.weight(f"{name}.bias", [WIDTH])
    message = ramet.relu(graph.of_targets(targets) + graph.of_sources(ramet.matmul(x, of, transpose_b=True)))
    return graph.sum(message)


def build():
    m = ramet.ModelBuilder("colours")
    graph = ramet.graphs.Graph(m, NODES, EDGES)
    colours = m.input("colours", "i32", [1, NODES], low=0, high=COLOURS - 1)
    wanted = m.input("wanted", "f32", [1, NODES, 1])
    x = layer(m, graph, ramet.one_hot(colours, COLOURS), "layer")
    found = ramet.linear(x, m.weight("out", [1, WIDTH], ramet.Init.fan_in()), m.weight("out.bias", [1]))
    m.loss(ramet.mse_loss(found, wanted))
    m.output("found", found)
    return m.build()


def graphs(count, seed=0):
    """Random graphs as arrays: a sample is a graph."""
    draw, made = np.random.default_rng(seed), []
    for _ in range(count):
        edges = draw.integers(0, NODES, (2, draw.integers(EDGES // 2, EDGES)))
        colours = draw.integers(0, COLOURS, NODES)
        arrays, _ = ramet.graphs.lists(edges, NODES, EDGES)
        others = np.bincount(edges[1], colours[edges[0]] != colours[edges[1]], NODES)
        made.append(arrays | {"colours": colours[None].astype(np.int32), "wanted": others[None, :, None].astype(np.float32)})
    return {name: np.concatenate([arrays[name] for arrays in made]) for name in made[0]}


def main(layout="", steps=300):
    training = ramet.Training(build(), train=ramet.Data.arrays(graphs(64)), held_out=ramet.Data.arrays(graphs(8, 1)),
                              optimizer=ramet.AdamW(), schedule=ramet.Schedule(kind="cosine", learning_rate=1e-2), steps=steps,
                              layout=layout)
    result = training.fit()
    print(f"held-out loss {result.last_evaluation['loss']:.4f}, weights {training.weights_hash()}")
    return result.last_evaluation["loss"]


if __name__ == "__main__":
    main(*sys.argv[1:])
