"""A module compiled for prediction."""

import os

import ramet
from ramet.errors import Error

from . import _export
from ._compile import source_of_inference
from ._options import Options

TRAINING_ONLY = ("micro_batches", "max_grad_norm", "loss_scale", "loss_mean", "lanes", "outputs")


class InferenceModel:
    """A module compiled for prediction: it takes any number of samples and returns what the module returns."""

    def __init__(self, source, options):
        self._source, self._process = source, os.getpid()
        self.left_out = list(source.evaluation.tree.left_out)
        """Outputs that are None because they are no tensors, such as caches of keys and values."""
        self._predictor = ramet.Predictor(source.model(options), "", precision=options.precision, chunks=options.chunks,
                                          layout=options.layout, threads=options.threads,
                                          device_memory=options.memory_bytes(), device=options.device)

    def __call__(self, *arguments, **keywords):
        if os.getpid() != self._process:
            raise Error("a compiled program in a forked process", where="InferenceModel",
                        remedy="Its threads did not survive the fork. Call it in the process that made it")
        tensors = self._source.inputs.tensors_of(arguments, keywords, "predict")
        return self._source.outputs(self._predictor.predict(self._source.feed(tensors)))

    @property
    def bytes(self):
        """That all devices use."""
        return self._predictor.bytes

    def __reduce__(self):
        raise TypeError("a compiled InferenceModel cannot be copied or pickled")


def inference_model(module, example, options=None):
    """Compiles a module in evaluation mode. `example`: a batch as the module takes it; the first dimension counts the
    samples. Calls may have any number of samples."""
    options = options or Options()
    changed = [name for name in TRAINING_ONLY if getattr(options, name) != getattr(Options(), name)]
    if changed:
        raise Error("options of training", where="inference_model", found=", ".join(changed))
    return InferenceModel(source_of_inference(module, example, options), options)
