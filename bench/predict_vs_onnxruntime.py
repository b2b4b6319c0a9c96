"""Prediction of ONNX files beside onnxruntime, measured in turn in one run, on the same processors.

    python bench/predict_vs_onnxruntime.py --export      # once: the files, in build/bench-onnx
    python bench/predict_vs_onnxruntime.py               # ResNet-50 (16 images of 224) and BERT-base (8 texts of 128 words)

PyTorch's exporter writes torchvision's ResNet-50 and transformers' BERT-base with random weights. A round runs Ramet in f32, Ramet in
bf16, and onnxruntime in f32 with its best settings (bench/peers/onnx_side.py), each as a process of its own. The ratios are those of the
medians over rounds. `ready_ms` is the time from the file to the first call: reading, compiling, and weights. Bars: 1.0 in f32, 1.2 in
bf16, 3 s until ready. Needs the peers: scripts/setup.sh --peers.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

from peers.onnx_side import BATCHES
from peers.sides import ROOT, first_processors, run

FOLDER = ROOT / "build" / "bench-onnx"
BARS = {"f32": 1.0, "bf16": 1.2}
READY_BAR_MS = 3000


def measure_once(side, path, batch, args, processors):
    if side == "onnxruntime":
        return run([sys.executable, "bench/peers/onnx_side.py", "time", path, "--seconds", args.seconds, "--threads", args.threads], processors,
                   bound=False)
    return run(["build/ramet", "bench", path, "--batch", batch, "--seconds", args.seconds, "--threads", args.threads, "--set",
                f"train.precision={side}", "--json"], processors)


def measure(name, args, processors):
    sides = [*BARS, "onnxruntime"]
    found = {side: [] for side in sides}
    for _ in range(args.rounds):
        for side in sides:
            result = measure_once(side, FOLDER / f"{name}.onnx", BATCHES[name], args, processors)
            print(f"  {name} {side}: {json.dumps(result)}", flush=True)
            found[side].append(result)
    middle = {side: statistics.median(result["p50_ms"] for result in results) for side, results in found.items()}
    ready = max(statistics.median(result["ready_ms"] for result in found[side]) for side in BARS)
    ratios = {side: middle["onnxruntime"] / middle[side] for side in BARS}
    print(json.dumps({"model": name, "batch": BATCHES[name], "ready_ms": round(ready), "ms": {side: round(value, 1) for side, value in middle.items()},
                      "ratios": {side: round(ratio, 2) for side, ratio in ratios.items()}, "load_average": os.getloadavg()[0]}), flush=True)
    return ready <= READY_BAR_MS and all(ratios[side] >= bar for side, bar in BARS.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(BATCHES), action="append")
    parser.add_argument("--export", action="store_true", help="measure nothing: write the files")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    names = args.only or list(BATCHES)
    if args.export:
        for name in names:
            subprocess.run([sys.executable, "bench/peers/onnx_side.py", "export", name, FOLDER], check=True, cwd=ROOT)
        return 0
    processors = first_processors(args.threads)
    return 0 if all([measure(name, args, processors) for name in names]) else 1


if __name__ == "__main__":
    sys.exit(main())
