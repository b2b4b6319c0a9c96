"""Batches of graphs with several types: what is sampled, room, and bad input."""
import pathlib
import tempfile
import unittest

import numpy as np

import ramet
from ramet.hetero import HeteroGraph, HeteroNeighborLoader, hetero_of_set

SIZES = {"user": 50, "item": 80}
BUYS, LIKED = ("user", "buys", "item"), ("item", "liked", "user")


def drawn(seed=1):
    draw = np.random.default_rng(seed)
    edges = {BUYS: np.stack([draw.integers(0, 50, 400), draw.integers(0, 80, 400)]),
             LIKED: np.stack([draw.integers(0, 80, 300), draw.integers(0, 50, 300)])}
    fields = {each: {"id": np.arange(size, dtype=np.int32)} for each, size in SIZES.items()}
    return fields, edges


def loader(**options):
    fields, edges = drawn()
    made = {"fanout": {BUYS: [3, 2], LIKED: [2, 2]}, "seeds": ("item", np.arange(0, 80, 2)), "batch": 7,
            "labels": np.arange(80), **options}
    return HeteroNeighborLoader(fields, options.pop("edges", edges), **{name: made[name] for name in made if name != "edges"})


class Sampling(unittest.TestCase):
    def test_takes_so_many_edges_of_the_graph_into_each_node(self):
        fields, edges = drawn()
        known = {each: {tuple(pair) for pair in of.T} for each, of in edges.items()}
        into = {each: np.bincount(of[1], minlength=SIZES[each[2]]) for each, of in edges.items()}
        own = loader()
        seeds = []
        for i in range(own.batches):
            nodes, found = own.sample(i)
            count = min(7, 40 - 7 * i)
            seeds += list(nodes["item"][:count])
            for kind in SIZES:
                self.assertEqual(len(set(nodes[kind])), len(nodes[kind]))
            for each, (source, target) in found.items():
                source, target = nodes[each[0]][source], nodes[each[2]][target]
                self.assertTrue(all(pair in known[each] for pair in zip(source, target)))
            # The first hop: edges into the seeds.
            for place in range(count):
                self.assertEqual((found[BUYS][1] == place).sum(), min(3, into[BUYS][nodes["item"][place]]))
            self.assertEqual(len(nodes["user"]), len(set(nodes["user"])))
        self.assertEqual(sorted(seeds), list(range(0, 80, 2)))
        again = np.concatenate([own.sample(own.batches + i)[0]["item"][:min(7, 40 - 7 * i)] for i in range(own.batches)])
        self.assertEqual(sorted(again), sorted(seeds))
        self.assertNotEqual(list(again), seeds)

    def test_a_fan_out_of_minus_one_takes_all_edges(self):
        own = loader(fanout={BUYS: [-1, -1], LIKED: [-1, 2]})
        whole = loader(fanout={BUYS: [400, 400], LIKED: [300, 2]})
        into = {each: np.bincount(of[1], minlength=SIZES[each[2]]) for each, of in drawn()[1].items()}
        for i in range(own.batches):
            nodes, found = own.sample(i)
            for place in range(min(7, 40 - 7 * i)):
                self.assertEqual((found[BUYS][1] == place).sum(), into[BUYS][nodes["item"][place]])
            for each, of in whole.sample(i)[1].items():
                np.testing.assert_array_equal(found[each], of)

    def test_seeds_may_be_a_mask(self):
        by_mask, by_number = loader(seeds=("item", np.arange(80) % 2 == 0)), loader()
        for name, array in by_number.arrays(3).items():
            np.testing.assert_array_equal(by_mask.arrays(3)[name], array, name)
        with self.assertRaisesRegex(ValueError, r"mask of seeds is \[79\], and there are 80 nodes of 'item'"):
            loader(seeds=("item", np.ones(79, bool)))
        with self.assertRaisesRegex(ramet.ShapeError, "seeds of 'item': numbers that are not whole"):
            loader(seeds=("item", np.array([0.5])))

    def test_every_edge_is_as_likely(self):
        star = {BUYS: np.stack([np.arange(50), np.zeros(50, int)])}
        fields, _ = drawn()
        own = HeteroNeighborLoader(fields, star, fanout={BUYS: [10]}, seeds=("item", [0]), batch=1, room={"user": 50, "item": 1, BUYS: 10})
        counts = np.zeros(50)
        for i in range(2000):
            nodes, edges = own.sample(i)
            self.assertEqual(edges[BUYS].shape[1], 10)
            counts[nodes["user"]] += 1
        self.assertEqual(counts.sum(), 20000)
        chi = ((counts - 400) ** 2 / (400 * 0.8)).sum()  # 50 counts of 2000 draws of 1 in 5
        self.assertLess(chi, 90)
        self.assertGreater(chi, 20)

    def test_batches_are_functions_of_their_number(self):
        one, other = loader(), loader()
        last = {i: one.arrays(i) for i in (5, 0, 3)}
        for i in (0, 3, 5):
            for name, array in other.arrays(i).items():
                np.testing.assert_array_equal(array, last[i][name], name)

    def test_arrays_have_the_room_and_the_fields(self):
        own = loader(epochs=2)
        fullest = {each: 0 for each in own.room}
        for i in range(2 * own.batches):
            arrays, (nodes, edges) = own.arrays(i), own.sample(i)
            for kind in SIZES:
                self.assertEqual(arrays[f"{kind}.id"].shape, (1, own.room[kind]))
                np.testing.assert_array_equal(arrays[f"{kind}.id"][0, :len(nodes[kind])], nodes[kind])
                fullest[kind] = max(fullest[kind], len(nodes[kind]))
            seeds = min(7, 40 - 7 * (i % own.batches))
            np.testing.assert_array_equal(arrays["labels"][0, :seeds], nodes["item"][:seeds])
            self.assertTrue((arrays["labels"][0, seeds:] == -1).all())
            for each, of in edges.items():
                fullest[each] = max(fullest[each], of.shape[1])
                name = "/".join(each)
                self.assertEqual(arrays[name + ".ptr"].shape, (1, own.room[each[2]] + 1))
                self.assertEqual(arrays[name + ".source_ptr"].shape, (1, own.room[each[0]] + 1))
                self.assertEqual(arrays[name + ".ptr"][0, -1], of.shape[1])
        self.assertEqual(fullest, own.room)

    def test_bad_input_is_named(self):
        with self.assertRaisesRegex(ValueError, "batch 0 has .* of 'user/buys/item', and there is room for 3"):
            loader(room={"user": 50, "item": 80, BUYS: 3, LIKED: 300}).arrays(0)
        with self.assertRaisesRegex(ValueError, "no edges user/sells/item"):
            loader(fanout={("user", "sells", "item"): [1]})
        with self.assertRaisesRegex(ValueError, "seeds in batches of 7 are not among 80 nodes"):
            loader(seeds=("item", [80]))
        with self.assertRaisesRegex(ValueError, "the seeds are of 'shop'"):
            loader(seeds=("shop", [0]))
        wrong = drawn()[1] | {BUYS: np.array([[0], [80]])}
        with self.assertRaisesRegex(ValueError, "an edge user/buys/item has a node that there is not among 80 of 'item'"):
            loader(edges=wrong)

    def test_types_without_fields_or_room_are_named(self):
        fields, edges = drawn()
        how = {"edges": edges, "fanout": {BUYS: [2]}, "seeds": ("item", [0]), "batch": 1}
        with self.assertRaisesRegex(ramet.ShapeError, "nodes 'user': a type of nodes without a field.*np.arange"):
            HeteroNeighborLoader(fields | {"user": {}}, **how)
        with self.assertRaisesRegex(ramet.ShapeError, "nodes 'user': fields of different lengths; found a 3, b 4"):
            HeteroNeighborLoader(fields | {"user": {"a": np.zeros(3), "b": np.zeros(4)}}, **how)
        with self.assertRaisesRegex(ramet.ShapeError, "edges user/buys/item: .* found no 'user' in nodes"):
            HeteroGraph(ramet.ModelBuilder("m"), {"item": 80}, {BUYS: 400})

    def test_a_run_goes_on_with_its_own_data_alone(self):
        fields, edges = drawn()
        fields["item"]["x"] = np.ones((80, 3), np.float32)
        labels, seeds = np.arange(80) % 2, np.arange(0, 80, 2)
        made = {"fields": fields, "edges": edges, "labels": labels, "seeds": seeds}

        def training(**others):
            given = made | others
            own = HeteroNeighborLoader(given["fields"], given["edges"], {BUYS: [3, 2]}, ("item", given["seeds"]), 7,
                                       given["labels"], shuffle=False, room={"user": 50, "item": 80, BUYS: 400})
            m = ramet.ModelBuilder("one_layer")
            x, wanted = own.inputs(m)
            own.graph(m)
            rows = ramet.matmul(ramet.reshape(x["item"]["x"], [80, 3]), m.weight("w", [2, 3], ramet.Init.fan_in()), transpose_b=True)
            m.loss(ramet.cross_entropy_loss(rows, ramet.reshape(wanted, [80])))
            return ramet.Training(m.build(), train=own.data(), optimizer=ramet.Sgd(), threads=1)

        with tempfile.TemporaryDirectory() as folder:
            first = training()
            first.step()
            saved = pathlib.Path(first.save(folder))
            again = training()
            again.restore(saved)
            self.assertEqual(again.weights_hash(), first.weights_hash())
            buys = edges[BUYS].copy()
            buys[0, 0] = (buys[0, 0] + 1) % 50
            others = {"fields": fields | {"item": fields["item"] | {"x": np.zeros((80, 3), np.float32)}},
                      "edges": edges | {BUYS: buys}, "labels": 1 - labels, "seeds": seeds + 1}
            for name, value in others.items():
                with self.subTest(name), self.assertRaisesRegex(ramet.Error, "other data"):
                    training(**{name: value}).restore(saved)

    def test_reads_a_set_of_several_types(self):
        tensors = {"user.ptr": np.array([0, 50]), "user.age": np.arange(50), "item.id": np.arange(80),
                   "user/buys/item.index": drawn()[1][BUYS], "user/buys/item.ptr": np.array([0, 400])}
        fields, edges = hetero_of_set(tensors)
        self.assertEqual(({each: list(of) for each, of in fields.items()}, list(edges)), ({"item": ["id"], "user": ["age"]}, [BUYS]))


if __name__ == "__main__":
    unittest.main()
