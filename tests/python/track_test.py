"""Runs logged from Python: ramet.Run, ramet.track, the callback of transformers."""
import json
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import ramet
import ramet.track


def shown(path):
    """What the program says of a run."""
    done = subprocess.run([sys.executable, "-m", "ramet", "runs", "show", str(path), "--json"], text=True, capture_output=True)
    if done.returncode:
        raise AssertionError(done.stderr)
    return done.stdout


class Runs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_everything_that_a_run_takes(self):
        run = ramet.Run("all", folder=self.folder, tags=["first"], note="a note", config={"rate": 0.5, "deep": True, "n": 3})
        for step in range(3):
            run.log(step, {"loss": 1 / (step + 1), "numpy": np.float32(2)})
            run.log(step, "other", step)
        run.log_image(1, "picture", np.zeros((4, 6, 3), np.uint8), "black")
        run.log_histogram(1, "weights", np.random.default_rng(0).normal(size=1000))
        run.log_table(1, "table", ["name", "value"], [["a", 1], ["b", 2.5]])
        run.log_text(1, "text", "some words")
        run.log_file(1, "source", pathlib.Path(__file__))
        run.alert("attention", "something", level="error", step=2)
        run.config({"more": "text"})
        run.tag("second")
        self.assertTrue(run.flush(), run.problem)
        self.assertEqual(run.dropped, 0)
        for act in (lambda: run.log(3, {"loss": "text"}), lambda: run.log_image(1, "x", np.zeros((2, 2, 3, 1), np.uint8)),
                    lambda: run.log_image(1, "x", np.zeros((2, 2))), lambda: run.alert("a", level="loud"),
                    lambda: run.log_file(1, "x", self.folder / "nothing"), lambda: ramet.Run.join("nothing", "w"),
                    lambda: run.log_table(1, "t", ["a"], [[1, 2]])):
            with self.assertRaises(ramet.Error):
                act()
        run.finish()
        run.log(9, {"late": 1})  # a run that is over takes nothing, and does no harm
        self.assertIn("loss", shown(run.path))

    def test_track(self):
        with self.assertRaisesRegex(ramet.Error, "init"):
            ramet.track.log({"loss": 1})
        run = ramet.track.init("tracked", folder=self.folder, config={"model": {"width": 4}})
        for i in range(4):
            ramet.track.log({"loss": 1.0 / (i + 1), "parts": {"first": np.float64(i)}, "left out": [1, 2]})
        ramet.track.finish()
        ramet.track.finish()
        text = shown(run.path)
        self.assertIn("parts/first", text)
        self.assertNotIn("left out", text)

    def test_the_callback_of_transformers(self):
        try:
            import torch
            import transformers
        except ImportError:
            self.skipTest("no transformers")
        model = transformers.BertForSequenceClassification(transformers.BertConfig(
            vocab_size=32, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16))
        data = [{"input_ids": torch.arange(8) % 32, "labels": torch.tensor(i % 2)} for i in range(16)]
        callback = ramet.track.TransformersCallback("bert", folder=self.folder)
        arguments = transformers.TrainingArguments(output_dir=str(self.folder / "out"), max_steps=4, logging_steps=1,
                                                   per_device_train_batch_size=4, report_to=[], save_strategy="no",
                                                   use_cpu=True, disable_tqdm=True)
        transformers.Trainer(model, arguments, train_dataset=data, callbacks=[callback]).train()
        callback.finish()
        self.assertIn("loss", shown(callback.run.path))


class Errors(unittest.TestCase):
    def test_have_parts_and_can_be_pickled(self):
        error = ramet.ShapeError("wrong", "here", "a", "b", "change it")
        self.assertEqual(str(error), "here: wrong; found a; expected b. change it")
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(again), again.what, again.where, again.found, again.expected, again.remedy),
                         (ramet.ShapeError, "wrong", "here", "a", "b", "change it"))
        for name, other in (("UnsupportedOp", NotImplementedError), ("DoesNotFit", MemoryError), ("ShapeError", ValueError),
                            ("FormatError", ValueError)):
            self.assertTrue(issubclass(getattr(ramet, name), (ramet.Error, RuntimeError)))
            self.assertTrue(issubclass(getattr(ramet, name), other))


if __name__ == "__main__":
    unittest.main()
