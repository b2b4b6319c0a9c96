"""Loss curves of small networks by Ramet and by PyTorch, in f32, from the same weights on the same samples: how far apart
they are at the worst of the steps, as a share of PyTorch's loss, and how far PyTorch is from itself with other sums (two
threads, channels last) and in f64. Ramet's distance from PyTorch's losses in f64 is printed, too.

    python bench/curves.py                          # ResNet-18, ViT-tiny, U-Net and LSTM, 50 steps each
    python bench/curves.py --only unet --steps 10
    python bench/curves.py --only unet --rate 0.001

SGD with momentum. Bars: 1e-4, and 1e-3 for networks with batch norm, whose roundings grow. Needs the peers
(scripts/setup.sh --peers) and build/bench/batches. Ends with status 1 when a
network is above its bar and PyTorch is nearer to itself.
"""

import argparse
import json
import shutil
import sys
import tempfile
import pathlib

from peers.sides import ROOT, objects, run

COMMON = {"data.kind": "synthetic", "train.precision": "f32", "train.clip_norm": 0, "train.evaluation.batches": 0, "train.accumulation": 1,
          "train.optimizer.kind": "sgd", "train.optimizer.momentum": 0.9, "train.optimizer.weight_decay": 0, "train.schedule.kind": "constant"}
IMAGES = {"data.mean": "0.5, 0.5, 0.5", "data.deviation": "0.25, 0.25, 0.25", "data.height": 32}
# name: (settings, bar). Sizes are also those of bench/peers/torch_curve.py.
CASES = {
    "resnet": ({**IMAGES, "model.kind": "resnet", "model.preset": "18", "model.stem": "small", "model.width": 16, "model.classes": 10,
                "train.schedule.learning_rate": 0.0001}, 1e-3),
    "vit": ({**IMAGES, "model.kind": "vit", "model.preset": "tiny", "model.patch": 8, "model.classes": 10, "train.schedule.learning_rate": 0.01}, 1e-4),
    "unet": ({**IMAGES, "model.kind": "unet", "model.preset": "mini", "model.width": 16, "model.classes": 4,
              "train.schedule.learning_rate": 0.0005}, 1e-3),
    "lstm": ({"model.kind": "lstm", "model.preset": "mini", "model.hidden": 128, "model.layers": 2, "model.vocabulary_size": 512,
              "data.sequence_length": 32, "train.schedule.learning_rate": 0.5}, 1e-4),
}


def apart(losses, peer):
    return max(abs(a - b) / abs(b) for a, b in zip(losses, peer))


def compare(name, args, folder):
    settings, bar = CASES[name]
    if args.rate:
        settings = {**settings, "train.schedule.learning_rate": args.rate}
    settings = {**COMMON, **settings, "train.micro_batch": args.micro_batch, "train.steps": args.steps}
    recipe, first, batches = folder / "recipe.toml", folder / "first.safetensors", folder / "batches"
    recipe.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()))
    peer = [sys.executable, "bench/peers/torch_curve.py", "--model", name]
    objects([*peer, "--first", first])
    objects([args.build / "bench/batches", recipe, "--out", batches])
    lines = objects([args.build / "ramet", "train", recipe, f"--set=model.init_from={first}", "--threads", 1, "--run-dir", folder / "runs", "--json"])
    ours = [line["loss"] for line in lines if line.get("event") == "step"]
    peer += ["--from", first, "--batches", batches, "--micro-batch", args.micro_batch]
    answer = run(peer, None)
    theirs, others = answer["losses"], answer["others"]
    if len(ours) != args.steps or len(theirs) != args.steps:
        sys.exit(f"{name}: {len(ours)} and {len(theirs)} losses of {args.steps}")
    result = {"network": name, "rate": settings["train.schedule.learning_rate"], "steps": args.steps, "first_loss": theirs[0],
              "last_loss": theirs[-1], "apart": apart(ours, theirs), "torch_from_itself": max(apart(other, theirs) for other in others),
              "torch_from_f64": apart(theirs, answer["wide"]), "ramet_from_f64": apart(ours, answer["wide"]), "bar": bar}
    print(json.dumps(result), flush=True)
    return result["apart"] <= max(bar, result["torch_from_itself"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(CASES), action="append")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--micro-batch", type=int, default=8)
    parser.add_argument("--rate", type=float, help="instead of each network's own")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="folder with the programs")
    args = parser.parse_args()
    within = True
    for name in args.only or CASES:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="curves-", dir=ROOT / "build"))
        try:
            within = compare(name, args, folder) and within
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
