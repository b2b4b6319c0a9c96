"""What the tests of written ONNX files share: inputs, and Ramet's results beside onnxruntime's."""
import pathlib
import shutil
import tempfile
import unittest

from peers import ramet

try:
    import numpy
    import onnx
    import onnxruntime
    from onnx import numpy_helper
except ImportError:
    onnx = None

RELATIVE, ABSOLUTE = 1e-3, 1e-4
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
SIZES = "layers = 2\nhidden = 32\nheads = 2\nvocabulary_size = 96\nmax_positions = 16\n"


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


def feeds_of(session, given=None):
    """Random inputs of a model, whose indices are in range; `given` are arrays by name, or bounds of indices."""
    random = numpy.random.default_rng(3)
    types = {"tensor(int32)": numpy.int32, "tensor(int64)": numpy.int64, "tensor(uint8)": numpy.uint8}
    high = {"input_ids": 90, "masked_positions": 7, "images": 255, "pixels": 255, "segment_ids": 2}
    high |= {name: value for name, value in (given or {}).items() if isinstance(value, int)}
    infos = session.get_inputs()
    lists = edge_lists({info.name: info.shape for info in infos if info.name not in (given or {})}, random)
    made = {}
    for info in infos:
        dtype = types.get(info.type, numpy.float32)
        if info.name in (given or {}) and info.name not in high:
            made[info.name] = given[info.name].astype(dtype)
        elif info.name in lists:
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


class WriterTestCase(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name)

    def train(self, kind, recipe):
        (self.folder / "recipe.toml").write_text(f'name = "{kind}"\n[model]\n' + recipe)
        ramet("train", "recipe.toml", "--run", kind, "--threads", "1", folder=self.folder)
        return self.folder / kind

    def check(self, path, given=None):
        onnx.checker.check_model(str(path), full_check=True)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        feeds = feeds_of(session, given)
        expected = session.run(None, feeds)
        found = outputs_of_ramet(path, feeds, self.folder)
        self.assertEqual(len(found), len(expected))
        for info, ours, theirs in zip(session.get_outputs(), found, expected):
            self.assertEqual(ours.dtype, theirs.dtype, info.name)
            numpy.testing.assert_allclose(ours, theirs, rtol=RELATIVE, atol=ABSOLUTE, err_msg=info.name)
            self.assertTrue(numpy.isfinite(theirs).all(), info.name)
        return feeds, dict(zip([info.name for info in session.get_outputs()], expected))
