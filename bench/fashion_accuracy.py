"""ResNet-18 on Fashion-MNIST by Ramet and by PyTorch: the same first weights, the same images in the same order with the
same augmentation, the same recipe. Prints the test accuracy of both for each seed, and how far their loss curves are apart.

    python bench/fashion_accuracy.py                       # three seeds, 5 epochs, examples/fashion-resnet18.toml
    python bench/fashion_accuracy.py --curve 50 --seeds 1  # only the losses of 50 steps
    python bench/fashion_accuracy.py --seeds 1 --steps 3 --width 8 --micro-batch 16 --test-batches 2   # a trial in seconds

Both train in f32. Needs the peers (scripts/setup.sh --peers) and build/bench/batches.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import sys
import tempfile

from peers.sides import ROOT, first_processors, objects, run

RECIPE = "examples/fashion-resnet18.toml"


def settings_of(args, seed):
    settings = {"train.seed": seed, "train.precision": "f32", "train.micro_batch": args.micro_batch, "model.width": args.width,
                "train.evaluation.every": 0, "train.evaluation.batches": args.test_batches}
    # The recipe counts in epochs, whose last step may be a part of one.
    settings["train.epochs"] = (args.steps - 0.5) * args.micro_batch / 60_000 if args.steps else args.epochs
    return [f"--set={key}={value}" for key, value in settings.items()]


def train_both(args, seed, folder, processors):
    first, batches = folder / "first.safetensors", folder / "batches"
    peer = [sys.executable, "bench/peers/torch_fashion.py", "--width", args.width, "--threads", args.threads]
    objects([*peer, "--first", first, "--seed", seed], processors)
    settings = settings_of(args, seed)
    plain = [word for setting in settings for word in ("--set", setting.removeprefix("--set="))]
    objects(["build/bench/batches", RECIPE, "--out", batches, *plain])
    lines = objects(["build/ramet", "train", RECIPE, *settings, f"--set=model.init_from={first}", "--threads", args.threads,
                     "--run-dir", folder / "runs", "--json"], processors)
    ours = {"losses": [line["loss"] for line in lines if line.get("event") == "step"],
            "accuracy": next((line["held_out_accuracy"] for line in reversed(lines) if "held_out_accuracy" in line), None)}
    theirs = run([*peer, "--from", first, "--batches", batches, "--micro-batch", args.micro_batch,
                  "--test-images", args.test_batches * args.micro_batch], processors)
    return ours, theirs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=float, default=5)
    parser.add_argument("--steps", type=int, default=0, help="instead of epochs")
    parser.add_argument("--curve", type=int, default=0, help="only so many steps, to compare losses")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--micro-batch", type=int, default=64)
    parser.add_argument("--test-batches", type=int, default=156, help="held-out micro-batches: 156 of 64 are 9984 images")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    args.steps = args.curve or args.steps
    processors, accuracies = first_processors(args.threads), {"ramet": [], "torch": []}
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fashion-", dir=ROOT / "build"))
    try:
        for seed in range(1, args.seeds + 1):
            ours, theirs = train_both(args, seed, folder, processors)
            apart = [abs(a - b) / b for a, b in zip(ours["losses"], theirs["losses"])]
            accuracies["ramet"].append(ours["accuracy"]), accuracies["torch"].append(theirs["accuracy"])
            print(json.dumps({"seed": seed, "steps": len(ours["losses"]), "ramet_accuracy": ours["accuracy"], "torch_accuracy": theirs["accuracy"],
                              "ramet_loss": ours["losses"][-1], "torch_loss": theirs["losses"][-1],
                              "losses_apart_in_50_steps": max(apart[:50]), "losses_apart": max(apart)}), flush=True)
            shutil.rmtree(folder / "runs", ignore_errors=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps({f"{side}_{name}": round(value, 5) for side, values in accuracies.items()
                      for name, value in (("mean", statistics.mean(values)), ("spread", statistics.pstdev(values)))}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
