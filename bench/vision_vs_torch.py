"""Training speed and memory of networks for images beside PyTorch's, both measured in turn in one run, on the same
processors.

    python bench/vision_vs_torch.py               # ResNet-50, EfficientNet-B0, ConvNeXt-tiny and ViT-B/16, bf16 and f32
    python bench/vision_vs_torch.py --only resnet-50-bf16 --rounds 3
    python bench/vision_vs_torch.py --only vit-base-f32 --without "torch compiled" --steps 2
    python bench/vision_vs_torch.py --only resnet-50-f32 --batch 2 --size 64 --rounds 1 --steps 1   # a trial in seconds

Each round runs Ramet and each of PyTorch's sides (eager and compiled, each with channels in front and with channels last)
once, each as a process of its own that prints the median of its steps; the ratio is that of the medians over rounds,
against the best of PyTorch's. SGD with momentum on synthetic images, without augmentation, drop path and dropout. Peak
memory is the process's largest resident size; of PyTorch's the part is told that the interpreter and the libraries took
before there was a network. Needs the peers: scripts/setup.sh --peers.
"""

import json
import os
import statistics
import sys

from peers.sides import comparison_arguments, first_processors, run, runners_of, warm

NETWORKS = ["resnet-50", "efficientnet-b0", "convnext-tiny", "vit-base"]
CASES = {f"{network}-{precision}": (network, precision) for precision in ("bf16", "f32") for network in NETWORKS}


def command_of(runner, case, args):
    network, precision = CASES[case]
    if runner == "ramet":
        kind, preset = network.split("-")
        settings = {"model.kind": kind, "model.preset": preset, "model.stem": "large", "data.height": args.size, "model.classes": 1000,
                    "data.mean": "0.485, 0.456, 0.406", "data.deviation": "0.229, 0.224, 0.225", "model.head_dropout": 0.2 if kind == "efficientnet" else 0,
                    "train.precision": precision, "train.micro_batch": args.batch, "train.accumulation": 1, "train.clip_norm": 0, "train.evaluation.batches": 0,
                    "train.optimizer.kind": "sgd", "train.optimizer.momentum": 0.9, "train.optimizer.weight_decay": 1e-4,
                    "train.schedule.kind": "constant", "train.schedule.learning_rate": 0.1}
        if kind == "vit":
            settings["model.patch"] = 16
        return ["build/ramet", "train", "examples/resnet50.toml", *(f"--set={key}={value}" for key, value in settings.items()),
                "--steps", args.steps + 2, "--threads", args.threads, "--run-dir", "build/bench-runs", "--json",
                *(["--layout", args.layout] if args.layout else []),
                *(["--device-memory", args.device_memory] if args.device_memory else [])]
    return [sys.executable, "bench/peers/torch_vision_train.py", "--model", network, "--batch", args.batch, "--size", args.size,
            "--precision", precision, "--steps", args.steps, "--threads", args.threads,
            *(["--compile"] if "compiled" in runner else []), *(["--channels-last"] if "channels last" in runner else [])]


def measure(case, args, runners, processors):
    results = {name: [] for name in runners}
    for _ in range(args.rounds):
        for name in runners:
            result = run(command_of(name, case, args), processors)
            result.setdefault("peak_bytes", result.get("measured_peak_bytes"))
            results[name].append(result)
            print(f"  {case} {name}: {result['images_per_second']:.2f} images/s, {result['peak_bytes'] / 2**30:.2f} GiB, "
                  f"load {os.getloadavg()[0]:.2f}", flush=True)
    keys = ("images_per_second", "peak_bytes", "imported_bytes")
    return {name: {key: statistics.median(r[key] for r in runs) for key in keys if key in runs[0]} for name, runs in results.items()}


def compare(case, args, medians):
    peers = {name: value for name, value in medians.items() if name != "ramet"}
    fastest = max(peers, key=lambda name: peers[name]["images_per_second"])
    ours, theirs = medians["ramet"], peers[fastest]
    print(json.dumps({"case": case, "batch": args.batch, "size": args.size, "layout": args.layout, "device_memory": args.device_memory, "peer": fastest,
                      "speed_ratio": round(ours["images_per_second"] / theirs["images_per_second"], 3),
                      "memory_ratio": round(ours["peak_bytes"] / theirs["peak_bytes"], 3),
                      "memory_ratio_without_imports": round(ours["peak_bytes"] / (theirs["peak_bytes"] - theirs["imported_bytes"]), 3),
                      "images_per_second": {name: round(value["images_per_second"], 3) for name, value in medians.items()},
                      "peak_bytes": {name: round(value["peak_bytes"]) for name, value in medians.items()},
                      "load_average": os.getloadavg()[0]}), flush=True)


def main():
    parser = comparison_arguments(__doc__, CASES)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--layout", default="", help="of Ramet: recompute=layer, for one")
    parser.add_argument("--device-memory", default="", help="of Ramet: 1.5GiB, for one; it then gives up copies of weights to fit")
    parser.add_argument("--channels-last-only", action="store_true", help="leave PyTorch's channels in front out: half of what there is to compile")
    args = parser.parse_args()
    formats = [", channels last"] if args.channels_last_only else ["", ", channels last"]
    runners = [name for side in runners_of(args) for name in ([side] if side == "ramet" else [side + each for each in formats])]
    if args.warm:
        warm(command_of, args.only or CASES, runners, args)
        return 0
    processors = first_processors(args.threads)
    for case in args.only or CASES:
        compare(case, args, measure(case, args, runners, processors))
    return 0


if __name__ == "__main__":
    sys.exit(main())
