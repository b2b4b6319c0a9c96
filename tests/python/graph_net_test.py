"""Networks of the library that read graphs, from Python."""
import importlib.util
import pathlib
import tempfile
import unittest

import numpy as np

import ramet
from ramet import graphs

ROOT = pathlib.Path(__file__).resolve().parents[2]


def rings(count=48):
    """Rings of 3 to 8 nodes, with all that any network reads. The label is whether a ring has more than 5 nodes."""
    made = []
    for g in range(count):
        nodes = 3 + g * 5 % 6
        index = np.arange(nodes)
        edge_index = np.stack([np.concatenate([index, index]), np.concatenate([(index + 1) % nodes, (index - 1) % nodes])])
        kind, edges = (index + g) % 3, 2 * nodes
        made.append({"node.x": np.stack([kind, np.ones(nodes)], 1).astype("f4"), "node.kind": kind, "node.colour": (kind == 1).astype("i4"),
                     "edge_index": edge_index, "edge.weight": np.full(edges, 0.5, "f4"), "edge.distance": np.full(edges, 1.25, "f4"),
                     "edge.bond": np.stack([edge_index.sum(0) % 2, np.ones(edges)], 1).astype("f4"), "graph.y": np.int64(nodes > 5),
                     "graph.size": np.float32(nodes), "graph.split": np.uint8(g % 4 == 3)})
    return graphs.GraphSet.of(made)


def options(kind, **more):
    own = {"hidden": 8, "heads": 2, "dropout": 0.0, "batch": "count:8", "seed": 3, "label": "graph.y"}
    if kind in ("gine", "mpnn", "gps"):
        own["edge_features"] = ["edge.bond"]
    if kind == "schnet":
        own |= {"features": ["node.kind"], "label": "graph.size", "cutoff": 3.0, "gaussians": 8}
    return graphs.GraphNetOptions(kind, **(own | more))


def trained(own, data, steps, **more):
    training = ramet.Training(graphs.graph_net(own, data), train=ramet.Data.graphs(own, data), optimizer=ramet.Adam(),
                              schedule=ramet.Schedule(learning_rate=0.01), threads=1, **more)
    return training, [training.step().loss for _ in range(steps)]


class GraphNets(unittest.TestCase):
    def test_every_kind_learns_and_answers(self):
        data = rings()
        self.assertEqual(len(graphs.graph_net_kinds()), 12)
        for kind in graphs.graph_net_kinds():
            with self.subTest(kind=kind):
                own = options(kind)
                training, losses = trained(own, data, 120)
                self.assertLess(sum(losses[-6:]), 0.9 * sum(losses[:6]))
                answers = graphs.graph_answers(training, own, data)
                np.testing.assert_array_equal(answers["graph"], np.arange(48))
                if kind == "schnet":
                    np.testing.assert_array_equal(answers["targets"][:, 0], data.fields["graph.size"])
                    self.assertEqual(answers["values"].shape, (48, 1))
                else:
                    np.testing.assert_array_equal(answers["classes"], answers["logits"].argmax(1))
                    np.testing.assert_array_equal(answers["labels"], data.fields["graph.y"])
                    self.assertGreaterEqual((answers["classes"] == answers["labels"]).mean(), 0.5)

    def test_parts_layouts_and_saved_weights(self):
        data = rings(24)
        own = options("gin", split="graph.split", train="0", held_out="1")
        training, _ = trained(own, data, 5, held_out=ramet.Data.graphs(own, data).held_out())
        self.assertTrue(np.isfinite(training.evaluate()["loss"]))
        np.testing.assert_array_equal(graphs.graph_answers(training, own, data)["graph"], np.arange(3, 24, 4))
        self.assertEqual(trained(own, data, 5, layout="p=2")[0].weights_hash(), training.weights_hash())
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "weights.safetensors"
            training.save_weights(path)
            predictor = ramet.Predictor(graphs.graph_net(own, data), path, programs=["predict"])
        np.testing.assert_array_equal(graphs.graph_answers(predictor, own, data)["logits"],
                                      graphs.graph_answers(training, own, data)["logits"])

    def test_nodes_of_one_graph(self):
        data = rings(1)
        own = options("sage", label="node.colour", batch="count:1")
        training, losses = trained(own, data, 40)
        self.assertLess(losses[-1], losses[0])
        self.assertEqual(graphs.graph_answers(training, own, data)["node"].tolist(), [0, 1, 2])

    def test_errors_say_what_to_do(self):
        data = rings(8)
        for wrong, text in ((options("gnc"), "unknown network for graphs"), (options("gine", edge_features=[]), "gine reads features of edges"),
                            (options("gin", dropout=1.5), "model.graph.dropout"), (options("gin", label="graph.z"), "data.graphs.label")):
            with self.assertRaisesRegex(ramet.Error, text):
                graphs.graph_net(wrong, data)
        with self.assertRaises(TypeError):
            graphs.GraphNetOptions("gin", layer=3)

    def test_the_stubs_know_the_options(self):
        stub = pathlib.Path(ramet.__file__).with_name("_ramet.pyi")
        if not stub.is_file():
            self.skipTest("no stubs in this build")
        text = stub.read_text()
        self.assertIn("class GraphNetOptions", text)
        self.assertIn("edge_features: ", text)

    def test_the_example(self):
        spec = importlib.util.spec_from_file_location("graph_net", ROOT / "examples/python/graph_net.py")
        example = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(example)
        self.assertGreater(example.main(steps=60), 0.8)


if __name__ == "__main__":
    unittest.main()
