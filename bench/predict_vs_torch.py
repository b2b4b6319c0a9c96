"""Prediction beside PyTorch and transformers, measured in turn in one run, on the same bound processors.

    python bench/predict_vs_torch.py                      # BERT-base (batches of 1 and 8) and GPT-2 124M, in bf16
    python bench/predict_vs_torch.py --only gpt2 --rounds 1 --seconds 2 --without "torch compiled"
    python bench/predict_vs_torch.py --only greedy        # that greedy tokens in f32 are the same

A round runs Ramet, PyTorch eager and PyTorch compiled, each as a process of its own; the ratio is that of the medians over rounds,
against the better of PyTorch's two. The lines of PyTorch's runs name the attention kernel that it took, and the memory of the
interpreter and libraries within its peak. BERT: the likeliest words of 20 masks in sequences of 128. GPT-2: 128 tokens after a
prompt of 128 (uniform tokens on both sides), greedy, with caches (transformers' `generate`; compiled: with its static cache). Greedy tokens in f32 of the same random
weights must be equal as long as the two best logits differ by more than 1e-4. Needs the peers: scripts/setup.sh --peers.
"""

import json
import os
import random
import statistics
import sys

from peers.sides import ROOT, comparison_arguments, first_processors, run, runners_of

CASES = {"bert-1": 1.3, "bert-8": 1.3, "gpt2": 1.5, "greedy": None}


def torch_command(model, *more):
    return [sys.executable, "bench/peers/torch_predict.py", model, *more]


def seconds_of(case, runner, args, processors):
    """Seconds of one call of a batch, or of a whole text."""
    threads = ["--threads", str(len(processors))]
    batch = case.removeprefix("bert-") if case != "gpt2" else "1"
    if runner == "ramet":
        result = run(["build/ramet", "bench", "gpt2-124m" if case == "gpt2" else "bert-base", "--batch", batch, "--seconds",
                      str(args.seconds), "--set", "train.precision=bf16", "--json", *threads], processors)
        if case != "gpt2":
            return result["p50_ms"] / 1000, result
        return (result["first_token_ms"] + 127 * result["p50_ms"]) / 1000, result
    result = run(torch_command("gpt2" if case == "gpt2" else "bert", "--batch", batch, "--seconds", str(args.seconds), *threads,
                               *(["--compile"] if runner == "torch compiled" else [])), processors)
    return result["seconds"] if case == "gpt2" else result["p50_ms"] / 1000, result


def measure(case, args, runners, processors):
    seconds = {name: [] for name in runners}
    for _ in range(args.rounds):
        for name in runners:
            value, result = seconds_of(case, name, args, processors)
            seconds[name].append(value)
            print(f"  {case} {name}: {1000 * value:.1f} ms {json.dumps(result)}", flush=True)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    peer = min((name for name in medians if name != "ramet"), key=medians.get)
    ratio = medians[peer] / medians["ramet"]
    print(json.dumps({"case": case, "peer": peer, "speed_ratio": round(ratio, 3), "speed_bar": CASES[case],
                      "ramet_ms": round(1000 * medians["ramet"], 2), "peer_ms": round(1000 * medians[peer], 2),
                      "load_average": os.getloadavg()[0]}), flush=True)
    return ratio >= CASES[case]


def greedy(args, processors):
    folder = ROOT / "build" / "bench-predict-weights"
    folder.mkdir(parents=True, exist_ok=True)
    weights = folder / "gpt2-random.safetensors"
    run(torch_command("gpt2", "--make-weights", str(weights)), processors)
    draw = random.Random(1)
    same = True
    for prompt in range(args.prompts):
        ids = ",".join(str(draw.randrange(50257)) for _ in range(draw.choice([1, 17, 60])))
        peer = run(torch_command("gpt2", "--weights", str(weights), "--greedy", "48", "--ids", ids), processors)
        found = run(["build/ramet", "predict", "examples/gpt2-124m.toml", "--set", "train.precision=f32", "--weights", str(weights),
                     "--ids", ids, "--tokens", "48", "--json"], processors)
        ours = [int(word) for word in found["continuation"].split()]
        unsure = next((i for i, gap in enumerate(peer["gaps"]) if gap <= 1e-4), len(ours))
        equal = ours[:unsure] == peer["tokens"][:unsure]
        same = same and equal
        print(json.dumps({"case": "greedy", "prompt": prompt, "prompt_tokens": ids.count(",") + 1, "compared": unsure, "equal": equal,
                          "least_gap": min(peer["gaps"])}), flush=True)
    return same


def main():
    parser = comparison_arguments(__doc__, CASES)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--prompts", type=int, default=4, help="of the comparison of greedy tokens")
    args = parser.parse_args()
    runners = runners_of(args)
    processors = first_processors(args.threads)
    met = True
    for case in args.only or CASES:
        met = (greedy(args, processors) if case == "greedy" else measure(case, args, runners, processors)) and met
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
