"""The notebooks on graphs run from the first cell to the last, and train something."""

import unittest

import torch_support  # noqa: F401  (finds the built package, or skips everything)
from notebook_support import run_notebook
from peers import ROOT, needs


@needs("nbclient", "nbformat", "ipykernel", "torch", "torch_geometric", "ramet")
class GraphNotebooksTest(unittest.TestCase):
    def test_schnet_on_the_gap_of_qm9(self):
        value = run_notebook("schnet-qm9", RAMET_DATA=None, RAMET_NOTEBOOKS=ROOT / "examples" / "notebooks", STEPS=150)
        self.assertEqual(eval(value("len(train)")), (80, 16))  # noqa: S307
        first, last = eval(value("losses[:5]").replace("np.float64", ""))  # noqa: S307
        self.assertLess(last, first / 2)
        error, of_mean = eval(value("np.abs(found"))  # noqa: S307
        self.assertLess(error, of_mean)

    def test_message_passing(self):
        value = run_notebook("message-passing")
        self.assertEqual(len(set(eval(value("hashes =")).values())), 1)  # noqa: S307
        first, last = eval(value("losses[0], "))  # noqa: S307
        self.assertLess(last, first / 20)
        self.assertLess(float(value("10_000")), 0.5)


if __name__ == "__main__":
    unittest.main()
