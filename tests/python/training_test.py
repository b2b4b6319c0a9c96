"""Training, prediction and plans from Python: results, layouts, arrays, threads, Ctrl-C, errors."""
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np

import models
import ramet

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Training(unittest.TestCase):
    def test_learns_with_the_same_bits_on_layouts(self):
        hashes = set()
        for layout in ("", "p=2", "r=2", "phases=2 offload=optimizer"):
            training = models.training(layout=layout, micro_batches=2, lanes=2, optimizer=ramet.AdamW())
            samples = models.rows(training.samples_per_step)
            losses = [training.step(samples).loss for _ in range(20)]
            self.assertLess(losses[-1], losses[0] / 2)
            self.assertEqual(training.steps_done, 20)
            hashes.add(training.weights_hash())
        self.assertEqual(len(hashes), 1)

    def test_agrees_with_numpy(self):
        m = ramet.ModelBuilder("line")
        x, y = m.input("x", "f32", [4, 2]), m.input("y", "f32", [4])
        m.loss(ramet.mse_loss(ramet.reshape(x @ m.weight("w", [2, 1], ramet.Init.ones()), [4]), y))
        training = models.training(m.build())
        samples = {"x": np.random.default_rng(1).normal(size=(4, 2)).astype("f4"), "y": np.ones(4, "f4")}
        w = np.ones((2, 1))
        for _ in range(5):
            error = (samples["x"] @ w)[:, 0] - samples["y"]
            self.assertAlmostEqual(training.step(samples, rate=0.1).loss, np.mean(error ** 2), places=5)
            w -= 0.1 * 2 / 4 * samples["x"].T @ error[:, None]
        np.testing.assert_allclose(training.weight("w"), w, atol=1e-6)

    def test_fit_evaluates_saves_and_resumes(self):
        with tempfile.TemporaryDirectory() as folder:
            data = ramet.Data.arrays(models.rows(64), held_out=0.25)
            make = lambda: models.training(train=data, held_out=data.held_out(), steps=12, evaluate_every=4, save_every=4)
            seen, evaluations = [], []
            first = make()
            result = first.fit(checkpoints=folder, on_step=lambda r: seen.append(r.step),
                               on_evaluation=lambda step, numbers: evaluations.append(step), progress=False)
            self.assertEqual((seen, evaluations, result.steps), (list(range(1, 13)), [0, 4, 8, 12], 12))
            self.assertEqual([step for step, _ in result.losses], seen)
            self.assertIn("<svg", result._repr_html_())
            second = make()
            second.restore(pathlib.Path(folder) / "step-00000008")
            second.fit(progress=False)
            self.assertEqual(second.weights_hash(), first.weights_hash())

    def test_a_bar_shows_the_progress(self):
        told = io.StringIO()
        with contextlib.redirect_stderr(told):
            models.training(train=ramet.Data.arrays(models.rows(32)), steps=5).fit()
        if importlib.util.find_spec("tqdm"):
            self.assertIn("5/5", told.getvalue())
            self.assertIn("loss=", told.getvalue())
        else:
            self.assertEqual(told.getvalue(), "")

    def test_weights_in_and_out(self):
        with tempfile.TemporaryDirectory() as folder:
            first, second = models.training(), models.training(seed=7)
            path = pathlib.Path(folder) / "weights.safetensors"
            first.save_weights(path)
            second.load_weights(path)
            self.assertEqual(first.weights_hash(), second.weights_hash())
            numbers = np.arange(16, dtype=np.float32).reshape(4, 4)
            second.set_weight("w0", numbers[:, ::-1])
            np.testing.assert_array_equal(second.weight("w0"), numbers[:, ::-1])
            predictor = ramet.Predictor(models.rows_model(), path, threads=1)
            samples = {"x": models.rows(19)["x"]}
            np.testing.assert_array_equal(predictor.predict(samples)["predicted"], first.predict(samples)["predicted"])
            self.assertEqual(predictor.times().calls, 1)

    def test_groups_optimizers_and_options(self):
        for optimizer in (ramet.AdamW(), ramet.Adam(), ramet.Sgd(momentum=0.9), ramet.Lamb(), ramet.Lars(), ramet.Lion(),
                          ramet.Adafactor(), ramet.Rmsprop(centered=True), ramet.Adagrad(rate_decay=0.1)):
            training = models.training(optimizer=optimizer, groups=[ramet.Group(name="still", weights=["w*"], frozen=True)])
            before = training.weight("w0"), training.weight("last")
            training.step(models.rows())
            np.testing.assert_array_equal(training.weight("w0"), before[0])
            self.assertFalse(np.array_equal(training.weight("last"), before[1]), optimizer)
        options = ramet.TrainOptions(precision="bf16", steps=7, optimizer=ramet.Sgd(momentum=0.5))
        options.layout = "p=2"
        self.assertEqual(models.rows_model().name, "rows")
        training = ramet.Training(models.rows_model(), options, threads=1)
        self.assertEqual((training.options.steps, training.options.precision, training.options.layout), (7, "bf16", "p=2"))
        self.assertIn("momentum=0.5", repr(options))

    def test_optimizers_agree_with_pytorch(self):
        """Ten steps on gradients that bench/peers/torch_optimizers.py gave to PyTorch in f64."""
        record = json.loads((ROOT / "tests/samples/optimizers.json").read_text())
        i = np.arange(24)
        for name, optimizer, rate in (
                ("rmsprop", ramet.Rmsprop(alpha=0.9, epsilon=1e-6, weight_decay=0.1), 0.01),
                ("centered_rmsprop", ramet.Rmsprop(alpha=0.9, epsilon=1e-6, weight_decay=0.1, momentum=0.8, centered=True), 0.01),
                ("adagrad", ramet.Adagrad(rate_decay=0.1, epsilon=1e-8, weight_decay=0.1, first_sum=0.2), 0.05),
                ("adam", ramet.Adam(beta2=0.99, epsilon=1e-6, weight_decay=0.1), 0.01),
                ("sgd", ramet.Sgd(momentum=0.9, nesterov=True, weight_decay=0.1), 0.01)):
            m = ramet.ModelBuilder("given")
            first = ((i * 29) % 83 - 41) / 40
            w = m.weight("w", [4, 6], ramet.Init.numbers(first.astype("f4").reshape(4, 6)))
            m.loss(ramet.reduce_sum(w * ramet.reshape(m.input("g", "f32", [1, 24]), [4, 6])))
            training = models.training(m.build(), optimizer=optimizer)
            for step in range(1, record["steps"] + 1):
                training.step({"g": (((i * 37 + step * 53) % 101 - 50) / 25).astype("f4")[None]}, rate=rate)
            np.testing.assert_allclose(training.weight("w").ravel(), record["cases"][name]["matrix"], atol=2e-6, err_msg=name)

    def test_logs_to_a_run(self):
        with tempfile.TemporaryDirectory() as folder:
            with ramet.Run("rows", folder=folder) as run:
                models.training(train=ramet.Data.arrays(models.rows(32)), steps=5).fit(run=run, progress=False)
                self.assertTrue(run.flush())
            listed = subprocess.run([sys.executable, "-m", "ramet", "runs", "list", "--run-dir", folder], text=True, capture_output=True)
            self.assertIn("rows", listed.stdout, listed.stderr)


class Samples(unittest.TestCase):
    def test_arrays_of_any_order_and_kind(self):
        training, samples = models.training(), models.rows()
        expected = training.predict({"x": samples["x"]})["predicted"]
        read_only = samples["x"].copy()
        read_only.setflags(write=False)
        for x in (np.asfortranarray(samples["x"]), np.repeat(samples["x"], 2, axis=0)[::2], read_only, samples["x"].tolist(),
                  memoryview(samples["x"]), samples["x"][::-1][::-1]):
            np.testing.assert_array_equal(training.predict({"x": x})["predicted"], expected)

    def test_other_shapes_are_refused(self):
        m = ramet.ModelBuilder("rows")
        m.loss(ramet.reduce_mean(m.input("x", "f32", [4, 2, 6]) * m.weight("w", [6])))
        model = m.build()
        right = np.zeros((4, 2, 6), "f4")
        training = models.training(model)
        training.step({"x": right})
        for wrong in (right.reshape(4, 12), right.reshape(4, 6, 2), right.reshape(48), right[:, :1], right[0, 0, 0]):
            for call in (training.step, training.evaluate):
                with self.assertRaisesRegex(ramet.ShapeError, r"'x' f32\[.*'x' f32\[4,2,6\]"):
                    call({"x": wrong})
            with self.assertRaisesRegex(ramet.ShapeError, "another shape"):
                models.training(model, train=ramet.Data.arrays({"x": wrong}))
            with self.assertRaisesRegex(ramet.ShapeError, "other samples"):
                models.training(model, train=ramet.Data.source(lambda first, count: {"x": wrong})).step()
        self.assertEqual(training.steps_done, 1)

    def test_whole_numbers_of_64_bits_are_checked(self):
        m = ramet.ModelBuilder("classes")
        x, y = m.input("x", "f32", [4, 3]), m.input("y", "i32", [4])
        m.loss(ramet.cross_entropy_loss(x * m.weight("w", [3], ramet.Init.ones()), y))
        training = models.training(m.build())
        x = np.ones((4, 3), "f4")
        self.assertAlmostEqual(training.step({"x": x, "y": np.array([0, 1, 2, 0])}).loss, np.log(3), places=6)
        with self.assertRaisesRegex(ramet.ShapeError, "does not fit in the i32"):
            training.step({"x": x, "y": np.array([0, 1, 2, 1 << 40])})

    def test_wrong_samples_change_nothing(self):
        training, good = models.training(), models.rows()
        before = training.weights_hash()
        for samples in ({}, {"x": good["x"]}, {**good, "z": good["x"]}, {**good, "x": good["x"].astype("f8")},
                        {**good, "x": good["x"][:3]}, {**good, "x": "text"}, {**good, "x": None}, {1: good["x"]},
                        {**good, "x": np.array(["a"])}, {**good, "x": good["x"].astype(complex)}, models.rows(16),
                        {**good, "x": np.zeros((0, 4), "f4")}, {**good, "y": np.full(8, np.nan, "f4")}):
            with self.assertRaises(ramet.Error, msg=samples):
                training.step(samples)
        self.assertEqual((training.weights_hash(), training.steps_done), (before, 0))
        training.step(good)

    def test_a_source_of_python(self):
        calls = []

        def fill(first, count):
            calls.append(threading.get_ident())
            x = np.stack([np.full(4, np.sin(i), np.float32) for i in range(first, first + count)])
            return {"x": x, "y": x.sum(1)}
        training = models.training(train=ramet.Data.source(fill, samples=64), steps=10)
        training.fit(progress=False)
        samples = fill(0, 8)
        other = models.training()
        for i in range(10):
            other.step(fill(8 * i, 8))
        self.assertEqual(training.weights_hash(), other.weights_hash())
        self.assertGreaterEqual(len(calls), 10)
        self.assertEqual(set(samples), {"x", "y"})

    def test_what_a_source_does_wrong_is_an_error(self):
        def failing(first, count):
            raise KeyError("no such sample")
        for fill, text in ((failing, "no such sample"), (lambda first, count: None, "no dictionary"),
                           (lambda first, count: {"x": np.zeros((count, 4), "f4")}, "without 'y'"),
                           (lambda first, count: {"x": np.zeros((1, 4), "f4"), "y": np.zeros(count, "f4")}, "other samples"),
                           (lambda first, count: training.step(), "a function that computes samples")):
            training = models.training(train=ramet.Data.source(fill), steps=3)
            before = training.weights_hash()
            with self.assertRaisesRegex(ramet.Error, text):
                training.step()
            self.assertEqual(training.weights_hash(), before)


class Threads(unittest.TestCase):
    def test_take_turns_while_python_runs(self):
        training, predictor, samples = models.training(), ramet.Predictor(models.rows_model(), threads=1), models.rows()
        failed = []

        def work(call):
            try:
                for _ in range(20):
                    call()
            except Exception as error:  # a thread has no other way to tell
                failed.append(error)
        threads = [threading.Thread(target=work, args=(call,)) for call in
                   (lambda: training.step(samples), lambda: training.predict({"x": samples["x"]}),
                    lambda: predictor.predict({"x": samples["x"]}), lambda: training.weight("w0"), training.weights_hash)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        self.assertEqual((failed, training.steps_done), ([], 20))

    def test_a_callback_that_calls_its_own_training(self):
        training = models.training(train=ramet.Data.arrays(models.rows(32)), steps=4)
        with self.assertRaisesRegex(ramet.Error, "during another call"):
            training.fit(on_step=lambda result: training.step(), progress=False)
        self.assertEqual(training.steps_done, 1)

    def test_exceptions_of_callbacks(self):
        def stop(result):
            if result.step == 3:
                raise StopIteration("enough")
        training = models.training(train=ramet.Data.arrays(models.rows(32)), steps=10)
        with self.assertRaisesRegex(StopIteration, "enough"):
            training.fit(on_step=stop, progress=False)
        self.assertEqual(training.steps_done, 3)
        self.assertEqual(training.fit(progress=False).steps, 10)

    def test_a_closed_training(self):
        with models.training() as training:
            pass
        for act in (lambda: training.step(models.rows()), training.plan, lambda: training.steps_done, training.evaluate):
            with self.assertRaisesRegex(ramet.Error, "closed"):
                act()

    def test_control_c_while_an_array_is_read(self):
        class Interrupted:
            """An array whose reader presses Ctrl-C, and one that cannot be read."""
            def __init__(self, error):
                self.error = error

            def __dlpack__(self, **options):
                raise self.error
        training = models.training()
        for error, expected in ((KeyboardInterrupt(), KeyboardInterrupt), (ValueError("no memory"), ramet.ShapeError)):
            with self.assertRaises(expected):
                training.step(models.rows() | {"y": Interrupted(error)})
        self.assertEqual(training.steps_done, 0)

    def test_control_c_ends_fit_between_steps(self):
        # A process that a shell started in the background ignores the signal.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        training = models.training(train=ramet.Data.arrays(models.rows(4096)), steps=10 ** 6)
        timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            with self.assertRaises(KeyboardInterrupt):
                training.fit(progress=False, checkpoints=folder)
            self.assertLess(time.monotonic() - began, 30)
            done = training.steps_done
            self.assertGreater(done, 0)
            other = models.training(train=ramet.Data.arrays(models.rows(4096)), steps=10 ** 6)
            other.restore(folder)
            self.assertEqual((other.steps_done, other.weights_hash()), (done, training.weights_hash()))


class Plans(unittest.TestCase):
    def test_numbers_text_and_pictures(self):
        plan = ramet.plan(models.rows_model(), layout="p=2", threads=1, time=False, optimizer=ramet.Sgd())
        self.assertEqual(len(plan.device_bytes), 2)
        self.assertIn("<svg", plan._repr_html_())
        self.assertIn("MiB" if max(plan.device_bytes) > 1 << 20 else "KiB", str(plan))
        memory = models.training(layout="p=2").memory()
        self.assertEqual(memory.device_bytes, plan.device_bytes)
        self.assertIn("<svg", memory.svg)

    def test_for_another_machine(self):
        plan = ramet.plan(models.rows_model(), machine="h200")
        self.assertGreater(plan.step_seconds, 0)

    def test_what_does_not_fit(self):
        for call in (ramet.plan, ramet.Training):
            with self.assertRaises(ramet.DoesNotFit) as raised:
                call(models.rows_model(), device_memory=4096, threads=1)
            self.assertIsInstance(raised.exception, MemoryError)
            self.assertIn("device memory", raised.exception.where)
            self.assertRegex(raised.exception.remedy, r"TrainOptions\(device_memory=\d+\) or more")
        with self.assertRaisesRegex(ramet.Error, r"^TrainOptions.layout r: every replica.*; found r=2 with lanes=1. .*TrainOptions\(lanes=2\)"):
            ramet.plan(models.rows_model(), layout="r=2", micro_batches=2)
        for options in ({"layout": "p=7"}, {"layout": "nonsense"}, {"lanes": 3}, {"steps": "many"}, {"colour": 1},
                        {"precision": "f12"}, {"optimizer": "adam"}, {"threads": -1}):
            with self.assertRaises(ramet.Error, msg=options):
                ramet.plan(models.rows_model(), **options)


class Program(unittest.TestCase):
    def test_is_the_command_line(self):
        for arguments, status in ((["--version"], 0), (["nothing"], 2)):
            done = subprocess.run([sys.executable, "-m", "ramet", *arguments], text=True, capture_output=True)
            self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn("nothing", done.stderr)
        self.assertRegex(ramet.__version__, r"^\d+\.\d+\.\d+$")

    def test_the_example_has_the_same_weights_on_a_layout(self):
        example = str(ROOT / "examples/python/mlp.py")
        told = [subprocess.run([sys.executable, example, *layout], text=True, capture_output=True, check=True).stdout
                for layout in ([], ["p=2 t=2"])]
        self.assertEqual(*told)
        self.assertGreater(float(told[0].split()[1].rstrip(",")), 0.9)


if __name__ == "__main__":
    unittest.main()
