"""Runs a notebook of examples/notebooks from the first cell to the last."""

import os
import tempfile

from package_support import BUILD
from peers import ROOT


def run_notebook(name, **environment):
    """Runs a notebook in an empty folder, with these variables of the environment (None: without it); returns a function that gives
    the text of the last value of a cell with these words."""
    import nbclient
    import nbformat

    notebook = nbformat.read(ROOT / "examples" / "notebooks" / f"{name}.ipynb", as_version=4)
    for key, value in ({"PYTHONPATH": str(BUILD / "python")} | environment).items():
        os.environ.pop(key, None)
        if value is not None:
            os.environ[key] = str(value)
    with tempfile.TemporaryDirectory() as folder:
        nbclient.NotebookClient(notebook, timeout=1800, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()

    def value(words):
        cell = next(cell for cell in notebook.cells if cell.cell_type == "code" and words in cell.source)
        return next(output["data"]["text/plain"] for output in cell.outputs if output.output_type == "execute_result")

    return value
