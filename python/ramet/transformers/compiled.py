"""The one place that calls ramet.torch: a compiled training step, or a compiled prediction, of an Objective."""

import torch

from ramet.errors import Error


def options_of(arguments):
    """The options of ramet.torch for these TrainingArguments."""
    import ramet.torch
    more = {name: getattr(arguments, name) for name in ("lanes", "chunks", "threads") if getattr(arguments, name) is not None}
    return ramet.torch.Options(layout=arguments.layout, micro_batches=arguments.gradient_accumulation_steps, precision=arguments.precision,
                               device_memory=arguments.device_memory, max_grad_norm=arguments.max_grad_norm or None, seed=arguments.seed,
                               **more)


class CompiledTraining:
    """A training step whose shapes are those of `example`, a micro-batch."""

    def __init__(self, objective, optimizer, example, arguments):
        import ramet.torch
        self.objective, self.rows = objective, len(next(iter(example.values())))
        self.step_of = ramet.torch.training_model(objective, optimizer, example=example, loss="loss", options=options_of(arguments))

    @property
    def plan(self):
        return self.step_of.plan

    @property
    def rows_of_step(self):
        """Samples that one optimizer step takes."""
        return self.step_of.samples_per_step

    def step(self, batch):
        """One optimizer step: (loss, norm of the gradient or None)."""
        result = self.step_of(**batch)
        norm = getattr(result, "grad_norm", None)
        return float(result.loss), None if norm is None else float(norm)

    def predict(self, batch):
        return _outputs(self.step_of.evaluate(**batch))

    def copy_weights(self):
        """Writes the trained weights and buffers into the objective's module."""
        self.step_of.copy_to(self.objective)

    def state(self):
        """Weights, buffers, the optimizer's states and the number of steps: all that a restart needs."""
        return {"weights": self.step_of.state_dict(), "optimizer": self.step_of.optimizer_state_dict()}

    def load(self, state, with_optimizer=True):
        self.step_of.load_state_dict(state["weights"])
        if with_optimizer:
            self.step_of.load_optimizer_state_dict(state["optimizer"])


class CompiledPrediction:
    """Prediction alone, with the weights that the module had when it was compiled."""

    def __init__(self, objective, example, arguments=None):
        import ramet.torch
        self.rows = len(next(iter(example.values())))
        options = None
        if arguments is not None:
            options = ramet.torch.Options(layout=arguments.layout, precision=arguments.precision, device_memory=arguments.device_memory,
                                          **({"threads": arguments.threads} if arguments.threads else {}))
        modes = [(part, part.training) for part in objective.modules()]
        try:
            self.call = ramet.torch.inference_model(objective.eval(), example=example, **({} if options is None else {"options": options}))
        finally:
            for part, training in modes:
                part.training = training

    def predict(self, batch):
        return _outputs(self.call(**batch))


def _outputs(found):
    """The named outputs as tensors of torch."""
    found = getattr(found, "outputs", found)
    if not hasattr(found, "items"):
        raise Error("the compiled program gave no named outputs", "ramet.transformers", type(found).__name__)
    return {name: value if isinstance(value, torch.Tensor) else torch.as_tensor(value) for name, value in found.items()}


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
