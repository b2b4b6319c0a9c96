"""ramet.jax: functions of plain JAX train as in JAX itself, with the same bits on any layout; what is refused."""
import contextlib
import io
import os
import unittest

from package_support import ROOT, program_in, skip_all

os.environ.setdefault("JAX_PLATFORMS", "cpu")
try:
    import jax
except ImportError:
    skip_all("JAX is not installed; scripts/setup.sh --peers installs it")

import jax.numpy as jnp
import numpy as np

import jax_support as models
import ramet.jax
from ramet.jax._primitives import TABLE

AXES = {"layers.*.up": ["", "mlp"], "layers.*.up_bias": ["mlp"], "layers.*.down": ["mlp", ""]}


def compiled(loss, params, example, **options):
    options.setdefault("optimizer", ramet.Adam())
    options.setdefault("schedule", ramet.Schedule(learning_rate=0.01))
    return ramet.jax.training_model(loss, params, example=example, threads=1, **options)


class Training(unittest.TestCase):
    def check_against_jax(self, loss, params, batch_of):
        batches = [batch_of(8, seed) for seed in range(10)]
        expected, last = models.adam(loss, params, batches, 0.01, micro_batches=2)
        step = compiled(loss, params, batch_of(4), micro_batches=2)
        self.assertEqual(step.samples_per_step, 8)
        np.testing.assert_allclose([step(batch).loss for batch in batches], expected, atol=1e-4)
        for mine, theirs in zip(jax.tree_util.tree_leaves(step.params), jax.tree_util.tree_leaves(last)):
            np.testing.assert_allclose(mine, theirs, atol=2e-3)
        return step

    def test_a_language_model_agrees_with_jax(self):
        params = models.language_params()
        step = self.check_against_jax(models.language_loss, params, models.language_batch)
        batch = models.language_batch(4, 99)
        loss, metrics = models.language_loss(step.params, batch)
        found = step.evaluate(batch)
        self.assertAlmostEqual(found["loss"], float(loss), places=5)
        self.assertAlmostEqual(found["accuracy"], float(metrics["accuracy"]), places=6)

    def test_convolutions_pooling_and_scan_agree_with_jax(self):
        self.check_against_jax(models.image_loss, models.image_params(), models.image_batch)

    def test_the_same_bits_on_layouts(self):
        hashes = {}
        for layout in ("", "p=2 head=first", "r=2", "t=2", "p=2 t=2 head=first rts=optimizer"):
            step = compiled(models.language_loss, models.language_params(), models.language_batch(2), layout=layout,
                            micro_batches=4, lanes=2, chunks=2, axes=AXES)
            for seed in range(3):
                step(models.language_batch(8, seed))
            hashes[layout] = step.weights_hash()
        self.assertEqual(len(set(hashes.values())), 1, hashes)

    def test_predicts_with_the_structure_of_the_function(self):
        predict = lambda params, batch: {"scores": (models.logits(params, batch),)}
        step = compiled(models.language_loss, models.language_params(), models.language_batch(4), predict=predict)
        batch = models.language_batch(7)
        made = step.predict(batch)["scores"][0]
        self.assertIsInstance(made, jax.Array)
        np.testing.assert_allclose(made, models.logits(step.params, batch), atol=1e-5)

    def test_each_primitive_agrees_with_jax(self):
        """The loss of one evaluation is what JAX computes, op by op."""
        a = np.random.default_rng(0).uniform(0.2, 0.9, (4, 3, 5)).astype("f4")
        for name, act in {
                "elementwise": lambda x: jnp.sin(x) + jnp.log1p(x) * jnp.expm1(x) - x ** 3 / (1 + x ** -2) + jnp.sqrt(x),
                "more": lambda x: jnp.exp2(x) + jax.lax.erf(x) + jnp.abs(x - 0.5) + jnp.sign(x - 0.5) + jax.nn.sigmoid(x),
                "binary": lambda x: jnp.minimum(x, x[:, ::-1]) + jnp.maximum(x, 0.5) + x ** 1.5 + jnp.arctan2(x, 1 + x),
                "select": lambda x: jnp.where((x > 0.5) & ~(x > 0.8) | (x == 0.3), x, -x) + jnp.clip(x, 0.4, 0.6),
                "reductions": lambda x: x.sum(1) + x.max(1) - x.min(1) + x.prod(1) + jnp.var(x, 1) + jax.nn.logsumexp(x, 1),
                "shapes": lambda x: jnp.concatenate([x.transpose(0, 2, 1).reshape(4, 15), jnp.pad(x[:, 0, 1:4], ((0, 0), (1, 2)),
                                                     constant_values=2.0), x[:, 1, ::2]], 1),
                "indices": lambda x: x[:, jnp.array([2, 0])] * 2 + x[:, 1:, :][:, :, jnp.array([4, 0, 1, 2, 3])],
                "take": lambda x: jnp.take_along_axis(x, jnp.argsort(-jnp.arange(15).reshape(1, 3, 5) % 4, -1), -1),
                "along": lambda x: jnp.cumsum(x, 2) + jnp.sort(x, 2) + jax.lax.cumprod(x, 1, reverse=True) +
                jnp.flip(x, 1) + jax.lax.top_k(x, 5)[0],
                "counts": lambda x: x.argmax(2).astype("f4") + (x > 0.5).all(2) + (x > 0.5).any(2),
                "order": lambda x: jnp.argsort(x, 2).astype("f4") + jnp.take_along_axis(x, jnp.argsort(x, 1), 1),
                "split": lambda x: sum(jnp.split(x, 5, 2)), "roll": lambda x: jnp.roll(x, 2, 1),
                "dynamic": lambda x: jax.lax.dynamic_slice(x, (0, 1, 2), (4, 2, 2)),
                "known": lambda x: x * jnp.linspace(0, 1, 5) + jnp.eye(3, 5) + jax.nn.one_hot(jnp.arange(3), 5),
                "cast": lambda x: (x * 4).astype("i4") % 3 + jnp.round(x * 3)}.items():
            loss = lambda params, batch: (act(batch + params) ** 2).mean().astype("f4")
            with self.subTest(name):
                model = ramet.jax.model(loss, jnp.full((3, 5), 0.01), a)
                got = ramet.Training(model, threads=1).evaluate({"batch": a})["loss"]
                self.assertAlmostEqual(got / float(loss(jnp.full((3, 5), 0.01), a)), 1, places=5)


    def test_gradients_stop_where_jax_stops_them(self):
        params, batch = jnp.linspace(-1, 1, 12).reshape(3, 4), np.ones((2, 3), "f4")

        def loss(params, batch):
            x = batch @ (params * jax.lax.stop_gradient(params) + jax.nn.relu(params) + jnp.sin(params))
            return (x ** 2).mean()
        step = compiled(loss, params, batch, optimizer=ramet.Sgd(), schedule=ramet.Schedule(learning_rate=0.1))
        step(batch)
        np.testing.assert_allclose(step.params, params - 0.1 * jax.grad(loss)(params, batch), rtol=1e-5, atol=1e-6)

    def test_a_scan_of_no_steps(self):
        params, batch = jnp.ones((3, 3)), np.ones((2, 3), "f4")

        def loss(params, batch):
            return jax.lax.scan(lambda x, w: (x @ w, None), batch @ params, jnp.zeros((0, 3, 3)))[0].mean()
        self.assertEqual(compiled(loss, params, batch).evaluate(batch)["loss"], 3.0)
        with self.assertRaisesRegex(ramet.UnsupportedOp, "scan of no steps"):
            ramet.jax.model(lambda p, b: (b @ p).mean() + jax.lax.scan(lambda x, w: (x, 2 * w), b, jnp.zeros((0, 3)))[1].sum(),
                            params, batch)


class Page(unittest.TestCase):
    PATH = "docs/jax-tensorflow.md"

    def test_the_program_runs_as_it_stands(self):
        names = {}
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(program_in(self.PATH, "import ramet, ramet.jax"), self.PATH, "exec"), names)
        first = names["loss"]({"up": names["params"]["up"], "down": jnp.zeros((32, 1))}, names["batch"])[0]
        self.assertLess(names["result"].loss, float(first))

    def test_it_lists_the_primitives(self):
        quoted = " ".join(line[2:] for line in (ROOT / self.PATH).read_text().splitlines() if line.startswith("> "))
        self.assertEqual(quoted.split(), sorted(TABLE))


class Refusals(unittest.TestCase):
    def test_one_error_names_all_with_their_lines(self):
        @jax.custom_jvp
        def odd(x):
            return x
        odd.defjvp(lambda primals, tangents: (primals[0], 2 * tangents[0]))

        def loss(params, batch):
            x = batch @ params
            x = jax.lax.while_loop(lambda a: a.sum() < 9, lambda a: a + 1, x)
            x = jnp.linalg.cholesky(x @ x.T) + jnp.linalg.cholesky(x.T @ x)
            return odd(x).mean()
        with self.assertRaises(ramet.UnsupportedOp) as raised:
            ramet.jax.model(loss, jnp.ones((4, 4)), np.ones((4, 4), "f4"))
        text = str(raised.exception)
        for part in ("while", "cholesky, 2 times", "custom_jvp of odd", f"{__file__}:"):
            self.assertIn(part, text)

    def test_what_is_no_loss_and_no_weight(self):
        x = np.ones((4, 4), "f4")
        for loss, params in ((lambda p, b: b @ p, jnp.ones((4, 4))), (lambda p, b: (b @ p).sum(), jnp.ones((4, 4), "bfloat16")),
                             (lambda p, b: (b * p["n"]).sum(), {"n": jnp.arange(4)})):
            with self.assertRaises(ramet.ShapeError):
                ramet.jax.model(loss, params, x)

    def test_an_error_of_an_op_names_the_line_of_the_function(self):
        step = compiled(models.language_loss, models.language_params(), models.language_batch(4))
        self.assertIn("jax_support.py", step.model.text())
        with self.assertRaises(ramet.Error):
            step({"ids": np.full((4, models.LENGTH), 1000, "i4"), "next": np.zeros((4, models.LENGTH), "i4")})
        self.assertEqual(step.steps_done, 0)


if __name__ == "__main__":
    unittest.main()
