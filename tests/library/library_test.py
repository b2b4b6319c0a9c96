"""Ramet as an installed library: an empty prefix, programs in another folder, a clean environment.

Installs the build folder (RAMET_BUILD_DIR, as scripts/run_tests.py sets it) into a prefix, moves the prefix, and builds
and runs the programs of examples/cpp against it."""
import gzip
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("RAMET_BUILD_DIR", ROOT / "build")).resolve()
FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")
# One thread a device: more would only be in each other's way where tests share two processors.
LAYOUTS = [f"{layout} threads=1" for layout in ("", "p=2", "r=2 rts=optimizer", "t=2", "p=2 phases=2 offload=optimizer")]
# All that a program of one's own gets: where commands are, and a home.
CLEAN = {"PATH": "/usr/bin:/bin", "HOME": tempfile.gettempdir(), "LC_ALL": "C.UTF-8"}


def cache_value(name):
    """A variable of the build folder's CMakeCache.txt, or ""."""
    match = re.search(rf"^{name}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)
    return match[1] if match else ""


def run(*command, cwd=None, **variables):
    """Output of a command; AssertionError with all that it said where it failed."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=dict(CLEAN, **variables), capture_output=True,
                          text=True, stdin=subprocess.DEVNULL, timeout=600, check=False)
    if done.returncode != 0:
        text = " ".join(map(str, command))[:300]
        raise AssertionError(f"{text}: exit status {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def write_idx(path, dims, data):
    path.write_bytes(gzip.compress(struct.pack(f">HBB{len(dims)}I", 0, 8, len(dims), *dims) + bytes(data), 1))


def write_sample(folder):
    """A small data set in the form of Fashion-MNIST: an image of class c is bright in the rows 2c and 2c + 1."""
    folder.mkdir()
    for part, count in (("train", 800), ("t10k", 200)):
        pixels, labels = bytearray(), []
        for i in range(count):
            labels.append(i * 7 % 10)
            for row in range(28):
                bright = 160 if row // 2 == labels[-1] else 0
                pixels += bytes(bright + (i * 31 + row * 17 + column * 13) % 64 for column in range(28))
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", (count, 28, 28), pixels)
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", (count,), labels)


@unittest.skipIf(cache_value("RAMET_SANITIZE"), "a program of one's own would need the sanitizers, too")
@unittest.skipUnless(cache_value("RAMET_INSTALL") == "ON", "this build folder installs nothing")
class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="ramet-library-")
        folder = pathlib.Path(cls.temporary.name)
        run("cmake", "--install", BUILD, "--prefix", folder / "first", "--strip")
        cls.prefix = folder / "moved"  # a prefix may be moved
        (folder / "first").rename(cls.prefix)
        cls.library = next(cls.prefix.glob("lib*/**/libramet.a")).parent
        cls.sources = folder / "sources"
        shutil.copytree(ROOT / "examples" / "cpp", cls.sources)
        cls.sample = folder / "sample"
        write_sample(cls.sample)
        cls.programs = folder / "programs"
        run("cmake", "-G", "Ninja", "-S", cls.sources, "-B", cls.programs, f"-DCMAKE_PREFIX_PATH={cls.prefix}")
        run("cmake", "--build", cls.programs, "-j", os.cpu_count() or 1)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def same_lines(self, program, *arguments, layouts=LAYOUTS):
        """Runs a program on all layouts; they must print the same lines, which are returned."""
        printed = {layout: run(self.programs / program, layout, *arguments) for layout in layouts}
        for layout in layouts[1:]:
            self.assertEqual(printed[layout], printed[LAYOUTS[0]], f"{program} {layout}")
        self.assertRegex(printed[LAYOUTS[0]], r"weights [0-9a-f]{32}\n")
        return printed[LAYOUTS[0]]

    def test_what_is_installed(self):
        names = {path.relative_to(self.prefix).as_posix() for path in self.prefix.rglob("*") if not path.is_dir()}
        lib = self.library.relative_to(self.prefix).as_posix()
        headers = {f"include/ramet/{path.name}" for path in (ROOT / "include" / "ramet").glob("*.h")}
        self.assertLessEqual(headers | {"bin/ramet", f"{lib}/libramet.a", f"{lib}/libramet.so", f"{lib}/pkgconfig/ramet.pc",
                                        f"{lib}/cmake/ramet/ramet-config.cmake",
                                        f"{lib}/cmake/ramet/ramet-config-version.cmake"}, names)
        others = [name for name in names - headers if not name.startswith((f"{lib}/", "bin/ramet", "share/doc/ramet/"))]
        self.assertEqual(others, [], "nothing else")
        version = re.findall(r"^#define RAMET_VERSION_\w+ (\d+)", (ROOT / "include/ramet/version.h").read_text(), re.M)
        self.assertIn(".".join(version), run(self.prefix / "bin" / "ramet", "--version"))

    def test_the_shared_library_shows_public_names_alone(self):
        names = run("nm", "-DC", "--defined-only", self.library / "libramet.so").splitlines()
        public = re.compile(r"[0-9a-f]+ \w (typeinfo for |typeinfo name for |vtable for )?ramet::v0::")
        self.assertEqual([name for name in names if not public.match(name)], [])
        inside = re.compile(r"ramet::v0::(\w+::)*(detail|State|Contents)::\w")
        self.assertEqual([name for name in names if inside.search(name.split("(")[0])], [])
        self.assertGreater(len(names), 100)
        self.assertTrue(any("ramet::v0::Training::step" in name for name in names))

    def test_an_mlp_on_a_small_data_set(self):
        printed = self.same_lines("mlp", "2", self.sample)
        self.assertGreater(float(re.findall(r"accuracy ([\d.]+)%", printed)[-1]), 90)
        run(self.programs / "mlp", "", "2", self.sample, self.sample / "weights.safetensors")
        told = run(self.programs / "predict", self.sample / "weights.safetensors", "", self.sample)
        self.assertEqual(run(self.programs / "predict", self.sample / "weights.safetensors", "p=2", self.sample), told)
        right, of = re.search(r"(\d+) of (\d+) right", told).groups()
        self.assertEqual(f"{100 * int(right) / int(of):.2f}", re.findall(r"accuracy ([\d.]+)%", printed)[-1])

    @unittest.skipUnless(FASHION.is_dir(), "Debian's package dataset-fashion-mnist is not installed")
    def test_an_mlp_on_fashion_mnist(self):
        printed = run("timeout", "120", self.programs / "mlp", "threads=1")  # seconds; two threads wait for each other
        self.assertGreaterEqual(float(re.findall(r"accuracy ([\d.]+)%", printed)[-1]), 88, printed)

    def test_an_encoder_and_a_decoder(self):
        printed = self.same_lines("encoder_decoder", "12")
        losses = [float(loss) for loss in re.findall(r"loss ([\d.e-]+)", printed)]
        self.assertLess(losses[-1], losses[0])

    def test_metrics_and_a_statistic_of_ones_own(self):
        printed = self.same_lines("metric", "60")
        losses = [float(loss) for loss in re.findall(r"^step \d+: loss ([\d.e-]+)", printed, re.M)]
        self.assertLess(losses[-1], losses[0])
        self.assertRegex(printed, r"after 50: loss [\d.e-]+, near [\d.e-]+\n")

    def test_programs_of_ones_own(self):
        printed = self.same_lines("program", "60")
        losses = [float(loss) for loss in re.findall(r"^step \d+: loss ([\d.e-]+)", printed, re.M)]
        self.assertLess(losses[-1], losses[0])
        self.assertGreater(float(re.search(r"([\d.]+) numbers cut", printed)[1]), 0)

    def test_networks_on_graphs(self):
        printed = self.same_lines("graph_net", "60")
        self.assertGreater(float(re.search(r"accuracy ([\d.]+)%", printed)[1]), 80, printed)
        for kind in ("pna", "gat"):
            self.assertRegex(run(self.programs / "graph_net", "threads=1", "10", kind), r"held out: accuracy [\d.]+%")

    def test_a_message_of_ones_own(self):
        printed = self.same_lines("messages", "60", layouts=LAYOUTS[:4])  # of two layers
        losses = [float(loss) for loss in re.findall(r"^step \d+: loss ([\d.e-]+)", printed, re.M)]
        self.assertLess(losses[-1], 0.5 * losses[0])

    def test_the_installed_program_takes_a_saved_model(self):
        file = self.programs / "program.ramet"
        run(self.programs / "program", "", "1", file)
        ramet = self.prefix / "bin" / "ramet"
        lines = self.sources.joinpath("program.cc").read_text().splitlines()
        line = next(i for i, text in enumerate(lines, 1) if "m.loss(" in text)
        self.assertIn(f'from "sources/program.cc:{line}"', run(ramet, "inspect", file))
        self.assertRegex(run(ramet, "plan", file, "--no-time"), r"of sources/(program.cc|rows.h):\d")

    def test_the_static_library(self):
        folder = self.programs.parent / "static"
        (self.programs.parent / "one").mkdir()
        for name in ("program.cc", "rows.h"):
            shutil.copy(self.sources / name, self.programs.parent / "one")
        (self.programs.parent / "one" / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(one LANGUAGES CXX)\n"
            "find_package(ramet 0.1 REQUIRED COMPONENTS static)\n"
            "add_executable(program program.cc)\ntarget_link_libraries(program PRIVATE ramet::ramet)\n")
        run("cmake", "-G", "Ninja", "-S", self.programs.parent / "one", "-B", folder, f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", folder)
        self.assertNotIn("libramet", run("ldd", folder / "program"))
        self.assertEqual(run(folder / "program", "", "20"), run(self.programs / "program", "", "20"))

    def test_pkg_config(self):
        variables = {"PKG_CONFIG_PATH": str(self.library / "pkgconfig")}
        flags = run("pkg-config", "--cflags", "--libs", "ramet", **variables).split()
        program = self.programs / "with_pkg_config"
        run("g++", "-std=c++20", self.sources / "program.cc", "-o", program, *flags)
        libraries = {"LD_LIBRARY_PATH": str(self.library)}
        self.assertEqual(run(program, "", "20", **libraries), run(self.programs / "program", "", "20"))
        self.assertIn("-lfmt", run("pkg-config", "--static", "--libs", "ramet", **variables))

    def test_another_version_is_refused(self):
        project = self.programs.parent / "version"
        project.mkdir()
        (project / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(one LANGUAGES CXX)\n"
                                                "find_package(ramet 99 REQUIRED)\n")
        with self.assertRaisesRegex(AssertionError, r"compatible\s+with\s+requested\s+version\s+\"99\""):
            run("cmake", "-G", "Ninja", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}")

    def test_as_a_subdirectory(self):
        """Configures, and compiles a program; the library itself is that of the build folder, to take no minutes."""
        project = self.programs.parent / "subdirectory"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(outer LANGUAGES CXX)\n"
            f"add_subdirectory({ROOT} ramet)\nadd_subdirectory({self.sources} programs)\n")
        build = project / "build"
        run("cmake", "-G", "Ninja", "-S", project, "-B", build)
        targets = run("ninja", "-C", build, "-t", "targets", "all")
        self.assertNotIn("test_api", targets, "tests are the business of Ramet's own build")
        built = build / "ramet" / "libramet.a"
        shutil.copy(BUILD / "libramet.a", built)
        for line in run("ninja", "-C", build, "-t", "commands", "programs/program").splitlines():
            if re.search(r" -o programs/\S*program\b", line):  # what compiles and links the program
                run("sh", "-c", line, cwd=build)
        self.assertEqual(run(build / "programs" / "program", "", "20"), run(self.programs / "program", "", "20"))


if __name__ == "__main__":
    unittest.main()
