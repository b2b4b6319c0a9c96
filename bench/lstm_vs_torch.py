"""Training speed and memory of the medium language model of Zaremba et al. (two LSTM layers of 650, vocabulary 10,000,
20 sequences of 35 tokens) beside PyTorch's, both measured in turn in one run, on the same processors.

    python bench/lstm_vs_torch.py
    python bench/lstm_vs_torch.py --only bf16 --without "torch compiled" --steps 10

Each round runs Ramet and PyTorch, eager and compiled, once, each as a process of its own that prints the median of its
steps; the ratio is that of the medians over rounds, against the better of PyTorch's two. States are carried from step
to step, the head shares the embeddings' table, dropout is 0.5, AdamW updates. Both sides train on tokens with the
frequencies of Ramet's synthetic data. Needs the peers: scripts/setup.sh --peers.
"""

import json
import os
import statistics
import sys

from peers.sides import comparison_arguments, first_processors, run, runners_of, warm


def command_of(runner, precision, args):
    if runner == "ramet":
        settings = {"data.kind": "synthetic", "data.corpus": "", "model.vocabulary_size": 10000, "model.dropout": args.dropout,
                    "train.precision": precision, "train.evaluation.batches": 0, "train.evaluation.every": 0,
                    "train.schedule.kind": "constant", "train.schedule.warmup_steps": 0}
        return ["build/ramet", "train", "examples/lstm-lm.toml", *(f"--set={key}={value}" for key, value in settings.items()),
                "--steps", args.steps + 3, "--threads", args.threads, "--run-dir", "build/bench-runs", "--json",
                *(["--layout", args.layout] if args.layout else [])]
    return [sys.executable, "bench/peers/torch_lstm_train.py", "--precision", precision, "--dropout", args.dropout,
            "--steps", args.steps, "--threads", args.threads, *(["--compile"] if runner == "torch compiled" else [])]


def measure(precision, args, runners, processors):
    results = {name: [] for name in runners}
    for _ in range(args.rounds):
        for name in runners:
            result = run(command_of(name, precision, args), processors)
            result.setdefault("peak_bytes", result.get("measured_peak_bytes"))
            results[name].append(result)
            print(f"  {precision} {name}: {result['tokens_per_second']:.0f} tokens/s, {result['peak_bytes'] / 2**30:.2f} GiB, "
                  f"load {os.getloadavg()[0]:.2f}", flush=True)
    keys = ("tokens_per_second", "peak_bytes", "imported_bytes")
    return {name: {key: statistics.median(r[key] for r in runs) for key in keys if key in runs[0]} for name, runs in results.items()}


def compare(precision, args, medians):
    peers = {name: value for name, value in medians.items() if name != "ramet"}
    fastest = max(peers, key=lambda name: peers[name]["tokens_per_second"])
    ours, theirs = medians["ramet"], peers[fastest]
    print(json.dumps({"case": f"lstm-{precision}", "layout": args.layout, "peer": fastest,
                      "speed_ratio": round(ours["tokens_per_second"] / theirs["tokens_per_second"], 3),
                      "memory_ratio": round(ours["peak_bytes"] / theirs["peak_bytes"], 3),
                      "memory_ratio_without_imports": round(ours["peak_bytes"] / (theirs["peak_bytes"] - theirs["imported_bytes"]), 3),
                      "tokens_per_second": {name: round(value["tokens_per_second"]) for name, value in medians.items()},
                      "peak_bytes": {name: round(value["peak_bytes"]) for name, value in medians.items()},
                      "load_average": os.getloadavg()[0]}), flush=True)


def main():
    parser = comparison_arguments(__doc__, ["f32", "bf16"])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--dropout", type=float, default=0.5)
    parser.add_argument("--layout", default="", help="of Ramet: recompute=layer, for one")
    args = parser.parse_args()
    runners = runners_of(args)
    if args.warm:
        warm(command_of, args.only or ["f32", "bf16"], runners, args)
        return 0
    processors = first_processors(args.threads)
    for precision in args.only or ["f32", "bf16"]:
        compare(precision, args, measure(precision, args, runners, processors))
    return 0


if __name__ == "__main__":
    sys.exit(main())
