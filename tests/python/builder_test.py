"""The builder of models in Python: ops, scopes, states, metrics, programs, places of errors."""
import inspect
import pathlib
import re
import tempfile
import unittest

import numpy as np

import models
import ramet

ROOT = pathlib.Path(__file__).resolve().parents[2]


def here():
    """This file and the line of the caller."""
    return f"python/builder_test.py:{inspect.currentframe().f_back.f_lineno}"


def evaluated(build, **arrays):
    """The values of build(m, inputs...) for arrays of 4 samples."""
    m = ramet.ModelBuilder("one")
    inputs = [m.input(name, array.dtype, array.shape) for name, array in arrays.items()]
    made = build(m, *inputs)
    m.loss(ramet.reduce_sum(m.weight("w", [1])))
    m.output("made", made)
    return ramet.Predictor(m.build(), threads=1).predict(arrays)["made"]


class Ops(unittest.TestCase):
    def test_every_op_of_the_header_is_there(self):
        header = (ROOT / "include/ramet/ops.h").read_text()
        names = set(re.findall(r"^RAMET_API [\w:<>, ]+ (\w+)\(", header, re.M))
        self.assertGreater(len(names), 180)
        self.assertEqual({name for name in names if not callable(getattr(ramet, name, None))}, set())
        self.assertIn("Windows", ramet.unfold.__doc__)

    def test_operators(self):
        x = np.array([[1, 2], [3, 4], [5, 6], [7, 8]], np.float32)
        for build in (lambda a: a + 1, lambda a: 1 + a, lambda a: a - 2, lambda a: 2 - a, lambda a: a * 3, lambda a: 3 * a,
                      lambda a: a / 2, lambda a: 2 / a, lambda a: -a, lambda a: a ** 2, lambda a: a ** 0.5,
                      lambda a: a ** -1, lambda a: a * a - a / a + a):
            np.testing.assert_allclose(evaluated(lambda m, a: build(a), x=x), build(x), rtol=1e-6)
        product = evaluated(lambda m, a: a @ m.constant([[1, 2], [3, 4]]), x=x)
        np.testing.assert_allclose(product, x @ np.array([[1, 2], [3, 4]]))

    def test_options_are_keywords(self):
        x = np.arange(64, dtype=np.float32).reshape(4, 1, 4, 4)
        np.testing.assert_allclose(evaluated(lambda m, a: ramet.max_pool(a, [2, 2]), x=x), x[:, :, 1::2, 1::2])
        made = evaluated(lambda m, a: ramet.convolution(a, m.full("f32", [1, 1, 3, 3], 1), strides=[2, 2], low=[1, 1],
                                                        high=[1, 1]), x=x)
        self.assertEqual(made.shape, (4, 1, 2, 2))
        self.assertEqual(made[0, 0, 0, 0], x[0, 0, :2, :2].sum())
        values, indices = (evaluated(lambda m, a, i=i: ramet.top_k(a, 2, axis=1)[i], x=x[:, 0, 0]) for i in (0, 1))
        np.testing.assert_array_equal(values, x[:, 0, 0, :1:-1])
        self.assertEqual(indices.dtype, np.int32)

    def test_results_of_several_tensors_unpack(self):
        m = ramet.ModelBuilder("norm")
        output, mean, variance = ramet.batch_norm(m.input("x", "f32", [4, 3]))
        self.assertEqual((output.shape, mean.shape, variance.shape), ((4, 3), (3,), (3,)))
        weights = ramet.RecurrentWeights(m.weight("i", [12, 3]), m.weight("h", [12, 3]))
        made = ramet.gru(m.input("t", "f32", [4, 2, 3]), ramet.RecurrentWeights(m.weight("i2", [9, 3]), m.weight("h2", [9, 3])))
        self.assertIsNone(made.cell)
        self.assertEqual(ramet.lstm(m.input("u", "f32", [4, 2, 3]), weights).cell.shape, (2, 3))

    def test_types_by_any_name(self):
        for given in ("f32", "float32", np.float32, np.dtype("float32"), ramet.f32, ramet.DType.f32):
            self.assertEqual(ramet.dtype(given), ramet.f32)
        with self.assertRaisesRegex(ramet.Error, "f33.*f32"):
            ramet.dtype("f33")


class Errors(unittest.TestCase):
    def test_name_the_line_of_python(self):
        m = ramet.ModelBuilder("wrong")
        x = m.input("x", "f32", [4, 3])
        with self.assertRaises(ramet.ShapeError) as raised:
            place = here(); ramet.matmul(x, x)
        self.assertIn(place, str(raised.exception))
        self.assertIn(place, raised.exception.where)
        self.assertIsInstance(raised.exception, ValueError)
        with self.assertRaises(ramet.Error) as raised:
            place = here(); m.weight("w", [3]), m.weight("w", [4])
        self.assertIn(place, str(raised.exception))

    def test_nodes_know_their_lines(self):
        m = ramet.ModelBuilder("lines")
        x = m.input("x", "f32", [4, 3])
        place = here(); m.loss(ramet.reduce_mean(ramet.gelu(x * m.weight("w", [3]))))
        text = m.build().text()
        self.assertIn(f'gelu', text)
        self.assertIn(place, text)

    def test_no_wrong_use_ends_the_process(self):
        m = ramet.ModelBuilder("wrong")
        x = m.input("x", "f32", [4, 3])
        other = ramet.ModelBuilder("other").input("x", "f32", [4, 3])  # its builder is gone
        self.assertEqual(other.shape, (4, 3))
        for act in (lambda: x + other, lambda: ramet.concat([], 0), lambda: ramet.concat([None], 0),
                    lambda: ramet.reshape(x, [5]), lambda: ramet.reshape(x, [-1, -1]), lambda: ramet.softmax(x, 7),
                    lambda: ramet.transpose(x, [0, 0]), lambda: ramet.slice(x, [0], [1]), lambda: ramet.slice(x, [9, 9], [1, 1]),
                    lambda: ramet.mse_loss(x, x, reduction="avg"), lambda: ramet.map_unary("nothing", x),
                    lambda: ramet.dropout(x, 1), lambda: ramet.index(x, [None, None, None]), lambda: m.state("nothing"),
                    lambda: m.input("x", "f32", [4]), lambda: m.input("y", "f32", []), lambda: m.loss(x), lambda: m.build(),
                    lambda: m.constant("text"), lambda: m.state("s", "f32", [3], "nothing"), lambda: x.dim(5), lambda: bool(x),
                    lambda: x ** 3, lambda: m.weight("w", [-1]), lambda: m.weight("huge", [1 << 40, 1 << 40]),
                    lambda: ramet.Init.numbers(object()), lambda: m.part("", 0).__enter__(), lambda: m.part("a", -1).__enter__()):
            with self.assertRaises((ramet.Error, TypeError), msg=inspect.getsource(act)):
                act()


class Models(unittest.TestCase):
    def test_states_metrics_and_programs(self):
        def more(m):
            m.state("seen", "f32", [], "deferred", fold="sum")
            m.set_state("seen", m.full("f32", [], 1))

            def write(p):
                p.output("twice", p.input("x") * 2)
                kept.append(p)
            kept = self.kept = []
            m.program("double", ramet.When.on_request(), write)
        model = models.rows_model(more=more)
        self.assertEqual(model.metrics, ["loss", "worst"])
        self.assertEqual(set(model.inputs), {"x", "y"})
        self.assertEqual((model.shape_of("w0"), model.dtype_of("w0")), ((4, 4), ramet.f32))
        with models.training(model) as training:
            samples = models.rows()
            self.assertIn("worst", training.step(samples).metrics)
            np.testing.assert_array_equal(training.run("double", {"x": samples["x"]})["twice"], samples["x"] * 2)
        with self.assertRaisesRegex(ramet.Error, "a program that is built"):
            self.kept[0].input("x")

    def test_an_exception_in_a_program_passes_through(self):
        def write(p):
            raise KeyError("mine")
        with self.assertRaisesRegex(KeyError, "mine"):
            models.rows_model(more=lambda m: m.program("bad", ramet.When.on_request(), write))

    def test_limits_of_an_input_are_those_of_the_model(self):
        def write(p):
            p.output("twice", p.input("own", "f32", [4, 1], low=0, high=1) * 2)
        with self.assertRaisesRegex(ramet.Error, "'own' of .*: limits of an input in a program.* Declare the input with its limits"):
            models.rows_model(more=lambda m: m.program("double", ramet.When.on_request(), write))

    def test_a_file_gives_the_same_model(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "rows.ramet"
            first = models.rows_model()
            first.save(path)
            hashes = [models.training(model).weights_hash() for model in (first, ramet.Model.load(path))]
            self.assertEqual(*hashes)
            path.write_text("nothing")
            with self.assertRaises(ramet.FormatError):
                ramet.Model.load(path)

    def test_first_values(self):
        m = ramet.ModelBuilder("inits")
        x = m.input("x", "f32", [2, 3])
        given = np.arange(6, dtype=np.float32).reshape(2, 3)
        total = x * m.weight("by", [2, 3], ramet.Init.by("squares", lambda i: i * i))
        total = total + m.weight("numbers", [2, 3], ramet.Init.numbers(given.T.copy().T))
        m.loss(ramet.reduce_mean(total))
        training = models.training(m.build())
        np.testing.assert_array_equal(training.weight("by").ravel(), np.arange(6) ** 2)
        np.testing.assert_array_equal(training.weight("numbers"), given)

    def test_an_exception_in_a_first_value(self):
        m = ramet.ModelBuilder("inits")
        m.loss(ramet.reduce_mean(m.input("x", "f32", [2, 3]) * m.weight("w", [3], ramet.Init.by("none", lambda i: 1 / 0))))
        with self.assertRaises((ZeroDivisionError, ramet.Error)):
            models.training(m.build())


if __name__ == "__main__":
    unittest.main()
