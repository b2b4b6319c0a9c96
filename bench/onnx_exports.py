"""ONNX files that other programs export, run by Ramet and by onnxruntime.

    python bench/onnx_exports.py                              # all models of bench/peers/torch_zoo.py, by both of PyTorch's exporters
    python bench/onnx_exports.py --only bert --exporter old
    python bench/onnx_exports.py --keras                      # Keras's own export (backends jax and torch)
    python bench/onnx_exports.py --file model.onnx ...        # any files with fixed shapes

The models of PyTorch compute their loss and their logits. Outputs must agree within rtol 1e-3 and atol 1e-4. A row is one JSON object: the
model, the exporter, "same", "differs", "refused" (by Ramet, with its message), or "no export" and "no reference" (by the exporter, by
onnxruntime). Needs the peers: scripts/setup.sh --peers.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
# This folder last: its tokenize.py must not stand before Python's.
sys.path = [each for each in sys.path if each != str(ROOT / "bench")] + [str(ROOT / "bench")]
PROGRAM = os.environ.get("RAMET_PROGRAM", str(pathlib.Path(os.environ.get("RAMET_BUILD_DIR", ROOT / "build")) / "ramet"))
RELATIVE, ABSOLUTE = 1e-3, 1e-4
SAMPLES = 2


def first_line(error):
    return " ".join(str(error).split())[:200]


def compare(path, inputs, model):
    """(result, message) of a file on inputs by name."""
    import numpy
    import onnx
    import onnxruntime
    from onnx import numpy_helper
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        fed = {value.name: inputs[value.name] for value in session.get_inputs()}
        expected = session.run(None, fed)
    except Exception as error:  # of any kind: the peer's limits are no result of ours
        return "no reference", first_line(error)
    with tempfile.TemporaryDirectory() as folder:
        given, made = pathlib.Path(folder, "in"), pathlib.Path(folder, "out")
        given.mkdir()
        names = [value.name for value in onnx.load(str(path), load_external_data=False).graph.input]
        for index, name in enumerate(names):
            (given / f"input_{index}.pb").write_bytes(numpy_helper.from_array(numpy.ascontiguousarray(inputs[name]), name).SerializeToString())
        done = subprocess.run([PROGRAM, "onnx", "run", str(path), "--in", str(given), "--out", str(made), "--json"], capture_output=True, text=True)
        if done.returncode != 0:
            return "refused", first_line((done.stdout + done.stderr).replace(str(path), model))
        most = 0.0
        for index, value in enumerate(expected):
            found = numpy_helper.to_array(onnx.load_tensor(str(made / f"output_{index}.pb")))
            if found.shape != value.shape or found.dtype != value.dtype:
                return "differs", f"output {index} is {found.dtype}{found.shape}, not {value.dtype}{value.shape}"
            if value.size == 0:
                continue
            difference = numpy.abs(found.astype("float64") - value.astype("float64"))
            most = max(most, float((difference / (ABSOLUTE + RELATIVE * numpy.abs(value))).max()))
        return ("same" if most <= 1 else "differs"), f"{most:.2g} of the tolerance"


def export_torch(name, exporter, path):
    import torch
    from peers import torch_zoo
    module, batch, _ = torch_zoo.make(name)
    module.eval()
    given = batch(SAMPLES, torch.Generator().manual_seed(7))
    tensors = {key: value for key, value in given.items() if isinstance(value, torch.Tensor)}
    others = {key: value for key, value in given.items() if key not in tensors}

    class Results(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.module = module

        def forward(self, *values):
            out = self.module(**dict(zip(tensors, values)), **others)
            names = [key for key in ("loss", "logits", "logits_per_image") if key in out]
            return tuple(out[key] for key in names)

    options = dict(dynamo=True, verbose=False) if exporter == "new" else dict(dynamo=False, opset_version=17)
    with torch.no_grad():
        torch.onnx.export(Results().eval(), tuple(tensors.values()), str(path), input_names=list(tensors), **options)
    return {key: value.numpy() for key, value in tensors.items()}


def keras_models():
    import keras
    from keras import layers

    def attention():
        words = keras.Input((16,), dtype="int32", name="words")
        x = layers.Embedding(97, 32)(words)
        x = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 8)(x, x))
        return keras.Model(words, layers.Dense(10, activation="softmax")(layers.GlobalAveragePooling1D()(x)))

    def recurrent(kind):
        words = keras.Input((16,), dtype="int32", name="words")
        return keras.Model(words, layers.Dense(10)(kind(32)(layers.Embedding(97, 24)(words))))

    def images():
        pixels = keras.Input((32, 32, 3), name="pixels")
        x = layers.Conv2D(16, 3, padding="same")(pixels)
        x = layers.Activation("gelu")(layers.BatchNormalization()(x))
        x = layers.MaxPooling2D()(layers.DepthwiseConv2D(3, padding="same")(x))
        x = layers.Activation("swish")(layers.GroupNormalization(4)(x))
        return keras.Model(pixels, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))

    return {"attention": attention, "lstm": lambda: recurrent(layers.LSTM), "gru": lambda: recurrent(layers.GRU), "images": images,
            "mobilenet_v2": lambda: keras.applications.MobileNetV2((64, 64, 3), alpha=0.35, weights=None, classes=10)}


def export_keras(name, path):
    import keras
    import numpy
    keras.utils.set_random_seed(1)
    model = keras_models()[name]()
    random = numpy.random.default_rng(1)
    value = model.inputs[0]
    shape = (SAMPLES, *value.shape[1:])
    drawn = random.integers(0, 97, shape).astype("int32") if "int" in str(value.dtype) else random.standard_normal(shape).astype("float32")
    signature = [keras.InputSpec(shape=shape, dtype=value.dtype, name=value.name)]
    model.export(str(path), format="onnx", verbose=False, input_signature=signature)
    import onnx
    return {onnx.load(str(path)).graph.input[0].name: drawn}


def row(model, exporter, export):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, f"{model}.onnx")
        try:
            inputs = export(path)
        except Exception as error:
            result, message = "no export", first_line(error)
        else:
            result, message = compare(path, inputs, model)
    print(json.dumps({"model": model, "exporter": exporter, "result": result, "message": message}), flush=True)
    return result in ("same", "no export", "no reference")


def random_inputs(path):
    import numpy
    import onnx
    from onnx.helper import tensor_dtype_to_np_dtype
    random, made = numpy.random.default_rng(1), {}
    for value in onnx.load(str(path), load_external_data=False).graph.input:
        type = value.type.tensor_type
        shape = [each.dim_value or SAMPLES for each in type.shape.dim]
        dtype = tensor_dtype_to_np_dtype(type.elem_type)
        made[value.name] = (random.standard_normal(shape) if dtype.kind == "f" else random.integers(0, 2, shape)).astype(dtype)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="a model's name")
    parser.add_argument("--exporter", choices=["new", "old"], action="append", help="of PyTorch: by torch.export, or by TorchScript")
    parser.add_argument("--keras", action="store_true", help="the models of Keras, with the backend of KERAS_BACKEND")
    parser.add_argument("--file", action="append", default=[], help="ONNX files instead")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    if args.file:
        good = []
        for path in args.file:
            result, message = compare(path, random_inputs(path), pathlib.Path(path).stem)
            print(json.dumps({"model": pathlib.Path(path).stem, "exporter": "file", "result": result, "message": message}), flush=True)
            good.append(result == "same")
        return 0 if all(good) else 1
    if args.keras:
        exporter = "keras on " + os.environ.get("KERAS_BACKEND", "tensorflow")
        return 0 if all([row(name, exporter, lambda path, name=name: export_keras(name, path)) for name in args.only or keras_models()]) else 1
    import torch
    from peers import torch_zoo
    torch.set_num_threads(1)
    good = [row(name, f"torch, {exporter}", lambda path, name=name, exporter=exporter: export_torch(name, exporter, path))
            for name in args.only or torch_zoo.MODELS for exporter in args.exporter or ["new", "old"]]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
