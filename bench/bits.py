#!/usr/bin/env python3
"""Whole training steps with train.bits = "exact" beside "fast", which drops lanes and chunks: speed of exact over that of fast, on
several layouts of BERT-mini. The exact recipe has as many lanes and chunks as let it be split eight and four ways. Runs take turns;
medians of their steps, the first left out. The bar is 0.95.

usage: bench/bits.py [--steps N] [--rounds N]
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
LAYOUTS = ["p=1", "r=2", "t=2", "r=2 rts=weights,grads,optimizer"]
RECIPE = ["train.accumulation=8", "train.lanes=8", "train.chunks=4", "train.evaluation.batches=1"]


def step_seconds(layout, bits, steps, folder):
    command = [ROOT / "build/ramet", "train", "examples/bert-mini.toml", "--layout", layout, "--steps", str(steps), "--json",
               "--run-dir", folder]
    for setting in [*RECIPE, f"train.bits={bits}"]:
        command += ["--set", setting]
    result = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    if result.returncode != 0:
        sys.exit(f"bits: a run with layout {layout} ended with status {result.returncode}")
    events = [json.loads(line) for line in result.stdout.splitlines()]
    return [event["step_seconds"] for event in events if event["event"] == "step"][1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if not (ROOT / "build/ramet").exists():
        print("bits: needs build/ramet; left out")
        return
    print(f"load {' '.join(f'{load:.1f}' for load in os.getloadavg())} before")
    print("| layout | exact s | fast s | exact/fast | bar |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for layout in LAYOUTS:
        seconds = {"exact": [], "fast": []}
        for round_ in range(arguments.rounds):
            for bits in list(seconds)[:: 1 if round_ % 2 else -1]:
                with tempfile.TemporaryDirectory() as folder:
                    seconds[bits] += step_seconds(layout, bits, arguments.steps, folder)
        exact, fast = (statistics.median(seconds[bits]) for bits in ("exact", "fast"))
        print(f"| {layout} | {exact:.3f} | {fast:.3f} | {fast / exact:.3f} | 0.95 |", flush=True)
    print(f"load {' '.join(f'{load:.1f}' for load in os.getloadavg())} after")


if __name__ == "__main__":
    main()
