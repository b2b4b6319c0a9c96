"""Some models of bench/torch_curves.py: PyTorch's losses and buffers, and one hash on four layouts."""

import json
import subprocess
import sys
import unittest

import torch_support  # noqa: F401  (finds the built package, or skips everything)
from peers import ROOT, needs

MODELS = ["resnet", "gru", "albert", "deberta", "t5", "clip"]


@needs("torch", "transformers", "torchvision", "ramet")
class CurvesTest(unittest.TestCase):
    def test_some_models(self):
        chosen = [word for name in MODELS for word in ("--only", name)]
        done = subprocess.run([sys.executable, str(ROOT / "bench" / "torch_curves.py"), "--steps", "6", "--layout-steps", "2", *chosen],
                              capture_output=True, text=True, check=False, cwd=ROOT)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([row["model"] for row in rows], MODELS)
        for row in rows:
            self.assertEqual(sum(state == "same" for state in row["layouts"].values()), 4, row)
            self.assertEqual(row["layouts"]["p=2"], "same", row)
            self.assertLess(row["largest_difference"], 1e-5)


if __name__ == "__main__":
    unittest.main()
