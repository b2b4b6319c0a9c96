"""Trains the same model on the same text in every precision that Ramet offers, and LAMB on a batch 32 times larger (its rate scaled
linearly), three seeds each, and compares the last held-out losses with those of f32 (of the small batch).

    make demo                                     # the text and its vocabulary
    python bench/convergence.py                   # BERT-mini: about an hour and a half on two cores
    python bench/convergence.py --only f16 --seeds 1 --steps 500          # a look
    python bench/convergence.py --again           # the table and the pictures from the runs that are there

Every run goes on where an interrupted one stopped; what ended is kept in docs/convergence/runs.json, beside the pictures that
are drawn from it, and not run again. Prints a line of JSON a run and then the table; draws the curves of
held-out loss, the mean over the seeds and their spread, into docs/convergence/precision.svg and batch.svg. Ends with
status 1 where a mean is beyond its bar: 0.5% of f32's, FP8 1%, the large batch 1%.
"""

import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "convergence"
PICTURES = ROOT / "docs" / "convergence"
RUNS = PICTURES / "runs.json"

COMMON = {
    "model.preset": "mini", "model.dropout": 0.0, "model.attention_dropout": 0.0,
    "data.kind": "text", "data.sequence_length": 32, "data.next_sentence": False,
    "data.masking.whole_word": False, "data.masking.probability": 0.3,
    "train.micro_batch": 8, "train.optimizer.kind": "adamw", "train.optimizer.beta2": 0.98,
    "train.schedule.learning_rate": 5e-4, "train.checkpoint.every": 500,
}
# A tenth of a sum's variance is its branch's, about as at the start of the model without scaling; with half of it (the
# running mean) BERT stays where words' frequencies leave it (held-out loss 6.0).
# Half of the unscaled models' rate was the better of two.
UNIT = {"train.scaling": "unit", "train.residual_tau": 0.1, "train.schedule.learning_rate": 2.5e-4}
# Name: its settings, what it is compared with, the bar.
PRECISIONS = {
    "f32": ({"train.precision": "f32"}, None, 0),
    "bf16": ({"train.precision": "bf16"}, "f32", 0.005),
    "f16, loss scale": ({"train.precision": "f16", "train.loss_scale": "auto"}, "f32", 0.005),
    "f16, stochastic rounding, no f32 copy": (
        {"train.precision": "f16", "train.loss_scale": "auto", "train.weights": "f16", "train.optimizer.state": "f16"}, "f32", 0.005),
    "unit-scaled f16, no loss scale": ({"train.precision": "f16", "train.loss_scale": 1, **UNIT}, "f32", 0.005),
    "unit-scaled FP8": ({"train.precision": "f8", "train.loss_scale": 1, **UNIT}, "f32", 0.01),
}
LARGE = 32
LAMB = {"train.precision": "bf16", "train.optimizer.kind": "lamb", "train.optimizer.beta2": 0.98}


def batches(options):
    """The same number of samples, in small batches and in large ones whose rate the scaling rule finds."""
    small = options.small_batch
    steps = options.large_steps * LARGE
    common = {"data.sequence_length": options.lamb_sequence, "train.schedule.base_batch": small, "train.schedule.scaling": "linear",
              "train.schedule.learning_rate": options.lamb_rate}
    return {
        f"LAMB, batch {small}": ({**LAMB, **common, "train.micro_batch": small, "train.steps": steps, "train.schedule.warmup_steps": steps // 20}, None, 0),
        f"LAMB, batch {small * LARGE}": (
            {**LAMB, **common, "train.micro_batch": 32, "train.accumulation": small * LARGE // 32, "train.steps": options.large_steps,
             "train.schedule.warmup_steps": max(1, options.large_steps // 20)}, f"LAMB, batch {small}", 0.01),
    }


def folder_of(name, seed):
    return WORK / (name.replace(", ", "-").replace(" ", "-") + f"-{seed}")


def keep(known):
    """A line a run, in order of their names: a run more is a line more."""
    lines = [f"{json.dumps(name)}: {json.dumps(known[name])}" for name in sorted(known)]
    RUNS.parent.mkdir(parents=True, exist_ok=True)
    RUNS.with_suffix(".new").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    RUNS.with_suffix(".new").replace(RUNS)


def train(name, settings, seed, options):
    """Steps and held-out losses of one run."""
    folder = folder_of(name, seed)
    wanted = {**settings, "train.seed": seed}
    known = options.known.get(folder.name)
    if options.again or (known and known["settings"] == wanted):
        return known
    resumed = folder.with_suffix(".settings")
    if resumed.exists() and json.loads(resumed.read_text()) == wanted and any(folder.glob("checkpoints/step-*")):
        words = ["--resume", str(folder)]
    else:
        shutil.rmtree(folder, ignore_errors=True)
        recipe = WORK / "empty.toml"
        recipe.write_text("")
        words = [str(recipe), "--run", str(folder)]
        for key, value in {**wanted, "data.corpus": str(options.corpus)}.items():
            words += ["--set", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
        resumed.write_text(json.dumps(wanted))
        folder.with_suffix(".points").write_text("")
    command = [str(ROOT / "build/ramet"), "train", *words, "--threads", str(options.threads), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    points = [json.loads(line) for line in folder.with_suffix(".points").read_text().splitlines()]
    end = {}
    for line in process.stdout:
        if not line.startswith("{"):
            continue
        line = json.loads(line)
        if line.get("event") == "evaluation":
            points = [point for point in points if point[0] < line["step"]] + [[line["step"], line["held_out_loss"]]]
            folder.with_suffix(".points").write_text("".join(json.dumps(point) + "\n" for point in points))
        end = line
    if process.wait() != 0:
        raise RuntimeError(process.stderr.read()[-2000:])
    result = {"settings": wanted, "points": points, "loss": end["held_out_loss"], "skipped_steps": end.get("skipped_steps", 0),
              "loss_scale": end.get("loss_scale")}
    with options.lock:
        options.known[folder.name] = result
        keep(options.known)
    shutil.rmtree(folder)
    return result


def nice_ticks(low, high, count):
    step = 10 ** math.floor(math.log10((high - low) / count))
    step = next(step * factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= count)
    first = math.ceil(low / step - 1e-9)
    return [round((first + i) * step, 10) for i in range(int((high - first * step) / step + 1e-9) + 1)]


def draw(path, title, curves, scale_of_steps):
    """`curves`: name -> list of seeds' points. The mean over seeds as a line, their spread as a band."""
    width, height, left, top, right, bottom = 900, 420, 60, 40, 300, 45
    colours = ["#222222", "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd"]
    lines = {}
    for name, seeds in curves.items():
        by_step = {}
        for points in seeds:
            for step, loss in points[1:]:  # before the first step all are alike, far above
                by_step.setdefault(step * scale_of_steps.get(name, 1), []).append(loss)
        lines[name] = [(step, statistics.mean(losses), min(losses), max(losses)) for step, losses in sorted(by_step.items())]
    xs = [point[0] for line in lines.values() for point in line]
    low, high = min(point[2] for line in lines.values() for point in line), max(point[3] for line in lines.values() for point in line)
    pad = (high - low) * 0.05
    low, high = low - pad, high + pad

    def place(x, y):
        return (f"{left + (width - left - right) * x / max(xs):.1f},{top + (height - top - bottom) * (high - y) / (high - low):.1f}")

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>', f'<text x="{left}" y="20" font-size="14">{title}</text>']
    for y in nice_ticks(low, high, 6):
        x1, y1 = place(0, y).split(",")
        out += [f'<line x1="{x1}" y1="{y1}" x2="{width - right}" y2="{y1}" stroke="#dddddd"/>',
                f'<text x="{left - 6}" y="{y1}" dy="4" text-anchor="end">{y:g}</text>']
    for x in nice_ticks(0, max(xs), 6):
        out.append(f'<text x="{place(x, low).split(",")[0]}" y="{height - bottom + 18}" text-anchor="middle">{x:g}</text>')
    unit = "samples" if scale_of_steps else "steps"
    out.append(f'<text x="{left + (width - left - right) / 2}" y="{height - 8}" text-anchor="middle">{unit}</text>')
    for i, (name, line) in enumerate(lines.items()):
        colour = colours[i % len(colours)]
        band = [place(x, up) for x, _, _, up in line] + [place(x, down) for x, _, down, _ in reversed(line)]
        out += [f'<polygon points="{" ".join(band)}" fill="{colour}" fill-opacity="0.12"/>',
                f'<polyline points="{" ".join(place(x, y) for x, y, _, _ in line)}" fill="none" stroke="{colour}" stroke-width="1.5"/>',
                f'<rect x="{width - right + 15}" y="{top + 22 * i}" width="14" height="4" fill="{colour}"/>',
                f'<text x="{width - right + 35}" y="{top + 22 * i + 6}">{name}: {line[-1][1]:.4f}</text>']
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*out, "</svg>"]) + "\n")


def table(runs, losses, missed):
    print(f"{'':40} {'loss':>8} {'spread':>8} {'beside':>9} {'bar':>6}")
    for name, (_, other, bar) in runs.items():
        if not losses.get(name):
            continue
        mean, spread = statistics.mean(losses[name]), max(losses[name]) - min(losses[name])
        beside = ""
        if other and losses.get(other):
            share = mean / statistics.mean(losses[other]) - 1
            beside = f"{100 * share:+.2f}%"
            if share > bar:
                missed.append(name)
        print(f"{name:40} {mean:8.4f} {spread:8.4f} {beside:>9} {f'{100 * bar:g}%' if other else '':>6}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=pathlib.Path, default=ROOT / "build/demo/corpus")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--large-steps", type=int, default=400, help="LAMB's steps of large batches")
    parser.add_argument("--small-batch", type=int, default=4)
    parser.add_argument("--lamb-sequence", type=int, default=32)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--points", type=int, default=8, help="of a curve")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at once")
    parser.add_argument("--threads", type=int, default=1, help="of each run")
    parser.add_argument("--lamb-rate", type=float, default=1.5e-4, help="learning rate of LAMB's small batch")
    parser.add_argument("--only", default="", help="runs whose name has this in it")
    parser.add_argument("--again", action="store_true", help="train nothing")
    options = parser.parse_args()
    options.corpus = options.corpus.resolve()
    options.known, options.lock = json.loads(RUNS.read_text()) if RUNS.exists() else {}, threading.Lock()
    if not options.again and not (options.corpus / "manifest.json").exists():
        sys.exit(f"no corpus in {options.corpus}; `make demo` makes one, or give another with --corpus")
    WORK.mkdir(parents=True, exist_ok=True)
    missed = []
    common = {**COMMON, "train.steps": options.steps, "train.schedule.warmup_steps": options.steps // 20}
    for picture, title, runs, scale in [
            ("precision", "held-out loss by precision", PRECISIONS, {}),
            ("batch", "held-out loss by batch", batches(options), {f"LAMB, batch {options.small_batch * factor}": options.small_batch * factor for factor in (1, LARGE)})]:
        curves, losses = {}, {}
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            made = []
            for seed in range(1, options.seeds + 1):  # a seed of all before the next: a run cut short compares what it has
                for name, (settings, _, _) in runs.items():
                    if options.only not in name:
                        continue
                    all_settings = {**common, **settings}
                    all_settings |= {"train.evaluation.every": max(1, all_settings["train.steps"] // options.points), "train.evaluation.batches": 64}
                    made.append((name, seed, pool.submit(train, name, all_settings, seed, options)))
            for name, seed, future in made:
                result = future.result()
                if not result:
                    continue
                curves.setdefault(name, []).append(result["points"])
                losses.setdefault(name, []).append(result["loss"])
                print(json.dumps({"run": name, "seed": seed, "held_out_loss": result["loss"], "skipped_steps": result["skipped_steps"],
                                  "load": round(os.getloadavg()[0], 2)}), flush=True)
        if curves:
            draw(PICTURES / f"{picture}.svg", title, curves, scale)
            table(runs, losses, missed)
    if missed:
        sys.exit("beyond the bar: " + "; ".join(missed))


if __name__ == "__main__":
    main()
