"""The one place that calls ramet.torch: a compiled training step, or a compiled prediction, of an Objective."""

import torch

from ramet.errors import Error

from .arguments import OPTIMIZERS


def class_of_optimizer(name):
    """The class that an optimizer of TrainingArguments.optim has here."""
    if hasattr(torch.optim, OPTIMIZERS[name]) and OPTIMIZERS[name] != "Adafactor":  # torch's is another algorithm than transformers'
        return getattr(torch.optim, OPTIMIZERS[name])
    import ramet.torch
    return getattr(ramet.torch.optim, OPTIMIZERS[name])


def _options(arguments, **more):
    import ramet.torch
    given = {name: getattr(arguments, name) for name in ("layout", "precision", "device_memory", "chunks", "threads", "parts", "axes")}
    return ramet.torch.Options(**{name: value for name, value in given.items() if value is not None}, **more)


class CompiledTraining:
    """A training step whose shapes are those of `example`, a micro-batch."""

    def __init__(self, objective, optimizer, example, arguments):
        import ramet.torch
        self.objective, self.rows = objective, len(next(iter(example.values())))
        lanes = {} if arguments.lanes is None else {"lanes": arguments.lanes}
        options = _options(arguments, micro_batches=arguments.gradient_accumulation_steps, max_grad_norm=float(arguments.max_grad_norm or 0.0),
                           seed=arguments.seed, loss_scale=None if arguments.precision == "f16" else 1.0,
                           loss_mean="items" if objective.counts_items(example) else None, **lanes)
        self.compiled = ramet.torch.training_model(objective, optimizer, example=example, loss="loss", options=options)

    @property
    def rows_of_step(self):
        """Samples that one optimizer step takes."""
        return self.compiled.samples_per_step

    def step(self, batch):
        """One optimizer step: (loss, norm of the gradient)."""
        result = self.compiled(**batch)
        return float(result.loss), float(result.grad_norm)

    def predict(self, batch):
        return _outputs(self.compiled.predict(**batch))

    def copy_weights(self):
        """Writes the trained weights and buffers into the objective's module."""
        self.compiled.copy_to(self.objective)

    def save(self, folder):
        """Writes weights, buffers, the optimizer's states and the number of steps: all that a restart needs."""
        self.compiled.save(folder)

    def restore(self, folder):
        self.compiled.restore(folder)


class CompiledPrediction:
    """Prediction alone, with the weights that the module had when it was compiled."""

    def __init__(self, module, example, arguments):
        import ramet.torch
        self.module, self.versions = module, _versions(module)
        modes = [(part, part.training) for part in module.modules()]
        try:
            self.compiled = ramet.torch.inference_model(module.eval(), example=example, options=_options(arguments))
        finally:
            for part, training in modes:
                part.training = training

    def is_current(self):
        """Whether no weight or buffer has changed since."""
        return self.versions == _versions(self.module)

    def predict(self, batch):
        return _outputs(self.compiled(**batch))


def _versions(module):
    return [(tensor.data_ptr(), tensor._version) for tensor in [*module.parameters(), *module.buffers()]]


def _outputs(found):
    """The named outputs as tensors of torch."""
    if not hasattr(found, "items"):
        raise Error("the compiled program gave no named outputs", "ramet.transformers", type(found).__name__)
    return {name: torch.as_tensor(value) for name, value in found.items() if value is not None}


def complete(batch, rows):
    """The batch with copies of its last sample up to `rows` samples; copies of labels are -100."""
    missing = rows - len(next(iter(batch.values())))
    if missing <= 0:
        return batch
    completed = {}
    for name, value in batch.items():
        last = value[-1:].expand(missing, *value.shape[1:])
        if name in ("labels", "label_ids") and not value.is_floating_point():
            last = torch.full_like(last, -100)
        completed[name] = torch.cat([value, last])
    return completed
