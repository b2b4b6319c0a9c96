"""The notebooks of examples/notebooks run from the first cell to the last, and train something."""

import os
import tempfile
import unittest

import torch_support
from peers import ROOT, needs


@needs("nbclient", "nbformat", "ipykernel", "torch", "transformers", "ramet")
class NotebooksTest(unittest.TestCase):
    def run_notebook(self, name):
        """Runs a notebook in an empty folder; returns a function that gives the text of the last value of a cell with these words."""
        import nbclient
        import nbformat
        notebook = nbformat.read(ROOT / "examples" / "notebooks" / f"{name}.ipynb", as_version=4)
        with tempfile.TemporaryDirectory() as folder:
            nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()

        def value(words):
            cell = next(cell for cell in notebook.cells if cell.cell_type == "code" and words in cell.source)
            return next(output["data"]["text/plain"] for output in cell.outputs if output.output_type == "execute_result")

        return value

    def setUp(self):
        os.environ.pop("RAMET_ENCODER", None)
        os.environ["PYTHONPATH"] = str(torch_support.BUILD / "python")

    def test_sentence_encoder(self):
        value = self.run_notebook("sentence-encoder")
        before, after = eval(value("before, after"))  # noqa: S307
        self.assertGreater(after, 0.8)
        self.assertGreater(after, before)

    def test_own_vit(self):
        value = self.run_notebook("own-vit")
        self.assertEqual(len(set(eval(value("hashes[layout]")).values())), 1)  # noqa: S307
        self.assertGreater(float(value("accuracy")), 0.9)


if __name__ == "__main__":
    unittest.main()
