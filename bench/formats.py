"""Speed of number formats beside bf16 products with f32 masters and moments, all measured in turn in one run.

    python bench/formats.py                          # BERT-mini and BERT-small
    python bench/formats.py --preset mini --rounds 3

Each round trains every format once, each as a process of its own; a format's time is the median of its steps over all rounds, and the
ratio is its rate of steps over bf16's. The bar is 0.95 for f16 weights and moments with stochastic rounding and no f32 copy. With f16
products that takes processors which compute in f16 (AVX-512 FP16); others multiply f16 at f32's rate, half of bf16's.
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
RUNS = ROOT / "build" / "bench-formats"
BAR = 0.95
F16 = {"train.weights": "f16", "train.optimizer.state": "f16"}
FORMATS = {
    # name: settings, whether the bar is its
    "bf16": ({"train.precision": "bf16"}, False),
    "bf16 products, f16 weights and moments": ({"train.precision": "bf16", **F16}, True),
    "bf16 products, bf16 weights and moments": (
        {"train.precision": "bf16", "train.weights": "bf16", "train.optimizer.state": "bf16"}, False),
    "f16 products, f16 weights and moments": ({"train.precision": "f16", **F16}, True),
    "f16 products, f32 masters": ({"train.precision": "f16"}, False),
}


def train(preset, settings, options):
    """Steps but the first, which touches all memory for the first time."""
    shutil.rmtree(RUNS, ignore_errors=True)
    settings = {"model.preset": preset, "train.steps": 1000, "train.evaluation.batches": 0, **settings}
    words = ["examples/bert-mini.toml", "--steps", str(options.steps + 1), "--threads", str(options.threads), "--run-dir", str(RUNS), "--json"]
    for key, value in settings.items():
        words += ["--set", f"{key}={value}"]
    result = subprocess.run([str(ROOT / "build/ramet"), "train", *words], capture_output=True, text=True, cwd=ROOT)
    if result.returncode != 0:
        sys.exit(f"ramet train {' '.join(words)} failed:\n{result.stderr[-2000:]}")
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    return [line["step_seconds"] for line in lines if line.get("event") == "step"][1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", action="append", help="default: mini and small")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    met = True
    for preset in options.preset or ["mini", "small"]:
        seconds = {name: [] for name in FORMATS}
        for _ in range(options.rounds):
            for name, (settings, _) in FORMATS.items():
                seconds[name] += train(preset, settings, options)
        for name, (_, judged) in FORMATS.items():
            ratio = statistics.median(seconds["bf16"]) / statistics.median(seconds[name])
            met = met and (not judged or ratio >= BAR)
            print(json.dumps({"preset": preset, "format": name, "ratio": round(ratio, 3), "bar": BAR if judged else None,
                              "load": round(os.getloadavg()[0], 2)}), flush=True)
    shutil.rmtree(RUNS, ignore_errors=True)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
