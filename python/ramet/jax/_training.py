"""A function of JAX compiled for training."""
import jax
import numpy as np

import ramet

from ._model import model, named_leaves


class TrainingModel:
    """A loss and its optimizer, compiled as one program. A call makes one optimizer step. The weights live in this
    object; `params` reads them."""

    def __init__(self, loss, params, example, predict, axes, name, options):
        self.model = model(loss, params, example, predict, axes, name)
        self.training = ramet.Training(self.model, **options)
        names, self._structure = named_leaves(params, "weight")
        self._names = list(names)
        self._outputs = None
        if predict is not None:
            shapes = jax.eval_shape(predict, params, example)
            names, structure = named_leaves(shapes, "output")
            self._outputs = list(names), structure

    @staticmethod
    def _feed(batch):
        return {name: np.asarray(leaf) for name, leaf in named_leaves(batch, "batch")[0].items()}

    def __call__(self, batch, rate=None):
        """One optimizer step on a batch of `samples_per_step` samples. Raises ramet.Error, and changes no weight, when
        the loss is not finite."""
        return self.training.step(self._feed(batch), rate=rate)

    def evaluate(self, batch):
        """The loss and the metrics of whole micro-batches, by name."""
        return self.training.evaluate(self._feed(batch))

    def predict(self, batch):
        """What `predict` returns for any number of samples, as arrays of JAX."""
        if self._outputs is None:
            raise ramet.Error("a model without outputs", where="predict()", remedy="Give training_model(predict=function)")
        names, structure = self._outputs
        made = self.training.predict(self._feed(batch))
        return jax.tree_util.tree_unflatten(structure, [jax.numpy.asarray(made[name]) for name in names])

    @property
    def params(self):
        """The weights as they are now, in the structure of the params that were given."""
        leaves = [jax.numpy.asarray(self.training.weight(name)) for name in self._names]
        return jax.tree_util.tree_unflatten(self._structure, leaves)

    @property
    def samples_per_step(self):
        return self.training.samples_per_step

    @property
    def steps_done(self):
        return self.training.steps_done

    def weights_hash(self):
        """Hash of all weights. Equal bits give equal hashes, on any layout."""
        return self.training.weights_hash()

    def save(self, folder):
        """Saves all that training needs to go on, whole or not at all, and returns the path."""
        return self.training.save(folder)

    def restore(self, path):
        """Goes on from a checkpoint of any layout. Returns warnings, one a line."""
        return self.training.restore(path)


def training_model(loss, params, *, example, predict=None, axes=None, name=None, **options):
    """Compiles a function loss(params, batch) and an optimizer for training.

    The first arguments are those of ramet.jax.model; all others are options of ramet.Training, as `optimizer`, `schedule`,
    `layout` and `micro_batches`. Raises ramet.UnsupportedOp and ramet.DoesNotFit before any step.
    """
    return TrainingModel(loss, params, example, predict, axes, name, options)
