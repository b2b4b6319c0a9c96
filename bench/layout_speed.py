"""Speed of layouts beside one device on the same two processors, both measured in turn in one run.

    python bench/layout_speed.py                     # every case
    python bench/layout_speed.py --only pipeline --rounds 3

Each round runs both sides once, each as a process of its own; a side's time is the median of its steps over all rounds, and the ratio is
one device's time over the layout's. Cases:
    replicas   r=2 with a thread each against one device with two threads
    pipeline   p=2: the bubble that `ramet plan` predicts beside the one that training measures (at most 0.03 apart), and the time
               beside one device's
    phases     weights, gradients and optimizer state streamed from RAM in phases against the same device with all resident
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNS = ROOT / "build" / "bench-runs"
MINI = ["examples/bert-mini.toml"]
BASE = ["examples/bert-base.toml", "--set", "train.micro_batch=16", "--set", "train.accumulation=8"]
SMALL = ["examples/bert-mini.toml", "--set", "model.preset=small", "--set", "train.micro_batch=16"]
LANES = ["--set", "train.lanes=2", "--set", "train.accumulation=8"]
CASES = {
    # name: (recipe and keys, layout, least ratio of one device's time to the layout's; None: see bubble, steps)
    "replicas-mini": ([*MINI, *LANES], "r=2", 0.95, 12),
    "replicas-small": ([*SMALL, *LANES], "r=2", 0.95, 6),
    "pipeline-mini": ([*MINI, "--set", "train.accumulation=16"], "p=2", None, 6),
    "pipeline-small": ([*SMALL, "--set", "train.accumulation=16"], "p=2", None, 3),
    "phases-base": (BASE, "phases=4 offload=weights,grads,optimizer", 0.9, 2),
}
MOST_APART = 0.03  # of a bubble predicted and measured


def run(program, arguments):
    result = subprocess.run([str(ROOT / "build/ramet"), program, *arguments, "--json"], capture_output=True, text=True, cwd=ROOT)
    if result.returncode != 0:
        sys.exit(f"ramet {program} {' '.join(arguments)} failed:\n{result.stderr[-2000:]}")
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def train(arguments, steps, threads):
    """Steps but the first, which touches all memory for the first time."""
    shutil.rmtree(RUNS, ignore_errors=True)
    lines = run("train", [*arguments, "--set", "train.evaluation.batches=0", "--steps", str(steps + 1), "--threads", str(threads),
                          "--run-dir", str(RUNS)])
    return [line for line in lines if line.get("event") == "step"][1:]


def measure(name, rounds, threads):
    recipe, layout, bar, steps = CASES[name]
    sides = {"one": [], "layout": []}
    for _ in range(rounds):
        sides["one"] += train(recipe, steps, threads)
        sides["layout"] += train([*recipe, "--layout", layout], steps, threads)
    seconds = {side: statistics.median(step["step_seconds"] for step in found) for side, found in sides.items()}
    result = {"case": name, "layout": layout, "seconds": [round(each, 4) for each in seconds.values()],
              "ratio": round(seconds["one"] / seconds["layout"], 3), "bar": bar, "load": round(os.getloadavg()[0], 2)}
    if bar is not None:
        return result, result["ratio"] >= bar
    plan = run("plan", [*recipe, "--layout", layout, "--threads", str(threads)])[-1]
    measured = statistics.median(step["bubble"] for step in sides["layout"])
    result |= {"bubble_predicted": round(plan["bubble"], 4), "bubble_measured": round(measured, 4),
               "seconds_predicted": round(plan["step_seconds"], 4)}
    return result, abs(plan["bubble"] - measured) <= MOST_APART


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="cases whose name contains this")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    met = True
    for name in CASES:
        if options.only and options.only not in name:
            continue
        result, good = measure(name, options.rounds, options.threads)
        met = met and good
        print(json.dumps(result), flush=True)
    shutil.rmtree(RUNS, ignore_errors=True)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
