"""Speed of layouts beside one device on the same two processors, both measured in turn in one run.

    python bench/layout_speed.py                     # every case
    python bench/layout_speed.py --only pipeline --rounds 3

Each round runs both sides once, each as a process of its own; a side's time is the median of its steps over all rounds, and the ratio is
one device's time over the layout's. Cases:
    replicas   r=2 with a thread each against one device with two threads
    pipeline   p=2 with a thread each against one device with two threads, over 1 - the bubble that the plan predicts
    phases     weights, gradients and optimizer state streamed from RAM in phases against the same device with all resident
    exact      bits = "exact" against bits = "fast" on the same layout
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
    # name: (recipe and keys, one side, other side, bar, steps); the ratio is time of the one side over that of the other
    "replicas-mini": ([*MINI, *LANES], [], ["--layout", "r=2"], 0.95, 12),
    "replicas-small": ([*SMALL, *LANES], [], ["--layout", "r=2"], 0.95, 6),
    "pipeline-mini": ([*MINI, "--set", "train.accumulation=16"], [], ["--layout", "p=2"], 0.97, 8),
    "pipeline-small": ([*SMALL, "--set", "train.accumulation=16"], [], ["--layout", "p=2"], 0.97, 4),
    "exact-mini": ([*MINI, *LANES, "--set", "train.chunks=2"], ["--layout", "r=2", "--set", "train.bits=fast"], ["--layout", "r=2"], 0.95, 12),
    "exact-tensor": ([*MINI, "--set", "train.chunks=2"], ["--layout", "t=2", "--set", "train.bits=fast"], ["--layout", "t=2"], 0.95, 12),
    "phases-base": (BASE, [], ["--layout", "phases=4 offload=weights,grads,optimizer"], 0.9, 2),
}


def run(program, arguments):
    result = subprocess.run([str(ROOT / "build/ramet"), program, *arguments, "--json"], capture_output=True, text=True, cwd=ROOT)
    if result.returncode != 0:
        sys.exit(f"ramet {program} {' '.join(arguments)} failed:\n{result.stderr[-2000:]}")
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def step_times(arguments, steps, threads):
    """Seconds of each step but the first, which touches all memory for the first time."""
    shutil.rmtree(RUNS, ignore_errors=True)
    lines = run("train", [*arguments, "--set", "train.evaluation.batches=0", "--steps", str(steps + 1), "--threads", str(threads),
                          "--run-dir", str(RUNS)])
    return [line["step_seconds"] for line in lines if line.get("event") == "step"][1:]


def bubble(arguments, threads):
    return run("plan", [*arguments, "--threads", str(threads)])[-1].get("bubble", 0.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="cases whose name contains this")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    met = True
    for name, (recipe, one, other, bar, steps) in CASES.items():
        if options.only and options.only not in name:
            continue
        idle = bubble([*recipe, *other], options.threads) if name.startswith("pipeline") else 0.0
        times = {False: [], True: []}
        for _ in range(options.rounds):
            for side, extra in ((False, one), (True, other)):
                times[side] += step_times([*recipe, *extra], steps, options.threads)
        ratio = statistics.median(times[False]) / statistics.median(times[True]) / (1 - idle)
        met = met and ratio >= bar
        print(json.dumps({"case": name, "seconds": [round(statistics.median(times[side]), 4) for side in (False, True)],
                          "bubble": round(idle, 4), "ratio": round(ratio, 4), "bar": bar, "load": round(os.getloadavg()[0], 2)}),
              flush=True)
    shutil.rmtree(RUNS, ignore_errors=True)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
