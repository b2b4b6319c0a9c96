#!/usr/bin/env python3
"""Whole training steps with train.bits = "exact" beside "fast": speed of exact over that of fast, on several layouts of BERT-mini.
Fast takes the fewest lanes and chunks that the layout needs; exact those of the recipe, which name the layouts that it can run on with
the same bits: as few, or as many as can be split eight and four ways. Runs take turns; medians of their steps, the first left out.
The bar is 0.95 where both sum the same parts.

usage: bench/bits.py [--steps N] [--rounds N] [--only LAYOUT]
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# layout, lanes and chunks of the exact recipe, bar
ROWS = [
    ("r=2", 2, 1, 0.95),
    ("t=2", 1, 2, 0.95),
    ("r=2 rts=weights,grads,optimizer", 2, 1, 0.95),
    ("p=1", 8, 1, None),
    ("p=1", 1, 4, None),
    ("r=2", 8, 4, None),
]


def step_seconds(layout, lanes, chunks, bits, steps, folder):
    command = [ROOT / "build/ramet", "train", "examples/bert-mini.toml", "--layout", layout, "--steps", str(steps), "--json",
               "--run-dir", folder]
    for setting in ["train.accumulation=8", f"train.lanes={lanes}", f"train.chunks={chunks}", "train.evaluation.batches=1",
                    f"train.bits={bits}"]:
        command += ["--set", setting]
    result = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            stdin=subprocess.DEVNULL)
    if result.returncode != 0:
        sys.exit(f"bits: a run with layout {layout} ended with status {result.returncode}\n{result.stderr}")
    events = [json.loads(line) for line in result.stdout.splitlines()]
    return [event["step_seconds"] for event in events if event["event"] == "step"][1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", help="layouts whose text contains this")
    arguments = parser.parse_args()
    if not (ROOT / "build/ramet").exists():
        print("bits: needs build/ramet; left out")
        return
    print(f"load {' '.join(f'{load:.1f}' for load in os.getloadavg())} before")
    print("| layout | lanes | chunks | exact s | fast s | exact/fast | bar |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for layout, lanes, chunks, bar in [row for row in ROWS if not arguments.only or arguments.only in row[0]]:
        seconds = {"exact": [], "fast": []}
        for round_ in range(arguments.rounds):
            for bits in list(seconds)[:: 1 if round_ % 2 else -1]:
                with tempfile.TemporaryDirectory() as folder:
                    seconds[bits] += step_seconds(layout, lanes, chunks, bits, arguments.steps, folder)
        exact, fast = (statistics.median(seconds[bits]) for bits in ("exact", "fast"))
        print(f"| {layout} | {lanes} | {chunks} | {exact:.3f} | {fast:.3f} | {fast / exact:.3f} | {bar or 'none'} |", flush=True)
    print(f"load {' '.join(f'{load:.1f}' for load in os.getloadavg())} after")


if __name__ == "__main__":
    main()
