"""Perfetto's own schema reads our traces."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import peers


@peers.needs("perfetto")
class Perfetto(unittest.TestCase):
    def test_reads_a_simulated_step(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            peers.ramet("simulate", peers.ROOT / "examples" / "gpt2-124m.toml", "--machine", "dgx-h100", "--layout",
                        "p=2", "--trace", "step.pftrace", folder=folder)
            done = subprocess.run([sys.executable, str(peers.ROOT / "bench" / "trace.py"), "step.pftrace"], cwd=folder,
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("slices", done.stdout)


if __name__ == "__main__":
    unittest.main()
