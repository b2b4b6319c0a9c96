"""Some models of bench/torch_survey.py, of several families: import, a step, and the change of each weight as PyTorch's."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch_support  # noqa: F401  (finds the built package, or skips everything)
from peers import ROOT, needs

MODELS = ["torchvision/mobilenet_v3_small", "timm/lcnet_050", "timm/xcit_nano_12_p8_224", "transformers/Llama", "transformers/T5",
          "transformers/Mamba", "transformers/Segformer", "transformers/BigBird"]


@needs("torch", "transformers", "torchvision", "timm", "safetensors", "ramet")
class SurveyTest(unittest.TestCase):
    def test_some_models(self):
        self.assertTrue((ROOT / "build" / "bench" / "torch_step").exists(), "build the target bench_torch_step")
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, str(ROOT / "bench" / "torch_survey.py"), "--store", folder, "--only",
                                   *(f"^{name}$" for name in MODELS)],
                                  capture_output=True, text=True, check=False, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"})
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertTrue((pathlib.Path(folder) / "results.json").exists())
        self.assertEqual(done.stdout.splitlines()[-1].split(maxsplit=1)[1], f"  {len(MODELS)} models: {len(MODELS)} agrees".strip(), done.stdout)


if __name__ == "__main__":
    unittest.main()
