"""Fine-tunes the same pretrained weights on the same tasks with Ramet and with PyTorch and transformers, in one run: what
both reach on dev (mean and spread over seeds), and how fast each is on the same processors.

    make minilm                                                     # the weights
    python bench/finetune.py --data GLUE                            # MRPC, three seeds
    python bench/finetune.py --data GLUE --task cola --task rte --seeds 5
    python bench/finetune.py --task mrpc --limit-train 256 --seeds 1 --epochs 1    # a look
    python bench/finetune.py --data DATA/glue --task squad --sequence 192 --stride 64 --batch 16 --epochs 2    # SQuAD's dev set, split
    python bench/finetune.py --task squad --train A.json --dev B.json --sequence 384 --batch 16
    python bench/finetune.py --task mrpc --rate-only                # samples a second alone, in turn
    python bench/finetune.py --task rte --paired --dropout 0 --precision f32 --scores-only

Both sides have one recipe: every row padded to --sequence, the batch, the learning rate's line up and down, AdamW,
clipping. With --paired they also begin with the same head and meet the rows in the same order, which a seed changes for
both: then scores differ by the arithmetic and the masks of dropout alone, without dropout by the arithmetic. The bars:
scores within one point of each other, and Ramet at 1.3 times the rate of the faster of PyTorch's f32 and bf16 (Ramet
computes in --precision). Needs the peers: scripts/setup.sh --peers.

Scores that were reached are kept in build/bench-finetune.json, and not trained for again: a bench that was interrupted goes on.
They know their recipe, not the programs that reached them: delete the file after a change that scores could depend on.
"""

import argparse
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

from peers.sides import ROOT, first_processors, objects

KEPT = ROOT / "build/bench-finetune.json"
FOLDERS = {"mrpc": "MRPC", "sst2": "SST-2", "cola": "CoLA", "rte": "RTE", "stsb": "STS-B", "squad": ""}
# Learning rate, epochs: of Devlin et al. 2018 and Wang et al. 2020 the middle of what they tried.
RECIPES = {"mrpc": (1e-4, 5), "sst2": (5e-5, 3), "cola": (1e-4, 5), "rte": (1e-4, 5), "stsb": (1e-4, 5), "squad": (1e-4, 3)}
SCORED = ("model", "data", "train", "dev", "batch", "warmup", "sequence", "stride", "limit_train", "limit_dev")  # what scores depend on
POINTS, RATIO = 1.0, 1.3


def split_squad(path):
    """SQuAD's dev set in two files: every twelfth article to answer, and of the others two paragraphs of five to train on."""
    whole = json.loads(path.read_text())
    articles = whole["data"]
    parts = {"train": [article | {"paragraphs": [p for i, p in enumerate(article["paragraphs"]) if i % 5 < 2]}
                       for i, article in enumerate(articles) if i % 12],
             "dev": articles[::12]}
    files = []
    for name, part in parts.items():
        files.append(ROOT / f"build/bench-squad-{name}.json")
        files[-1].write_text(json.dumps(whole | {"data": part}))
    return files


def in_orders(rows, epochs, seed):
    """Of all epochs, each in an order of its own; and the share of them that is trained on."""
    orders = random.Random(seed)
    ordered = [(epoch, row) for epoch in range(math.ceil(epochs)) for row in orders.sample(rows, len(rows))]
    return ordered, epochs / math.ceil(epochs)


def kept():
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


class Bench:
    def __init__(self, task, args, folder):
        self.task, self.args, self.folder = task, args, pathlib.Path(folder)
        rate, epochs = RECIPES[task]
        self.rate, self.epochs = args.rate or rate, args.epochs or epochs
        self.data = args.data / FOLDERS[task] if args.data else None
        self.processors = None  # where both sides run; None: anywhere
        self.start = {"model": args.model, "data": self.data, "train": args.train, "epochs": self.epochs, "limit_train": args.limit_train}

    def pair(self, seed):
        """Files for both sides: weights with a head, and rows in the order of every epoch."""
        a, folder = self.args, self.folder / f"start-{self.task}-{seed}"
        if folder.exists():
            return  # the other side's
        folder.mkdir()
        objects([sys.executable, "bench/peers/torch_finetune.py", "--task", self.task, "--model", a.model, "--seed", seed,
                 "--write-start", folder / "model", *(["--dropout", a.dropout] if a.dropout is not None else [])])
        self.start |= {"model": folder / "model", "limit_train": 0}
        limit = a.limit_train or None
        if self.task == "squad":
            whole = json.loads(a.train.read_text())
            rows = [(paragraph["context"], qa) for article in whole["data"] for paragraph in article["paragraphs"] for qa in paragraph["qas"]]
            rows, self.start["epochs"] = in_orders(rows[:limit], self.epochs, seed)
            questions = [{"context": context, "qas": [qa | {"id": f"{qa['id']}-{epoch}"}]} for epoch, (context, qa) in rows]
            self.start["train"] = folder / "train.json"
            self.start["train"].write_text(json.dumps(whole | {"data": [{"title": "", "paragraphs": questions}]}))
        else:
            lines = (self.data / "train.tsv").read_text(encoding="utf-8-sig").splitlines(keepends=True)
            header = [] if self.task == "cola" else [lines.pop(0)]
            rows, self.start["epochs"] = in_orders(lines[:limit], self.epochs, seed)
            (folder / "train.tsv").write_text("".join(header + [row for _, row in rows]))
            (folder / "dev.tsv").symlink_to((self.data / "dev.tsv").resolve())
            self.start["data"] = folder

    def ramet_settings(self, seed):
        a, start = self.args, self.start
        settings = {"name": self.task, "model.init_from": start["model"], "task.kind": self.task, "task.epochs": start["epochs"],
                    "task.warmup": a.warmup, "data.sequence_length": a.sequence, "train.micro_batch": a.batch,
                    "train.precision": a.precision, "train.seed": seed, "train.schedule.learning_rate": self.rate,
                    "train.evaluation.every": 0, "task.limit_train": start["limit_train"], "task.limit_dev": a.limit_dev,
                    "data.shuffle": "false" if a.paired else "true"}
        if self.task == "squad":
            settings |= {"task.train": start["train"], "task.dev": a.dev, "task.stride": a.stride}
        else:
            settings["task.data"] = start["data"]
        return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]

    def ramet(self, seed, stop=0):
        run_folder = self.folder / f"ramet-{self.task}-{seed}-{stop}"
        recipe = self.folder / "empty.toml"
        recipe.write_text("")
        lines = objects([ROOT / "build/ramet", "train", recipe, *self.ramet_settings(seed), "--threads", self.args.threads,
                         "--run", run_folder, "--json", *(["--steps", stop, "--set", "task.limit_dev=16"] if stop else [])],
                        self.processors)
        end = lines[-1]
        metrics = {key.removeprefix("held_out_"): value for key, value in end.items()
                   if key.startswith("held_out_") and key != "held_out_loss"}
        subprocess.run(["rm", "-rf", run_folder / "checkpoints"])
        return {"metrics": metrics, "samples_per_second": end["samples_per_second"], "steps": end["steps"]}

    def torch(self, seed, precision, stop=0):
        a, start = self.args, self.start
        command = [sys.executable, "bench/peers/torch_finetune.py", "--task", self.task, "--model", start["model"], "--seed", seed,
                   "--epochs", start["epochs"], "--batch", a.batch, "--rate", self.rate, "--warmup", a.warmup,
                   "--sequence", a.sequence, "--precision", precision, "--threads", a.threads,
                   "--limit-train", start["limit_train"], "--limit-dev", a.limit_dev, "--stop", stop,
                   *(["--in-order"] if a.paired else [])]
        if self.task != "squad":
            return objects([*command, "--data", start["data"]], self.processors)[-1]
        answers = self.folder / "answers.json"
        result = objects([*command, "--train", start["train"], "--dev", a.dev, "--out", answers, "--stride", a.stride],
                         self.processors)[-1]
        if not stop:
            result["metrics"] = self.score(answers)
        return result

    def score(self, answers):
        """Both sides' answers are measured by the same official measure, on the questions that --limit-dev leaves."""
        whole, found = json.loads(self.args.dev.read_text()), json.loads(answers.read_text())
        for paragraph in (paragraph for article in whole["data"] for paragraph in article["paragraphs"]):
            paragraph["qas"] = [qa for qa in paragraph["qas"] if qa["id"] in found]
        asked = self.folder / "asked.json"
        asked.write_text(json.dumps(whole))
        line = objects([ROOT / "build/ramet", "score", "squad", asked, answers, "--json"])[-1]
        return {key: line[key] for key in ("f1", "exact_match")}

    def rates(self):
        """In turn and on the same processors, so that both meet the same machine."""
        steps, runners = self.args.rate_steps, {"ramet": lambda: self.ramet(90, steps)}
        self.processors = first_processors(self.args.threads)
        attention = {}
        for precision in ("f32", "bf16"):
            runners[f"torch {precision}"] = lambda precision=precision: self.torch(90, precision, steps)
        found = {name: [] for name in runners}
        for _ in range(self.args.rounds):
            for name, runner in runners.items():
                result = runner()
                found[name].append(result["samples_per_second"])
                if "attention" in result:
                    attention[name] = result["attention"]
                subprocess.run(["rm", "-rf", *self.folder.glob("ramet-*-90-*")])
                print(f"  {self.task} {name}: {found[name][-1]:.1f} samples/s, load {os.getloadavg()[0]:.2f}", flush=True)
        medians = {name: statistics.median(values) for name, values in found.items()}
        fastest = max((name for name in medians if name != "ramet"), key=medians.get)
        ratio = medians["ramet"] / medians[fastest]
        return {"samples_per_second": {name: round(value, 2) for name, value in medians.items()}, "peer": fastest,
                "attention": attention, "ratio": round(ratio, 3), "ratio_bar": RATIO, "fast_enough": ratio >= RATIO}

    def reached(self, name, seed, precision, side):
        """What a run scored, from KEPT where it was run before."""
        recipe = {key: str(value) for key, value in vars(self.args).items() if key in SCORED} | {"rate": self.rate, "epochs": self.epochs}
        if self.args.paired:
            recipe |= {"paired": True, "dropout": self.args.dropout}
        key = json.dumps({"task": self.task, "side": name, "seed": seed, "computes": precision, **recipe}, sort_keys=True)
        if key not in kept():
            if self.args.paired:
                self.pair(seed)
            metrics = side(seed)["metrics"]
            fresh = KEPT.with_suffix(f".{os.getpid()}")
            fresh.write_text(json.dumps(kept() | {key: metrics}, indent=1))  # other tasks may have been at work meanwhile
            fresh.replace(KEPT)
        return kept()[key]

    def scores(self):
        precision = self.args.peer_precision
        sides = {"ramet": lambda seed: self.ramet(seed), "torch": lambda seed: self.torch(seed, precision)}
        found = {name: [] for name in sides}
        for seed in range(self.args.seeds):
            for name, side in sides.items():
                found[name].append(self.reached(name, seed, self.args.precision if name == "ramet" else precision, side))
                print(f"  {self.task} seed {seed} {name}: " +
                      ", ".join(f"{key} {value:.2f}" for key, value in found[name][-1].items()), flush=True)
        main = next(iter(found["ramet"][0]))
        result, means = {}, {}
        for name, runs in found.items():
            values = [run[main] for run in runs]
            means[name] = statistics.fmean(values)
            result[name] = {key: round(statistics.fmean(run[key] for run in runs), 3) for key in runs[0]}
            result[name]["deviation"] = round(statistics.stdev(values), 3) if len(values) > 1 else None
        below = means["torch"] - means["ramet"]
        return {"metric": main, "scores": result, "points_below": round(below, 3), "points_bar": POINTS,
                "good_enough": below <= POINTS}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("RAMET_DATA")
    parser.add_argument("--task", choices=sorted(FOLDERS), action="append", help="default: mrpc; may be given often")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path(data) / "glue" if data else None,
                        help="folder of GLUE's folders, with squad beside it (default: $RAMET_DATA/glue)")
    parser.add_argument("--train", type=pathlib.Path, help="squad: file to train on (default: a part of squad/dev-v1.1.json)")
    parser.add_argument("--dev", type=pathlib.Path, help="squad: file to answer (default: the rest of it)")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models/all-MiniLM-L6-v2")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=float, default=0, help="default: the task's")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=0, help="learning rate (default: the task's)")
    parser.add_argument("--warmup", type=float, default=0.1)
    parser.add_argument("--sequence", type=int, default=128)
    parser.add_argument("--stride", type=int, default=128)
    parser.add_argument("--paired", action="store_true", help="scores from one head and order of rows a seed on both sides")
    parser.add_argument("--dropout", type=float, help="with --paired (default: the model's)")
    parser.add_argument("--precision", default="bf16", help="of Ramet")
    parser.add_argument("--peer-precision", choices=["f32", "bf16"], default="f32", help="of PyTorch's scores")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit-train", type=int, default=0)
    parser.add_argument("--limit-dev", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3, help="of the rates")
    parser.add_argument("--rate-steps", type=int, default=8)
    parser.add_argument("--rate-only", action="store_true")
    parser.add_argument("--scores-only", action="store_true")
    args = parser.parse_args()
    if not (args.model / "model.safetensors").exists():
        parser.error(f"no weights in {args.model}: run `make minilm`")
    if args.dropout is not None and not args.paired:
        parser.error("--dropout needs --paired")
    if args.paired and not args.scores_only:
        parser.error("--paired needs --scores-only")
    met = True
    with tempfile.TemporaryDirectory() as folder:
        for task in args.task or ["mrpc"]:
            if not args.data and not (task == "squad" and args.train and args.dev):
                parser.error("no --data, and RAMET_DATA is not set")
            if task == "squad" and bool(args.train) != bool(args.dev):
                parser.error("squad needs both --train and --dev, or neither")
            if task == "squad" and not args.train:
                whole = args.data.parent / "squad/dev-v1.1.json"
                if not whole.exists():
                    parser.error(f"no {whole}: give --train and --dev")
                args.train, args.dev = split_squad(whole)
            bench = Bench(task, args, folder)
            result = {"task": task}
            if not args.rate_only:
                result |= bench.scores()
            if not args.scores_only:
                result |= bench.rates()
            met = met and result.get("good_enough", True) and result.get("fast_enough", True)
            print(json.dumps(result), flush=True)
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
