"""What bench/sparse.py computes of its runs: operations, tests of significance, losses after changes, pictures."""

import importlib.util
import pathlib
import random
import statistics
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("sparse_bench", ROOT / "bench/sparse.py")
bench = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(bench)


class SparseBench(unittest.TestCase):
    def test_operations_are_those_of_the_published_models(self):
        for layers, hidden, density, published in ((4, 256, 1, 2.617e9), (4, 512, 1, 1.007e10), (8, 512, 0.1, 2.738e9),
                                                   (12, 768, 0.1, 8.335e9)):
            self.assertLess(abs(bench.operations(layers, hidden, density, length=128) / published - 1), 5e-4)

    def test_the_tail_of_students_distribution_is_that_of_tables(self):
        for t, degrees, tail in ((0, 3, 0.5), (2.920, 2, 0.05), (2.132, 4, 0.05), (4.604, 4, 0.005), (1.812, 10, 0.05)):
            self.assertAlmostEqual(bench.student_tail(t, degrees), tail, delta=1e-4)

    def test_orderings_show_where_there_are_some(self):
        draw = random.Random(5)
        low, high = ([mean + draw.gauss(0, 0.01) for _ in range(3)] for mean in (1, 1.1))
        self.assertLess(bench.welch(low, high)[2], 0.01)
        self.assertGreater(bench.welch(high, low)[2], 0.99)
        # Runs of a seed have much in common: their differences tell what the means do not.
        seeds = [0.0, 0.3, 0.6]
        low, high = [x + draw.gauss(0, 0.001) for x in seeds], [x + 0.02 + draw.gauss(0, 0.001) for x in seeds]
        self.assertGreater(bench.welch(low, high)[2], 0.2)
        self.assertLess(bench.paired(low, high)[2], 0.01)

    def test_losses_after_changes_begin_at_the_change(self):
        steps = [{"step": step, "loss": 5.0 + (1.0 if step % 10 == 1 else 0.0)} for step in range(1, 101)]
        after = dict(bench.after_changes(steps, 10))
        self.assertEqual(sorted(after), list(range(1, 11)))
        self.assertAlmostEqual(after[1], 1)
        self.assertAlmostEqual(statistics.mean(after[k] for k in range(2, 11)), 0)

    def test_pictures_are_whole(self):
        text = bench.chart({"a": [(1, 2.0), (10, 3.0)], "b": [(5, 2.5)]}, "x", "y", log_x=True, marks=True)
        root = xml.etree.ElementTree.fromstring(text)
        self.assertEqual(len(root.findall("{http://www.w3.org/2000/svg}circle")), 3)


if __name__ == "__main__":
    unittest.main()
