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
import shutil
import statistics
import sys

import layout_speed

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
    arguments = ["examples/bert-mini.toml"]
    for key, value in {"model.preset": preset, "train.steps": 1000, **settings}.items():
        arguments += ["--set", f"{key}={value}"]
    return [step["step_seconds"] for step in layout_speed.train(arguments, options.steps, options.threads)]


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
    shutil.rmtree(layout_speed.RUNS, ignore_errors=True)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
