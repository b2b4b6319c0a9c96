"""ONNX files that other programs export, run by Ramet and by onnxruntime.

    python bench/onnx_exports.py                              # all models of bench/peers/torch_zoo.py, by both of PyTorch's exporters
    python bench/onnx_exports.py --only bert --exporter old --train
    python bench/onnx_exports.py --only llama --only qwen2 --attention eager --attention sdpa
    python bench/onnx_exports.py --file model.onnx ...        # any files with fixed shapes

    python3 -m venv build/onnx-exporters                      # 2 GB, of which no other test needs any
    build/onnx-exporters/bin/pip install -r bench/peers/onnx_exporters.txt
    build/onnx-exporters/bin/python bench/onnx_exports.py --others --train     # Keras, tf2onnx, jax2onnx: bench/peers/onnx_zoo.py
    KERAS_BACKEND=jax build/onnx-exporters/bin/python bench/onnx_exports.py --others --exporter keras

The models of PyTorch compute their loss and their logits. Outputs must agree within rtol 1e-3 and atol 1e-4. With --train the file is
then trained on its inputs for some steps: the first loss must be that of onnxruntime's outputs, and the last one lower. A row is one JSON
object: the model, the exporter, "same", "differs", "refused" (by Ramet, with its message), "not trained", or "no export" and
"no reference" (by the exporter, by onnxruntime). Needs the peers: scripts/setup.sh --peers.
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
SAMPLES, STEPS = 2, 8


def first_line(error):
    return " ".join(str(error).split())[:200]


def compare(path, inputs, model):
    """(result, message, onnxruntime's outputs by name) of a file on inputs by name."""
    import numpy
    import onnx
    import onnxruntime
    from onnx import numpy_helper
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        lost = [value.name for value in session.get_inputs() if value.name not in inputs]
        if lost:
            return "no reference", f"the exporter made constants inputs, and lost their values: {', '.join(lost)}", {}
        fed = {value.name: inputs[value.name] for value in session.get_inputs()}
        expected = session.run(None, fed)
    except Exception as error:  # of any kind: the peer's limits are no result of ours
        return "no reference", first_line(error), {}
    named = dict(zip([value.name for value in session.get_outputs()], expected))
    with tempfile.TemporaryDirectory() as folder:
        given, made = pathlib.Path(folder, "in"), pathlib.Path(folder, "out")
        given.mkdir()
        names = [value.name for value in onnx.load(str(path), load_external_data=False).graph.input]
        for index, name in enumerate(names):
            (given / f"input_{index}.pb").write_bytes(numpy_helper.from_array(numpy.ascontiguousarray(inputs[name]), name).SerializeToString())
        done = subprocess.run([PROGRAM, "onnx", "run", str(path), "--in", str(given), "--out", str(made), "--json"], capture_output=True, text=True)
        if done.returncode != 0:
            return "refused", first_line((done.stdout + done.stderr).replace(str(path), model)), named
        most = 0.0
        for index, value in enumerate(expected):
            found = numpy_helper.to_array(onnx.load_tensor(str(made / f"output_{index}.pb")))
            if found.shape != value.shape or found.dtype != value.dtype:
                return "differs", f"output {index} is {found.dtype}{found.shape}, not {value.dtype}{value.shape}", named
            if value.size == 0:
                continue
            difference = numpy.abs(found.astype("float64") - value.astype("float64"))
            most = max(most, float((difference / (ABSOLUTE + RELATIVE * numpy.abs(value))).max()))
        return ("same" if most <= 1 else "differs"), f"{most:.2g} of the tolerance", named


RECIPE = """name = "exported"
[model]
file = "{file}?loss={loss}"
[data]
kind = "arrays"
train = "train.npz"
shuffle = false
[train]
steps = {steps}
precision = "f32"
clip_norm = 0
[train.optimizer]
kind = "adam"
weight_decay = 0
[train.schedule]
kind = "constant"
learning_rate = 3e-4
warmup_steps = 0
[train.evaluation]
batches = 0
[system]
every = 0
"""


def train(path, inputs, outputs):
    """(whether it works, message): the loss is the only number that comes out, or the cross-entropy of the first matrix."""
    import numpy
    scalars = [name for name, value in outputs.items() if value.ndim == 0]
    arrays = {name: numpy.ascontiguousarray(value) for name, value in inputs.items()}
    if scalars:
        loss, wanted = scalars[0], float(outputs[scalars[0]])
    else:
        name, logits = next((name, value.astype("float64")) for name, value in outputs.items() if value.ndim == 2)
        arrays["classes"] = numpy.arange(len(logits)) % logits.shape[1]
        loss = f"cross_entropy:{name}:classes"
        shifted = logits - logits.max(1, keepdims=True)
        wanted = float(numpy.mean(numpy.log(numpy.exp(shifted).sum(1)) - shifted[numpy.arange(len(logits)), arrays["classes"]]))
    numpy.savez(path.parent / "train.npz", **arrays)
    (path.parent / "recipe.toml").write_text(RECIPE.format(file=path.name, loss=loss, steps=STEPS))
    command = [PROGRAM, "train", "recipe.toml", "--run", "run", "--json", "--threads", "1"]
    done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True)
    if done.returncode != 0:
        return False, "not trained: " + first_line((done.stdout + done.stderr).strip().splitlines()[-1])
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    losses = [event["loss"] for event in events if event.get("event") == "step"]
    told = f"loss {losses[0]:.5g} (onnxruntime {wanted:.5g}) to {losses[-1]:.5g}"
    return abs(losses[0] - wanted) <= ABSOLUTE + RELATIVE * abs(wanted) and losses[-1] < losses[0], told


def export_torch(name, exporter, attention, path):
    import torch
    from peers import torch_zoo
    module, batch, _ = torch_zoo.make(name)
    if attention:
        module.set_attn_implementation(attention)
    given = batch(SAMPLES, torch.Generator().manual_seed(7))
    norms = [each for each in module.modules() if isinstance(each, torch.nn.modules.batchnorm._BatchNorm)]
    for each in norms:  # statistics of a batch: otherwise deep networks with new weights give nearly nothing
        each.momentum = 1.0
    if norms:
        with torch.no_grad():
            module(**given)
    module.eval()
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
    torch.backends.mha.set_fastpath_enabled(False)  # an operator that the older exporter does not know
    with torch.no_grad():
        torch.onnx.export(Results().eval(), tuple(tensors.values()), str(path), input_names=list(tensors), **options)
    return {key: value.numpy() for key, value in tensors.items()}


def row(model, exporter, export, trains):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, f"{model}.onnx")
        try:
            inputs = export(path)
        except Exception as error:
            result, message = "no export", first_line(error)
        else:
            result, message, outputs = compare(path, inputs, model)
            if trains and result == "same":
                works, told = train(path, inputs, outputs)
                result, message = "same" if works else "not trained", f"{message}, {told}"
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
    parser.add_argument("--exporter", action="append",
                        help="of PyTorch: new (by torch.export) or old (by TorchScript); with --others: keras, tf2onnx or jax2onnx")
    parser.add_argument("--attention", action="append", choices=["eager", "sdpa"],
                        help="of models of transformers: written out, or PyTorch's own (default: what the model chooses)")
    parser.add_argument("--others", action="store_true", help="the models of bench/peers/onnx_zoo.py by the exporters that are installed")
    parser.add_argument("--train", action="store_true", help="train each file for some steps, too")
    parser.add_argument("--file", action="append", default=[], help="ONNX files instead")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    if args.file:
        good = []
        for path in args.file:
            result, message, _ = compare(path, random_inputs(path), pathlib.Path(path).stem)
            print(json.dumps({"model": pathlib.Path(path).stem, "exporter": "file", "result": result, "message": message}), flush=True)
            good.append(result == "same")
        return 0 if all(good) else 1
    if args.others:
        from peers import onnx_zoo
        good = [row(name, exporter, lambda path, name=name, export=export: export(name, path), args.train)
                for exporter, models, export in onnx_zoo.families() if not args.exporter or exporter.split()[0] in args.exporter
                for name in args.only or models()]
        return 0 if all(good) else 1
    import torch
    from peers import torch_zoo
    torch.set_num_threads(1)
    good = [row(name, ", ".join(["torch", exporter] + ([f"{attention} attention"] if attention else [])),
                lambda path, name=name, exporter=exporter, attention=attention: export_torch(name, exporter, attention, path), args.train)
            for name in args.only or torch_zoo.MODELS for exporter in args.exporter or ["new", "old"] for attention in args.attention or [None]]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
