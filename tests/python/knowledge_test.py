"""Models of knowledge graphs from Python: training, ranks, questions, and messages along paths."""
import pathlib
import tempfile
import unittest

import numpy as np

import ramet
from ramet import graphs

ENTITIES = 30
# Entity i leads to i + 1 by relation 0, and to i + 3 by relation 1.
RING = np.array([(i, relation, (i + 1 + 2 * relation) % ENTITIES) for i in range(ENTITIES) for relation in (0, 1)])


def options(function="rotate", **more):
    return graphs.KnowledgeOptions(function, ENTITIES, 2, **({"width": 8, "margin": 3, "temperature": 0.5, "deviation": 0.3, "micro_batch": 4,
                                                             "group": 8, "negatives": 12, "top": 3, "seed": 5} | more))


def trained(own, steps=200, known=None, **more):
    training = ramet.Training(graphs.knowledge_model(own), train=ramet.Data.triples(own, RING, known), optimizer=ramet.Adam(),
                              schedule=ramet.Schedule(learning_rate=0.05), threads=1, **more)
    return training, [training.step().loss for _ in range(steps)]


class Knowledge(unittest.TestCase):
    def test_learns_ranks_and_answers(self):
        for shards in (1, 4):
            own = options(shards=shards).with_room_for_ranks(RING)
            training, losses = trained(own)
            self.assertLess(losses[-1], losses[0] / 2)
            ranks = graphs.knowledge_ranks(training, own, RING)
            self.assertEqual((ranks["tails"].shape, ranks["heads"].shape), ((60,), (60,)))
            both = np.concatenate([ranks["tails"], ranks["heads"]])
            self.assertAlmostEqual(ranks["mrr"], np.mean(1 / both))
            self.assertAlmostEqual(ranks["hits@3"], np.mean(both <= 3))
            self.assertAlmostEqual(ranks["mean_rank"], np.mean(both))
            self.assertGreater(ranks["mrr"], 0.8)
            entities, scores = graphs.knowledge_answers(training, own, [[4, 1, -1], [-1, 0, 12]])
            self.assertEqual((entities.shape, scores.shape), ((2, 3), (2, 3)))
            self.assertEqual(entities[:, 0].tolist(), [7, 11])
            self.assertTrue((np.diff(scores) <= 0).all())

    def test_every_function_and_loss_takes_steps(self):
        for function in graphs.score_functions():
            losses = trained(options(function), steps=3)[1]
            self.assertTrue(np.isfinite(losses).all(), function)
        self.assertIn("interht", graphs.score_functions())
        for loss in ("log-sigmoid", "margin", "softmax", "all"):
            for subsampling in (False, True):
                losses = trained(options("distmult", loss=loss, margin=1, subsampling=subsampling), steps=60)[1]
                self.assertLess(losses[-1], losses[0], loss)

    def test_a_predictor_answers_from_saved_weights_and_layouts_have_the_same_bits(self):
        own = options(shards=4).with_room_for_ranks(RING)
        training = trained(own, steps=20)[0]
        self.assertEqual(trained(own, steps=20, layout="g=2")[0].weights_hash(), training.weights_hash())
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "weights.safetensors"
            training.save_weights(path)
            predictor = ramet.Predictor(graphs.knowledge_model(own), path, programs=["predict", "rank"])
        for mine, other in zip(graphs.knowledge_answers(predictor, own, RING * [1, 1, 0] - [0, 0, 1]),
                               graphs.knowledge_answers(training, own, RING * [1, 1, 0] - [0, 0, 1])):
            np.testing.assert_array_equal(mine, other)
        self.assertEqual(graphs.knowledge_ranks(predictor, own, RING)["mrr"], graphs.knowledge_ranks(training, own, RING)["mrr"])

    def test_errors_say_what_to_do(self):
        with self.assertRaisesRegex(ramet.Error, "unknown score function"):
            graphs.knowledge_model(options("rotat"))
        with self.assertRaisesRegex(ramet.Error, "triple 1: a triple has an entity that there is not; found 30"):
            ramet.Data.triples(options(), [[0, 1, 2], [3, 1, 30]])
        with self.assertRaisesRegex(ramet.Error, "with_room_for_ranks"):
            graphs.knowledge_ranks(trained(options(), steps=1)[0], options(), [[4, 0, 5]], [[4, 0, 6], [4, 0, 7]])
        with self.assertRaisesRegex(ramet.ShapeError, "numbers of another type"):
            ramet.Data.triples(options(), np.zeros((4, 3), "f4"))


class Paths(unittest.TestCase):
    def test_messages_along_paths_agree_with_numpy(self):
        random = np.random.default_rng(3)
        nodes, relations, width = 6, 3, 4
        edges, kinds = random.integers(0, nodes, (2, 14)), random.integers(0, relations, 14)
        m = ramet.ModelBuilder("paths")
        graph = graphs.RelationGraph(m, nodes, 20)
        own, x, rows = (m.input(name, "f32", [1, count, width]) for name, count in (("own", nodes), ("x", nodes), ("rows", relations)))
        rows = rows * m.weight("scale", [width], ramet.Init.ones())
        m.output("sum", graph.sum(own, x, rows))
        sums, squares, most, least = graph.statistics(own, x, rows, "rotation")
        for name, value in (("sums", sums), ("squares", squares), ("most", most), ("least", least), ("counts", graph.counts())):
            m.output(name, value)
        m.loss(ramet.reduce_mean(sums * sums))
        feeds = graphs.relation_lists(edges, kinds, nodes, 20)
        for name, count in (("own", nodes), ("x", nodes), ("rows", relations)):
            feeds[name] = random.normal(size=(1, count, width)).astype("f4")
        found = ramet.Predictor(m.build(), threads=1).predict(feeds)
        own, x, rows = feeds["own"][0], feeds["x"][0], feeds["rows"][0]
        half = width // 2
        turned = (x[:, :half] + 1j * x[:, half:])[edges[0]] * (rows[:, :half] + 1j * rows[:, half:])[kinds]
        turned = np.concatenate([turned.real, turned.imag], axis=1)
        for node in range(nodes):
            into = edges[1] == node
            np.testing.assert_allclose(found["sum"][0, node], own[node] + (x[edges[0]] * rows[kinds])[into].sum(0), rtol=1e-5, atol=1e-6)
            messages = np.concatenate([own[node][None], turned[into]])
            for name, expected in (("sums", messages.sum(0)), ("squares", (messages ** 2).sum(0)), ("most", messages.max(0)),
                                   ("least", messages.min(0))):
                np.testing.assert_allclose(found[name][0, node], expected, rtol=1e-5, atol=1e-5)
            self.assertEqual(found["counts"][0, node, 0], 1 + into.sum())


if __name__ == "__main__":
    unittest.main()
