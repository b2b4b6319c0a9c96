"""Training speed and memory beside PyTorch's, both measured in turn in one run.

    python bench/train_vs_torch.py                 # BERT-base and GPT-2 124M, bf16 and f32
    python bench/train_vs_torch.py --only bert-bf16 --rounds 3
    python bench/train_vs_torch.py --without "torch eager" --steps 2

Each round runs Ramet, PyTorch eager and PyTorch compiled once, each as a process of its own that prints the median of
its steps; the ratio is that of the medians over rounds, against the better of PyTorch's two. Peak memory is the process's
largest resident size. Needs the peers: scripts/setup.sh --peers.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CASES = {
    # name: (recipe, torch arguments, bar of speed, bar of memory)
    "bert-bf16": ("bert-base", ["--model", "bert", "--preset", "base", "--sequence", "128", "--micro-batch", "16"], "bf16", 1.3, 0.6),
    "gpt2-bf16": ("gpt2-124m", ["--model", "gpt2", "--preset", "124m", "--sequence", "1024", "--micro-batch", "2"], "bf16", 1.3, 0.6),
    "bert-f32": ("bert-base", ["--model", "bert", "--preset", "base", "--sequence", "128", "--micro-batch", "16"], "f32", 1.15, None),
    "gpt2-f32": ("gpt2-124m", ["--model", "gpt2", "--preset", "124m", "--sequence", "1024", "--micro-batch", "2"], "f32", 1.15, None),
}
PEERS = ["torch eager", "torch compiled"]


def run(command):
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{result.stderr[-2000:]}")
    return json.loads(result.stdout.strip().splitlines()[-1])


def measure(case, rounds, steps, threads, runners):
    recipe, torch_args, precision, _, _ = CASES[case]
    results = {name: [] for name in runners}
    for _ in range(rounds):
        for name in runners:
            if name == "ramet":
                command = ["build/ramet", "train", f"examples/{recipe}.toml", "--set", f"train.precision={precision}",
                           "--set", "train.accumulation=1", "--set", "train.evaluation.batches=0",
                           "--steps", str(steps + 2), "--threads", str(threads), "--run-dir", "build/bench-runs", "--json"]
            else:
                command = [sys.executable, "bench/peers/torch_train.py", *torch_args, "--precision", precision,
                           "--steps", str(steps), "--threads", str(threads)] + (["--compile"] if name == "torch compiled" else [])
            result = run(command)
            result.setdefault("peak_bytes", result.get("measured_peak_bytes"))
            results[name].append(result)
            print(f"  {case} {name}: {result['tokens_per_second']:.0f} tokens/s, {result['peak_bytes'] / 2**30:.2f} GiB, "
                  f"load {os.getloadavg()[0]:.2f}", flush=True)
    return {name: {key: statistics.median(r[key] for r in runs) for key in ("tokens_per_second", "peak_bytes")}
            for name, runs in results.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=sorted(CASES), action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--without", choices=PEERS, action="append", default=[],
                        help="leave a peer out (compiled needs minutes to warm up; eager is slow on long sequences)")
    args = parser.parse_args()
    runners = ["ramet"] + [peer for peer in PEERS if peer not in args.without]
    if len(runners) == 1:
        parser.error("every peer is left out: nothing to compare with")
    met = True
    for case in args.only or CASES:
        medians = measure(case, args.rounds, args.steps, args.threads, runners)
        peers = {name: value for name, value in medians.items() if name != "ramet"}
        fastest = max(peers, key=lambda name: peers[name]["tokens_per_second"])
        speed = medians["ramet"]["tokens_per_second"] / peers[fastest]["tokens_per_second"]
        memory = medians["ramet"]["peak_bytes"] / peers[fastest]["peak_bytes"]
        _, _, _, speed_bar, memory_bar = CASES[case]
        met = met and speed >= speed_bar and (memory_bar is None or memory <= memory_bar)
        print(json.dumps({"case": case, "peer": fastest, "speed_ratio": round(speed, 3), "speed_bar": speed_bar,
                          "memory_ratio": round(memory, 3), "memory_bar": memory_bar,
                          "ramet_tokens_per_second": round(medians["ramet"]["tokens_per_second"]),
                          "load_average": os.getloadavg()[0]}), flush=True)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
