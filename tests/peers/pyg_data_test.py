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
        from ramet.graphs import FixedSizeDataLoader, pyg
        import ramet.torch as rt

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
        optimizer = lambda: torch.optim.Adam(module.parameters(), lr=1e-2)
        step = rt.training_model(pyg.OfBatch(module), optimizer(), example=pyg.inputs_of(batches[0]), loss="loss",
                                 options=rt.Options(threads=1))
        losses = [step(**pyg.inputs_of(batch)).loss for batch in batches]
        expected, own = [], optimizer()
        for batch in batches:
            own.zero_grad()
            loss = module(batch)["loss"]
            loss.backward()
            own.step()
            expected.append(loss.item())
        for a, b in zip(losses, expected):
            self.assertLess(abs(a - b) / b, 1e-4)

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
