"""Training speed and memory beside PyTorch's, both measured in turn in one run, on the same processors.

    python bench/train_vs_torch.py                 # BERT-base and GPT-2 124M, bf16 and f32, with dropout 0.1 and without
    python bench/train_vs_torch.py --only bert-bf16 --dropout 0 --rounds 3
    python bench/train_vs_torch.py --without "torch eager" --steps 2
    python bench/train_vs_torch.py --only bert-large-gpu --only gpt2-1.5b-gpu --device cuda --threads 8       # on an NVIDIA GPU
    python bench/train_vs_torch.py --only bert-bf16 --dropout 0 --layout recompute=layer --device-memory 1.74GiB   # less memory, by choice

Each round runs Ramet, PyTorch eager and PyTorch compiled once, each as a process of its own that prints the median of
its steps; the ratio is that of the medians over rounds, against the better of PyTorch's two. Peak memory is the process's
largest resident size; of PyTorch's the part is told that the interpreter and the libraries took before there was a model,
and the ratio without it beside the one with it. Each row names the attention kernel that PyTorch took: on a CPU its fused
one refuses dropout. Both sides train on tokens with the frequencies of Ramet's synthetic data. Needs the peers:
scripts/setup.sh --peers.
"""

import json
import os
import statistics
import sys

from peers.sides import comparison_arguments, first_processors, run, runners_of

CASES = {
    # name: (recipe, torch arguments, bar of speed, bar of memory)
    "bert-bf16": ("bert-base", ["--model", "bert", "--preset", "base", "--sequence", "128", "--micro-batch", "16"], "bf16", 1.3, 0.6),
    "gpt2-bf16": ("gpt2-124m", ["--model", "gpt2", "--preset", "124m", "--sequence", "1024", "--micro-batch", "2"], "bf16", 1.3, 0.6),
    "bert-f32": ("bert-base", ["--model", "bert", "--preset", "base", "--sequence", "128", "--micro-batch", "16"], "f32", 1.15, None),
    "bert-large-gpu": ("bert-large", ["--model", "bert", "--preset", "large", "--sequence", "128", "--micro-batch", "128"], "bf16", 1.1, 0.8),
    "bert-base-gpu": ("bert-base", ["--model", "bert", "--preset", "base", "--sequence", "128", "--micro-batch", "128"], "bf16", 1.1, 0.8),
    "gpt2-124m-gpu": ("gpt2-124m", ["--model", "gpt2", "--preset", "124m", "--sequence", "1024", "--micro-batch", "16"], "bf16", 1.1, 0.8),
    "gpt2-f32": ("gpt2-124m", ["--model", "gpt2", "--preset", "124m", "--sequence", "1024", "--micro-batch", "2"], "f32", 1.15, None),
}

PADDED = 64  # on a card both sides' vocabularies are a multiple of this, as its products like it


def command_of(runner, case, dropout, args):
    recipe, torch_args, precision, _, _ = CASES[case]
    if runner == "ramet":
        return ["build/ramet", "train", f"examples/{recipe}.toml", "--set", f"train.precision={precision}",
                "--set", f"model.dropout={dropout}", "--set", f"model.attention_dropout={dropout}",
                "--set", "train.accumulation=1", "--set", "train.lanes=1", "--set", "train.evaluation.batches=0",
                "--set", f"train.micro_batch={torch_args[-1]}", "--set", "train.optimizer.kind=adamw", "--device", args.device,
                "--steps", args.steps + 2, "--threads", args.threads, "--run-dir", "build/bench-runs", "--json",
                *(["--set", f"model.pad_vocabulary={PADDED}"] if args.device == "cuda" else []),
                *(["--layout", args.layout] if args.layout else []),
                *(["--device-memory", args.device_memory] if args.device_memory else [])]
    return [sys.executable, "bench/peers/torch_train.py", *torch_args, "--precision", precision, "--dropout", dropout,
            "--steps", args.steps, "--threads", args.threads, "--device", args.device,
            *(["--pad-vocabulary", PADDED] if args.device == "cuda" else []), *(["--compile"] if runner == "torch compiled" else [])]


def measure(case, dropout, args, runners, processors):
    results = {name: [] for name in runners}
    for _ in range(args.rounds):
        for name in runners:
            result = run(command_of(name, case, dropout, args), processors)
            # On a card, that which is planned is all that is allocated there.
            result.setdefault("peak_bytes", result.get("measured_peak_bytes" if args.device == "cpu" else "planned_bytes"))
            results[name].append(result)
            print(f"  {case} dropout {dropout:g} {name}: {result['tokens_per_second']:.0f} tokens/s, "
                  f"{result['peak_bytes'] / 2**30:.2f} GiB, load {os.getloadavg()[0]:.2f}"
                  + (f", {result['imported_bytes'] / 2**30:.2f} GiB of it imports, attention {result['attention']}"
                     if name != "ramet" else ""), flush=True)
    medians = {name: {key: statistics.median(r[key] for r in runs) for key in ("tokens_per_second", "peak_bytes")}
               for name, runs in results.items()}
    for name in runners:
        if name != "ramet":
            medians[name]["imported_bytes"] = statistics.median(r["imported_bytes"] for r in results[name])
            medians[name]["attention"] = results[name][-1]["attention"]
    return medians


def compare(case, dropout, args, medians):
    """Prints the row; whether its bars are met."""
    peers = {name: value for name, value in medians.items() if name != "ramet"}
    fastest = max(peers, key=lambda name: peers[name]["tokens_per_second"])
    ours, theirs = medians["ramet"], peers[fastest]
    speed = ours["tokens_per_second"] / theirs["tokens_per_second"]
    memory = ours["peak_bytes"] / theirs["peak_bytes"]
    _, _, _, speed_bar, memory_bar = CASES[case]
    print(json.dumps({"case": case, "device": args.device, "dropout": dropout, "layout": args.layout, "device_memory": args.device_memory, "peer": fastest,
                      "attention": {name: value["attention"] for name, value in peers.items()},
                      "speed_ratio": round(speed, 3), "speed_bar": speed_bar,
                      "memory_ratio": round(memory, 3), "memory_bar": memory_bar,
                      "memory_ratio_without_imports": round(ours["peak_bytes"] / (theirs["peak_bytes"] - theirs["imported_bytes"]), 3),
                      "tokens_per_second": {name: round(value["tokens_per_second"]) for name, value in medians.items()},
                      "peak_bytes": {name: round(value["peak_bytes"]) for name, value in medians.items()},
                      "imported_bytes": round(theirs["imported_bytes"]),
                      "load_average": os.getloadavg()[0]}), flush=True)
    return speed >= speed_bar and (memory_bar is None or memory <= memory_bar)


def main():
    parser = comparison_arguments(__doc__, CASES)
    parser.add_argument("--dropout", type=float, action="append", help="default: 0.1 and 0")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--layout", default="", help="of Ramet: recompute=layer, for one")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--device-memory", default="", help="of Ramet: 1.74GiB, for one; it then gives up copies of weights to fit")
    args = parser.parse_args()
    runners = runners_of(args)
    processors = first_processors(args.threads)
    met = True
    for case in args.only or [name for name in CASES if name.endswith("-gpu") == (args.device == "cuda")]:
        for dropout in args.dropout or [0.1, 0.0]:
            met = compare(case, dropout, args, measure(case, dropout, args, runners, processors)) and met
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
