"""The tree keeps the rules of scripts/lint.py, and lint.py notices when it does not."""
import importlib.util
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("lint", ROOT / "scripts" / "lint.py")
lint = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lint)


class Tree(unittest.TestCase):
    def test_keeps_the_rules(self):
        breaches, warnings = lint.check(ROOT)
        for line in warnings:
            print(line)
        self.assertEqual(breaches, [])

    def test_is_seen_at_all(self):
        names = {path.relative_to(ROOT).as_posix() for path in lint.files_of(ROOT)}
        self.assertLessEqual({"src/ramet/base/error.h", "src/ramet/base/error.cc", "scripts/lint.py"}, names)


class BadSamples(unittest.TestCase):
    """Each sample is a small tree with one fault."""

    def breaches_of(self, **files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return lint.check(pathlib.Path(folder))

    def test_a_clean_tree_has_no_breach(self):
        files = {"src/ramet/ir/graph.h": '#pragma once\n#include "ramet/base/shape.h"\n#include "ramet/ir/op.h"\n',
                 "src/ramet/cli/main.cc": '#include "ramet/track/run_log.h"\n#include <vector>\n',
                 "tests/base/x_test.cc": '#include "ramet/cli/main.h"\n'}
        self.assertEqual(self.breaches_of(**files), ([], []))

    def test_an_include_of_a_lower_folder(self):
        breaches, _ = self.breaches_of(**{"src/ramet/ir/graph.cc": '#include "ramet/ir/graph.h"\n'
                                                                  '  #  include "ramet/program/compile.h"\n'})
        self.assertEqual(len(breaches), 1)
        self.assertRegex(breaches[0], r"^src/ramet/ir/graph\.cc:2: ir/ includes program/, which stands below it")

    def test_every_pair_of_folders(self):
        for above, folder in enumerate(lint.LAYERS):
            for index, included in enumerate(lint.LAYERS):
                breaches, _ = self.breaches_of(
                    **{f"src/ramet/{folder}/x.cc": f'#include "ramet/{included}/y.h"\n'})
                self.assertEqual(len(breaches), int(index > above), f"{folder} includes {included}")

    def test_public_headers_stand_alone(self):
        good = '#pragma once\n#include <vector>\n#include "ramet/types.h"\nnamespace ramet::v0 {\nstruct A;\n}\n'
        self.assertEqual(self.breaches_of(**{"include/ramet/a.h": good}), ([], []))
        breaches, _ = self.breaches_of(**{
            "include/ramet/a.h": '#pragma once\n#include <fmt/format.h>\n#include "ramet/base/error.h"\n',
            "include/ramet/b.h": "#pragma once\nnamespace ramet::train {\nint x;\n}\n"})
        self.assertEqual([line.split(";")[0].split(":  ")[0] for line in breaches],
                         ["include/ramet/a.h:2: a public header includes <fmt/format.h>: only the standard library and "
                          "public headers are there",
                          'include/ramet/a.h:3: a public header includes "ramet/base/error.h": only the standard '
                          "library and public headers are there",
                          "include/ramet/b.h:2: opens namespace ramet::train"])

    def test_public_names_are_defined_in_base_and_api_alone(self):
        text = "namespace ramet::v0 {\nint x;\n}\n"
        for folder in lint.LAYERS:
            breaches, _ = self.breaches_of(**{f"src/ramet/{folder}/x.cc": text})
            self.assertEqual(len(breaches), 0 if folder in ("base", "api") else 1, folder)

    def test_unknown_folders(self):
        breaches, _ = self.breaches_of(**{"src/ramet/util/x.cc": "", "src/ramet/ir/x.cc": '#include "ramet/util/y.h"\n'})
        self.assertEqual([line.split(";")[0] for line in breaches],
                         ["src/ramet/ir/x.cc:1: includes unknown folder util/",
                          "src/ramet/util/x.cc:1: unknown folder src/ramet/util"])

    def test_namespaces_of_others(self):
        breaches, _ = self.breaches_of(**{
            "src/ramet/plan/x.cc": "namespace ramet::ir {\nclass Graph;\nenum class Kind : int;\n}\n"  # declared: fine
                                   "namespace ramet::plan {\nnamespace {\nint a;\n}\n}\n"
                                   "namespace ramet::plan::detail {\nint b;\n}\nnamespace CLI {\nint c;\n}\n"
                                   "namespace ramet::planner {\nint d;\n}\n"
                                   "namespace ramet::ir {\nclass Node;\nint e();\n}\n"
                                   "namespace ramet {\nclass Error {};\n}\n"
                                   "namespace ramet::cli {}\n"
                                   "// namespace ramet::cli { int f; }\n"
                                   "const char* const g = R\"(\nnamespace ramet::cli {\nint h;\n})\";\n",
            "src/ramet/base/x.cc": "namespace ramet {\nint a;\n}\nnamespace ramet::detail {\nint b;\n}\n"
                                   "namespace ramet::ir {\nint c;\n}\n"})
        self.assertEqual(breaches, [
            "src/ramet/base/x.cc:7: opens namespace ramet::ir; what is in base/ stands in namespace ramet",
            *(f"src/ramet/plan/x.cc:{line}: opens namespace {space}; what is in plan/ stands in namespace ramet::plan"
              for line, space in ((16, "ramet::planner"), (19, "ramet::ir"), (23, "ramet"), (26, "ramet::cli")))])

    def test_types_that_stand_twice(self):
        once = "#pragma once\nnamespace ramet::ir {\nclass Graph {\n  struct Part {};\n};\nclass Node;\n" \
               "namespace {\nstruct Hidden {};\n}\n}\n"
        other = "#pragma once\nnamespace ramet::plan {\nstruct Other {\n  struct Part {};\n};\n" \
                "int draw(struct Graph&);\nnamespace {\nstruct Hidden {};\n}\n}\n"
        files = {"src/ramet/ir/graph.h": once, "src/ramet/plan/other.h": other}
        self.assertEqual(self.breaches_of(**files), ([], []))
        # The same name in another folder's header, and in another namespace.
        breaches, _ = self.breaches_of(**files, **{
            "src/ramet/sim/x.h": "#pragma once\nnamespace ramet::sim {\ntemplate <typename T>\nenum class Graph\n"
                                 "    : int { kA };\n}\n"})
        self.assertEqual(breaches, ["src/ramet/sim/x.h:4: Graph is defined in src/ramet/ir/graph.h:3 too: two types of "
                                    "one name say neither what they are"])
        # Device code has names of its own.
        self.assertEqual(self.breaches_of(**files, **{
            "src/ramet/kernel/cuda/device/x.h": "#pragma once\nnamespace ramet_device {\nstruct Graph {};\n}\n"}), ([], []))
        # In two .cc files of one namespace; not of two, and not where a namespace without a name hides them.
        breaches, _ = self.breaches_of(**{
            "src/ramet/ir/a.cc": "namespace ramet::ir {\nstruct Walk final : Base {\n};\n}\n",
            "src/ramet/ir/b.cc": "namespace ramet::ir {\nnamespace {\nstruct Walk {};\n}\n}\n",
            "src/ramet/ops/c.cc": "namespace ramet::ops {\nclass Walk {};\n}\n"})
        self.assertEqual(breaches, [])
        breaches, _ = self.breaches_of(**{
            "src/ramet/ir/a.cc": "namespace ramet::ir {\nstruct Walk final : Base {\n};\n}\n",
            "src/ramet/ir/b.cc": "namespace ramet {\nnamespace ir {\nclass Walk {};\n}\n}\n"})
        self.assertEqual([line.split(" too")[0] for line in breaches if "opens" not in line],
                         ["src/ramet/ir/b.cc:3: ramet::ir::Walk is defined in src/ramet/ir/a.cc:2"])

    def test_a_header_without_pragma_once(self):
        breaches, _ = self.breaches_of(**{"src/ramet/base/x.h": "// #pragma once\nint x();\n"})
        self.assertEqual(breaches, ["src/ramet/base/x.h:1: a header without #pragma once"])
        breaches, _ = self.breaches_of(**{"src/ramet/kernel/x-inl.h": "int x();\n"})
        self.assertEqual(breaches, [])

    def test_long_files(self):
        files = {"src/ramet/base/long.cc": "\n" * 901, "src/ramet/base/longish.cc": "\n" * 701,
                 "docs/long.md": "\n" * 2000}
        breaches, warnings = self.breaches_of(**files)
        self.assertEqual([line.split(";")[0] for line in breaches], ["src/ramet/base/long.cc:901: 901 lines"])
        self.assertEqual([line.split(";")[0] for line in warnings],
                         ["src/ramet/base/longish.cc:701: warning: 701 lines"])

    def test_machine_paths_and_registry_hosts(self):
        for word in lint.MACHINE_PATHS + lint.REGISTRY_HOSTS:
            breaches, _ = self.breaches_of(**{"docs/a.md": f"fine\nsee {word}thing and more\n"
                                              if word.startswith("/") else f"fine\nsee https://{word}/x\n"})
            self.assertEqual(len(breaches), 1, word)
            self.assertTrue(breaches[0].startswith(f"docs/a.md:2: names '{word}"), breaches[0])

    def test_paths_that_only_look_alike(self):
        for path in lint.MACHINE_PATHS:
            alike = f"build{path}x ${{HOME}}{path}y home{path[1:]} .{path}z"
            breaches, _ = self.breaches_of(**{"docs/a.md": alike + "\n"})
            self.assertEqual(breaches, [], path)


if __name__ == "__main__":
    unittest.main()
