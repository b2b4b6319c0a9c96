"""A temporal graph network on CollegeMsg beside PyTorch Geometric's own classes, on the same split and negatives.

    python bench/tgn.py --data FOLDER --speed               # steps of both sides in turn, loaders included
    python bench/tgn.py --data FOLDER --seeds 3 --epochs 50 # average precisions of the test events

Each side trains with each seed, and says the mean average precision of the test batches after the epoch whose validation
batches have the best. Sides are within two standard errors where their means are. FOLDER holds the folder jodie. Needs the
peers (scripts/setup.sh --peers) and torch_geometric.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

from peers.sides import ROOT, first_processors, objects, run

SET = ROOT / "build" / "bench-graphs" / "collegemsg.safetensors"
RECIPE = ROOT / "examples" / "tgn-collegemsg.toml"
PEER = [sys.executable, ROOT / "bench" / "peers" / "torch_tgn.py", "--set", SET]


def prepare(data):
    if SET.exists():
        return
    SET.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([ROOT / "build" / "ramet", "graphs", "prepare", "events", pathlib.Path(data) / "jodie" / "CollegeMsg.txt", "--out", SET,
                    "--apply", "split-by-time=70:15:15"], check=True, stdout=sys.stderr)


def ramet(command, threads, *settings):
    return [ROOT / "build" / "ramet", command, RECIPE, "--json", "--threads", threads, "--set", f"data.events.set={SET}", "--set", "system.every=0",
            "--run-dir", SET.parent / "runs", *(word for setting in settings for word in ("--set", setting))]


def measure_speed(args, processors):
    """Medians over rounds of the median step of each side, in the first epoch."""
    found = {"ramet": [], "torch eager": []}
    for _ in range(args.rounds):
        ours = [each["step_seconds"] for each in objects(
            ramet("train", args.threads, "train.epochs=1"), processors) if each.get("event") == "step"]
        found["ramet"].append(statistics.median(ours[args.warm:args.warm + args.steps]))
        found["torch eager"].append(run([*PEER, "--warm", args.warm, "--steps", args.steps, "--threads", args.threads],
                                        processors)["step_seconds"])
        print({side: round(1e3 * values[-1], 2) for side, values in found.items()}, f"load {os.getloadavg()[0]:.2f}", flush=True)
    medians = {side: statistics.median(values) for side, values in found.items()}
    print(json.dumps({"step_ms": {side: round(1e3 * value, 2) for side, value in medians.items()},
                      "speed_ratio": round(medians["torch eager"] / medians["ramet"], 2), "load_average": os.getloadavg()[0]}))


def test_precision(epochs):
    """Of (validation, test) after each epoch."""
    return max(epochs)[1]


def measure_precision(args, processors):
    found = {"ramet": [], "torch eager": []}
    for seed in range(1, args.seeds + 1):
        told = objects(ramet("train", args.threads, f"train.seed={seed}", f"train.epochs={args.epochs}", "data.events.held_out=test"),
                       processors)
        ours = [each for each in told if each.get("event") == "evaluation"]
        found["ramet"].append(test_precision([(each["held_out_average_precision"], each["held_out_test_average_precision"])
                                              for each in ours]))
        theirs = objects([*PEER, "--seed", seed, "--epochs", args.epochs, "--threads", args.threads], processors)
        found["torch eager"].append(test_precision([(each["validation"], each["test"]) for each in theirs]))
        print(json.dumps({"seed": seed, "edgebank": ours[-1]["held_out_test_edgebank_precision"],
                          **{side: round(values[-1], 4) for side, values in found.items()}}), flush=True)
    for side, values in found.items():
        spread = statistics.stdev(values) if len(values) > 1 else 0
        print(f"{side}: {statistics.mean(values):.4f} +- {spread:.4f} ({len(values)} seeds)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("RAMET_DATA", ""), help="folder of the data (default: RAMET_DATA)")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=60)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    prepare(args.data)
    (measure_speed if args.speed else measure_precision)(args, first_processors(args.threads))


if __name__ == "__main__":
    main()
