"""Ramet as a backend of ONNX (onnx.backend.base): runs a model on arrays with the program `ramet`.

    import onnx, ramet.onnx.backend as backend
    outputs = backend.run_model(onnx.load("model.onnx"), [array])

What Ramet refuses is reported as BackendIsNotSupposedToImplementIt, so that ONNX's runner skips it.
"""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.base import Backend, BackendRep
from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

REFUSED = 3  # exit status of `ramet onnx run` for what Ramet does not support


def _program():
    """The program `ramet`: RAMET_PROGRAM, that of the package, or the one on the path."""
    named = os.environ.get("RAMET_PROGRAM")
    own = pathlib.Path(__file__).resolve().parent.parent / "bin" / "ramet"
    found = named or (str(own) if own.exists() else shutil.which("ramet"))
    if not found:
        raise RuntimeError("the program ramet is not found; set RAMET_PROGRAM to its path")
    return found


def _message(value, info):
    """A value as the message that a file of ONNX's test data holds."""
    if isinstance(value, (onnx.TensorProto, onnx.SequenceProto, onnx.OptionalProto)):
        return value
    kind = info.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.from_list(value, info.name)
    if kind == "optional_type":
        return numpy_helper.from_optional(value, info.name)
    return numpy_helper.from_array(np.asarray(value), info.name)


def _value(data, info):
    """And back."""
    kind = info.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


class RametRep(BackendRep):
    """A model that is ready to run."""

    def __init__(self, model, threads=1):
        self.model = model
        self.threads = threads

    def run(self, inputs, **kwargs):
        """The outputs for `inputs`: a list in the order of the model's inputs, or a dict by name."""
        initialized = {tensor.name for tensor in self.model.graph.initializer}
        infos = [info for info in self.model.graph.input if info.name not in initialized]
        if isinstance(inputs, dict):
            inputs = [inputs[info.name] for info in infos if info.name in inputs]
        if not isinstance(inputs, (list, tuple)):
            inputs = [inputs]
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "in").mkdir()
            (folder / "model.onnx").write_bytes(self.model.SerializeToString())
            for index, (value, info) in enumerate(zip(inputs, infos)):
                (folder / "in" / f"input_{index}.pb").write_bytes(_message(value, info).SerializeToString())
            done = subprocess.run(
                [_program(), "onnx", "run", str(folder / "model.onnx"), "--in", str(folder / "in"), "--out",
                 str(folder / "out"), "--threads", str(self.threads), "--json"], capture_output=True, text=True)
            if done.returncode == REFUSED:
                raise BackendIsNotSupposedToImplementIt(json.loads(done.stdout.splitlines()[-1])["message"])
            if done.returncode != 0:
                raise RuntimeError(done.stderr.strip() or f"ramet ended with status {done.returncode}")
            return tuple(_value((folder / "out" / f"output_{index}.pb").read_bytes(), info)
                         for index, info in enumerate(self.model.graph.output))


class RametBackend(Backend):
    """The functions that ONNX asks of a backend."""

    @classmethod
    def is_compatible(cls, model, device="CPU", **kwargs):
        return True

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        if device != "CPU":
            raise ValueError("Ramet runs ONNX models on CPU alone")
        return RametRep(model, **kwargs)

    @classmethod
    def run_model(cls, model, inputs, device="CPU", **kwargs):
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node, inputs, device="CPU", outputs_info=None, **kwargs):
        """Runs one node; its outputs have no declared types."""
        graph = onnx.helper.make_graph(
            [node], "node",
            [onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(np.asarray(value).dtype),
                                                np.asarray(value).shape) for name, value in zip(node.input, inputs)],
            [onnx.helper.make_empty_tensor_value_info(name) for name in node.output])
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(node.domain, opset)])
        return cls.run_model(model, inputs, device, **kwargs)

    @classmethod
    def supports_device(cls, device):
        return device == "CPU"


is_compatible = RametBackend.is_compatible
prepare = RametBackend.prepare
run_model = RametBackend.run_model
run_node = RametBackend.run_node
supports_device = RametBackend.supports_device
