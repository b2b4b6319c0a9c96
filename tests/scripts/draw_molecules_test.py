"""scripts/draw_molecules.py draws a picture of the answers of some trainings."""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
try:
    import numpy as np
except ImportError:
    np = None


@unittest.skipUnless(np, "needs NumPy")
class DrawMolecules(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.write_set()

    def write_set(self):
        """Water, helium (an element without a colour), methane and a lone oxygen."""
        water = [(8, 0, 0, 0), (1, 0.96, 0, 0), (1, -0.24, 0.93, 0)]
        methane = [(6, 0, 0, 0), (1, 0.6, 0.6, 0.6), (1, -0.6, -0.6, 0.6), (1, -0.6, 0.6, -0.6), (1, 0.6, -0.6, -0.6)]
        atoms = np.array(water + [(2, 0, 0, 0)] + methane + [(8, 1, 1, 1)], np.float32)
        tensors = {"node.ptr": np.array([0, 3, 4, 9, 10], np.int64), "node.z": atoms[:, 0].astype(np.uint8), "node.pos": atoms[:, 1:].copy()}
        header, at = {}, 0
        for (name, array), kind in zip(tensors.items(), ("I64", "U8", "F32")):
            header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
            at += array.nbytes
        text = json.dumps(header).encode()
        data = b"".join(array.tobytes() for array in tensors.values())
        (self.folder / "set.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)

    def answers(self, name, graphs, shift):
        true = np.array(graphs, np.float32)[:, None] + 5
        np.savez(self.folder / name, graph=np.array(graphs, np.int64), targets=true, values=true + np.float32(shift))
        return str(self.folder / name)

    def draw(self, *answers):
        out = self.folder / "picture.svg"
        run = subprocess.run([sys.executable, ROOT / "scripts/draw_molecules.py", self.folder / "set.safetensors", *answers, "--out", out],
                             capture_output=True, text=True)
        return run, out

    def test_all_molecules_are_points_and_some_have_their_atoms(self):
        run, out = self.draw(self.answers("a.npz", [0, 1, 2, 3], 0.5), self.answers("b.npz", [0, 1, 2, 3], -0.25))
        self.assertEqual(run.returncode, 0, run.stderr)
        # The mean of both trainings is an eighth of an electronvolt too high.
        self.assertIn("4 molecules that no training has seen: mean absolute error 0.125 eV; predicting the mean of all gives 1.000 eV",
                      run.stdout)
        svg = xml.etree.ElementTree.parse(out).getroot()
        circles = [each for each in svg if each.tag.endswith("circle")]
        self.assertEqual(sum(each.get("fill") == "#2f62c8" for each in circles), 4)
        atoms = [each.get("fill") for each in circles if each.get("stroke")]
        self.assertEqual({"#d43b3b", "#3b4048", "#cfd4da"}, set(atoms))  # oxygen, carbon, hydrogen
        words = [each.text for each in svg if each.tag.endswith("text")]
        self.assertIn("true 7.00 eV", words)
        self.assertIn("predicted 7.12 \u00b1 0.38", words)
        self.assertNotIn("true 6.00 eV", words)  # helium has no colour

    def test_trainings_of_different_graphs_are_refused(self):
        run, out = self.draw(self.answers("a.npz", [0, 1], 0), self.answers("b.npz", [0, 2], 0))
        self.assertIn("different graphs", run.stderr)
        self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main()
