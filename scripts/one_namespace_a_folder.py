#!/usr/bin/env python3
"""Moves a checkout of Ramet to one namespace a folder and to the new folders. Idempotent; works on TREE in place.

usage: sweep.py [--recipe] TREE
       sweep.py [--recipe] --convert REPO BRANCH [BASE]

--recipe   also moves what is of recipes from train/ to recipe/.
--convert  makes two commits in REPO without touching a work tree: BASE swept (BASE: default the merge base of BRANCH and
           main before the sweep, given by hand if main has been swept) and, as its child, BRANCH swept. Prints the second:
           `git cherry-pick` it onto the swept main.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

LAYERS = ("base ir ops transform machine layout program device kernel transport runtime measure sim plan data text graphs "
          "weights model front track train recipe report serve cli").split()

# (path from the root, as a pattern) -> new path. The first that fits counts.
SRC = r"src/ramet/"
MOVES = [
    (SRC + r"runtime/((?:transport|thread_transport|null_transport|collectives|mpi_|no_mpi|process)[a-z_]*\.(?:h|cc))", SRC + r"transport/\1"),
    (SRC + r"runtime/((?:probe|survey|rehearsal|task_clock)[a-z_]*\.(?:h|cc))", SRC + r"measure/\1"),
    (SRC + r"data/permutation(\.(?:h|cc))", SRC + r"data/permutation\1"),
    (SRC + r"data/(.+\.(?:h|cc))", SRC + r"text/\1"),
    (SRC + r"model/((?:safetensors|pickle|torch_zip|tensor_file)\.(?:h|cc))", SRC + r"weights/\1"),
    (r"tests/runtime/((?:balance|transport|collectives|mpi)[a-z_]*_test\.cc)", r"tests/transport/\1"),
    (r"tests/runtime/((?:survey|probe|rehearsal)[a-z_]*_test\.cc)", r"tests/measure/\1"),
    (r"tests/data/permutation_test(\.cc)", r"tests/data/permutation_test\1"),
    (r"tests/data/([a-z_]+\.(?:h|cc))", r"tests/text/\1"),
    (r"tests/model/((?:safetensors|pickle|torch_zip|tensor_file)_test\.cc)", r"tests/weights/\1"),
]
RECIPE_MOVES = [
    (SRC + r"train/((?:recipe|lengths|prepare|packed_rows|publish|predictor|task_predictor|scales|compile_recipe|plan_recipe)"
     r"[a-z_]*\.(?:h|cc))", SRC + r"recipe/\1"),
    (r"tests/train/((?:recipe|lengths|prepare|publish|predictor)[a-z_]*_test\.cc)", r"tests/recipe/\1"),
]
# (files, old word, new word): types that stood twice.
RENAMES = [
    (r"(src/ramet|tests)/program/.*", "SearchResult", "PlacementResult"),
    (r"(src/ramet|tests)/transport/(transport_)?balance.*", "Neighbour", "CrowdedDevice"),
    (r"src/ramet/transport/mpi_.*", "Transfer", "MpiMessage"),
    (r"src/ramet/runtime/(device_)?engine.*", "CollectiveCall", "PreparedCollective"),
    (r"src/ramet/kernel/cpu/state_blocks\..*", "StateTensor", "StateOperand"),
    (r"src/ramet/transport/collectives.*", "Span", "MemberShare"),
    (r"src/ramet/cli/(console|train)\..*", "Progress", "StepProgress"),
]
# (files, pattern, replacement): ADL does not find what takes an alias of a standard type.
PATTERNS = [
    (r"src/ramet/(transform|layout|program|report)/.*\.cc", r"(?<![:\w])text_of\(Attribute\(", "ir::text_of(Attribute("),
    (r"src/ramet/(transform|layout|program|report)/.*\.cc", r"(?<![:\w.>])text_of\(attribute\)", "ir::text_of(attribute)"),
    # A function named as a folder is: whoever sees both must say which.
    (r"bench/(attention|elementwise|matmul)\.cc", r"\bmeasure\(", "run_one("),
    (r"bench/placement\.cc", r"\breport\(", "record("),
    (r"bench/collectives\.cc", r"\bserve\(", "serve_rank("),
    (r"tests/fuzz/fuzz_pickle\.cc", r"\btext\(", "str("),
    (r"src/ramet/program/compile\.cc", r"(?<![:\w])sum_in_place\(piece\.graph", "transform::sum_in_place(piece.graph"),
]
# (files, old text, new text): what no rule finds.
EDITS = [
    (r"CMakeLists\.txt", '"runtime/no_mpi\\\\.cc$"', '"transport/no_mpi\\\\.cc$"'),
    (r"CMakeLists\.txt", '"runtime/mpi_(transport|courier)\\\\.cc$"', '"transport/mpi_(transport|courier)\\\\.cc$"'),
    (r"tests/CMakeLists\.txt", "if(TARGET test_runtime AND TARGET test_mpi)\n  add_dependencies(test_runtime test_mpi)",
     "if(TARGET test_transport AND TARGET test_mpi)\n  add_dependencies(test_transport test_mpi)"),
    (r"cmake/machines\.cmake", "\nnamespace ramet {\n", "\nnamespace ramet::machine {\n"),
    (r"cmake/machines\.cmake", "}  // namespace ramet\n", "}  // namespace ramet::machine\n"),
    (r"scripts/lint\.py", 'LAYERS = ("base ir ops transform machine layout program kernel runtime sim plan data model front train track report "\n          "cli").split()',
     'LAYERS = ("base ir ops transform machine layout program device kernel transport runtime measure sim plan data text "\n'
     '          "graphs weights model front track train recipe report serve cli").split()'),
    (r"src/ramet/cli/simulate\.cc", " ramet::simulate(", " sim::simulate("),
    (r"src/ramet/train/trainer\.cc", "ramet::export_weights(", "model::export_weights("),
    (r"src/ramet/train/trainer\.cc", "ramet::weights_hash(", "train::weights_hash("),
    (r"src/ramet/transform/step_graph\.cc",
     '        "state " + ir::text_of(Attribute(state.name)) + " : " + state.type.text() + " " + std::string(name_of(state.kind));',
     '        "state " + ir::text_of(Attribute(state.name)) + " : " + state.type.text() + " " +\n        std::string(name_of(state.kind));'),
    (r"src/ramet/program/place_problem\.h", "const std::vector<int32_t>& order,\n                           int64_t height,",
     "const std::vector<int32_t>& order,\n                              int64_t height,"),
    (r"src/ramet/program/place_problem\.cc", "const std::vector<int32_t>& start,\n                           int64_t height,",
     "const std::vector<int32_t>& start,\n                              int64_t height,"),
    (r"src/ramet/runtime/engine_state\.h", "std::vector<PreparedCollective> collectives_;                                // by task",
     "std::vector<PreparedCollective> collectives_;                            // by task"),
    (r"src/ramet/cli/train\.cc", "namespace {\n\nnamespace fs = std::filesystem;\n",
     "namespace {\n\nusing train::train;  // the function, not its folder\nnamespace fs = std::filesystem;\n"),
    (r"src/ramet/transport/collectives_kernels\.cc", "namespace HWY_NAMESPACE {\nnamespace {\n",
     "namespace HWY_NAMESPACE {\nusing namespace kernel::HWY_NAMESPACE;  // loads and stores of convert-inl.h\n\nnamespace {\n"),
    (r"tests/ops/op_table_test\.cc", "collective_test.cc, tests/runtime.", "collective_test.cc, tests/transport."),
    (r"tests/support/chain\.h", "ramet::name_of(kind)", "layout::name_of(kind)"),
]

HOUSE = """#pragma once

// Every folder X of src/ramet has a namespace of its own, ramet::X; what base/ declares stands in ramet itself. A
// folder sees the names of the folders above it without a prefix, because each directive below passes on those before
// it. It never sees the names of later folders, even where a header of one comes in by mistake. And no two types can
// collide: of two types with one full name the linker keeps either one's functions, and says nothing.
namespace ramet {}
%s
// Tests and benchmarks see all of it, and the benchmarks what they share with the tests.
namespace ramet::tests {
using namespace ramet::cli;
}
namespace ramet::bench {
using namespace ramet::tests;
}
"""


def house():
    blocks = []
    for above, folder in zip(LAYERS, LAYERS[1:]):
        blocks.append(f"namespace ramet::{folder} {{\nusing namespace ramet{'' if above == 'base' else '::' + above};\n}}\n")
    return HOUSE % "".join(blocks)


def git_files(tree):
    listing = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=tree,
                             capture_output=True, check=True).stdout.decode()
    return sorted({name for name in listing.split("\0") if name and (tree / name).is_file()
                   and not (tree / name).is_symlink()})


def moved(path, moves):
    for pattern, target in moves:
        if match := re.fullmatch(pattern, path):
            return match.expand(target)
    return path


def folder_of(name):
    parts = name.split("/")
    return parts[2] if parts[:2] == ["src", "ramet"] and len(parts) > 3 else None


TYPE = re.compile(r"^(?:template ?<.*> ?)?(?:class|struct|union|enum class|enum struct|enum)\s+(?:\[\[\w+\]\]\s*|alignas\(.*?\)\s*)?(\w+)"
                  r"(?:\s+final)?(?:\s*:[^:].*|\s*\{.*|\s*)$", re.M)
ALIAS = re.compile(r"^using (\w+) = ", re.M)
CONSTANT = re.compile(r"^(?:inline )?(?:constexpr|const)[^(=\n]*?\b(\w+)(?:\[\])? ?[={]", re.M)
FUNCTION = re.compile(r"^(?:[\w:<>,*&\[\] ]+?)[ *&](\w+)\(", re.M)
FORWARD = re.compile(r"^(class|struct|enum class|enum|union) (\w+)( : \w+)?;[^\n]*\n", re.M)


class Names:
    """Where each name of namespace scope is defined: type name -> folders, any name -> folders."""

    def __init__(self, texts):
        self.types, self.all = {}, {}
        for name, text in texts.items():
            folder = folder_of(name)
            if not folder or not name.endswith((".h", ".cc")):
                continue
            for match in TYPE.finditer(text):
                weight = 2 if name.endswith(".h") else 1
                folders = self.types.setdefault(match[1], {})
                folders[folder] = max(folders.get(folder, 0), weight)
            if name.endswith(".h"):
                for pattern in (TYPE, ALIAS, CONSTANT, FUNCTION):
                    for match in pattern.finditer(text):
                        self.all.setdefault(match[1], set()).add(folder)

    def type_folder(self, name, seen_from):
        found = self.types.get(name, {})
        if seen_from in found:
            return seen_from
        best = [folder for folder, weight in found.items() if weight == max(found.values())]
        return best[0] if len(best) == 1 else None


def space_of(folder):
    return "ramet" if folder == "base" else f"ramet::{folder}"


def say(text):
    print("sweep:", text, file=sys.stderr)


BLOCK = re.compile(r"^namespace (ramet(?:::\w+)*) \{\n+((?:(?:class|struct|enum class|enum|union) \w+(?: : \w+)?;[^\n]*\n)+)"
                   r"\n*\}(?:  // namespace [\w:]+)?\n\n?", re.M)


def open_namespaces(name, text, was):
    """The file's own namespace."""
    folder = folder_of(name)
    if folder:
        own = space_of(folder)

        def put(match):
            rest = match[2].split("::") if match[2] else []
            if rest and rest[0] in LAYERS:
                # Of a file that has moved, or a forward declaration's.
                if was and was != folder and rest[0] == was:
                    rest = [folder] + rest[1:]
                return match[1] + "::".join(["ramet"] + rest) + match[3]
            return match[1] + "::".join([own] + rest) + match[3]

        # base/ is for ramet itself; a forward declaration of base's type in `namespace ramet {` is found later.
        pattern = r"^((?:\}  // )?namespace )ramet(?:::([\w:]+))?( \{|$)"
        if folder == "base":
            return text
        parts, at = [], 0
        for block in BLOCK.finditer(text):  # forward declarations have a turn of their own
            parts += [re.sub(pattern, put, text[at:block.start()], flags=re.M), block[0]]
            at = block.end()
        return "".join(parts) + re.sub(pattern, put, text[at:], flags=re.M)
    if name.startswith("tests/"):
        text = re.sub(r"^((?:\}  // )?namespace )ramet( \{|$)", r"\1ramet::tests\2", text, flags=re.M)
        text = re.sub(r"^((?:\}  // )?namespace )ramet::test( \{|$)", r"\1ramet::tests\2", text, flags=re.M)
        text = re.sub(r"^((?:\}  // )?namespace )ramet::(toy|soak|fuzz|hand|checks)( \{|$)", r"\1ramet::tests::\2\3", text,
                      flags=re.M)
        text = re.sub(r"::ramet::test::", "::ramet::tests::", text)
        text = re.sub(r"::ramet::(toy|soak|fuzz|hand|checks)::", r"::ramet::tests::\1::", text)
        if "namespace ramet::tests" in text:
            # The helpers of tests were in a namespace of their own.
            text = re.sub(r"\n\n(?:using test::\w+;\n)+(?=\n)", "\n", text)
            text = re.sub(r"^using test::\w+;\n", "", text, flags=re.M)
            text = re.sub(r"(?<![\w:])test::(?=\w)", "", text)
        return re.sub(r"^( *using namespace ramet);", r"\1::tests;", text, flags=re.M)
    if name.startswith("bench/"):
        if "using namespace ramet::bench;" in text:
            return re.sub(r"^ *using namespace ramet;\n", "", text, flags=re.M)
        return re.sub(r"^( *using namespace ramet);", r"\1::bench;", text, flags=re.M)
    return text


def forward_declarations(name, text, names):
    folder = folder_of(name)
    if not folder:
        return text
    own = space_of(folder)
    wanted = {}  # namespace -> lines

    def note(line, current):
        """Takes a declaration that does not belong into the namespace where it stands."""
        match = FORWARD.match(line)
        where = names.type_folder(match[2], folder)
        if where is None and current == own and not re.search(r"\b(class|struct) " + match[2] + r"\b[^;]*\{", text):
            say(f"{name}: cannot tell where {match[2]} is defined: {names.types.get(match[2], {})}")
        space = current if where is None else space_of(where)
        if space == own == current:
            return False
        wanted.setdefault(space, []).append(line)
        return True

    # Blocks that stand already.
    def take(match):
        for line in match[2].splitlines(keepends=True):
            if not note(line, match[1]):
                wanted.setdefault(own, []).append(line)
        return ""

    if folder == "base":
        return text
    text = BLOCK.sub(take, text)

    # In the file's own namespace, at its beginning: lines at column 0 between namespace-scope declarations.
    opening = re.search(r"^namespace " + re.escape(own) + r"(?:::\w+)* \{\n", text, re.M)
    if not opening:
        assert not wanted, name
        return text
    head, body = text[:opening.end()], text[opening.end():]
    out = []
    for line in body.splitlines(keepends=True):
        if FORWARD.match(line) and note(line, own):
            out.append(None)
            continue
        out.append(line)
    kept = []
    for index, line in enumerate(out):
        if line is not None:
            # No blank line twice where something was taken out.
            if line == "\n" and index and out[index - 1] is None and (not kept or kept[-1] == "\n"):
                continue
            kept.append(line)
    body = "".join(kept)
    if None in out:
        body = body if body.startswith("\n") else "\n" + body
        body = re.sub(r"\A\n\n+", "\n", body)
    start = head[:opening.start()]
    blocks = ""
    order = {space_of(layer): index for index, layer in enumerate(LAYERS)}
    for space in sorted(wanted, key=lambda space: order.get(space, 99)):
        lines = sorted(set(wanted[space]), key=wanted[space].index)
        blocks += f"namespace {space} {{\n{''.join(lines)}}}  // namespace {space}\n\n"
    return start + blocks + head[opening.start():] + body


def qualify(name, text, names):
    """ramet::Name -> ramet::folder::Name."""
    if not name.endswith((".h", ".cc")):
        return text

    def put(match):
        word = match[1]
        if word in LAYERS or word in ("tests", "bench"):
            return match[0]
        folders = names.all.get(word, set())
        if name.startswith("tests/") and "base" not in names.types.get(word, {}) and re.search(
                r"^\w[^\n]* " + word + r"\(", text, re.M):
            return f"ramet::tests::{word}"
        if "base" in folders:
            return match[0]
        if len(folders) == 1:
            return ("" if folder_of(name) else "ramet::") + f"{next(iter(folders))}::{word}"
        say(f"{name}: cannot tell which ramet::{word} is meant: {sorted(folders)}")
        return match[0]

    lines = text.split("\n")
    for index, line in enumerate(lines):
        if not re.match(r"^\s*(?:\}  // |using )?namespace |^\s*//", line):
            lines[index] = re.sub(r"(?<!\w)ramet::(\w+)", put, line)
    return "\n".join(lines)


PATH = re.compile(r"(?<![\w/.\-])((?:src/)?(?:ramet/)?|tests/)(runtime|data|model|train)/((?:tasks/)?\w+\.(?:h|cc))")


def paths(name, text, moves):
    def put(match):
        prefix = match[1]
        if prefix == "tests/":
            return moved(match[0], moves)
        old = f"src/ramet/{match[2]}/{match[3]}"
        return prefix + moved(old, moves).removeprefix("src/ramet/")

    if not name.endswith((".h", ".cc")):
        return PATH.sub(put, text)
    # Includes are sorted within their block; a block that was sorted stays so.
    out, block = [], []

    def put_include(line):
        return re.sub(r'(#include ")([^"]+)"', lambda m: m[1] + include_path(m[2]) + '"', line)

    def include_path(path):
        if path.startswith("ramet/"):
            return moved("src/" + path, moves).removeprefix("src/")
        if name.startswith("tests/"):
            return moved("tests/" + path, moves).removeprefix("tests/")
        if path.startswith("../tests/"):
            return "../" + moved(path.removeprefix("../"), moves)
        return path

    def flush_includes():
        if block:
            new = [put_include(line) for line in block]
            if new != block:
                if block == sorted(block):
                    new = sorted(new)
                elif block[1:] == sorted(block[1:]):
                    new = [new[0]] + sorted(new[1:])
                else:
                    say(f"{name}: includes were not sorted")
            out.extend(new)
            block.clear()

    for line in text.split("\n"):
        if re.match(r'#include "', line):
            block.append(line)
            continue
        flush_includes()
        out.append(PATH.sub(put, line))
    flush_includes()
    return "\n".join(out)


def include_house(name, text):
    """Every header of base/, and those of other folders that include no header of ours. (Those of kernel/ are never
    included alone.)"""
    if not re.fullmatch(r"src/ramet/.*\.h", name) or name.endswith(("/house.h", "-inl.h")) or "base/house.h" in text:
        return text
    if "\nnamespace ramet" not in text:
        return text
    if folder_of(name) != "base" and (folder_of(name) == "kernel" or '#include "ramet/' in text):
        return text
    line = '#include "ramet/base/house.h"'
    lines = text.split("\n")
    quoted = [i for i, l in enumerate(lines) if l.startswith('#include "ramet/')]
    if quoted:
        at = next((i for i in quoted if lines[i] > line), quoted[-1] + 1)
        lines.insert(at, line)
    else:
        system = [i for i, l in enumerate(lines) if l.startswith("#include <")]
        at = system[-1] + 1 if system else lines.index("#pragma once") + 1
        lines[at:at] = ["", line]
    return "\n".join(lines)


def edited(name, text):
    for pattern, old, new in PATTERNS:
        if re.fullmatch(pattern, name):
            text = re.sub(old, new, text, flags=re.M)
    for pattern, old, new in EDITS:
        if re.fullmatch(pattern, name):
            text = text.replace(old, new)
    return text


def sweep(tree, recipe=False):
    moves = (RECIPE_MOVES if recipe else []) + MOVES
    was = {}
    for name in git_files(tree):
        target = moved(name, moves)
        if target != name:
            (tree / target).parent.mkdir(parents=True, exist_ok=True)
            if (tree / target).exists():
                say(f"{target} exists already; {name} stays")
                continue
            known = subprocess.run(["git", "ls-files", "--error-unmatch", name], cwd=tree, capture_output=True, check=False)
            if known.returncode == 0:
                subprocess.run(["git", "mv", name, target], cwd=tree, check=True)
            else:
                (tree / name).rename(tree / target)
            if folder_of(name):
                was[target] = folder_of(name)
    texts = {}
    for name in git_files(tree):
        contents = (tree / name).read_bytes()
        if b"\0" in contents[:8192] or not re.search(r"\.(h|cc|cu|cuh|inc|md|py|sh|txt|cmake|toml|yml)$|Makefile$", name):
            continue
        try:
            texts[name] = contents.decode()
        except UnicodeDecodeError:
            continue
    before = dict(texts)
    if "src/ramet/base/house.h" not in texts:
        texts["src/ramet/base/house.h"] = house()
    names = Names(texts)
    for name, text in texts.items():
        if name.endswith("/house.h"):
            continue
        text = edited(name, text)
        if re.match(r"(src|tests|bench)/.*\.(h|cc)$", name):
            text = open_namespaces(name, text, was.get(name))
            text = forward_declarations(name, text, names)
            text = qualify(name, text, names)
            text = include_house(name, text)
        if not name.startswith("tests/samples/"):
            text = paths(name, text, moves)
        for pattern, old, new in RENAMES:
            if re.fullmatch(pattern, name):
                text = re.sub(r"\b" + old + r"\b", new, text)
        text = edited(name, text)
        texts[name] = text
    changed = 0
    for name, text in texts.items():
        if before.get(name) != text:
            (tree / name).write_bytes(text.encode())
            changed += 1
    print(f"sweep: {len(was)} sources moved, {changed} files changed")


def run(*command, cwd):
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()


def swept_commit(repo, commit, parents, recipe, message):
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder) / "tree"
        run("git", "worktree", "add", "--detach", str(tree), commit, cwd=repo)
        try:
            sweep(tree, recipe)
            run("git", "add", "-A", cwd=tree)
            made = run("git", "write-tree", cwd=tree)
        finally:
            run("git", "worktree", "remove", "--force", str(tree), cwd=repo)
    return run("git", "commit-tree", made, *[word for parent in parents for word in ("-p", parent)], "-m", message, cwd=repo)


def convert(repo, branch, base, recipe):
    base = run("git", "rev-parse", base or run("git", "merge-base", branch, "main", cwd=repo), cwd=repo)
    swept_base = swept_commit(repo, base, [base], recipe, "One namespace a folder, new folders: the base of a branch")
    head = swept_base
    for commit in run("git", "rev-list", "--reverse", "--first-parent", f"{base}..{branch}", cwd=repo).split():
        head = swept_commit(repo, commit, [head], recipe, run("git", "log", "-1", "--format=%B", commit, cwd=repo))
    print(f"git cherry-pick {swept_base}..{head}")


def main():
    words = [word for word in sys.argv[1:] if word not in ("--recipe", "--convert")]
    recipe = "--recipe" in sys.argv
    if "--convert" in sys.argv:
        convert(pathlib.Path(words[0]).resolve(), words[1], words[2] if len(words) > 2 else None, recipe)
    elif len(words) == 1:
        sweep(pathlib.Path(words[0]).resolve(), recipe)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
