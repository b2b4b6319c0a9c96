"""Some models of bench/onnx_exports.py: what PyTorch's exporters write computes onnxruntime's outputs, and trains."""
import json
import subprocess
import sys
import unittest

from peers import ROOT, needs

# Of each exporter, models that it writes in ways of their own.
NEW = ["lstm", "deberta", "llama"]
OLD = ["gru", "gpt2", "vit"]


@needs("torch", "torchvision", "transformers", "onnx", "onnxscript", "onnxruntime")
class Exports(unittest.TestCase):
    def run_bench(self, exporters, models, *options):
        chosen = [word for name in models for word in ("--only", name)] + [word for name in exporters for word in ("--exporter", name)]
        done = subprocess.run([sys.executable, str(ROOT / "bench" / "onnx_exports.py"), "--train", *chosen, *options],
                              capture_output=True, text=True, check=False)
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"model"')]
        times = len(exporters) * max(1, options.count("--attention"))
        self.assertEqual([row["model"] for row in rows], [name for name in models for _ in range(times)], done.stdout + done.stderr)
        for row in rows:
            with self.subTest(row["model"]):
                self.assertEqual(row["result"], "same", row)

    def test_files_of_the_exporter_by_torch_export(self):
        self.run_bench(["new"], NEW)

    def test_files_of_the_exporter_by_torchscript(self):
        self.run_bench(["old"], OLD)

    def test_attention_written_out_and_pytorchs_own(self):
        self.run_bench(["new", "old"], ["llama"], "--attention", "eager", "--attention", "sdpa")


if __name__ == "__main__":
    unittest.main()
