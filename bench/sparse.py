"""What sparse training learns: static and dynamic patterns, blocks of 1, 4 and 16, and a dense model of equal operations, on
the same text. Prints the held-out loss of every run, the orderings that are expected with a test of significance each, and
writes pictures.

    python bench/sparse.py                                    # GPT-2 (the gate), three seeds: about two hours on two free cores
    python bench/sparse.py --model bert                       # the same with masked words
    python bench/sparse.py --steps 40 --seeds 1 --batches 2   # a trial
    until python bench/sparse.py --seconds 300; do sleep 1; done   # in pieces

The corpus is that of `make demo` (8.6 MB, two Bibles). The sparse model has 4 layers of 256 and density 0.1, the dense one 2
layers of 128: 7.3e7 and 7.9e7 operations a sequence of 32 by the formula 6 S f 12 L H^2 + 12 L S^2 H of Dietrich et al. 2021.
Both families take the best of the same learning rates, by the loss of one run each. A run that was interrupted goes on from
its checkpoint; runs are kept in build/sparse. With --seconds the bench works for about so long and ends with status 3.
"""

import argparse
import json
import math
import pathlib
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
NOT_DONE = 3
LENGTH = 32  # of a sequence
WEIGHTS = {"gpt2": "transformer.h.*", "bert": "bert.encoder.*"}
EXAMPLES = {"gpt2": "examples/gpt2-mini.toml", "bert": "examples/bert-mini.toml"}


def variants(args):
    """The runs by name: settings beside those of all runs."""
    every = max(1, args.steps // args.updates)
    sparse = {"sparse.weights": WEIGHTS[args.model], "sparse.density": args.density}
    moving = sparse | {"sparse.every": every, "sparse.prune_ratio": 0.5, "sparse.until": args.until}
    return {
        "dense": {"model.layers": 2, "model.hidden": 128, "model.heads": 2},
        "static 1": sparse,
        "dynamic 1": moving | {"sparse.age": "own"},
        "dynamic 1, shared steps": moving | {"sparse.age": "shared"},
        "dynamic 4": moving | {"sparse.block": 4},
        "dynamic 16": moving | {"sparse.block": 16},
        "gradient 1": moving | {"sparse.regrow": "gradient"},
    }


def operations(layers, hidden, density=1.0, length=LENGTH):
    """Of a sequence, forward and backward, by Dietrich et al."""
    return 6 * length * density * 12 * layers * hidden ** 2 + 12 * layers * length ** 2 * hidden


def run_command(*command):
    """A command from the checkout's root, which must end well."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{done.stderr[-2000:]}")


class Trainings:
    """Runs of `ramet train`. One that was interrupted goes on from its checkpoint; all stop when the seconds are over."""

    def __init__(self, ramet, threads, seconds):
        self.ramet, self.threads, self.until = ramet, threads, time.monotonic() + seconds

    def finish(self, folder, start):
        """The log of a run in this folder that is done, which `start`, a recipe and its settings, begins; None when the time
        is up before."""
        log, problems = (folder.parent / (folder.name + ending) for ending in (".jsonl", ".errors"))
        if not any(map(self.is_end, self.lines(log))):
            if time.monotonic() >= self.until:
                return None
            folder.parent.mkdir(parents=True, exist_ok=True)
            if any(folder.glob("checkpoints/*")):
                words = ["--resume", folder]
            else:
                shutil.rmtree(folder, ignore_errors=True)  # of a run that was stopped before its first checkpoint
                words = [*start, "--run", folder]
            command = [self.ramet, "train", *words, "--threads", self.threads, "--json"]
            with log.open("a") as out, problems.open("w") as errors:
                work = subprocess.Popen([str(word) for word in command], stdout=out, stderr=errors, cwd=ROOT)
                try:
                    status = work.wait(None if math.isinf(self.until) else max(5, self.until - time.monotonic()))
                except subprocess.TimeoutExpired:
                    work.send_signal(signal.SIGINT)
                    status = work.wait()
            if status != 0:
                sys.exit(f"{folder.name} failed:\n{problems.read_text()[-2000:]}")
        lines = self.lines(log)
        return lines if any(map(self.is_end, lines)) else None

    @staticmethod
    def lines(file):
        return [json.loads(line) for line in file.read_text().splitlines() if line.startswith("{")] if file.exists() else []

    @staticmethod
    def is_end(line):
        return line.get("event") == "end" and line.get("status") == "done"


class Bench:
    def __init__(self, args):
        self.args = args
        name = f"{args.model}-{args.vocabulary}-{args.steps}-{args.density:g}" + (f"-until-{args.until:g}" if args.until < 1 else "")
        self.folder = ROOT / "build/sparse" / name
        self.ramet = args.build / "ramet"
        self.trainings = Trainings(self.ramet, args.threads, args.seconds)

    def corpus(self):
        """The demo's text with a vocabulary of the model's kind."""
        kind = {"gpt2": "bpe", "bert": "wordpiece"}[self.args.model]
        demo = ROOT / "build/demo"
        name = f"sparse-{kind}-{self.args.vocabulary}"
        vocabulary, corpus = demo / name, demo / f"{name}-corpus"
        if not (corpus / "manifest.json").exists():
            run_command("scripts/demo_corpus.py", "--out", demo / "text", "--sources", "king-james,world-english")
            texts = sorted((demo / "text").glob("*.txt"))
            run_command(self.ramet, "vocab", "--kind", kind, "--size", self.args.vocabulary, "--out", vocabulary, *texts)
            run_command(self.ramet, "corpus", "--tokenizer", vocabulary, "--heldout", 0.02, "--replace", "--out", corpus, *texts)
        return corpus

    def settings(self, variant, rate, seed, steps):
        args = self.args
        common = {"data.kind": "text", "data.corpus": self.corpus(), "data.sequence_length": LENGTH, "train.steps": steps,
                  "train.micro_batch": args.micro_batch, "train.seed": seed, "train.precision": "f32",
                  "train.optimizer.beta2": args.beta2, "train.schedule.kind": "linear", "train.schedule.learning_rate": rate,
                  "train.schedule.warmup_steps": steps // 10, "train.schedule.end": 0, "train.evaluation.every": 0,
                  "train.evaluation.batches": args.batches, "train.checkpoint.every": max(50, steps // 10)}
        if args.model == "bert":
            common |= {"data.next_sentence": "false", "data.masking.probability": 0.3}
        return common | variant

    def train(self, name, variant, rate, seed, steps=None):
        """The run's end and its steps; None when the time is up before. `steps`: of the run, where it is not a whole one."""
        folder = self.folder / f"{name.replace(', ', '-').replace(' ', '-')}-{rate:g}-{seed}"
        words = [f"--set={key}={value}" for key, value in self.settings(variant, rate, seed, steps or self.args.steps).items()]
        lines = self.trainings.finish(folder, [EXAMPLES[self.args.model], *words])
        if lines is None:
            return None
        end = next(filter(Trainings.is_end, lines))
        steps = sorted({line["step"]: line for line in lines if line.get("event") == "step"}.items())
        return {"name": name, "rate": rate, "seed": seed, "loss": end["held_out_loss"], "folder": folder,
                "seconds": sum(line["step_seconds"] for _, line in steps), "steps": [line for _, line in steps]}


def student_tail(t, degrees):
    """P(T > t) of Student's distribution, by Simpson's rule on the angle: T = sqrt(degrees) tan(a)."""
    low, count = math.atan(t / math.sqrt(degrees)), 2000
    width = (math.pi / 2 - low) / count
    inside = sum((1 if i in (0, count) else 4 if i % 2 else 2) * max(0.0, math.cos(low + i * width)) ** (degrees - 1) for i in range(count + 1))
    whole = math.sqrt(math.pi) * math.gamma(degrees / 2) / math.gamma((degrees + 1) / 2)
    return inside * width / 3 / whole


def welch(lower, higher):
    """Welch's test that the mean of `lower` is below that of `higher`: t, degrees of freedom, one-sided p."""
    parts = [statistics.variance(each) / len(each) for each in (lower, higher)]
    t = (statistics.mean(higher) - statistics.mean(lower)) / math.sqrt(sum(parts))
    degrees = sum(parts) ** 2 / sum(part ** 2 / (len(each) - 1) for part, each in zip(parts, (lower, higher)))
    return t, degrees, student_tail(t, degrees)


def paired(lower, higher):
    """The test of the differences of runs of the same seed, which see the same text in the same order: t, degrees, one-sided p."""
    differences = [b - a for a, b in zip(lower, higher)]
    t = statistics.mean(differences) / (statistics.stdev(differences) / math.sqrt(len(differences)))
    return t, len(differences) - 1, student_tail(t, len(differences) - 1)


def after_changes(steps, every, before=3):
    """The loss of training by steps since a change of the patterns, less the mean of the `before` steps up to it; the mean
    of all changes of a run of 40 or more steps that are followed by a whole period."""
    losses = {step["step"]: step["loss"] for step in steps}
    changes = [at for at in range(every, len(steps) - every + 1, every) if at >= before]
    base = {at: statistics.mean(losses[at - i] for i in range(before)) for at in changes}
    return [(after, statistics.mean(losses[at + after] - base[at] for at in changes)) for after in range(1, every + 1)] if changes else []


ORDERINGS = [("dynamic below static", "dynamic 1", "static 1"), ("block 1 below 4", "dynamic 1", "dynamic 4"),
             ("block 4 below 16", "dynamic 4", "dynamic 16"), ("block 1 below 16", "dynamic 1", "dynamic 16"),
             ("dynamic below dense of equal operations", "dynamic 1", "dense"),
             ("own steps below shared ones", "dynamic 1", "dynamic 1, shared steps"),
             ("random growth below growth by gradient", "dynamic 1", "gradient 1")]

COLOURS = ["#2468b2", "#c2571a", "#2e8540", "#8a3ca8", "#b8860b", "#555555", "#d04a7a", "#1a9a9a"]


def chart(lines, x_name, y_name, log_x=False, marks=False, width=680, height=360):
    """Lines of (x, y) by name as SVG; `marks`: points alone."""
    place_x = math.log10 if log_x else float
    points = [(place_x(x), y) for line in lines.values() for x, y in line]
    (low_x, high_x), (low_y, high_y) = ((min(axis), max(axis)) for axis in zip(*points))
    left, bottom, right, top = 60, 40, 200, 16

    def place(x, y):
        return (left + (place_x(x) - low_x) / (high_x - low_x or 1) * (width - left - right),
                height - bottom - (y - low_y) / (high_y - low_y or 1) * (height - bottom - top))

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="11">',
             f'<rect width="{width}" height="{height}" fill="white"/>',
             f'<path d="M{left} {top}V{height - bottom}H{width - right}" fill="none" stroke="#999"/>']
    for share in (0, 0.5, 1):
        x, y = low_x + share * (high_x - low_x), low_y + share * (high_y - low_y)
        parts.append(f'<text x="{left + share * (width - left - right):.0f}" y="{height - bottom + 14}" fill="#555" '
                     f'text-anchor="middle">{10 ** x if log_x else x:.3g}</text>')
        parts.append(f'<text x="{left - 6}" y="{height - bottom - share * (height - bottom - top) + 4:.0f}" fill="#555" text-anchor="end">{y:.4g}</text>')
    parts.append(f'<text x="{(left + width - right) / 2}" y="{height - 8}" text-anchor="middle">{x_name}</text>')
    parts.append(f'<text x="14" y="{height / 2}" transform="rotate(-90 14 {height / 2})" text-anchor="middle">{y_name}</text>')
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        at = [place(x, y) for x, y in line]
        if not marks:
            parts.append(f'<polyline fill="none" stroke="{colour}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in at)}"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in at if marks]
        parts.append(f'<rect x="{width - right + 12}" y="{top + 18 * number}" width="10" height="10" fill="{colour}"/>'
                     f'<text x="{width - right + 28}" y="{top + 18 * number + 9}">{name}</text>')
    return "\n".join(parts + ["</svg>\n"])


def matrix_of(file, wanted):
    """Rows, columns and the numbers of one f32 matrix of a safetensors file."""
    data = file.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    entry = json.loads(data[8:8 + size])[wanted]
    begin, end = (8 + size + offset for offset in entry["data_offsets"])
    return *entry["shape"], struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])


def pattern_map(file, name, title):
    """The elements of a matrix that are not 0, as SVG: a pixel each."""
    rows, columns, numbers = matrix_of(file, name)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{columns + 20}" height="{rows + 40}" font-family="sans-serif" font-size="11">',
             f'<rect width="{columns + 20}" height="{rows + 40}" fill="white"/><text x="10" y="18">{title}</text>',
             f'<rect x="10" y="26" width="{columns}" height="{rows}" fill="#eef"/>']
    path = []
    for row in range(rows):
        column = 0
        while column < columns:
            first = column
            while column < columns and numbers[row * columns + column] != 0:
                column += 1
            if column > first:
                path.append(f"M{first + 10} {row + 26.5}h{column - first}")
            column += 1
    return "\n".join(parts + [f'<path d="{"".join(path)}" stroke="#2468b2"/></svg>\n'])


def pictures(bench, results, densities):
    """Writes them to the bench's folder."""
    args = bench.args
    sparse = operations(4, 256, args.density)
    cost = {"dense": operations(2, 128)}
    mean = {name: statistics.mean(run["loss"] for run in runs) for name, runs in results.items()}
    files = {"operations.svg": chart({name: [(cost.get(name, sparse), run["loss"]) for run in runs] for name, runs in results.items()},
                                     "operations a sequence", "held-out loss", log_x=True, marks=True),
             "time.svg": chart({name: [(run["seconds"], run["loss"]) for run in runs] for name, runs in results.items()},
                               "seconds of all steps", "held-out loss", marks=True),
             "runs.svg": chart({name: [(number, run["loss"]) for run in runs] for number, (name, runs) in enumerate(results.items())},
                               "runs, each at its place in the list", "held-out loss", marks=True)}
    changes = {name: after_changes(results[name][0]["steps"], max(1, args.steps // args.updates))
               for name in ("static 1", "dynamic 1", "dynamic 1, shared steps") if name in results}
    if all(changes.values()) and len(changes) > 1:
        files["change.svg"] = chart(changes, "steps since a change of the patterns", "loss of training, less that before")
    losses = {name: runs[0]["steps"] for name, runs in results.items()}
    window = max(1, args.steps // 50)
    files["loss.svg"] = chart({name: [(steps[i]["step"], statistics.mean(step["loss"] for step in steps[max(0, i - window):i + 1]))
                                      for i in range(window, len(steps), window)] for name, steps in losses.items()}, "step", "loss of training")
    for what in ("explored", "churn"):
        lines = {name: [(step["step"], step[what]) for step in steps if what in step] for name, steps in losses.items()}
        if any(lines.values()):
            files[f"{what}.svg"] = chart({name: line for name, line in lines.items() if line}, "step", what)
    if densities:
        files["density.svg"] = chart({kind: sorted((density, loss) for (of, density), loss in densities.items() if of == kind)
                                      for kind in ("static 1", "dynamic 1")}, "density", "held-out loss", log_x=True)
    layer = {"gpt2": "transformer.h.0.mlp.c_fc.weight", "bert": "bert.encoder.layer.0.intermediate.dense.weight"}[args.model]
    for name in ("static 1", "dynamic 1", "dynamic 16"):
        if name in results:
            file = bench.folder / "weights.safetensors"
            run_command(bench.ramet, "export", results[name][0]["folder"], "--out", file)
            files[f"pattern-{name.replace(' ', '-')}.svg"] = pattern_map(file, layer, f"{layer}: {name}, loss {mean[name]:.3f}")
            file.unlink()
    for name, text in files.items():
        (bench.folder / name).write_text(text)
    return sorted(files)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=list(WEIGHTS), default="gpt2")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--from-seed", type=int, default=1, help="the first one, so that several processes may share the work")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--updates", type=int, default=80, help="changes of the patterns in a run")
    parser.add_argument("--until", type=float, default=1.0, help="share of the steps after which patterns stay as they are")
    parser.add_argument("--density", type=float, default=0.1)
    parser.add_argument("--densities", type=float, nargs="*", default=[], help="further densities of a static and a dynamic run")
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-3, 2e-3, 4e-3], help="of which the best is taken")
    parser.add_argument("--rate-steps", type=int, help="steps of the runs that choose the rates: all, unless given")
    parser.add_argument("--vocabulary", type=int, default=4096)
    parser.add_argument("--beta2", type=float, default=0.999, help="Adam's: with 0.999 a shared number of steps matters most")
    parser.add_argument("--micro-batch", type=int, default=16)
    parser.add_argument("--batches", type=int, default=64, help="held-out micro-batches")
    parser.add_argument("--only", nargs="*", help="only these runs, by name")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=math.inf, help="end after about so long; go on when called again")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="folder with the programs")
    args = parser.parse_args()
    bench = Bench(args)
    every = {name: variant for name, variant in variants(args).items() if not args.only or name in args.only}

    def best_rate(name):
        """The learning rate of a family, by one run each."""
        if len(args.rates) == 1:
            return args.rates[0]
        runs = [bench.train(f"rate of {name}", variants(args)[name], rate, 0, args.rate_steps) for rate in args.rates]
        if None in runs:
            return None
        print(json.dumps({"rates_of": name} | {f"{run['rate']:g}": round(run["loss"], 4) for run in runs}), flush=True)
        return min(runs, key=lambda run: run["loss"])["rate"]

    rates = {}
    families = {"dense": "dense", "sparse": "static 1"}
    if args.only:
        families = {family: name for family, name in families.items() if any((each == "dense") == (family == "dense") for each in every)}
    for family, name in families.items():
        rates[family] = best_rate(name)
        if rates[family] is None:
            return NOT_DONE
    results = {name: [] for name in every}
    for seed in range(args.from_seed, args.seeds + 1):
        for name, variant in every.items():
            run = bench.train(name, variant, rates["dense" if name == "dense" else "sparse"], seed)
            if run is None:
                return NOT_DONE
            results[name].append(run)
    densities = {}
    for density in args.densities:
        for name in ("static 1", "dynamic 1"):
            variant = variants(args)[name] | {"sparse.density": density}
            run = bench.train(f"{name} at {density:g}", variant, rates["sparse"], 1)
            if run is None:
                return NOT_DONE
            densities[name, density] = run["loss"]
    for name, runs in results.items():
        losses = [run["loss"] for run in runs]
        last = next((step["explored"] for step in reversed(runs[0]["steps"]) if "explored" in step), None)
        print(json.dumps({"run": name, "rate": runs[0]["rate"], "mean": round(statistics.mean(losses), 4), "losses": [round(loss, 4) for loss in losses],
                          "operations": operations(2, 128) if name == "dense" else operations(4, 256, args.density),
                          "step_ms": round(1000 * statistics.median(step["step_seconds"] for step in runs[0]["steps"]), 1),
                          **({} if last is None else {"explored": round(last, 3)})}), flush=True)
    for (name, density), loss in sorted(densities.items()):
        print(json.dumps({"run": name, "density": density, "loss": round(loss, 4)}))
    for text, lower, higher in ORDERINGS:
        if lower not in results or higher not in results:
            continue
        a, b = ([run["loss"] for run in results[name]] for name in (lower, higher))
        line = {"ordering": text, "difference": round(statistics.mean(b) - statistics.mean(a), 4)}
        if len(a) > 1:
            t, degrees, p = welch(a, b)
            t_paired, _, p_paired = paired(a, b)
            line |= {"t": round(t, 2), "degrees": round(degrees, 1), "p": round(p, 5), "shows": p < 0.05,
                     "t_paired": round(t_paired, 2), "p_paired": round(p_paired, 5)}
        print(json.dumps(line))
    print(json.dumps({"pictures": [str(bench.folder / name) for name in pictures(bench, results, densities)]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
