"""Training steps of ramet.torch beside PyTorch's own, on models of transformers in bf16, without dropout.

    python bench/torch_step.py                                   # BERT-base, GPT-2, ViT-B, T5-small, Wav2Vec2-base
    python bench/torch_step.py --only bert-base --rounds 1 --steps 3 --without "torch compiled"
    python bench/torch_step.py --only bert-base --results build/torch_step.jsonl --memory low

Both sides keep f32 weights, compute products in bf16 (PyTorch: autocast, fused AdamW) and clip no gradients. Each round runs Ramet, PyTorch
eager and PyTorch compiled once, each as a process of its own on the same processors; the ratio is that of the medians over
rounds, against the better of PyTorch's two. Also shown: seconds of the export, the import and the compilation, the time
until the first step is done, the time that a Python call of a step takes beside the step itself, the hash of Ramet's weights
after all steps (other options of memory and layout must give the same), and peak memory (of both
with the interpreter and the libraries, which imported_bytes counts; of Ramet also with the module, unless it is released,
and what torch.export needed).

--results FILE keeps each process's numbers: what is there is not run again. TORCHINDUCTOR_CACHE_DIR keeps what PyTorch has
compiled. Needs the Python package (RAMET_PYTHON) and the peers: scripts/setup.sh --peers.
"""

import json
import pathlib
import statistics
import sys

from peers.sides import comparison_arguments, first_processors, run, runners_of, warm

CASES = ["bert-base", "gpt2", "vit-b", "t5-small", "wav2vec2-base"]


class Results:
    """Numbers of processes that have run, a line each, in a file where one is given."""

    def __init__(self, path):
        self.path, self.known = path, {}
        if path and path.exists():
            for line in path.read_text().splitlines():
                each = json.loads(line)
                self.known[tuple(each["command"])] = each["numbers"]

    def of(self, words, round_, measure):
        key = (*map(str, words), f"round {round_}")
        if key not in self.known:
            self.known[key] = measure()
            if self.path:
                with self.path.open("a") as file:
                    file.write(json.dumps({"command": key, "numbers": self.known[key]}) + "\n")
        return self.known[key]


def words_of(args, case, side):
    words = ["--case", case, "--side", side, "--steps", args.steps, "--threads", args.threads, "--clip", args.clip]
    if side == "ramet":
        words += ["--layout", args.layout, "--device-memory", args.device_memory,
                  "--moments", args.moments]
        words += ["--memory", args.memory] if args.memory else []
    return words


def command_of(side, case, args):
    return [sys.executable, "bench/peers/torch_step_side.py", *words_of(args, case, side)]


def compare(case, runners, measured, rounds):
    hashes = {each.pop("weights_hash", None) for each in measured["ramet"]}
    medians = {name: {key: statistics.median(each[key] for each in measured[name]) for key in measured[name][0]}
               for name in runners}
    peer = min((name for name in runners if name != "ramet"), key=lambda name: medians[name]["step_seconds"])
    ours, theirs = medians["ramet"], medians[peer]
    own = lambda side: side["peak_bytes"] - side["imported_bytes"]
    return {"case": case, "peer": peer, "rounds": rounds,
            "speed_ratio": round(theirs["step_seconds"] / ours["step_seconds"], 3),
            "memory_ratio": round(ours["peak_bytes"] / theirs["peak_bytes"], 3),
            "memory_ratio_without_imports": round(own(ours) / own(theirs), 3),
            "weights_hash": " and ".join(sorted(filter(None, hashes))),
            "overhead_share": round(ours["overhead_seconds"] / ours["step_seconds"], 5),
            **{name: {key: round(value, 4) for key, value in each.items()} for name, each in medians.items()}}


def main():
    parser = comparison_arguments(__doc__, CASES)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--layout", default="")
    parser.add_argument("--device-memory", default="")
    parser.add_argument("--memory", default="", help="Options.memory of Ramet, such as low")
    parser.add_argument("--moments", default="f32", help="of Ramet, f32 or bf16")
    parser.add_argument("--clip", type=float, default=0, help="both sides clip the gradients to this norm")
    args = parser.parse_args()
    runners, processors, results = runners_of(args), first_processors(args.threads), Results(args.results)
    if args.warm:
        return warm(command_of, args.only or CASES, runners, args)
    for case in args.only or CASES:
        measured = {name: [] for name in runners}
        for round_ in range(args.rounds):
            for name in runners:
                measured[name].append(results.of(words_of(args, case, name), round_, lambda: run(
                    command_of(name, case, args), processors, bound=name != "ramet")))
        print(json.dumps(compare(case, runners, measured, args.rounds)), flush=True)


if __name__ == "__main__":
    main()
