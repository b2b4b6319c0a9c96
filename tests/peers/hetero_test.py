"""Networks on graphs with several types beside PyTorch Geometric's HeteroConv: answers and losses from the same weights, and
bits on layouts."""
import tempfile
import unittest

import numpy as np
from package_support import skip_all

try:
    import torch
    from torch_geometric.nn import GATConv, HeteroConv, SAGEConv
except ImportError:
    skip_all("PyTorch Geometric is not installed")

import ramet
from ramet.hetero import HeteroGraph, HeteroNeighborLoader, hetero_gat, hetero_sage

torch.set_num_threads(1)

SIZES = {"author": 30, "paper": 40, "venue": 6}
WIDTHS = {"author": 5, "paper": 8, "venue": 3}
TYPES = {("author", "writes", "paper"): 110, ("paper", "cites", "paper"): 90, ("paper", "of", "author"): 70,
         ("venue", "prints", "paper"): 40, ("paper", "in", "venue"): 40}
CLASSES, HIDDEN, HEADS = 4, 8, 2
LAYOUTS = ("", "threads=2", "r=2", "r=4", "p=2", "p=2 r=2", "p=2 r=4", "p=2 schedule=gpipe", "p=2 schedule=zero-bubble", "phases=2", "recompute=cheap",
           "recompute=layer", "recompute=all", "offload=optimizer", "offload=weights phases=2", "offload=activations",
           "phases=2 offload=optimizer", "r=2 rts=weights", "r=2 rts=grads", "r=2 rts=optimizer", "r=2 rts=weights,grads,optimizer",
           "r=4 rts=weights,grads,optimizer recompute=layer", "p=2 r=2 rts=optimizer offload=optimizer")


def drawn(seed=3):
    """Edges with duplicates and with nodes that none ends in, features and labels."""
    draw = np.random.default_rng(seed)
    edges = {each: np.stack([draw.integers(0, SIZES[each[0]], count), draw.integers(0, SIZES[each[2]] - 2, count)])
             for each, count in TYPES.items()}
    x = {each: draw.standard_normal((size, WIDTHS[each])).astype(np.float32) for each, size in SIZES.items()}
    return edges, x, draw.integers(0, CLASSES, SIZES["paper"]).astype(np.int32)


def network(m, graph, x, kind):
    """Two layers, and the classes of papers."""
    layer = (lambda x, name, out: hetero_sage(m, graph, x, name, out)) if kind == "sage" else (
        lambda x, name, out: hetero_gat(m, graph, x, name, out // HEADS, HEADS))
    with m.part("layer", 0):
        x = {each: ramet.relu(rows) for each, rows in layer(x, "convs.0", HIDDEN).items()}
    with m.part("layer", 1):
        return layer(x, "convs.1", CLASSES)["paper"]


def whole_model(kind):
    m = ramet.ModelBuilder("hetero")
    graph = HeteroGraph(m, SIZES, TYPES)
    x = {each: m.input(each + ".x", "f32", [1, size, WIDTHS[each]]) for each, size in SIZES.items()}
    labels = m.input("labels", "i32", [1, SIZES["paper"]])
    answers = ramet.reshape(network(m, graph, x, kind), [SIZES["paper"], CLASSES])
    m.loss(ramet.cross_entropy_loss(answers, ramet.reshape(labels, [SIZES["paper"]])))
    m.output("answers", answers)
    return m.build(), graph


def module(kind, edges):
    make = (lambda out: SAGEConv((-1, -1), out)) if kind == "sage" else (
        lambda out: GATConv((-1, -1), out // HEADS, HEADS, add_self_loops=False))
    return torch.nn.ModuleList(HeteroConv({each: make(out) for each in edges}, aggr="sum") for out in (HIDDEN, CLASSES))


def run(convs, x, edges):
    x = {each: rows.relu() for each, rows in convs[0](x, edges).items()}
    return convs[1](x, edges)["paper"]


def sampled_training(kind, layout):
    """A training on sampled batches, of which six are an epoch."""
    edges, x, labels = drawn()
    loader = HeteroNeighborLoader({each: {"x": rows} for each, rows in x.items()}, edges, fanout={each: [4, 2] for each in TYPES},
                                  seeds=("paper", np.arange(36)), batch=6, labels=labels, epochs=3)
    m = ramet.ModelBuilder("sampled")
    graph = loader.graph(m)
    fields, wanted = loader.inputs(m)
    rows = network(m, graph, {each: of["x"] for each, of in fields.items()}, kind)
    room = loader.room["paper"]
    m.loss(ramet.cross_entropy_loss(ramet.reshape(rows, [room, CLASSES]), ramet.reshape(wanted, [room])))
    return ramet.Training(m.build(), train=loader.data(), micro_batches=4, lanes=4, threads=1, layout=layout,
                          optimizer=ramet.AdamW(), schedule=ramet.Schedule(kind="constant", learning_rate=0.01))


class Hetero(unittest.TestCase):
    def beside_peer(self, kind):
        edges, x, labels = drawn()
        model, graph = whole_model(kind)
        training = ramet.Training(model, optimizer=ramet.Sgd(), schedule=ramet.Schedule(kind="constant", learning_rate=0.1), threads=1)
        arrays = graph.arrays(edges) | {each + ".x": rows[None] for each, rows in x.items()} | {"labels": labels[None]}
        convs = module(kind, edges)
        tensors = {each: torch.tensor(rows) for each, rows in x.items()}
        index = {each: torch.tensor(of) for each, of in edges.items()}
        with torch.no_grad():
            run(convs, tensors, index)
            for layer, conv in enumerate(convs):
                for each in edges:
                    for name, weight in conv.convs[each].named_parameters():
                        own = f"convs.{layer}.{'/'.join(each)}.{name}"
                        weight.copy_(torch.tensor(training.weight(own)).reshape(weight.shape))
        answers = run(convs, tensors, index)
        np.testing.assert_allclose(training.predict(arrays)["answers"], answers.detach().numpy(), atol=1e-5)
        optimizer = torch.optim.SGD(convs.parameters(), 0.1)
        wanted = torch.tensor(labels, dtype=torch.long)
        for step in range(100):
            loss = torch.nn.functional.cross_entropy(run(convs, tensors, index), wanted)
            found = training.step(arrays).loss
            self.assertLess(abs(found - loss.item()), 1e-4 * abs(loss.item()), f"step {step}")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def test_sage_agrees(self):
        self.beside_peer("sage")

    def test_gat_agrees(self):
        self.beside_peer("gat")

    def test_sampled_batches_have_the_same_bits_on_layouts(self):
        for kind in ("sage", "gat"):
            hashes, losses = {}, {}
            for layout in LAYOUTS:
                training = sampled_training(kind, layout)
                losses[layout] = [training.step().loss for _ in range(4)]
                hashes[layout] = training.weights_hash()
                self.assertTrue(np.isfinite(losses[layout]).all())
            self.assertEqual(len(set(hashes.values())), 1, (kind, hashes))
            # A step has four batches, and an epoch six: a checkpoint after one step is in the middle of the epoch.
            with tempfile.TemporaryDirectory() as folder:
                first = sampled_training(kind, "r=2")
                first.step()
                saved = first.save(folder)
                rest = sampled_training(kind, "p=2 r=2")
                self.assertEqual(rest.restore(saved), "")
                self.assertEqual([rest.step().loss for _ in range(3)], losses[""][1:])
                self.assertEqual(rest.weights_hash(), hashes[""])


if __name__ == "__main__":
    unittest.main()
