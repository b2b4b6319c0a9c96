"""Models of Ramet as ONNX files: ONNX's checker takes them, and onnxruntime's outputs agree with Ramet's."""
import pathlib
import shutil
import tempfile
import unittest

from peers import needs, ramet

try:
    import numpy
    import onnx
    import onnxruntime
    from onnx import numpy_helper
except ImportError:
    onnx = None

RELATIVE, ABSOLUTE = 1e-3, 1e-4
CLASSES = 5
END = """
[train]
steps = 2
micro_batch = {batch}
precision = "f32"
[train.evaluation]
batches = 0
[system]
every = 0
"""
TEXT = '\n[data]\nkind = "synthetic"\nsequence_length = 8\n' + END.format(batch=2)
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
SIZES = "layers = 2\nhidden = 32\nheads = 2\nvocabulary_size = 96\nmax_positions = 16\n"
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


def edge_lists(shapes, random):
    """The inputs of a graph's edges: by the row that they end in, and by the row that they come from."""
    made = {}
    for prefix in {name[:-len("ptr")] for name in shapes if name.split(".")[-1] == "ptr"}:
        rows = shapes[prefix + "ptr"][1] - 1
        places = next((shapes[prefix + name][1] for name in ("source", "target_of") if prefix + name in shapes), 0)
        sources = shapes[prefix + "source_ptr"][1] - 1 if prefix + "source_ptr" in shapes else rows
        count = max(1, places - 3)  # the last places hold no edge
        target, source = numpy.sort(random.integers(0, rows, count)), random.integers(0, sources, count)
        by_source = numpy.argsort(source, kind="stable")
        pad = lambda values: numpy.concatenate([values, numpy.zeros(places - count, values.dtype)])[None]
        ends = lambda values, n: numpy.searchsorted(values, numpy.arange(n + 1))[None]
        made |= {prefix + "source": pad(source), prefix + "ptr": ends(target, rows), prefix + "by_source": pad(by_source),
                 prefix + "target_of": pad(target[by_source]), prefix + "source_ptr": ends(source[by_source], sources)}
    return made


def feeds_of(session):
    """Random inputs of a model, whose indices are in range."""
    random = numpy.random.default_rng(3)
    types = {"tensor(int32)": numpy.int32, "tensor(int64)": numpy.int64, "tensor(uint8)": numpy.uint8}
    high = {"input_ids": 90, "masked_positions": 7, "images": 255, "pixels": 255, "segment_ids": 2}
    infos = session.get_inputs()
    lists = edge_lists({info.name: info.shape for info in infos}, random)
    made = {}
    for info in infos:
        dtype = types.get(info.type, numpy.float32)
        if info.name in lists:
            made[info.name] = lists[info.name].astype(dtype)
        elif dtype == numpy.float32:
            made[info.name] = random.standard_normal(info.shape).astype(dtype)
        elif info.name == "attention_mask":
            made[info.name] = (numpy.arange(info.shape[1]) < numpy.array([[8], [5]])).astype(dtype)
        else:
            made[info.name] = random.integers(0, high.get(info.name, 2), info.shape).astype(dtype)
    return made


def outputs_of_ramet(path, feeds, folder):
    """What `ramet onnx run` gives for these inputs."""
    model = onnx.load(path)
    for name in ("in", "out"):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "in").mkdir()
    for index, info in enumerate(model.graph.input):
        message = numpy_helper.from_array(feeds[info.name], info.name)
        (folder / "in" / f"input_{index}.pb").write_bytes(message.SerializeToString())
    ramet("onnx", "run", path, "--in", folder / "in", "--out", folder / "out", folder=folder)
    return [numpy_helper.to_array(onnx.TensorProto.FromString((folder / "out" / f"output_{i}.pb").read_bytes()))
            for i in range(len(model.graph.output))]


@needs("onnx", "onnxruntime", "numpy")
class Written(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name)

    def train(self, kind):
        if "[data.graphs]" in RECIPES[kind]:
            write_graph(self.folder)
        (self.folder / "recipe.toml").write_text(f'name = "{kind}"\n[model]\n' + RECIPES[kind])
        ramet("train", "recipe.toml", "--run", kind, "--threads", "1", folder=self.folder)
        return self.folder / kind

    def check(self, path):
        onnx.checker.check_model(str(path), full_check=True)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        feeds = feeds_of(session)
        expected = session.run(None, feeds)
        found = outputs_of_ramet(path, feeds, self.folder)
        self.assertEqual(len(found), len(expected))
        for info, ours, theirs in zip(session.get_outputs(), found, expected):
            self.assertEqual(ours.dtype, theirs.dtype, info.name)
            numpy.testing.assert_allclose(ours, theirs, rtol=RELATIVE, atol=ABSOLUTE, err_msg=info.name)
            self.assertTrue(numpy.isfinite(theirs).all(), info.name)

    def check_kind(self, kind, *options):
        run = self.train(kind)
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
        run = self.train("resnet")
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
