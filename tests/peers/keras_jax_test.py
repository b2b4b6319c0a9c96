"""Models of Keras on JAX train with Ramet as in Keras itself."""
import unittest

import keras_support as support
from package_support import skip_all

try:
    keras = support.use_backend("jax")
except ImportError as error:
    skip_all(f"{error.name} is not installed; scripts/setup.sh --peers installs it")

import numpy as np

import ramet
import ramet.jax
import ramet.keras


class Keras(unittest.TestCase):
    def test_a_model_trains_as_in_keras(self):
        mine, theirs = support.network(keras), support.network(keras)
        loss, params = ramet.keras.jax_function(mine, support.loss_of(keras))
        inputs, targets = support.batches(1)[0]
        step = ramet.jax.training_model(loss, params, example={"inputs": inputs, "targets": targets},
                                        optimizer=ramet.Sgd(momentum=support.MOMENTUM),
                                        schedule=ramet.Schedule(learning_rate=support.RATE), threads=1)
        found = [step({"inputs": inputs, "targets": targets}).loss for inputs, targets in support.batches(10)]
        np.testing.assert_allclose(found, support.trained_by_keras(keras, theirs, 10), rtol=1e-4)
        ramet.keras.assign(mine, step.params)
        np.testing.assert_allclose(mine.predict_on_batch(inputs), theirs.predict_on_batch(inputs), atol=1e-4)

    def test_layers_that_change_variables_are_refused_by_name(self):
        for layer in (keras.layers.BatchNormalization(), keras.layers.Dropout(0.5)):
            loss, params = ramet.keras.jax_function(support.network(keras, [layer]), support.loss_of(keras))
            inputs, targets = support.batches(1)[0]
            with self.assertRaisesRegex(ramet.UnsupportedOp, "moving_mean|seed_generator_state"):
                ramet.jax.model(loss, params, {"inputs": inputs, "targets": targets})


if __name__ == "__main__":
    unittest.main()
