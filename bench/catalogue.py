#!/usr/bin/env python3
"""Times the catalogue of runs, and kills writers and indexers at random.

  bench/catalogue.py [--build build] [--runs 10000] [--steps 1000] [--metrics 1] [--long 1000000] [--kills 100]

Prints lines of JSON: making the catalogue of so many runs anew, indexing where nothing is new, listing all of them and a
filtered page; then courses of one run with a long metric; then how many kills there were, after each of which every
point whose flush had returned was found. --kills 0 leaves the kills out.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time


def run(*words, **more):
    return subprocess.run([str(word) for word in words], check=True, text=True, capture_output=True, **more).stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path, help="where the runs are made (default: a temporary folder)")
    for name, value in (("runs", 10_000), ("steps", 1000), ("metrics", 1), ("long", 1_000_000), ("kills", 100)):
        parser.add_argument(f"--{name}", default=value, type=int)
    asked = parser.parse_args()
    program = asked.build / "bench" / "catalogue"
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ramet-catalogue-", dir=asked.folder))
    try:
        many, one = folder / "many", folder / "one"
        run(program, "make", many, asked.runs, asked.steps, asked.metrics)
        print(run(program, "index", many), end="", flush=True)
        started = time.monotonic()
        lines = run(asked.build / "ramet", "runs", "list", "--run-dir", many, "--json").count("\n")
        print(json.dumps({"listed_by_the_command": lines, "seconds": round(time.monotonic() - started, 3)}), flush=True)
        shutil.rmtree(many)
        run(program, "make", one, 1, asked.long, 4)
        print(run(program, "index", one), end="")
        print(run(program, "series", one), end="", flush=True)
        if asked.kills:
            test = subprocess.run([asked.build / "tests" / "test_track", "--gtest_filter=*KillsOfWriters*"], check=False,
                                  text=True, capture_output=True, env={**os.environ, "RAMET_KILLS": str(asked.kills)})
            if test.returncode != 0:
                print(test.stdout[-4000:], file=sys.stderr)
                return 1
            print(json.dumps({"kills": 2 * asked.kills, "points_lost": 0}))
        return 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
