"""Models of Ramet as ONNX files: ONNX's checker takes them, and onnxruntime's outputs agree with Ramet's."""
import unittest

from onnx_support import END, SIZES, TEXT, WriterTestCase
from peers import needs, ramet

try:
    import numpy
    import onnx
except ImportError:
    onnx = None

IMAGES = '\nclasses = 5\n[data]\nkind = "synthetic"\nheight = 32\n' + END.format(batch=2)
GRAPHS = """
[model.graph]
hidden = 8
heads = 2
dropout = 0
[data]
kind = "graphs"
[data.graphs]
set = "set.safetensors"
features = "node.x"
label = "node.y"
""" + END.format(batch=1)
RECIPES = {
    "bert": 'kind = "bert"\n' + SIZES + "intermediate = 48\n" + TEXT,
    "gpt2": 'kind = "gpt2"\n' + SIZES + TEXT,
    "lstm": 'kind = "lstm"\nhidden = 16\nvocabulary_size = 96\n' + TEXT,
    "resnet": 'kind = "resnet"\npreset = "18"\nwidth = 8' + IMAGES,
    "vit": 'kind = "vit"\npreset = "tiny"\npatch = 8\nwidth = 32\nhead_size = 16\nblocks = "2"' + IMAGES,
    "convnext": 'kind = "convnext"\npreset = "tiny"\nwidth = 8\nblocks = "1,1,1,1"' + IMAGES,
    "efficientnet": 'kind = "efficientnet"\npreset = "b0"' + IMAGES,
    "unet": 'kind = "unet"\npreset = "mini"\nwidth = 8' + IMAGES,
}
RECIPES |= {kind: f'kind = "{kind}"' + GRAPHS for kind in ("gcn", "sage", "gat", "gatv2", "gin", "pna", "cluster_gcn")}


def write_graph(folder, nodes=12, edges=40):
    """A graph with features and kinds of nodes, as a set."""
    random = numpy.random.default_rng(1)
    pairs = sorted({(int(b), int(a)) for a, b in random.integers(0, nodes, (edges, 2)) if a != b})
    index = numpy.array([[a for _, a in pairs], [b for b, _ in pairs]], numpy.int64)
    numpy.savez(folder / "graph.npz", edge_index=index, x=random.standard_normal((nodes, 6)).astype(numpy.float32),
                y=random.integers(0, 3, nodes))
    ramet("graphs", "prepare", "npz", "graph.npz", "--out", "set.safetensors", "--apply", "self-loops,gcn",
          folder=folder)


@needs("onnx", "onnxruntime", "numpy")
class Written(WriterTestCase):
    def train_kind(self, kind):
        if "[data.graphs]" in RECIPES[kind]:
            write_graph(self.folder)
        return self.train(kind, RECIPES[kind])

    def check_kind(self, kind, *options):
        run = self.train_kind(kind)
        path = self.folder / "model.onnx"
        ramet("export", run, "--out", path, *options, folder=self.folder)
        self.check(path)
        return path

    def test_evaluations_have_their_losses(self):
        for kind in ("bert", "gpt2", "resnet"):
            with self.subTest(kind):
                self.check_kind(kind, "--program", "evaluate")

    def test_external_data_and_newer_operator_sets(self):
        path = self.check_kind("bert", "--external-data", "--opset", "23")
        self.assertGreater((path.parent / "model.onnx.data").stat().st_size, 10_000)
        self.assertEqual(onnx.load(path, load_external_data=False).opset_import[0].version, 23)

    def test_model_files_are_written(self):
        run = self.train_kind("resnet")
        ramet("export", run, "--out", "model.ramet", folder=self.folder)
        ramet("export", "model.ramet", "--out", "model.onnx", folder=self.folder)
        self.check(self.folder / "model.onnx")


def add_kind(kind):
    def test(self):
        self.check_kind(kind)

    setattr(Written, "test_" + kind, test)


for each in RECIPES:
    add_kind(each)

if __name__ == "__main__":
    unittest.main()
