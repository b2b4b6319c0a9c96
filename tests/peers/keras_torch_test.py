"""Models of Keras on PyTorch train with Ramet as in Keras itself, with running statistics."""
import contextlib
import io
import os
import pathlib
import tempfile
import unittest

import keras_support as support
from package_support import program_in, skip_all

try:
    keras = support.use_backend("torch")
    import torch
except ImportError as error:
    skip_all(f"{error.name} is not installed; scripts/setup.sh --peers installs it")

import numpy as np

import ramet.keras
import ramet.torch as rt


class Keras(unittest.TestCase):
    def test_a_saved_model_trains_as_in_keras(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "net.keras"
            support.network(keras, [keras.layers.BatchNormalization()]).save(path)
            mine, theirs = keras.models.load_model(path), keras.models.load_model(path)
        module = ramet.keras.torch_module(mine, support.loss_of(keras))
        optimizer = torch.optim.SGD(module.parameters(), support.RATE, support.MOMENTUM)
        inputs, targets = support.batches(1)[0]
        step = rt.training_model(module, optimizer, example={"inputs": inputs, "targets": targets}, loss="loss")
        found = [step(inputs=inputs, targets=targets).loss for inputs, targets in support.batches(10)]
        np.testing.assert_allclose(found, support.trained_by_keras(keras, theirs, 10), rtol=1e-4)
        step.copy_to(module)
        for a, b in zip(mine.weights, theirs.weights):
            np.testing.assert_allclose(keras.ops.convert_to_numpy(a), keras.ops.convert_to_numpy(b), atol=1e-4,
                                       err_msg=a.path)
        np.testing.assert_allclose(mine.predict_on_batch(inputs), theirs.predict_on_batch(inputs), atol=1e-3)

    def test_dropout_draws_in_every_step(self):
        model = support.network(keras, [keras.layers.Dropout(0.5)])
        module = ramet.keras.torch_module(model, support.loss_of(keras))
        inputs, targets = support.batches(1)[0]
        step = rt.training_model(module, torch.optim.SGD(module.parameters(), lr=0.0),
                                 example={"inputs": inputs, "targets": targets}, loss="loss")
        self.assertEqual(len({step(inputs=inputs, targets=targets).loss for _ in range(4)}), 4)

    def test_the_program_of_the_page_runs_as_it_stands(self):
        path, names, before = "docs/jax-tensorflow.md", {}, os.getcwd()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            os.chdir(folder)
            self.addCleanup(os.chdir, before)
            exec(compile(program_in(path, "import ramet.keras, ramet.torch"), path, "exec"), names)
            again = keras.models.load_model("trained.keras")
            os.chdir(before)
        trained = names["model"].predict_on_batch(names["x"])
        np.testing.assert_allclose(again.predict_on_batch(names["x"]), trained, atol=1e-6)
        self.assertGreater((trained.argmax(1) == names["batch"]["targets"]).mean(), 0.6)

    def test_another_backend_is_refused(self):
        with self.assertRaisesRegex(ramet.Error, "KERAS_BACKEND=jax"):
            ramet.keras.jax_function(support.network(keras), support.loss_of(keras))


if __name__ == "__main__":
    unittest.main()
