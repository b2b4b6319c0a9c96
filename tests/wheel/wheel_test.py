"""The wheel of `make wheel`: what is in it, and its use in an empty environment, alone and beside PyTorch."""
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What every Linux of the wheel's platform has (PEP 600).
OF_THE_SYSTEM = {"linux-vdso", "libc", "libm", "libdl", "libpthread", "librt", "libgcc_s", "libstdc++", "libz",
                 "ld-linux-x86-64", "/lib64/ld-linux-x86-64"}
USE = """
import numpy as np
m = ramet.ModelBuilder("line")
x, y = m.input("x", "f32", [8, 64]), m.input("y", "f32", [8])
hidden = ramet.relu(ramet.linear(x, m.weight("u", [64, 64], ramet.Init.fan_in()), m.weight("b", [64])))
m.loss(ramet.mse_loss(ramet.reshape(hidden @ m.weight("w", [64, 1], ramet.Init.normal(0.1)), [8]), y))
m.output("hidden", hidden)
training = ramet.Training(m.build(), threads=2)
samples = {"x": np.random.default_rng(0).normal(size=(8, 64)).astype("f4"), "y": np.ones(8, "f4")}
losses = [training.step(samples).loss for _ in range(20)]
assert losses[-1] < losses[0], losses
"""
BESIDE = """
a = torch.randn(256, 256, requires_grad=True)
loss = (torch.nn.functional.linear(a, torch.randn(256, 256)) ** 2).mean()
loss.backward()
made = training.predict({"x": torch.from_numpy(samples["x"])})["hidden"]
assert isinstance(made, torch.Tensor) and made.shape == (8, 64)
assert training.step({name: torch.from_numpy(each) for name, each in samples.items()}).loss < losses[0]
bf16 = torch.ones(8, 64, dtype=torch.bfloat16)
try:
    training.predict({"x": bf16})
    raise SystemExit("bf16 for f32")
except ramet.ShapeError as error:
    assert "bf16" in str(error), error
print("done", threads())
"""
THREADS = """
def threads():
    return sum("libgomp" in line for line in set(line.split()[-1] for line in open("/proc/self/maps")))
"""


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        wheels = sorted((ROOT / "dist").glob("ramet-*.whl"))
        if not wheels:
            raise unittest.SkipTest("no wheel; make wheel builds it")
        cls.wheel = wheels[-1]
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.environment = pathlib.Path(cls.folder.name) / "env"
        cls.run_checked([sys.executable, "-m", "venv", cls.environment])
        cls.python = cls.environment / "bin/python"
        cls.run_checked([cls.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", cls.wheel])
        cls.package = next((cls.environment / "lib").glob("python*/site-packages"))

    @classmethod
    def run_checked(cls, command, **options):
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
        environment.update(options.pop("environment", {}))
        done = subprocess.run([str(each) for each in command], text=True, capture_output=True, env=environment, cwd="/")
        if done.returncode:
            raise AssertionError(f"{command[:3]}: status {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def test_what_is_in_it(self):
        self.assertLess(self.wheel.stat().st_size, 30_000_000)
        self.assertRegex(self.wheel.name, r"-cp3\d+-cp3\d+-manylinux_2_\d+_x86_64(\.manylinux_2_\d+_x86_64)?\.whl$")
        names = zipfile.ZipFile(self.wheel).namelist()
        for name in ("ramet/py.typed", "ramet/_ramet.pyi", "ramet/bin/ramet", "ramet/licenses/libdnnl2.txt"):
            self.assertIn(name, names)
        self.assertTrue(any(name.endswith("licenses/LICENSE") for name in names), names)
        self.assertFalse([name for name in names if name.endswith((".cc", ".h", ".a"))])

    def test_each_library_has_its_licence(self):
        licences = [path.stem for path in self.package.glob("ramet/licenses/*.txt")]
        of_others = {"libcrypto": "libssl", "libOpenCL": "ocl-icd-libopencl", "libicudata": "libicu", "libicuuc": "libicu",}
        own = {"libgnutls"}  # python/no_tls.cc
        libraries = {re.split(r"-[0-9a-f]{8}[.]", path.name)[0] for path in (self.package / "ramet.libs").iterdir()} - own
        self.assertIn("libdnnl", libraries)
        for library in libraries:
            package = of_others.get(library, library)
            self.assertTrue([each for each in licences if each.startswith(package)], library)

    def test_reads_text_beyond_ascii(self):
        with tempfile.TemporaryDirectory() as folder:
            text = pathlib.Path(folder) / "text.txt"
            text.write_text("Ünïcödé ünïcödé STRASSE ΑΒΓ αβγ\n" * 9)
            self.run_checked([self.environment / "bin/ramet", "vocab", "--kind", "wordpiece", "--size", "64", "--out",
                              pathlib.Path(folder) / "vocab", text])
            words = (pathlib.Path(folder) / "vocab/vocab.txt").read_text().split()
        for word in ("unicode", "strasse", "αβγ"):
            self.assertIn(word, words)

    def test_needs_no_library_of_this_machine(self):
        for binary in [*self.package.glob("ramet/*.so"), self.package / "ramet/bin/ramet"]:
            for line in self.run_checked(["ldd", binary]).splitlines():
                name, _, place = line.strip().partition(" => ")
                place = place.split(" (")[0]
                self.assertTrue(re.split(r"[.]so|[ ]", name)[0] in OF_THE_SYSTEM or str(self.package) in place, line)

    def test_exports_its_own_names_alone(self):
        for binary in self.package.glob("ramet/*.so"):
            for line in self.run_checked(["nm", "-D", "--defined-only", binary]).splitlines():
                self.assertRegex(line.split()[-1], r"ramet2v0|ramet3cli11run_program|^PyInit_|^_ZT[ISV]N5ramet2v0")

    def test_alone(self):
        self.run_checked([self.python, "-c", "import ramet\n" + USE])
        self.assertRegex(self.run_checked([self.python, "-m", "ramet", "--version"]), r"^\d+\.\d+\.\d+")
        self.assertIn("train.steps", self.run_checked([self.environment / "bin/ramet", "recipe", "--help", "train"]))

    def test_beside_pytorch_in_any_order(self):
        site = sysconfig.get_path("purelib")
        if not (pathlib.Path(site) / "torch").is_dir():
            self.skipTest("no PyTorch; scripts/setup.sh --peers installs it")
        for imports in ("import torch, ramet", "import ramet, torch"):
            # The wheel's own ramet comes first; PyTorch is that of this environment.
            code = f"import sys; sys.path.append({site!r})\n{imports}\n{THREADS}{USE}{BESIDE}"
            # Two OpenMP runtimes, PyTorch's and the wheel's, each in its own file, and no third one.
            self.assertEqual(self.run_checked([self.python, "-c", code]).split(), ["done", "2"], imports)


if __name__ == "__main__":
    unittest.main()
