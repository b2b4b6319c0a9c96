#!/usr/bin/env python3
"""Checks the rules of the tree that no compiler checks; prints "FILE:LINE: rule" for each breach.

- a folder of src/ramet includes only itself and the folders above it in LAYERS (docs/contributing.md)
- a file of src/ramet/X opens only namespace ramet::X (base/: ramet), but to declare names of others: `class Y;`; base/
  and api/ define what the public headers declare, in ramet::v0
- a public header (include/ramet/) includes only the standard library and public headers, and opens only ramet::v0
- no class, struct or enum of namespace scope is defined twice in headers of src/ramet, nor twice in one namespace
- a header has `#pragma once` (but not Highway's *-inl.h, which are included once per instruction set)
- a source file has at most 900 lines (a warning from 700)
- no file names a path of the machine that it was written on, or the host of a package registry

usage: scripts/lint.py [ROOT]
"""
import pathlib
import re
import subprocess
import sys

LAYERS = ("base ir ops transform machine layout program device kernel transport runtime measure sim plan data weights "
          "text graphs model front track train recipe sweep report serve cli api").split()
HOUSE = "src/ramet/base/house.h"  # names all namespaces, in order
PUBLIC = "include/ramet/"          # what users include; its names are in namespace PUBLIC_SPACE
PUBLIC_SPACE = "ramet::v0"
DEFINES_PUBLIC = ("base", "api")   # folders that define what the public headers declare
MOST_LINES = 900
MANY_LINES = 700
DEVICE_SPACE = "ramet_device"
SOURCE_SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".inc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]ramet/([^/">]+)/[^">]*[">]')

# What the reading of namespaces takes no notice of: texts, characters (but not the ' of 500'000), comments and lines of
# the preprocessor.
IGNORED = re.compile("|".join([r'R"(?P<mark>[^()\\\s]*)\(.*?\)(?P=mark)"', r'"(?:\\.|[^"\\\n])*"',
                               r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", r"//[^\n]*", r"/\*.*?\*/",
                               r"^[ \t]*#(?:\\\n|[^\n])*"]), re.S | re.M)
NAMESPACE = re.compile(r"\bnamespace\b\s*([\w:]*)\s*$")
DEFINITION = re.compile(r"^(?:template\s*<[^{}]*>\s*)?(?:class|struct|union|enum(?:\s+class|\s+struct)?)\s+"
                        r"(?:\[\[.*?\]\]\s*|alignas\s*\([^()]*\)\s*)*(\w+)(?:\s+final)?\s*(?::(?!:).*)?$", re.S)
FORWARD = re.compile(r"^\s*(?:class|struct|union|enum(?:\s+class|\s+struct)?)\s+\w+\s*(?::\s*\w+)?\s*$")

# Written in pieces, so that this file does not break its own rule.
MACHINE_PATHS = ["/" + name for name in ("work/", "root/", "opt/peer", "farm/", "tmp/bash_jobs")]
REGISTRY_HOSTS = [".".join(parts) for parts in (
    ("deb", "debian", "org"), ("snapshot", "debian", "org"), ("pypi", "org"), ("pythonhosted", "org"),
    ("crates", "io"), ("proxy", "golang", "org"), ("npmjs", "org"), ("repo1", "maven", "org"))]
# A path must begin a word: a folder of that name inside another is somebody's own.
FORBIDDEN = re.compile("|".join([r"(?<![\w.$})~*-])" + re.escape(path) for path in MACHINE_PATHS] +
                                [r"\b" + re.escape(host) + r"\b" for host in REGISTRY_HOSTS]))


def files_of(root):
    """Files that git knows or would add; all files outside build folders where there is no git."""
    listing = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root,
                             capture_output=True, check=False)
    if listing.returncode == 0 and (root / ".git").exists():
        names = [name for name in listing.stdout.decode().split("\0") if name]
        return [path for name in sorted(set(names)) if (path := root / name).is_file()]
    return [path for path in sorted(root.rglob("*")) if path.is_file() and ".git" not in path.parts and
            not any(part.startswith("build") for part in path.relative_to(root).parts[:1])]


def check_layers(name, lines):
    parts = pathlib.PurePosixPath(name).parts
    if parts[:2] != ("src", "ramet") or len(parts) < 4:
        return
    folder = parts[2]
    if folder not in LAYERS:
        yield 1, f"unknown folder src/ramet/{folder}; the folders are {', '.join(LAYERS)}"
        return
    for number, line in enumerate(lines, 1):
        if match := INCLUDE.match(line):
            included = match[1]
            if included not in LAYERS:
                yield number, f"includes unknown folder {included}/"
            elif LAYERS.index(included) > LAYERS.index(folder):
                yield number, f"{folder}/ includes {included}/, which stands below it: a folder includes only itself " \
                              f"and the folders above it ({', '.join(LAYERS[:LAYERS.index(folder)]) or 'none'})"


class Scopes:
    """The outermost namespaces that a source opens, as (line, full name, whether only declarations of types stand in
    it), and the types that it defines at namespace scope, as (line, namespace, name). Of an anonymous namespace, and of
    all in it, the name is None."""

    def __init__(self, text):
        text = IGNORED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
        self.opened, self.types = [], []
        stack = []  # what is open: namespaces, and None for other braces
        statement, line = 0, 1
        for match in re.finditer(r"[{};\n]", text):
            at, mark = match.start(), match[0]
            if mark == "\n":
                line += 1
                continue
            head = text[statement:at].strip()
            inside = not stack or stack[-1] is not None  # at namespace scope
            if mark == "{":
                if inside and (opening := NAMESPACE.search(head)):
                    above = stack[-1]["name"] if stack else ""
                    named = opening[1] and above is not None
                    name = "::".join(part for part in (above, opening[1]) if part) if named else None
                    stack.append({"name": name, "line": line, "statements": [], "within": len(stack) > 0})
                else:
                    if inside:
                        if stack:
                            stack[-1]["statements"].append(head + " {")
                        if definition := DEFINITION.match(head):
                            first = line - head[definition.end(1):].count("\n")
                            self.types.append((first, stack[-1]["name"] if stack else "", definition[1]))
                    stack.append(None)
            elif mark == "}":
                if stack and (closed := stack.pop()) is not None:
                    statements = [text for text in closed["statements"] if text]
                    if not closed["within"]:
                        self.opened.append((closed["line"], closed["name"],
                                            bool(statements) and all(map(FORWARD.match, statements))))
                    elif stack:
                        stack[-1]["statements"].append("namespace {")
            elif inside and stack:
                stack[-1]["statements"].append(head)
            statement = at + 1


def folder_of(name):
    """The folder of src/ramet in which a source file stands, or nothing."""
    parts = pathlib.PurePosixPath(name).parts
    is_source = parts[:2] == ("src", "ramet") and len(parts) > 3 and name.endswith((".h", ".cc"))
    return parts[2] if is_source and parts[2] in LAYERS else None


def check_namespaces(name, scopes):
    folder = folder_of(name)
    own = "ramet" if folder == "base" else f"ramet::{folder}"
    for line, space, declares_only in scopes.opened:
        if space is None or declares_only or name == HOUSE:
            continue
        words = space.split("::")
        inside = (space + "::").startswith(own + "::") and (folder != "base" or not set(words[1:2]) & set(LAYERS))
        inside = inside or folder in DEFINES_PUBLIC and (space + "::").startswith(PUBLIC_SPACE + "::")
        if words[0] == "ramet" and not inside:
            yield line, f"opens namespace {space}; what is in {folder}/ stands in namespace {own}"


def check_public(name, lines, scopes):
    """A public header stands alone: what it includes is there wherever it is installed."""
    for number, line in enumerate(lines, 1):
        match = re.match(r'\s*#\s*include\s*(<([^>]*)>|"([^"]*)")', line)
        if match and not (re.fullmatch(r"[a-z_]+", match[2] or "") or re.fullmatch(r"ramet/[a-z_]+\.h", match[3] or "")):
            yield number, f"a public header includes {match[1]}: only the standard library and public headers are there"
    for line, space, _ in scopes.opened:
        if space not in ("ramet", PUBLIC_SPACE) or (space == "ramet" and not name.endswith("/version.h")):
            yield line, f"opens namespace {space}; what is public stands in namespace {PUBLIC_SPACE}"


def check_types(sources):
    """`sources`: (name, scopes). Of two definitions the later one is told."""
    in_headers, in_spaces = {}, {}
    for name, scopes in sources:
        for line, space, kind in scopes.types:
            if space is None:
                continue
            place = f"{name}:{line}"
            # Device code is another program, whose structs have the names of the host's.
            if name.endswith(".h") and space != DEVICE_SPACE and (first := in_headers.setdefault(kind, place)) != place:
                yield f"{place}: {kind} is defined in {first} too: two types of one name say neither what they are"
            elif (first := in_spaces.setdefault((space, kind), place)) != place:
                yield f"{place}: {space}::{kind} is defined in {first} too: the linker takes them for one type"


def check_source(name, lines):
    if pathlib.PurePosixPath(name).suffix not in SOURCE_SUFFIXES:
        return
    header = name.endswith((".h", ".cuh")) and not name.endswith("-inl.h")
    if header and not any(line.strip() == "#pragma once" for line in lines):
        yield 1, "a header without #pragma once"
    if len(lines) > MOST_LINES:
        yield len(lines), f"{len(lines)} lines; a source file has at most {MOST_LINES}: split it by subject"


def check_words(lines):
    for number, line in enumerate(lines, 1):
        if match := FORBIDDEN.search(line):
            yield number, f"names '{match[0]}': no path of one machine and no registry host belongs in the tree"


def check(root):
    """Breaches and warnings as lists of "FILE:LINE: text"."""
    breaches, warnings, sources = [], [], []
    for path in files_of(root):
        name = path.relative_to(root).as_posix()
        contents = path.read_bytes()
        if b"\0" in contents[:8192]:
            continue  # binary
        lines = contents.decode(errors="replace").splitlines()
        checks = [check_layers(name, lines), check_source(name, lines), check_words(lines)]
        if folder_of(name):
            sources.append((name, Scopes("\n".join(lines))))
            checks.append(check_namespaces(*sources[-1]))
        if name.startswith(PUBLIC):
            checks.append(check_public(name, lines, Scopes("\n".join(lines))))
        for checked in checks:
            breaches += [f"{name}:{number}: {text}" for number, text in checked]
        if path.suffix in SOURCE_SUFFIXES and MANY_LINES < len(lines) <= MOST_LINES:
            warnings.append(f"{name}:{len(lines)}: warning: {len(lines)} lines; should it be two files?")
    return breaches + list(check_types(sources)), warnings


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    breaches, warnings = check(root)
    for line in warnings + breaches:
        print(line)
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
