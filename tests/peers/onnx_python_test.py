"""`ramet.load_onnx` and `ramet.save_onnx`: a file goes through Python, trains, and comes back for onnxruntime."""
import pathlib
import tempfile
import unittest

from package_support import skip_all

try:
    import numpy
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    skip_all("onnx is not installed; scripts/setup.sh --peers installs it")

import ramet

BATCH, WIDTH = 4, 3


def write(path):
    """y = relu(x w); its loss is the mean of (y - t)^2."""
    weight = numpy.arange(WIDTH * 2, dtype=numpy.float32).reshape(WIDTH, 2) / 10
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"]),
             helper.make_node("Sub", ["y", "t"], ["d"]), helper.make_node("Mul", ["d", "d"], ["s"]),
             helper.make_node("ReduceMean", ["s"], ["loss"], keepdims=0)]
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width]) for name, width in (("x", WIDTH), ("t", 2))]
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2]),
               helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])]
    graph = helper.make_graph(nodes, "small", given, results, [numpy_helper.from_array(weight, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)


class OnnxInPython(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        write(self.folder / "small.onnx")
        random = numpy.random.default_rng(1)
        self.data = {"x": random.standard_normal((BATCH, WIDTH), numpy.float32),
                     "t": random.standard_normal((BATCH, 2), numpy.float32)}

    def load(self):
        return ramet.load_onnx(self.folder / "small.onnx", bind={"batch": BATCH}, loss="loss")

    def values(self, name):
        """What onnxruntime makes of a file, by output; of the inputs it takes what the file has."""
        session = onnxruntime.InferenceSession(self.folder / name)
        fed = {value.name: self.data[value.name] for value in session.get_inputs()}
        return dict(zip((value.name for value in session.get_outputs()), session.run(None, fed)))

    def test_what_is_written_computes_the_same(self):
        ramet.save_onnx(self.load(), self.folder / "back.onnx")
        written = onnx.load(self.folder / "back.onnx")
        onnx.checker.check_model(written, full_check=True)
        before, after = self.values("small.onnx"), self.values("back.onnx")
        self.assertTrue(set(after) & {"y", "loss"}, after.keys())
        for name in set(after) & set(before):
            numpy.testing.assert_allclose(after[name], before[name], rtol=1e-6)

    def test_weights_that_were_trained_go_into_a_file(self):
        model = self.load()
        training = ramet.Training(model, train=ramet.Data.arrays(self.data), optimizer=ramet.Sgd(), precision="f32",
                                  schedule=ramet.Schedule(kind="constant", learning_rate=0.1), steps=20)
        training.fit(progress=False)
        training.save_weights(self.folder / "weights.safetensors")
        ramet.save_onnx(model, self.folder / "tuned.onnx", weights=self.folder / "weights.safetensors")
        weights = {each.name: numpy_helper.to_array(each) for each in onnx.load(self.folder / "tuned.onnx").graph.initializer}
        x, t, tuned = self.data["x"], self.data["t"], weights["w"]
        loss = float(((numpy.maximum(x @ tuned, 0) - t) ** 2).mean())
        self.assertLess(loss, float(self.values("small.onnx")["loss"]))
        numpy.testing.assert_allclose(self.values("tuned.onnx")["y"], numpy.maximum(x @ tuned, 0), rtol=1e-5)

    def test_bad_files_are_refused(self):
        with self.assertRaisesRegex(ramet.Error, "nowhere.onnx"):
            ramet.load_onnx(self.folder / "nowhere.onnx")
        (self.folder / "bad.onnx").write_bytes(b"\\x0a\\xff")
        with self.assertRaisesRegex(ramet.Error, "bad.onnx"):
            ramet.load_onnx(self.folder / "bad.onnx")
        with self.assertRaisesRegex(ramet.Error, "opset|operator set"):
            ramet.save_onnx(self.load(), self.folder / "old.onnx", opset=3)


if __name__ == "__main__":
    unittest.main()
