"""Training steps of ramet.torch beside PyTorch's own, on models of transformers in bf16, without dropout.

    python bench/torch_step.py                                   # BERT-base, GPT-2, ViT-B, T5-small, Wav2Vec2-base
    python bench/torch_step.py --only bert-base --rounds 1 --steps 3 --without "torch compiled"

Each round runs Ramet, PyTorch eager and PyTorch compiled once, each as a process of its own on the same processors; the
ratio is that of the medians over rounds, against the better of PyTorch's two. Also shown: the time until the first step is
done, the time that a Python call of a step takes beside the step itself, and peak memory (of both with the interpreter and
PyTorch's libraries; of Ramet also with the module and what torch.export needed). Needs the Python package (RAMET_PYTHON) and
the peers: scripts/setup.sh --peers.
"""

import json
import statistics
import sys

from peers.sides import comparison_arguments, first_processors, run, runners_of

CASES = ["bert-base", "gpt2", "vit-b", "t5-small", "wav2vec2-base"]


def main():
    parser = comparison_arguments(__doc__, CASES)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    runners, processors = runners_of(args), first_processors(args.threads)
    for case in args.only or CASES:
        results = {name: [] for name in runners}
        for _ in range(args.rounds):
            for name in runners:
                results[name].append(run([sys.executable, "bench/peers/torch_step_side.py", "--case", case, "--side", name,
                                          "--steps", args.steps, "--threads", args.threads], processors))
        medians = {name: {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}
                   for name, rounds in results.items()}
        peer = min((name for name in runners if name != "ramet"), key=lambda name: medians[name]["step_seconds"])
        ours, theirs = medians["ramet"], medians[peer]
        print(json.dumps({"case": case, "peer": peer, "rounds": args.rounds, "steps": args.steps,
                          "speed_ratio": round(theirs["step_seconds"] / ours["step_seconds"], 3),
                          "memory_ratio": round(ours["peak_bytes"] / theirs["peak_bytes"], 3),
                          **{name: {key: round(value, 4) for key, value in each.items()}
                             for name, each in medians.items()}}), flush=True)


if __name__ == "__main__":
    main()
