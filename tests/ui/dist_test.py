"""ui/dist, which is built into the program, is that of the sources in ui/; with Node (scripts/ui.sh) it is built again and
compared, and the unit tests of the page run."""
import gzip
import hashlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
UI = ROOT / "ui"
DIST = UI / "dist"
MOST_BYTES = 300 * 1024
# As ui/tools/sources.mjs.
FILES = ["index.html", "package.json", "package-lock.json", "svelte.config.js", "tsconfig.json", "vite.config.ts"]
FOLDERS = ["public", "src", "tools"]


def hash_of_sources(root):
    names = FILES + [path.relative_to(root).as_posix() for folder in FOLDERS
                     for path in (root / folder).rglob("*") if path.is_file()]
    digest = hashlib.sha256()
    for name in sorted(names, key=str.encode):
        contents = (root / name).read_bytes()
        digest.update(f"{name}\0{len(contents)}\0".encode() + contents)
    return digest.hexdigest()


def manifest_of(folder):
    return json.loads((folder / "manifest.json").read_text())


def has_node():
    return (ROOT / "build/node/.version").exists() and (UI / "node_modules/.lock-hash").exists()


class Dist(unittest.TestCase):
    def test_is_built_from_these_sources(self):
        self.assertEqual(manifest_of(DIST)["sources"], hash_of_sources(UI), "ui/dist is of other sources: run `make ui`")

    def test_the_hash_notices_any_change(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder)
            for name in FOLDERS:
                (copy / name).mkdir()
                (copy / name / "a").write_text("1")
            for name in FILES:
                (copy / name).write_text(name)
            first = hash_of_sources(copy)
            (copy / "src/a").write_text("2")
            second = hash_of_sources(copy)
            (copy / "src/a").rename(copy / "src/b")
            self.assertEqual(len({first, second, hash_of_sources(copy)}), 3)

    def test_holds_exactly_the_files_of_its_manifest(self):
        files = manifest_of(DIST)["files"]
        present = {path.relative_to(DIST).as_posix() for path in DIST.rglob("*") if path.is_file()}
        self.assertEqual(present, {file["name"] + ".gz" for file in files} | {"manifest.json"})
        for file in files:
            packed = (DIST / (file["name"] + ".gz")).read_bytes()
            contents = gzip.decompress(packed)
            self.assertEqual((len(contents), len(packed)), (file["bytes"], file["compressed"]), file["name"])
            self.assertEqual(hashlib.sha256(contents).hexdigest(), file["sha256"], file["name"])

    def test_is_small(self):
        self.assertLess(sum(file["compressed"] for file in manifest_of(DIST)["files"]), MOST_BYTES)

    def test_keeps_to_the_policy_of_contents(self):
        """default-src 'self': nothing inline, nothing from elsewhere."""
        index = gzip.decompress((DIST / "index.html.gz").read_bytes()).decode()
        names = {file["name"] for file in manifest_of(DIST)["files"]}
        for tag in re.findall(r"<script[^>]*>[^<]*</script>", index):
            self.assertRegex(tag, r'src="\./[^"]+"[^>]*></script>$')
        linked = re.findall(r'(?:src|href)="([^"]+)"', index)
        self.assertGreaterEqual(len(linked), 3)
        for name in linked:
            self.assertIn(name.removeprefix("./"), names)
        self.assertNotRegex(index, r"<style|\sstyle=|\son\w+=")
        for file in manifest_of(DIST)["files"]:
            if file["name"].endswith(".css"):
                text = gzip.decompress((DIST / (file["name"] + ".gz")).read_bytes()).decode()
                self.assertNotRegex(text, r"url\(|@import")


class Sources(unittest.TestCase):
    def test_the_lock_names_no_registry(self):
        packages = json.loads((UI / "package-lock.json").read_text())["packages"]
        self.assertGreater(len(packages), 10)
        for name, package in packages.items():
            self.assertNotIn("resolved", package, name)
            if name:
                self.assertIn("integrity", package, name)

    def test_no_text_becomes_html(self):
        """{@html} and innerHTML would let a run's note or a metric's name be read as HTML."""
        for path in sorted((UI / "src").rglob("*")):
            if path.is_file():
                self.assertNotRegex(path.read_text(), r"\{@html|innerHTML|outerHTML|insertAdjacentHTML|document\.write", str(path))

    @unittest.skipUnless(has_node(), "no Node: scripts/ui.sh installs one")
    def test_a_build_gives_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            built = pathlib.Path(folder) / "dist"
            done = subprocess.run([ROOT / "scripts/ui.sh", "--build", built], cwd=ROOT, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            for path in sorted(DIST.rglob("*")):
                if path.is_file():
                    self.assertEqual((built / path.relative_to(DIST)).read_bytes(), path.read_bytes(), path.name)

    @unittest.skipUnless(has_node(), "no Node: scripts/ui.sh installs one")
    def test_unit_tests(self):
        done = subprocess.run([ROOT / "scripts/ui.sh", "--unit"], cwd=ROOT, capture_output=True, text=True, check=False,
                              env={**os.environ, "NO_COLOR": "1"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^. pass [1-9]")


if __name__ == "__main__":
    unittest.main()
