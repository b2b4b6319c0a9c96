"""Sets of graphs and batches of one size, on small graphs made by hand."""
import pathlib
import tempfile
import unittest

import numpy as np

import ramet
from ramet import graphs
from ramet.graphs import FixedSizeOptions, FixedSizeStrategy, GraphSet, OverSizeStrategy

# Nodes, and edges from source to target, of five graphs; the fourth has no edge.
SIZES = (3, 2, 4, 1, 3)
EDGES = ([(2, 0), (0, 1), (1, 0)], [(0, 1)], [(3, 2), (0, 2), (0, 1), (2, 3)], [], [(1, 1), (1, 0)])


def five():
    """A graph's nodes have x = [number of the graph, number of the node]; an edge has w = 10 source + target."""
    made = []
    for number, (size, edges) in enumerate(zip(SIZES, EDGES)):
        index = np.array(edges, np.int64).reshape(-1, 2).T
        made.append({"node.x": np.stack([np.full(size, number), np.arange(size)], 1).astype(np.float32), "edge_index": index,
                     "edge.w": (10 * index[0] + index[1]).astype(np.float32), "graph.y": np.int64(number)})
    return GraphSet.of(made)


def ring(nodes=12):
    """One graph: node i has edges from the three before it."""
    target = np.repeat(np.arange(nodes), 3)
    source = (target - np.tile([3, 2, 1], nodes)) % nodes
    return GraphSet.of([{"node.x": np.arange(nodes, dtype=np.float32)[:, None], "edge_index": np.stack([source, target]),
                         "edge.w": (100 * source + target).astype(np.float32)}])


def graphs_in(batch):
    """Numbers of the real graphs of a batch, after a check of all that it says of them."""
    count = int(batch["graphs_mask"].sum())
    nodes, edges = int(batch["nodes_mask"].sum()), int(batch["edges_mask"].sum())
    for i, number in enumerate(batch["y"][:count]):
        rows = slice(*batch["ptr"][i:i + 2])
        np.testing.assert_array_equal(batch["x"][rows], [[number, node] for node in range(SIZES[number])])
        np.testing.assert_array_equal(batch["batch"][rows], i)
        mine = (batch["edge_index"][1] >= rows.start) & (batch["edge_index"][1] < rows.stop) & batch["edges_mask"]
        local = batch["edge_index"][:, mine] - rows.start
        assert sorted(map(tuple, local.T.tolist())) == sorted(EDGES[number])
        np.testing.assert_array_equal(batch["w"][mine], 10 * local[0] + local[1])
    # Padding: its nodes are the last graph's, its edges join the first of them to itself.
    assert batch["ptr"][count] == nodes and batch["ptr"][-1] == len(batch["x"]) > nodes
    assert (batch["batch"][nodes:] == batch["num_graphs"] - 1).all() and (batch["edge_index"][:, edges:] == nodes).all()
    assert (np.flatnonzero(batch["nodes_mask"]) == np.arange(nodes)).all()
    return batch["y"][:count].tolist()


class Sets(unittest.TestCase):
    def test_a_file_comes_back_in_the_global_edge_order(self):
        made = five()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "set.safetensors"
            made.save(path)
            read = GraphSet.open(path)
        self.assertEqual(len(read), 5)
        for number in range(5):
            graph = read.graph(number)
            np.testing.assert_array_equal(graph["node.x"], made.graph(number)["node.x"])
            self.assertEqual(list(map(tuple, graph["edge_index"].T)), sorted(EDGES[number], key=lambda edge: edge[::-1]))
            np.testing.assert_array_equal(graph["edge.w"], 10 * graph["edge_index"][0] + graph["edge_index"][1])
            self.assertEqual(graph["graph.y"], number)

    def test_refusals(self):
        with self.assertRaisesRegex(ramet.Error, "graphs with different fields"):
            GraphSet.of([five().graph(0), {"edge_index": np.zeros((2, 0)), "num_nodes": 1}])
        with self.assertRaisesRegex(ramet.ShapeError, "of another length"):
            GraphSet({"node": [0, 2]}, {"edge": [0, 0]}, {"edge": np.zeros((2, 0))}, {"node.x": np.zeros(3)})
        with self.assertRaisesRegex(ramet.Error, "a node that its graph does not have"):
            graphs.FixedSizeDataLoader(GraphSet.of([{"edge_index": np.array([[0], [5]]), "num_nodes": 2}]), 2)

    def test_edges_that_are_none_are_refused(self):
        made = lambda edges, **more: GraphSet({"node": [0, 2, 5]}, {"edge": [0, 1, 2]}, {"edge": edges}, {}, **more)
        self.assertEqual(made(np.array([[1, 2], [0, 1]], np.uint8)).edge_index["edge"].dtype, np.int32)
        for edges, error, words in (
                ([[2**33, 0], [0, 0]], ramet.Error, "'edge', edge 0: an edge names a node .*; found 8589934592; expected a number from 0 to 1"),
                ([[2**32, 0], [0, 0]], ramet.Error, "found 4294967296"),
                ([[0, 0], [0, -1]], ramet.Error, "edge 1: .*found -1; expected a number from 0 to 2"),
                ([[0, 2], [0, 3]], ramet.Error, "edge 1: .*found 3; expected a number from 0 to 2"),
                ([[0.7, 0], [0, 0]], ramet.ShapeError, "not whole, or .*; found float64; expected integers"),
                (np.array([[2**63, 0], [0, 0]], np.uint64), ramet.ShapeError, "do not fit 64 bits; found uint64"),
                (np.zeros((2, 2), bool), ramet.ShapeError, "found bool"),
                (np.zeros((3, 2), int), ramet.ShapeError, r"no list of edges; found \[3, 2\]; expected \[2, edges\]"),
                (np.zeros((4,), int), ramet.ShapeError, r"found \[4\]"),
                (np.zeros((2, 3), int), ramet.ShapeError, r"another number of edges .*found \[2, 3\]; expected \[2, 2\]")):
            with self.assertRaisesRegex(error, words):
                made(edges)
        with self.assertRaisesRegex(ramet.ShapeError, r"graph 1, edge_index: no list of edges; found \[3, 2\]"):
            GraphSet.of([{"edge_index": np.zeros((2, 1), int), "num_nodes": 2}, {"edge_index": np.zeros((3, 2), int), "num_nodes": 2}])
        for ptr in ([0, 1.5], [1, 2], [0, 2, 1], [[0, 1]], []):
            with self.assertRaisesRegex(ramet.ShapeError, "pointers of 'node'"):
                GraphSet({"node": ptr}, {"edge": [0, 0]}, {"edge": np.zeros((2, 0))}, {})
        with self.assertRaisesRegex(ramet.Error, "no type of edges between types of nodes"):
            GraphSet({"node": [0, 2]}, {"node/to/nobody": [0, 0]}, {"node/to/nobody": np.zeros((2, 0))}, {})

    def test_missing_values_are_asked_for(self):
        x, edges = np.array([1, np.nan], np.float32), np.zeros((2, 0), int)
        with self.assertRaisesRegex(ramet.Error, r"field 'node.x', row 1: .*not finite; found nan; .*missing=\['node.x'\]"):
            GraphSet.of([{"node.x": x, "edge_index": edges}])
        with self.assertRaisesRegex(ramet.Error, "found inf"):
            GraphSet.of([{"node.x": x * np.float32(np.inf), "edge_index": edges}], missing=["node.x"])
        with self.assertRaisesRegex(ramet.Error, "a field that the set does not have; found node.z"):
            GraphSet.of([{"node.x": x[:1], "edge_index": edges}], missing=["node.z"])
        with self.assertRaisesRegex(ramet.ShapeError, "elements that a set cannot have; found complex64"):
            GraphSet.of([{"node.x": x.astype(np.complex64), "edge_index": edges}])
        with self.assertRaisesRegex(ramet.Error, "a name that a field cannot have"):
            GraphSet.of([{"node.x y": x[:1], "edge_index": edges}])
        made = GraphSet.of([{"node.x": x, "node.w": x[:1].repeat(2), "edge_index": edges}], missing=["node.x"])
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "set.safetensors"
            made.save(path)
            fields = {each["name"]: each.get("missing", False) for each in graphs.read_set(path)[1]["fields"]}
            self.assertEqual((fields, GraphSet.open(path).missing), ({"x": True, "w": False}, {"node.x"}))


class Lists(unittest.TestCase):
    """The arrays of edges that models of one's own read."""

    def test_edges_in_order(self):
        made, order = graphs.lists([[2, 0, 1], [1, 1, 0]], 3, 4)
        self.assertEqual((made["source"].tolist(), made["ptr"].tolist(), order.tolist()), ([[1, 0, 2, 0]], [[0, 1, 3, 3]], [2, 1, 0]))

    def test_each_fault_has_its_error(self):
        for edges, error, words in (([[0.7], [0]], ramet.ShapeError, "edge_index: numbers that are not whole"),
                                    ([0, 1], ramet.ShapeError, r"no list of edges; found \[2\]"),
                                    ([[0, 1, 2], [0, 1, 2]], ramet.ShapeError, "more edges than there is room for; found 3; expected at most 2"),
                                    ([[3], [0]], ramet.Error, "edge_index, sources, edge 0: .*found 3; expected a number from 0 to 2"),
                                    ([[0], [-1]], ramet.Error, "edge_index, targets, edge 0: .*found -1")):
            with self.assertRaisesRegex(error, words):
                graphs.lists(edges, 3, 2)
        for relation, words in (([0.5], "relation: numbers that are not whole"), ([0, 1], r"not one relation an edge; found \[2\]; expected \[1\]")):
            with self.assertRaisesRegex(ramet.ShapeError, words):
                graphs.relation_lists([[0], [1]], relation, 3)


class Packs(unittest.TestCase):
    """What a caller asks of packs is done or refused."""

    def packs(self, batch, **more):
        graph = five() if not batch.startswith(("clusters", "walks", "cut")) else ring()
        source, target = (np.ascontiguousarray(each) for each in graph.edge_index["edge"])
        part = None if batch.startswith(("count", "stream", "histogram")) else np.arange(12) // 2
        return ramet.GraphPacks(graph.node_ptr["node"], graph.edge_ptr["edge"], source, target, batch, part=part, **more)

    def test_room_is_kept(self):
        self.assertEqual(self.packs("clusters:2", room=(2, 10, 20)).room, (2, 10, 20))
        with self.assertRaisesRegex(ramet.Error, "pack 0: a sample of the graph does not fit .*expected at most 2 nodes. .*more clusters"):
            self.packs("clusters:2", room=(1, 2, 0), shuffle=False).pack(0)
        with self.assertRaisesRegex(ramet.Error, "two bounds of nodes for a batch; found 50, and room for 10"):
            self.packs("histogram:50:2", room=(0, 10, 0))
        packs = self.packs("histogram:9:0", room=(3, 9, 5))
        self.assertEqual(packs.room, (3, 9, 5))
        for index in range(packs.packs(0)):
            self.assertLessEqual(len(packs.pack(index)["edges"]), 5)
        with self.assertRaisesRegex(ramet.Error, "graphs of a pack do not fit the budget together; found 2 graphs, 5 nodes"):
            self.packs("count:2", room=(0, 4, 0), shuffle=False).pack(0)

    def test_what_would_do_nothing_is_refused(self):
        for batch, more, words in (("clusters:2", {"trim": True}, "clusters are whole"), ("cut", {"trim": True}, "clusters are whole"),
                                   ("count:2", {"trim": True}, "nothing is left out"), ("cut", {"room": (1, 10, 10)}, "room of the largest"),
                                   ("walks:2:1", {"members": [1]}, "no numbers of graphs or nodes"),
                                   ("clusters:2", {"members": [1]}, "no numbers of graphs or nodes")):
            with self.assertRaisesRegex(ramet.Error, f"'{batch}': .*{words}"):
                self.packs(batch, **more)


class Loaders(unittest.TestCase):
    def test_whole_graphs_are_padded_to_one_size(self):
        loader = graphs.FixedSizeDataLoader(five(), batch_size=3)
        room = loader.fixed_size_options
        self.assertEqual((room.num_nodes, room.num_edges, room.num_graphs), (8, 7, 3))
        batches = list(loader)
        self.assertEqual([graphs_in(batch) for batch in batches], [[0, 1], [2, 3], [4]])
        self.assertEqual(len({tuple((key, each.shape, each.dtype) for key, each in batch.items() if key != "num_graphs")
                              for batch in batches}), 1)

    def test_an_epoch_is_a_pure_function_of_the_seed(self):
        order = lambda seed, epoch: [graphs_in(batch) for batch in self.epoch(seed, epoch)]
        self.assertEqual(order(1, 4), order(1, 4))
        orders = {str(order(1, epoch)) for epoch in range(4)}
        self.assertGreater(len(orders), 1)
        self.assertNotEqual([order(1, epoch) for epoch in range(3)], [order(2, epoch) for epoch in range(3)])
        for epoch in range(4):
            self.assertEqual(sorted(sum(order(1, epoch), [])), [0, 1, 2, 3, 4])
        loader = graphs.FixedSizeDataLoader(five(), 3, shuffle=True, seed=1)
        self.assertEqual([[graphs_in(batch) for batch in loader] for _ in range(2)], [order(1, 0), order(1, 1)])

    def epoch(self, seed, epoch):
        loader = graphs.FixedSizeDataLoader(five(), 3, shuffle=True, seed=seed)
        loader.set_epoch(epoch)
        return loader

    def test_a_stream_fills_batches_and_ends_with_the_epoch(self):
        room = FixedSizeOptions(num_nodes=8, num_edges=6, num_graphs=4)
        loader = graphs.FixedSizeDataLoader(five(), 4, fixed_size_options=room, fixed_size_strategy=FixedSizeStrategy.StreamPack)
        for _ in range(2):
            self.assertEqual([graphs_in(batch) for batch in loader], [[0, 1], [2, 3], [4]])
        sampler = graphs.StreamPackingSampler(five(), max_num_graphs=3, max_num_nodes=7, base_sampler=[4, 2, 0, 1, 3])
        self.assertEqual(list(sampler), [[4, 2], [0, 1, 3]])
        shuffled = graphs.FixedSizeDataLoader(five(), 4, shuffle=True, fixed_size_options=room, seed=3,
                                              fixed_size_strategy=FixedSizeStrategy.StreamPack)
        for epoch in range(3):
            found = [graphs_in(batch) for batch in shuffled]
            self.assertEqual(sorted(sum(found, [])), [0, 1, 2, 3, 4])
            self.assertEqual(len(found), shuffled.batches(epoch))

    def test_what_does_not_fit_is_an_error_or_skipped_and_counted(self):
        room = FixedSizeOptions(num_nodes=5, num_edges=3, num_graphs=3)
        for strategy in FixedSizeStrategy:
            how = {"fixed_size_options": room, "fixed_size_strategy": strategy}
            with self.assertRaisesRegex(ramet.Error, "does not fit"):
                list(graphs.FixedSizeDataLoader(five(), 3, **how))
            loader = graphs.FixedSizeDataLoader(five(), 3, over_size_strategy=OverSizeStrategy.Skip, **how)
            found = sum((graphs_in(batch) for batch in loader), [])
            self.assertNotIn(2, found)  # four edges
            self.assertEqual(len(found) + loader.skipped, 5)

    def test_refusals_name_what_to_do(self):
        with self.assertRaisesRegex(ramet.UnsupportedOp, "TrimNodes.*Raise the room"):
            graphs.FixedSizeDataLoader(five(), 3, over_size_strategy=OverSizeStrategy.TrimNodes)
        with self.assertRaisesRegex(ramet.UnsupportedOp, "num_workers"):
            graphs.FixedSizeDataLoader(five(), 3, num_workers=2)
        loader = graphs.FixedSizeDataLoader(five(), 3, num_workers=0, follow_batch=None, pin_memory=False, drop_last=False)
        self.assertEqual([graphs_in(batch) for batch in loader], [[0, 1], [2, 3], [4]])
        with self.assertRaisesRegex(ramet.UnsupportedOp, "found drop_last, shufle"):
            graphs.FixedSizeDataLoader(five(), 3, num_workers=0, drop_last=True, shufle=False)
        for given in (five(), libraries()):
            with self.assertRaisesRegex(ramet.ShapeError, r"FixedSizeDataLoader\(batch_size=1\): a batch without a real graph.*give 2"):
                graphs.FixedSizeDataLoader(given, batch_size=1)
        with self.assertRaisesRegex(ramet.ShapeError, "room for no graph"):
            FixedSizeOptions(num_nodes=1)
        with self.assertRaisesRegex(ramet.ShapeError, "dictionaries of both"):
            FixedSizeOptions(num_nodes={"paper": 3})
        with self.assertRaisesRegex(ramet.Error, "no node, to make batches of"):
            graphs.FixedSizeNeighborLoader(ring(), [2], input_nodes=np.zeros(12, bool))
        with self.assertRaisesRegex(ramet.ShapeError, "batch size"):
            graphs.FixedSizeDataLoader(five(), 4, fixed_size_options=FixedSizeOptions(20, 20, 3))

    def test_values_of_padding(self):
        room = FixedSizeOptions(8, 7, 3, node_pad_value=-1, edge_pad_value=-2, graph_pad_value=-3)
        batch = graphs.FixedSizeDataLoader(five(), 3, fixed_size_options=room).batch(0, 2)
        self.assertEqual((set(batch["x"][~batch["nodes_mask"]].flat), set(batch["w"][~batch["edges_mask"]]), batch["y"].tolist()),
                         ({-1}, {-2}, [4, -3, -3]))
        room = FixedSizeOptions(8, 7, 3, pad_graph_defaults={"y": 9})
        batch = graphs.FixedSizeDataLoader(five(), 3, fixed_size_options=room).batch(0, 2)
        self.assertEqual((batch["x"][-1].tolist(), batch["y"].tolist()), ([0, 0], [4, 9, 9]))
        room = FixedSizeOptions({"author": 5, "paper": 8}, {WRITES: 7, ("paper", "cites", "paper"): 5}, 3, pad_graph_defaults={"y": 9})
        self.assertEqual(graphs.FixedSizeDataLoader(libraries(), 3, fixed_size_options=room).batch(0, 2)["y"].tolist(), [4, 9, 9])

    def test_neighbours(self):
        loader = graphs.FixedSizeNeighborLoader(ring(), [2, 1], batch_size=4, input_nodes=np.arange(12) % 2 == 0, shuffle=True, seed=5)
        self.assertEqual(len(loader), 2)
        seeds = []
        for batch in loader:
            nodes, real = batch["n_id"], batch["edges_mask"]
            seeds += nodes[:batch["batch_size"]].tolist()
            self.assertEqual((nodes >= 0).tolist(), batch["nodes_mask"].tolist())
            np.testing.assert_array_equal(batch["x"][batch["nodes_mask"], 0], nodes[batch["nodes_mask"]])
            ends = nodes[batch["edge_index"][:, real]]
            np.testing.assert_array_equal(batch["w"][real], 100 * ends[0] + ends[1])
            into = np.bincount(batch["edge_index"][1][real], minlength=len(nodes))
            self.assertTrue((into[:batch["batch_size"]] == 2).all())  # of three
        self.assertEqual(sorted(seeds), [0, 2, 4, 6, 8, 10])
        again = graphs.FixedSizeNeighborLoader(ring(), [2, 1], batch_size=4, input_nodes=np.arange(0, 12, 2), shuffle=True, seed=5)
        np.testing.assert_array_equal(again.batch(3, 1)["e_id"], loader.batch(3, 1)["e_id"])

    def test_samples_beyond_the_room_are_trimmed_and_counted(self):
        room = FixedSizeOptions(num_nodes=8, num_edges=6)
        with self.assertRaisesRegex(ramet.Error, "does not fit the budget"):
            list(graphs.FixedSizeNeighborLoader(ring(), [3, 3], fixed_size_options=room, batch_size=2))
        loader = graphs.FixedSizeNeighborLoader(ring(), [3, 3], fixed_size_options=room, batch_size=2,
                                                over_size_strategy=OverSizeStrategy.TrimEdges)
        self.assertTrue(all(batch["edge_index"].shape == (2, 6) for batch in loader))
        self.assertGreater(loader.trimmed, 0)

    def test_clusters_have_all_edges_among_their_nodes(self):
        part = np.arange(12) // 4
        loader = graphs.FixedSizeClusterLoader(ring(), batch_size=2, part=part)
        first = next(iter(loader))
        self.assertEqual(first["n_id"][first["nodes_mask"]].tolist(), list(range(8)))
        ends = first["n_id"][first["edge_index"][:, first["edges_mask"]]]
        expected = [(source, target) for source, target in ring().edge_index["edge"].T if source < 8 and target < 8]
        self.assertEqual(sorted(map(tuple, ends.T.tolist())), sorted(expected))
        with self.assertRaisesRegex(ramet.Error, "clusters of a graph that has none"):
            graphs.FixedSizeClusterLoader(ring())


WRITES = ("author", "writes", "paper")


def libraries(count=5):
    """Graphs of authors and papers: x of a paper is [graph, number], an author has no field; w of an edge is 10 source + target."""
    node_ptr, edge_ptr = {"author": [0], "paper": [0]}, {"author/writes/paper": [0], "paper/cites/paper": [0]}
    index, x = {key: [] for key in edge_ptr}, []
    for graph in range(count):
        authors, papers = 1 + graph % 2, 2 + graph % 3
        node_ptr["author"].append(node_ptr["author"][-1] + authors)
        node_ptr["paper"].append(node_ptr["paper"][-1] + papers)
        x += [[graph, paper] for paper in range(papers)]
        for key, edges in (("author/writes/paper", [(paper % authors, paper) for paper in range(papers)]),
                           ("paper/cites/paper", [(paper, paper - 1) for paper in range(1, papers)])):
            index[key] += edges
            edge_ptr[key].append(len(index[key]))
    index = {key: np.array(edges).T for key, edges in index.items()}
    return GraphSet(node_ptr, edge_ptr, index,
                    {"paper.x": np.array(x, np.float32), "graph.y": np.arange(count),
                     "author/writes/paper.w": (10 * index["author/writes/paper"][0] + index["author/writes/paper"][1]).astype("f4")})


class SeveralTypes(unittest.TestCase):
    def test_whole_graphs(self):
        loader = graphs.FixedSizeDataLoader(libraries(), batch_size=3, shuffle=True, seed=2)
        room = loader.fixed_size_options
        self.assertEqual((room.num_nodes, room.num_edges), ({"author": 5, "paper": 8}, {"author/writes/paper": 7, "paper/cites/paper": 5}))
        seen, shapes = [], set()
        for batch in loader:
            seen += batch["y"][batch["graphs_mask"]].tolist()
            papers, writes = batch["paper"], batch[WRITES]
            shapes.add(tuple(sorted((str(kind), key, np.shape(value)) for kind, of in batch.items() if isinstance(of, dict)
                                    for key, value in of.items())))
            real = papers["nodes_mask"]
            np.testing.assert_array_equal(papers["x"][real, 0], batch["y"][papers["batch"][real]])
            ends = writes["edge_index"]
            # An edge's ends are of one graph, and numbers within it make w.
            for (source, target), w in zip(ends.T[writes["edges_mask"]], writes["w"]):
                graph = papers["batch"][target]
                self.assertEqual(batch["author"]["batch"][source], graph)
                self.assertEqual(10 * (source - batch["author"]["ptr"][graph]) + target - papers["ptr"][graph], w)
            self.assertTrue((ends[:, ~writes["edges_mask"]] == [[batch["author"]["nodes_mask"].sum()], [real.sum()]]).all())
            self.assertTrue((papers["batch"][~real] == 2).all())
        self.assertEqual((sorted(seen), len(shapes), len(loader)), ([0, 1, 2, 3, 4], 1, 3))
        self.assertEqual([batch["y"].tolist() for batch in graphs.FixedSizeDataLoader(libraries(), 3, shuffle=True, seed=2)],
                         [loader.batch(0, i)["y"].tolist() for i in range(3)])

    def test_neighbours(self):
        one = libraries(1)
        loader = graphs.FixedSizeNeighborLoader(one, {WRITES: [1, 1], ("paper", "cites", "paper"): [-1, 0]}, ("paper", [0, 1]), batch_size=1)
        for number, batch in enumerate(loader):
            papers, writes = batch["paper"], batch[WRITES]
            self.assertEqual((papers["n_id"][0], papers["batch_size"]), (number, 1))
            real = writes["edges_mask"]
            ends = batch["author"]["n_id"][writes["edge_index"][0][real]], papers["n_id"][writes["edge_index"][1][real]]
            np.testing.assert_array_equal(one.edge_index["author/writes/paper"][:, writes["e_id"][real]], ends)
            np.testing.assert_array_equal(writes["w"][real], 10 * ends[0] + ends[1])
            np.testing.assert_array_equal(papers["x"][papers["nodes_mask"], 1], papers["n_id"][papers["nodes_mask"]])
        # Paper 0 is cited by paper 1; both have the one author.
        first = loader.batch(0, 0)
        self.assertEqual((first["paper"]["nodes_mask"].sum(), first["author"]["nodes_mask"].sum()), (2, 1))

    def test_refusals(self):
        small = FixedSizeOptions({"author": 2, "paper": 3}, {WRITES: 9, ("paper", "cites", "paper"): 9}, 3)
        with self.assertRaisesRegex(ramet.Error, "does not fit its room; found .* of 'author'|of 'paper'"):
            list(graphs.FixedSizeDataLoader(libraries(), 3, fixed_size_options=small))
        with self.assertRaisesRegex(ramet.ShapeError, "other types of nodes"):
            graphs.FixedSizeDataLoader(libraries(), 3, fixed_size_options=FixedSizeOptions({"paper": 3}, {WRITES: 9}, 3))
        with self.assertRaisesRegex(ramet.UnsupportedOp, "Skip with several types"):
            graphs.FixedSizeDataLoader(libraries(), 3, over_size_strategy=OverSizeStrategy.Skip)
        with self.assertRaisesRegex(ramet.Error, "no type of nodes to draw for"):
            graphs.FixedSizeNeighborLoader(libraries(1), [2])


if __name__ == "__main__":
    unittest.main()
