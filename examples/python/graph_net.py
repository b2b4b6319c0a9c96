"""A network of the library on graphs of one's own: it learns which rings have a shortcut.

    python examples/python/graph_net.py
    python examples/python/graph_net.py pna "r=2"
"""
import sys

import numpy as np

import ramet
from ramet import graphs


def rings(count, seed=0):
    """Each graph is a ring, or a ring in which one edge has moved and made a shortcut."""
    draw, made = np.random.default_rng(seed), []
    for g in range(count):
        nodes, moved = int(draw.integers(6, 14)), g % 2
        ends = np.array([(i, i + 1) for i in range(nodes - 1)] + [(nodes - 1, 2 * moved)]).T
        edge_index = np.concatenate([ends, ends[::-1]], 1)
        made.append({"node.degree": np.bincount(edge_index[1], minlength=nodes)[:, None].astype(np.float32), "edge_index": edge_index,
                     "graph.y": np.int32(moved), "graph.split": np.int32(g % 10 >= 8)})
    return graphs.GraphSet.of(made)


def main(kind="gin", layout="", steps=100):
    data = rings(400)
    options = graphs.GraphNetOptions(kind, features=["node.degree"], label="graph.y", split="graph.split", train="0", held_out="1",
                                     batch="count:16", dropout=0.0)
    batches = ramet.Data.graphs(options, data)
    training = ramet.Training(graphs.graph_net(options, data), train=batches, held_out=batches.held_out(),
                              schedule=ramet.Schedule(learning_rate=1e-2), micro_batches=2, lanes=2, steps=steps, layout=layout)
    accuracy = training.fit().last_evaluation["accuracy"]
    answers = graphs.graph_answers(training, options, data)
    print(f"{kind}: accuracy {accuracy:.2%} of {len(answers['graph'])} graphs held out, weights {training.weights_hash()}")
    return accuracy


if __name__ == "__main__":
    main(*sys.argv[1:])
