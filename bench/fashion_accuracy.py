"""ResNet-18 on Fashion-MNIST by Ramet and by PyTorch: the same first weights, the same images in the same order with the
same augmentation, the same recipe. Prints the test accuracy of both for each seed, and how far their loss curves are apart.

    python bench/fashion_accuracy.py                       # three seeds, 5 epochs, examples/fashion-resnet18.toml
    python bench/fashion_accuracy.py --curve 50 --seeds 1  # only the losses of 50 steps
    python bench/fashion_accuracy.py --stem large          # the published first layers: a seventh of the work
    python bench/fashion_accuracy.py --seeds 1 --steps 3 --width 8 --micro-batch 16 --test-batches 2   # a trial in seconds
    until python bench/fashion_accuracy.py --seconds 200; do sleep 1; done                             # in pieces

Both train in f32. With --seconds the bench works for about so long and ends with status 3; called again with the same
arguments, it goes on from its checkpoints in build/fashion. Needs the peers (scripts/setup.sh --peers) and
build/bench/batches.
"""

import argparse
import json
import math
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import time

from peers.sides import ROOT, objects

RECIPE = "examples/fashion-resnet18.toml"
NOT_DONE = 3


def settings_of(args, seed):
    settings = {"train.seed": seed, "train.precision": "f32", "train.micro_batch": args.micro_batch,
                "model.width": args.width, "model.stem": args.stem,
                "train.evaluation.every": 0, "train.evaluation.batches": args.test_batches}
    # The recipe counts in epochs, whose last step may be a part of one.
    settings["train.epochs"] = (args.steps - 0.5) * args.micro_batch / 60_000 if args.steps else args.epochs
    return [f"--set={key}={value}" for key, value in settings.items()]


class Seed:
    """What both sides do with one seed, each in steps that may be interrupted."""

    def __init__(self, args, seed, folder, until):
        self.args, self.seed, self.folder, self.until = args, seed, folder, until
        self.first, self.batches, self.run = folder / "first.safetensors", folder / "batches", folder / "run"
        self.peer = [sys.executable, "bench/peers/torch_fashion.py", "--width", args.width, "--stem", args.stem, "--threads", args.threads]

    def train(self):
        """Trains both sides; the results of both, or None when the time is up before."""
        settings = settings_of(self.args, self.seed)
        if not (self.batches / "rates.npy").exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            objects([*self.peer, "--first", self.first, "--seed", self.seed])
            plain = [word for setting in settings for word in ("--set", setting.removeprefix("--set="))]
            objects([self.args.build / "bench/batches", RECIPE, "--out", self.folder / "new", *plain])
            (self.folder / "new").rename(self.batches)
        start = [RECIPE, *settings, f"--set=model.init_from={self.first}", "--run", self.run]
        ours = [self.args.build / "ramet", "train", *(["--resume", self.run] if any(self.run.glob("checkpoints/*")) else start),
                "--threads", self.args.threads, "--json"]
        theirs = [*self.peer, "--from", self.first, "--batches", self.batches, "--micro-batch", self.args.micro_batch,
                  "--test-images", self.args.test_batches * self.args.micro_batch, "--state", self.folder / "torch.pt"]
        ours, theirs = self.go_on({"ramet": ours, "torch": theirs})
        if not any(map(self.is_end, ours)) or not any(map(self.is_end, theirs)):
            return None
        accuracy = next(line["held_out_accuracy"] for line in reversed(ours) if "held_out_accuracy" in line)
        losses = {line["step"]: line["loss"] for line in ours if line.get("event") == "step"}
        return {"losses": [losses[step] for step in sorted(losses)], "accuracy": accuracy}, theirs[-1]

    def go_on(self, commands):
        """All lines that each side has printed, once both have ended by themselves or were interrupted because the time is up."""
        kept = {side: self.folder / f"{side}.jsonl" for side in commands}
        works = {}
        for side, command in commands.items():
            if not any(map(self.is_end, self.lines(kept[side]))) and time.monotonic() < self.until:
                with kept[side].open("a") as out, (self.folder / f"{side}.errors").open("w") as errors:
                    works[side] = subprocess.Popen([str(word) for word in command], stdout=out, stderr=errors, cwd=ROOT)
        for side, work in works.items():
            try:
                status = work.wait(None if math.isinf(self.until) else max(30, self.until - time.monotonic()))
            except subprocess.TimeoutExpired:
                work.send_signal(signal.SIGINT)
                status = work.wait()
            if status != 0:
                for other in works.values():
                    other.terminate()
                sys.exit(f"{side} failed:\n{(self.folder / f'{side}.errors').read_text()[-2000:]}")
        return [self.lines(file) for file in kept.values()]

    @staticmethod
    def lines(file):
        """The objects of a file of lines."""
        return [json.loads(line) for line in file.read_text().splitlines() if line.startswith("{")] if file.exists() else []

    @staticmethod
    def is_end(line):
        """Whether a side says with this object that it has trained all steps."""
        return line.get("status") == "done" or "losses" in line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=float, default=5)
    parser.add_argument("--steps", type=int, default=0, help="instead of epochs")
    parser.add_argument("--curve", type=int, default=0, help="only so many steps, to compare losses")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--stem", choices=("small", "large"), default="small")
    parser.add_argument("--micro-batch", type=int, default=64)
    parser.add_argument("--test-batches", type=int, default=156, help="held-out micro-batches: 156 of 64 are 9984 images")
    parser.add_argument("--threads", type=int, default=1, help="of each side; both sides work at the same time")
    parser.add_argument("--seconds", type=float, default=math.inf, help="end after about so long; go on when called again")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="folder with the programs")
    parser.add_argument("--keep", action="store_true", help="keep build/fashion at the end")
    args = parser.parse_args()
    args.steps = args.curve or args.steps
    until = time.monotonic() + args.seconds
    # One folder for each recipe, so that another one does not go on from its checkpoints.
    numbers = (args.epochs, args.steps, args.width, args.micro_batch, args.test_batches)
    name = "-".join([args.stem, *(f"{value:g}" for value in numbers)])
    folder = ROOT / "build/fashion" / name
    if math.isinf(args.seconds):
        shutil.rmtree(folder, ignore_errors=True)
    accuracies = {"ramet": [], "torch": []}
    for seed in range(1, args.seeds + 1):
        both = Seed(args, seed, folder / f"seed-{seed}", until).train()
        if both is None:
            return NOT_DONE
        ours, theirs = both
        apart = [abs(a - b) / b for a, b in zip(ours["losses"], theirs["losses"])]
        accuracies["ramet"].append(ours["accuracy"]), accuracies["torch"].append(theirs["accuracy"])
        print(json.dumps({"seed": seed, "steps": len(ours["losses"]), "ramet_accuracy": ours["accuracy"], "torch_accuracy": theirs["accuracy"],
                          "ramet_loss": ours["losses"][-1], "torch_loss": theirs["losses"][-1],
                          "losses_apart_in_50_steps": max(apart[:50]), "losses_apart": max(apart)}), flush=True)
    print(json.dumps({f"{side}_{name}": round(value, 5) for side, values in accuracies.items()
                      for name, value in (("mean", statistics.mean(values)), ("spread", statistics.pstdev(values)))}))
    if not args.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
