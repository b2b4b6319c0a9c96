"""The first programs of docs/pytorch.md and of README.md run as they stand."""

import contextlib
import io
import unittest

from package_support import program_in
import torch_support  # noqa: F401  (finds the package, or skips)
import torch


class Programs(unittest.TestCase):
    def run_program(self, path):
        torch.manual_seed(0)
        printed, names = io.StringIO(), {}
        with contextlib.redirect_stdout(printed):
            exec(compile(program_in(path, "import torch, ramet.torch"), path, "exec"), names)
        return printed.getvalue().split(), names

    def test_docs(self):
        printed, names = self.run_program("docs/pytorch.md")
        self.assertEqual(float(printed[0]), names["result"].loss)
        loss = names["Classifier"](names["module"])(**names["batch"])["loss"].item()
        self.assertLess(loss, names["result"].loss)

    def test_readme(self):
        printed, names = self.run_program("README.md")
        self.assertEqual(len(printed), 10)
        self.assertLess(float(printed[-1]), float(printed[0]))
        x = names["x"]
        loss = (names["module"](x)[:, 0] - x.sum(1)).square().mean().item()
        self.assertLess(loss, float(printed[-1]))


if __name__ == "__main__":
    unittest.main()
