"""The notebooks of examples/notebooks run from the first cell to the last, and train something."""

import unittest

import torch_support  # noqa: F401  (finds the built package, or skips everything)
from notebook_support import run_notebook
from peers import needs


@needs("nbclient", "nbformat", "ipykernel", "torch", "transformers", "ramet")
class NotebooksTest(unittest.TestCase):
    def test_sentence_encoder(self):
        value = run_notebook("sentence-encoder", RAMET_ENCODER=None)
        before, after = eval(value("before, after"))  # noqa: S307
        self.assertGreater(after, 0.8)
        self.assertGreater(after, before)

    def test_own_vit(self):
        value = run_notebook("own-vit")
        self.assertEqual(len(set(eval(value("hashes[layout]")).values())), 1)  # noqa: S307
        self.assertGreater(float(value("accuracy")), 0.9)


if __name__ == "__main__":
    unittest.main()
