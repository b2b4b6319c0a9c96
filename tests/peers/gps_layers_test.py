"""ramet.graphs.gps beside PyTorch Geometric's GPSConv: answers and losses from the same weights, and bits on layouts."""
import unittest

import numpy as np
from package_support import skip_all

try:
    import torch
    from torch_geometric.nn import GINEConv, GPSConv
except ImportError:
    skip_all("PyTorch Geometric is not installed")

import ramet
from ramet.graphs import Graph, gine, gps, lists

torch.set_num_threads(1)

SIZES = (7, 3, 11, 1, 6)     # nodes of the graphs
NODES, EDGES = 32, 80        # room: some of it is empty
WIDTH, FEATURES, HEADS, LAYERS = 8, 3, 2, 2
LAYOUTS = ("", "threads=2", "p=2", "phases=2", "recompute=layer", "offload=optimizer")


def drawn():
    """Rows and graphs of nodes, edges within the graphs with features, and what is to be learned of each node."""
    draw, edges, first = np.random.default_rng(2), [], 0
    for size in SIZES:
        edges.append(first + draw.integers(0, size, (2, 2 * size)))
        first += size
    edges = np.concatenate(edges, axis=1)
    return (draw.standard_normal((first, WIDTH)).astype(np.float32), np.repeat(np.arange(len(SIZES)), SIZES), edges,
            draw.standard_normal((edges.shape[1], FEATURES)).astype(np.float32), draw.standard_normal((first, WIDTH)).astype(np.float32))


def model():
    m = ramet.ModelBuilder("gps")
    graph = Graph(m, NODES, EDGES)
    x, features = m.input("x", "f32", [1, NODES, WIDTH]), m.input("features", "f32", [1, EDGES, FEATURES])
    graph_of, wanted = m.input("graph_of", "i32", [1, NODES]), m.input("wanted", "f32", [1, NODES, WIDTH])
    for i in range(LAYERS):
        with m.part("layer", i):
            x = gps(m, graph, x, graph_of, str(i), lambda x, name: gine(m, graph, x, features, name, WIDTH), heads=HEADS)
    there = ramet.reshape(ramet.cast(ramet.clamp(graph_of, 0, 1), "f32"), [1, NODES, 1])
    apart = (x - wanted) * there
    m.loss(ramet.reduce_sum(apart * apart) / (ramet.reduce_sum(there) * float(WIDTH)))
    m.output("answers", x)
    return m.build()


def arrays():
    x, graph_of, edges, features, wanted = drawn()
    made, order = lists(edges, NODES, EDGES)

    def room(rows, count):
        return np.concatenate([rows, np.full((count - len(rows), *rows.shape[1:]), 7, rows.dtype)])[None]

    numbers = np.zeros((1, NODES), np.int32)
    numbers[0, :len(x)] = graph_of + 1
    return made | {"x": room(x, NODES), "features": room(features[order], EDGES), "graph_of": numbers, "wanted": room(wanted, NODES)}


class Layers(unittest.TestCase):
    def training(self, layout=""):
        return ramet.Training(model(), optimizer=ramet.Sgd(), schedule=ramet.Schedule(kind="constant", learning_rate=0.05), threads=1,
                              layout=layout)

    def test_gps_agrees(self):
        x, graph_of, edges, features, wanted = map(torch.tensor, drawn())
        two = lambda: torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH))
        convs = torch.nn.ModuleList(GPSConv(WIDTH, GINEConv(two(), train_eps=True, edge_dim=FEATURES), heads=HEADS) for _ in range(LAYERS))

        def run():
            rows = x
            for conv in convs:
                rows = conv(rows, edges, graph_of, edge_attr=features)
            return rows

        training, given = self.training(), arrays()
        with torch.no_grad():
            for name, weight in convs.named_parameters():
                weight.copy_(torch.tensor(training.weight(name)).reshape(weight.shape))
        optimizer = torch.optim.SGD(convs.parameters(), 0.05)
        for step in range(31):
            if step in (0, 30):  # with the running statistics
                convs.eval()
                expected = run().detach().numpy()
                np.testing.assert_allclose(training.predict(given)["answers"][0, :len(x)], expected, atol=1e-5 if step == 0 else 1e-3)
                convs.train()
            loss = torch.nn.functional.mse_loss(run(), wanted)
            found = training.step(given).loss
            self.assertLess(abs(found - loss.item()), (1e-5 if step == 0 else 1e-4) * max(1, loss.item()), f"step {step}")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def test_layouts_keep_the_bits(self):
        hashes = {}
        for layout in LAYOUTS:
            training = self.training(layout)
            for _ in range(4):
                training.step(arrays())
            hashes[layout] = training.weights_hash()
        self.assertEqual(len(set(hashes.values())), 1, hashes)

    def test_heads_must_divide_the_features(self):
        m = ramet.ModelBuilder("wrong")
        graph, x, graph_of = Graph(m, 4, 4), m.input("x", "f32", [1, 4, 6]), m.input("graph_of", "i32", [1, 4])
        with self.assertRaisesRegex(ValueError, "6 features are not a multiple of 4 heads"):
            gps(m, graph, x, graph_of, "0", lambda x, name: x, heads=4)


if __name__ == "__main__":
    unittest.main()
