"""Models of Keras 3 as modules of PyTorch and as functions of JAX: docs/jax-tensorflow.md.

The backend of Keras decides which of the two: KERAS_BACKEND=torch or KERAS_BACKEND=jax.
"""
import keras

import ramet

__all__ = ["assign", "jax_function", "torch_module"]


def _need_backend(name):
    if keras.backend.backend() != name:
        raise ramet.Error("another backend of Keras", where=f"ramet.keras.{name}", found=keras.backend.backend(),
                          expected=name, remedy=f"Set KERAS_BACKEND={name} before the first import of keras; a model "
                          "saved as .keras can be loaded with any backend")


def _whole_loss(loss, targets, outputs, penalties):
    """The loss function's mean over the samples, and the penalties of regularizers and add_loss."""
    total = keras.ops.mean(loss(targets, outputs))
    for each in penalties:
        total = total + each
    return total


def torch_module(model, loss):
    """A torch.nn.Module that calls a model of Keras: forward(inputs, targets) returns {"loss": scalar, "outputs": ...}.

    `loss`: a loss of Keras or a function of (targets, outputs). Parameters and buffers are the model's own variables, so
    that `step.copy_to(module)` writes into the model of Keras. Running statistics are buffers.
    """
    _need_backend("torch")
    import torch

    class KerasModule(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self._call = lambda *values, **options: model.stateless_call(*values, **options)  # not a submodule
            self._trained = [variable.path.replace("/", "_") for variable in model.trainable_variables]
            self._others = [variable.path.replace("/", "_") for variable in model.non_trainable_variables]
            for name, variable in zip(self._trained, model.trainable_variables):
                self.register_parameter(name, variable.value)
            for name, variable in zip(self._others, model.non_trainable_variables):
                self.register_buffer(name, variable.value.data)

        def forward(self, inputs, targets):
            before = [getattr(self, name) for name in self._others]
            outputs, after, penalties = self._call([getattr(self, name) for name in self._trained], before, inputs,
                                                   training=self.training, return_losses=True)
            for old, new in zip(before, after):
                if new is not old:
                    old.copy_(new)
            return {"loss": _whole_loss(loss, targets, outputs, penalties), "outputs": outputs}

    return KerasModule()


def jax_function(model, loss):
    """A function of (params, batch) for ramet.jax.training_model, and its params: {path of a variable: its value}.

    A batch is {"inputs": ..., "targets": ...}. `loss`: a loss of Keras or a function of (targets, outputs). Raises
    ramet.UnsupportedOp, when the function is called, for layers that change variables while they train, as
    BatchNormalization and Dropout do.
    """
    _need_backend("jax")
    others = [variable.value for variable in model.non_trainable_variables]
    names = [variable.path for variable in model.trainable_variables]

    def function(params, batch):
        outputs, after, penalties = model.stateless_call([params[name] for name in names], others, batch["inputs"],
                                                         training=True, return_losses=True)
        changed = [variable.path for variable, old, new in zip(model.non_trainable_variables, others, after)
                   if new is not old]
        if changed:
            raise ramet.UnsupportedOp("layers of Keras that change variables while they train", where=model.name,
                                      found=", ".join(changed),
                                      remedy="Use the torch backend and ramet.keras.torch_module")
        return _whole_loss(loss, batch["targets"], outputs, penalties)

    return function, {variable.path: variable.value for variable in model.trainable_variables}


def assign(model, params):
    """Writes params, as ramet.jax gives them, into the variables of a model of Keras."""
    for variable in model.trainable_variables:
        variable.assign(params[variable.path])
