"""ONNX: its node tests by the program and by its own runner, and onnxruntime's outputs of real models."""
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("RAMET_BUILD_DIR", ROOT / "build"))
os.environ.setdefault("RAMET_PROGRAM", str(BUILD / "ramet"))

try:
    import numpy
    import onnx
    import onnx.backend.test
    from onnx import numpy_helper
    from onnx.backend.test.case.node import collect_testcases
except ImportError:
    onnx = None

GRADIENTS = ROOT / "tests" / "peers" / "onnx_gradients.tsv"
EXPECTATIONS = ROOT / "tests" / "peers" / "onnx_expectations.tsv"
TESTED_ONNX = "1.23.2"


def load_backend():
    """python/ramet/onnx/backend.py alone: the package around it needs its extension."""
    spec = importlib.util.spec_from_file_location("ramet_onnx_backend", ROOT / "python/ramet/onnx/backend.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def message(value, info):
    kind = info.type.WhichOneof("value")
    if isinstance(value, onnx.TensorProto):
        return value
    if kind == "sequence_type":
        return numpy_helper.from_list(value, info.name)
    if kind == "optional_type":
        return numpy_helper.from_optional(value, info.name)
    if kind == "map_type":
        return numpy_helper.from_dict(value, info.name)
    return numpy_helper.from_array(numpy.asarray(value), info.name)



def write_cases(folder):
    """ONNX's node tests as files, as ONNX itself had them before it made them by code."""
    cases = collect_testcases(None)
    for case in cases:
        place = folder / case.name
        place.mkdir(parents=True)
        (place / "model.onnx").write_bytes(case.model.SerializeToString())
        for number, (inputs, outputs) in enumerate(case.data_sets):
            data = place / f"test_data_set_{number}"
            data.mkdir()
            for kind, values, infos in (("input", inputs, case.model.graph.input),
                                        ("output", outputs, case.model.graph.output)):
                for index, (value, info) in enumerate(zip(values, infos)):
                    (data / f"{kind}_{index}.pb").write_bytes(message(value, info).SerializeToString())
    return len(cases)


def run_json(*arguments):
    done = subprocess.run([str(BUILD / "ramet"), *map(str, arguments), "--json"], capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return done, lines


@unittest.skipIf(onnx is None, "onnx is not installed; scripts/setup.sh --peers installs it")
class OnnxNodeTests(unittest.TestCase):
    def test_every_node_test_has_its_expected_result(self):
        if onnx.__version__ != TESTED_ONNX:
            self.skipTest(f"the expectations are those of onnx {TESTED_ONNX}")
        with tempfile.TemporaryDirectory() as folder:
            count = write_cases(pathlib.Path(folder))
            done, lines = run_json("onnx", "test", folder, "--expect", EXPECTATIONS)
            gradients, gradient_lines = run_json("onnx", "test", folder, "--gradients", "--expect", GRADIENTS)
        end = lines[-1]
        self.assertEqual(end["passed"] + end["failed"] + end["refused"], count)
        self.assertEqual(end["unexpected"], 0, done.stderr[-4000:])
        self.assertGreaterEqual(end["passed"], 1480)
        end = gradient_lines[-1]
        self.assertEqual(end["unexpected"], 0, gradients.stderr[-4000:])
        self.assertEqual((end["gradient_wrong"], end["gradient_unsure"]), (0, 0))
        self.assertGreaterEqual(end["gradient_checked"], 1300)


@unittest.skipIf(onnx is None, "onnx is not installed; scripts/setup.sh --peers installs it")
class OnnxRealModels(unittest.TestCase):
    def test_models_of_the_data_folder_give_onnxruntimes_outputs(self):
        data = os.environ.get("RAMET_DATA")
        if not data or not (pathlib.Path(data) / "onnx_models").is_dir():
            self.skipTest("RAMET_DATA has no onnx_models")
        done, lines = run_json("onnx", "test", pathlib.Path(data) / "onnx_models", "--rtol", "1e-3", "--atol", "1e-4")
        self.assertEqual([line for line in lines[:-1] if line["result"] != "passed"], [], done.stderr)
        self.assertEqual(lines[-1]["passed"], 3)


@unittest.skipIf(onnx is None, "onnx is not installed; scripts/setup.sh --peers installs it")
class OnnxLightModels(unittest.TestCase):
    def test_models_with_constants_as_weights_give_the_expected_outputs(self):
        data = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
        models = sorted(data.glob("*.onnx"))
        if not models:
            self.skipTest("this version of onnx comes without light models")
        with tempfile.TemporaryDirectory() as place:
            for path in models:
                model = onnx.load(path)
                folder = pathlib.Path(place) / path.stem / "test_data_set_0"
                folder.mkdir(parents=True)
                shutil.copy(path, folder.parent / "model.onnx")
                shutil.copy(path.with_name(path.stem + "_output_0.pb"), folder / "output_0.pb")
                initialized = {tensor.name for tensor in model.graph.initializer}
                free = [info for info in model.graph.input if info.name not in initialized]
                for index, info in enumerate(free):
                    shape = [extent.dim_value or 1 for extent in info.type.tensor_type.shape.dim]
                    size = int(numpy.prod(shape))
                    values = (numpy.arange(size) / size).astype(numpy.float32).reshape(shape)  # as ONNX's runner has it
                    (folder / f"input_{index}.pb").write_bytes(message(values, info).SerializeToString())
            done, lines = run_json("onnx", "test", place, "--rtol", "1e-3", "--atol", "1e-4")
        self.assertEqual([line for line in lines[:-1] if line["result"] != "passed"], [], done.stderr)
        self.assertEqual(lines[-1]["passed"], len(models))


if onnx is not None:
    # ONNX's own runner, unchanged, on a part of the node tests (each starts the program once).
    runner = onnx.backend.test.BackendTest(load_backend(), __name__)
    runner.include(r"^test_(add|gemm|gru|lstm|optional|scan|sequence|softmax_axis)[a-zA-Z0-9_]*_cpu$")
    refused = [line.split("\t")[0] for line in EXPECTATIONS.read_text().splitlines() if "\tfailed" in line]
    for name in refused:
        runner.exclude("^" + name + "_cpu$")
    OnnxBackendNodeModelTest = runner.test_cases["OnnxBackendNodeModelTest"]
    for name, method in list(vars(OnnxBackendNodeModelTest).items()):
        if getattr(method, "__unittest_skip__", False):  # not of this part, or for CUDA
            delattr(OnnxBackendNodeModelTest, name)

if __name__ == "__main__":
    unittest.main()
