#!/usr/bin/env python3
"""Checks the rules of the tree that no compiler checks; prints "FILE:LINE: rule" for each breach.

- a folder of src/ramet includes only itself and the folders above it in LAYERS (docs/contributing.md)
- a header has `#pragma once` (but not Highway's *-inl.h, which are included once per instruction set)
- a source file has at most 900 lines (a warning from 700)
- no file names a path of the machine that it was written on, or the host of a package registry

usage: scripts/lint.py [ROOT]
"""
import pathlib
import re
import subprocess
import sys

LAYERS = ("base ir ops transform machine layout program device kernel transport runtime measure sim plan data text "
          "graphs weights model front track train recipe report serve cli").split()
MOST_LINES = 900
MANY_LINES = 700
SOURCE_SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".inc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]ramet/([^/">]+)/[^">]*[">]')

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
    breaches, warnings = [], []
    for path in files_of(root):
        name = path.relative_to(root).as_posix()
        contents = path.read_bytes()
        if b"\0" in contents[:8192]:
            continue  # binary
        lines = contents.decode(errors="replace").splitlines()
        for checked in (check_layers(name, lines), check_source(name, lines), check_words(lines)):
            breaches += [f"{name}:{number}: {text}" for number, text in checked]
        if path.suffix in SOURCE_SUFFIXES and MANY_LINES < len(lines) <= MOST_LINES:
            warnings.append(f"{name}:{len(lines)}: warning: {len(lines)} lines; should it be two files?")
    return breaches, warnings


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    breaches, warnings = check(root)
    for line in warnings + breaches:
        print(line)
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
