"""Training and prediction of functions written in JAX: docs/jax-tensorflow.md.

    step = ramet.jax.training_model(loss, params, example=batch, optimizer=ramet.AdamW())
    for batch in batches:
        result = step(batch)
    params = step.params
"""
from ramet.jax._model import model
from ramet.jax._training import TrainingModel, training_model

__all__ = ["TrainingModel", "model", "training_model"]
