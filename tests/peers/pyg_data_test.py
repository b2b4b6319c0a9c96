"""Data of PyTorch Geometric in, its batches out, and modules that take such batches."""

import unittest
import warnings

from torch_support import torch
from peers import needs

warnings.simplefilter("ignore")  # torch.jit.script is deprecated, says PyTorch of PyTorch Geometric


def molecules(count=12, seed=4):
    """Graphs with features of nodes, of edges and of the graph."""
    from torch_geometric.data import Data

    draw, made = torch.Generator().manual_seed(seed), []
    for number in range(count):
        nodes, edges = 3 + number % 5, 4 + number % 7
        made.append(Data(x=torch.randn(nodes, 6, generator=draw), edge_index=torch.randint(0, nodes, (2, edges), generator=draw),
                         edge_attr=torch.randn(edges, 4, generator=draw), y=torch.randn(1, 2, generator=draw), weight=float(number)))
    return made


def citations():
    from torch_geometric.data import HeteroData

    data = HeteroData(year=torch.tensor([2026]))
    data["paper"].x, data["author"].num_nodes = torch.randn(4, 3), 2
    data["author", "writes", "paper"].edge_index = torch.tensor([[0, 1, 1], [3, 0, 2]])
    data["author", "writes", "paper"].edge_attr = torch.arange(3.0)
    data["paper", "cites", "paper"].edge_index = torch.tensor([[0, 1], [1, 3]])
    return data


def library(papers=20, authors=12, seed=6):
    """One graph of papers and authors, with classes of papers."""
    from torch_geometric.data import HeteroData

    draw = torch.Generator().manual_seed(seed)
    data = HeteroData()
    for kind, count, width in (("paper", papers, 3), ("author", authors, 2)):
        data[kind].x = torch.randn(count, width, generator=draw)
    data["paper"].y = torch.randint(0, 4, (papers,), generator=draw)
    ends = lambda *rooms: torch.stack([torch.randint(0, room, (60,), generator=draw) for room in rooms])
    data["author", "writes", "paper"].edge_index = ends(authors, papers)
    data["paper", "of", "author"].edge_index = ends(papers, authors)
    return data


def same(test, a, b):
    test.assertEqual(sorted(a.keys()), sorted(b.keys()))
    for key in a.keys():
        test.assertTrue(torch.equal(torch.as_tensor(a[key]), torch.as_tensor(b[key]).reshape(torch.as_tensor(a[key]).shape)), key)


@needs("torch", "torch_geometric", "ramet")
class DataTest(unittest.TestCase):
    def test_graphs_come_back(self):
        from torch_geometric.data import Batch
        from ramet.graphs import pyg

        graphs = molecules()
        for given in (graphs, Batch.from_data_list(graphs)):
            made = pyg.from_pyg(given)
            self.assertEqual(sorted(made.fields), ["edge.edge_attr", "graph.weight", "graph.y", "node.x"])
            for number, graph in enumerate(graphs):
                found = pyg.to_pyg(made, number)
                self.assertEqual(found.num_nodes, graph.num_nodes)
                for key in ("x", "edge_index", "edge_attr", "y"):
                    self.assertTrue(torch.equal(found[key], graph[key]), key)
                self.assertEqual(found.weight.item(), graph.weight)

    def test_labels_may_be_missing_and_features_only_where_it_is_said(self):
        import ramet
        from ramet.graphs import pyg

        graphs = molecules()
        graphs[1].y[0, 1] = float("nan")
        self.assertEqual(pyg.from_pyg(graphs).missing, {"graph.y"})
        self.assertEqual(pyg.from_pyg(molecules()).missing, set())
        graphs[2].x[1, 0] = float("nan")
        with self.assertRaisesRegex(ramet.Error, "field 'node.x', row 8: .*not finite"):
            pyg.from_pyg(graphs)
        self.assertEqual(pyg.from_pyg(graphs, missing=["node.x"]).missing, {"graph.y", "node.x"})

    def test_a_graph_of_several_types_comes_back_from_a_file(self):
        import pathlib
        import tempfile
        from ramet.graphs import GraphSet, pyg

        data = citations()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "set.safetensors"
            pyg.from_pyg(data).save(path)
            found = pyg.to_pyg(GraphSet.open(path))
        self.assertEqual(found.metadata(), data.metadata())
        self.assertEqual(found.year.tolist(), [2026])
        self.assertEqual(found["author"].num_nodes, 2)
        self.assertTrue(torch.equal(found["paper"].x, data["paper"].x))
        writes = found["author", "writes", "paper"]  # sorted by target, then source
        self.assertEqual(writes.edge_index.tolist(), [[1, 1, 0], [0, 2, 3]])
        self.assertEqual(writes.edge_attr.tolist(), [1, 2, 0])

    def test_a_batch_is_that_of_pytorch_geometric_and_padding(self):
        from torch_geometric.data import Batch
        from torch_geometric.nn import global_add_pool
        from ramet.graphs import FixedSizeDataLoader

        graphs = molecules()
        loader = FixedSizeDataLoader(graphs, batch_size=5)
        for number, batch in enumerate(loader):
            expected = Batch.from_data_list(graphs[4 * number:4 * number + 4])
            self.assertIsInstance(batch, Batch)
            self.assertEqual(batch.num_graphs, 5)
            self.assertTrue(torch.equal(batch.x[batch.nodes_mask], expected.x))
            self.assertTrue(torch.equal(batch.batch[batch.nodes_mask], expected.batch))
            self.assertTrue(torch.equal(batch.y[batch.graphs_mask], expected.y))
            edges = lambda each, mask: sorted(zip(each.edge_index.T[mask].tolist(), each.edge_attr[mask].tolist()))
            self.assertEqual(edges(batch, batch.edges_mask), edges(expected, torch.ones(expected.num_edges, dtype=bool)))
            pooled = global_add_pool(batch.x, batch.batch, batch.num_graphs)
            self.assertTrue(torch.equal(pooled[:4], global_add_pool(expected.x, expected.batch, 4)))

    def test_a_batch_of_several_types_is_that_of_pytorch_geometric_and_padding(self):
        from torch_geometric.data import Batch
        from torch_geometric.nn import HeteroConv, SAGEConv
        from ramet.graphs import FixedSizeDataLoader, FixedSizeNeighborLoader

        graphs = [citations() for _ in range(5)]
        torch.manual_seed(3)
        conv = HeteroConv({("author", "writes", "paper"): SAGEConv((2, 3), 4), ("paper", "cites", "paper"): SAGEConv(3, 4)})
        for number, batch in enumerate(FixedSizeDataLoader(graphs, batch_size=3)):
            expected = Batch.from_data_list(graphs[2 * number:2 * number + 2])
            self.assertIsInstance(batch, Batch)
            self.assertEqual((batch.num_graphs, batch.node_types, batch.edge_types), (3, expected.node_types, expected.edge_types))
            mask = batch["paper"].nodes_mask
            self.assertTrue(torch.equal(batch["paper"].x[mask], expected["paper"].x))
            self.assertTrue(torch.equal(batch["paper"].batch[mask], expected["paper"].batch))
            self.assertTrue(torch.equal(batch.year[batch.graphs_mask], expected.year))
            answers = []
            for each in (batch, expected):
                authors = torch.ones(each["author"].num_nodes, 2)
                answers.append(conv({"paper": each["paper"].x, "author": authors}, each.edge_index_dict)["paper"])
            torch.testing.assert_close(answers[0][mask], answers[1])
        batch = next(iter(FixedSizeNeighborLoader(graphs[0], [-1, -1], ("paper", [3]))))
        self.assertEqual(batch["paper"].n_id[0], 3)
        self.assertEqual(batch["paper"].n_id[batch["paper"].nodes_mask].tolist(), [3, 1, 0])
        self.assertEqual(int(batch["paper", "cites", "paper"].edges_mask.sum()), 2)

    def test_a_module_of_batches_trains_as_in_pytorch(self):
        from torch_geometric import nn
        from ramet.graphs import FixedSizeDataLoader

        class Molecules(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.GINEConv(nn.MLP([6, 8, 8], norm=None), edge_dim=4)
                self.last = torch.nn.Linear(8, 2)

            def forward(self, batch):
                x = torch.tanh(self.layer(batch.x, batch.edge_index, batch.edge_attr))
                out = self.last(nn.global_mean_pool(x, batch.batch, batch.num_graphs))
                wrong = ((out - batch.y)**2).mean(1)
                return {"loss": torch.where(batch.graphs_mask, wrong, 0).sum() / batch.graphs_mask.sum(), "out": out}

        torch.manual_seed(1)
        module = Molecules()
        batches = [batch for _ in range(4) for batch in FixedSizeDataLoader(molecules(), batch_size=5, shuffle=True)]
        self.trains_as_in_pytorch(module, batches)

    def trains_as_in_pytorch(self, module, batches):
        """The losses of Ramet and of PyTorch on the batches, which a module takes as they are."""
        from ramet.graphs import pyg
        import ramet.torch as rt

        optimizer = lambda: torch.optim.Adam(module.parameters(), lr=1e-2)
        step = rt.training_model(pyg.OfBatch(module), optimizer(), example=pyg.inputs_of(batches[0]), loss="loss",
                                 options=rt.Options(threads=1))
        with self.assertRaisesRegex(NotImplementedError, r"call step\(\*\*pyg.inputs_of\(batch\)\)"):
            step(batches[0])
        losses, own = [step(**pyg.inputs_of(batch)).loss for batch in batches], optimizer()
        for number, batch in enumerate(batches):
            own.zero_grad()
            loss = module(batch)["loss"]
            loss.backward()
            own.step()
            self.assertLess(abs(losses[number] - loss.item()), 1e-4 * loss.item(), f"step {number}")

    def test_neighbours_of_nodes_are_data_with_the_number_of_seeds(self):
        from torch_geometric.data import Batch, Data
        from torch_geometric.nn import SAGEConv
        from ramet.graphs import FixedSizeClusterLoader, FixedSizeNeighborLoader

        class Nodes(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = SAGEConv(6, 3)

            def forward(self, batch):
                out = self.layer(batch.x, batch.edge_index)[:batch.batch_size]
                return {"loss": torch.nn.functional.cross_entropy(out, batch.y[:batch.batch_size]), "out": out}

        draw = torch.Generator().manual_seed(2)
        data = Data(x=torch.randn(30, 6, generator=draw), edge_index=torch.randint(0, 30, (2, 120), generator=draw),
                    y=torch.randint(0, 3, (30,), generator=draw))
        loader = FixedSizeNeighborLoader(data, [3, 2], batch_size=10)
        batches = [batch for _ in range(5) for batch in loader]
        for batch in (batches[0], FixedSizeClusterLoader(data, part=torch.arange(30) % 3).batch(0, 0)):
            self.assertIsInstance(batch, Data)
            self.assertNotIsInstance(batch, Batch)
            self.assertEqual(batch.num_nodes, len(batch.x))
        self.assertEqual(batches[1].batch_size, 10)
        self.assertEqual(batches[1].n_id[:10].tolist(), list(range(10, 20)))
        self.assertEqual([batch.batch_size for batch in FixedSizeNeighborLoader(data, [3], batch_size=8)], [8, 8, 8, 6])
        self.trains_as_in_pytorch(Nodes(), batches)

    def test_batches_of_several_types_train_as_in_pytorch(self):
        from torch_geometric import nn
        from torch_geometric.data import Batch, HeteroData
        from ramet.graphs import FixedSizeDataLoader, FixedSizeNeighborLoader

        class Papers(torch.nn.Module):
            """Classes of papers: of the first `batch_size`, or the sum over those of a graph."""

            def __init__(self, types):
                super().__init__()
                self.layers = torch.nn.ModuleList(nn.HeteroConv({each: nn.SAGEConv(width[each], out) for each in types})
                                                  for out, width in ((8, {types[0]: (2, 3), types[1]: (3, 2)}),
                                                                     (4, {types[0]: (8, 8), types[1]: (8, 8)})))

            def forward(self, batch):
                x = {kind: rows.tanh() for kind, rows in self.layers[0](batch.x_dict, batch.edge_index_dict).items()}
                out, papers = self.layers[1](x, batch.edge_index_dict)["paper"], batch["paper"]
                if isinstance(batch, Batch):
                    out = nn.global_add_pool(out * papers.nodes_mask[:, None], papers.batch, batch.num_graphs)
                    return {"loss": (torch.where(batch.graphs_mask, (out**2).mean(1), 0)).sum(), "out": out}
                out = out[:papers.batch_size]
                return {"loss": torch.nn.functional.cross_entropy(out, papers.y[:papers.batch_size]), "out": out}

        torch.manual_seed(1)
        one = library()
        loader = FixedSizeNeighborLoader(one, [3, 2], ("paper", torch.arange(20)), batch_size=10, shuffle=True)
        batches = [batch for _ in range(6) for batch in loader]
        self.assertIs(type(batches[0]), HeteroData)
        self.assertEqual(batches[0]["paper"].batch_size, 10)
        self.trains_as_in_pytorch(Papers(one.edge_types), batches)
        several = FixedSizeDataLoader([library(4 + i, 3 + i, i) for i in range(6)], batch_size=3)
        self.trains_as_in_pytorch(Papers(one.edge_types), [batch for _ in range(4) for batch in several])

    def test_graphs_of_a_batch_come_back(self):
        from torch_geometric.data import Batch
        from ramet.graphs import FixedSizeDataLoader, FixedSizeStrategy, GraphSet, pyg

        graphs = molecules()
        expected = Batch.from_data_list(graphs).to_data_list()
        order = lambda index: sorted(range(index.shape[1]), key=lambda edge: index.T[edge].tolist()[::-1])
        for how in ({}, {"fixed_size_strategy": FixedSizeStrategy.StreamPack}):
            found = []
            for batch in FixedSizeDataLoader(graphs, batch_size=5, **how):
                self.assertEqual(len(batch.to_data_list()), 5)
                found += [batch[i] for i in range(int(batch.graphs_mask.sum()))]
                self.assertFalse(batch[4].graphs_mask.item() or batch[4].nodes_mask.any())
            self.assertEqual(len(found), len(expected))
            for a, b in zip(found, expected):
                self.assertEqual(a.num_nodes, b.num_nodes)
                for key in ("x", "y", "weight"):
                    self.assertTrue(torch.equal(a[key], b[key]), key)
                mine, theirs = order(a.edge_index), order(b.edge_index)
                self.assertTrue(torch.equal(a.edge_index[:, mine], b.edge_index[:, theirs]))
                self.assertEqual(sorted(a.edge_attr[mine].tolist()), sorted(b.edge_attr[theirs].tolist()))
        arrays = next(iter(FixedSizeDataLoader(pyg.from_pyg(graphs), batch_size=5)))
        self.assertTrue(torch.equal(pyg.batch_of(arrays)[1].x, graphs[1].x))
        several = [library(4 + i, 3 + i, i) for i in range(5)]
        for loader in (FixedSizeDataLoader(several, batch_size=3), map(pyg.batch_of, FixedSizeDataLoader(pyg.from_pyg(several), 3))):
            found = [graph for batch in loader for graph in batch.to_data_list()[:int(batch.graphs_mask.sum())]]
            for a, b in zip(found, Batch.from_data_list(several).to_data_list(), strict=True):
                for kind in b.node_types:
                    self.assertTrue(torch.equal(a[kind].x, b[kind].x))
                    self.assertEqual(a[kind].num_nodes, b[kind].num_nodes)
                for kind in b.edge_types:
                    self.assertEqual(sorted(a[kind].edge_index.T.tolist()), sorted(b[kind].edge_index.T.tolist()))

    def test_layers_that_change_self_loops_name_the_transform(self):
        from torch_geometric import nn, transforms
        import ramet
        import ramet.torch as rt
        from ramet.graphs import FixedSizeDataLoader, pyg

        class Pooled(torch.nn.Module):
            def __init__(self, layer, pool=lambda x, batch: nn.global_mean_pool(x, batch.batch, batch.num_graphs)):
                super().__init__()
                self.layer, self.pool, self.last = layer, pool, torch.nn.Linear(8, 2)

            def forward(self, batch):
                weight = {"edge_weight": batch.edge_weight} if "edge_weight" in batch else {}
                out = self.last(self.pool(self.layer(batch.x, batch.edge_index, **weight), batch))
                return {"loss": torch.where(batch.graphs_mask, ((out - batch.y)**2).mean(1), 0).sum(), "out": out}

        graphs = molecules()
        batch = FixedSizeDataLoader(graphs, batch_size=5).batch(0, 0)
        compiled = lambda module, example: rt.training_model(module, torch.optim.Adam(module.parameters()), example=example, loss="loss")
        for layer in (nn.GCNConv(6, 8), nn.GATConv(6, 8), nn.ChebConv(6, 8, 3)):
            with self.subTest(layer), self.assertRaisesRegex(ramet.UnsupportedOp, "loop.py.*add_self_loops=False.*AddSelfLoops"):
                compiled(pyg.OfBatch(Pooled(layer)), pyg.inputs_of(batch))
        for pool in (lambda x, batch: nn.global_add_pool(x, batch.batch), lambda x, batch: nn.SumAggregation()(x, batch.batch)):
            with self.assertRaisesRegex(ramet.UnsupportedOp, "Give num_graphs: global_add_pool"):
                compiled(pyg.OfBatch(Pooled(nn.SAGEConv(6, 8), pool)), pyg.inputs_of(batch))
        for module in (Pooled(nn.SAGEConv(6, 8)), pyg.OfBatch(Pooled(nn.SAGEConv(6, 8)))):
            with self.assertRaisesRegex(ramet.UnsupportedOp, r"found DataBatch.*pyg.OfBatch\(module\), with example=pyg.inputs_of"):
                compiled(module, batch)
        # What the message says works.
        torch.manual_seed(2)
        for layer, transform in ((nn.GCNConv(6, 8, add_self_loops=False), transforms.AddSelfLoops()),
                                 (nn.GCNConv(6, 8, normalize=False), transforms.GCNNorm())):
            made = [transform(graph.clone()) for graph in graphs]
            for graph in made:
                del graph.edge_attr
            self.trains_as_in_pytorch(Pooled(layer), [each for _ in range(3) for each in FixedSizeDataLoader(made, batch_size=5)])

    def test_room_as_a_loader_of_pytorch_geometric_needs_it(self):
        from torch_geometric.loader import DataLoader
        from ramet.graphs import FixedSizeDataLoader, FixedSizeOptions

        for made in (molecules(), [library(4 + i, 3 + i, i) for i in range(12)]):
            found = FixedSizeOptions.from_loader(DataLoader(made, batch_size=4))
            self.assertEqual(found.num_graphs, 5)
            self.assertEqual([batch.num_graphs for batch in FixedSizeDataLoader(made, 5, fixed_size_options=found)], [5, 5, 5])
        self.assertEqual(found.num_nodes, {"paper": 15 + 14 + 13 + 12 + 1, "author": 14 + 13 + 12 + 11 + 1})
        self.assertEqual(found.num_edges, {"author/writes/paper": 240, "paper/of/author": 240})

    def test_refusals_name_what_to_do(self):
        import ramet
        from ramet.graphs import FixedSizeClusterLoader, pyg

        graphs = molecules(2)
        for graph in graphs:
            graph.smiles = "CCO"
        with self.assertRaisesRegex(ramet.UnsupportedOp, "smiles.*exclude_keys"):
            pyg.from_pyg(graphs)
        self.assertNotIn("graph.smiles", pyg.from_pyg(graphs, exclude_keys=["smiles"]).fields)
        with self.assertRaisesRegex(ramet.UnsupportedOp, "to_homogeneous"):
            FixedSizeClusterLoader([citations()], 2)
        del graphs[0].edge_index
        with self.assertRaisesRegex(ramet.Error, "graph 0: a graph without edge_index"):
            pyg.from_pyg(graphs, exclude_keys=["smiles"])


if __name__ == "__main__":
    unittest.main()
