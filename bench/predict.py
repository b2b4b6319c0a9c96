"""Predicted against measured step time and memory, for random models on random layouts on this machine.

    python bench/predict.py                          # 40 cases, about forty minutes on two cores
    python bench/predict.py --cases 5 --seed 7
    python bench/predict.py --most-rounds 24         # afterwards: more rounds for what is not yet known well enough
    python bench/predict.py --networks               # networks of images and an LSTM on a list of layouts, no random ones
    python bench/predict.py --networks --minutes 7   # ends after so long; the next call goes on
    python bench/predict.py --graphs build/bench-graphs   # graph networks (sets as bench/graphs.py makes them), without loaders

Each case is a BERT or GPT-2 of a random small size on a random layout of 1 to 8 devices (threads, or ranks of mpirun), with phases and
offload for some. `ramet plan` predicts the step, with nothing known from before; `ramet train` measures it: all its steps but the
first, which touches all memory for the first time. Both take turns, since the speed of a shared machine drifts within seconds by more
than the bars, and other guests of its host slow it down by half for a second or two at a time: what is compared is what the quicker
half of the rounds says, the first quartile of the times predicted and that of the rounds' median steps. There are as many rounds as it
takes for both to be known well enough (--precision), whatever their difference is, and --rounds to --most-rounds. Rounds are kept in
build/bench-predict.json while the program stays the same: a bench that was interrupted goes on, one with more rounds adds them. Draws that `ramet
plan` refuses, or whose step would be too short or too long to measure, are drawn again. Prints a line of JSON a case, with the standard
error of both quartiles together as its uncertainty, then the mean and the worst error, with the load average before and after. Ends with
status 1 when the mean is above 3%, the worst above 8%, or planned memory differs from what a device holds.

With --graphs, a round is a call of build/bench/profile, which predicts a step and then runs it again and again with one batch: a loader
works beside a real training's steps, and of sampled graphs it takes longer than they do.

A busy machine makes these errors, not the prediction: repeat where the load average is above the number of processors.
"""

import argparse
import hashlib
import json
import math
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import time

from graphs import CASES as GRAPH_CASES

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNS = ROOT / "build" / "bench-predict"
KEPT = RUNS.with_suffix(".json")
MOST_MEAN, MOST_WORST = 0.03, 0.08
GRAPHS = ["gcn-cora", "gat-cora", "gin-nci1", "sage-sampled", "schnet-table"]

# Steps of about half a second on two processors.
NETWORKS = {
    "resnet-18": {"model.kind": "resnet", "model.preset": "18", "model.stem": "small", "model.width": 32, "data.height": 32, "train.micro_batch": 4},
    "resnet-50": {"model.kind": "resnet", "model.preset": "50", "model.stem": "large", "data.height": 64, "train.micro_batch": 2},
    "vit-tiny": {"model.kind": "vit", "model.preset": "tiny", "model.patch": 8, "data.height": 32, "train.micro_batch": 2},
    "unet": {"model.kind": "unet", "model.preset": "mini", "model.classes": 4, "data.height": 64, "train.micro_batch": 1},
    "lstm": {"model.kind": "lstm", "model.preset": "mini", "model.layers": 4, "model.hidden": 256, "model.vocabulary_size": 4096,
             "data.sequence_length": 32, "train.micro_batch": 4},
    "convnext": {"model.kind": "convnext", "model.preset": "tiny", "model.width": 32, "data.height": 64, "train.micro_batch": 1},
    "efficientnet": {"model.kind": "efficientnet", "model.preset": "b0", "data.height": 64, "train.micro_batch": 2},
}
# (layout, ranks of mpirun, threads; 0: all processors)
NETWORK_LAYOUTS = [("", 0, 0), ("p=2", 0, 0), ("r=2", 0, 0), ("t=2", 0, 0), ("phases=2 offload=weights,optimizer", 0, 0), ("recompute=layer", 0, 0),
                   ("", 0, 1), ("p=2", 2, 0), ("r=2", 2, 0), ("r=2 rts=optimizer", 0, 0), ("p=2 r=2", 0, 0), ("p=2 phases=2 offload=optimizer", 0, 0)]


def network_cases(only):
    """Every network on one device, and each layout with one network after the other: (settings, layout, devices, ranks, threads)."""
    chosen = [(name, NETWORK_LAYOUTS[0]) for name in NETWORKS]
    names = list(NETWORKS)
    for number, layout in enumerate(NETWORK_LAYOUTS[1:]):
        chosen += [(names[(2 * number + step) % len(names)], layout) for step in range(2)]
    for name, (layout, ranks, threads) in chosen:
        if only and name not in only:
            continue
        devices = 1
        for word in layout.split():
            if word[:2] in ("p=", "t=", "r="):
                devices *= int(word[2:])
        # Eight micro-batches in two lanes and two chunks: the recipe is the same on each layout.
        settings = {"data.kind": "synthetic", **NETWORKS[name], "train.precision": "f32", "train.lanes": 2, "train.chunks": 2,
                    "train.accumulation": 8, "train.evaluation.batches": 0}
        yield {key: json.dumps(value) for key, value in settings.items()}, layout, devices, ranks, threads


def draw(rng):
    """Settings of a recipe, a layout, and ranks (0: threads of one process)."""
    kind = rng.choice(["bert", "gpt2"])
    hidden = rng.choice([128, 192, 256, 384])
    p, t, r = rng.choice([(1, 1, 1), (1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 1, 2), (2, 2, 1), (1, 2, 2), (4, 1, 1), (1, 1, 4),
                          (2, 2, 2), (4, 1, 2), (8, 1, 1)])
    lanes = max(r, rng.choice([1, 2]))
    accumulation = lanes * rng.choice([2, 4]) if p == 1 else lanes * rng.choice([4, 8])
    settings = {
        "data.kind": '"synthetic"', "model.kind": f'"{kind}"', "model.preset": '"mini"', "model.hidden": hidden,
        "model.layers": rng.choice([layers for layers in (2, 4, 6, 8) if layers >= p]), "model.heads": hidden // rng.choice([32, 64]),
        "model.intermediate": 4 * hidden, "model.vocabulary_size": rng.choice([2048, 4096, 8192]),
        "data.sequence_length": rng.choice([64, 128]), "train.micro_batch": rng.choice([2, 4, 8]),
        "train.lanes": lanes, "train.accumulation": accumulation, "train.chunks": t,
        "train.precision": f'"{rng.choice(["f32", "bf16"])}"', "train.evaluation.batches": 0,
    }
    if kind == "gpt2":
        del settings["model.intermediate"]
    layout = f"p={p} t={t} r={r}"
    if rng.random() < 0.3:
        layout += f" phases={rng.choice([2, 4])} offload={rng.choice(['weights,optimizer', 'weights,grads,optimizer', 'optimizer'])}"
    elif rng.random() < 0.2:
        layout += " offload=optimizer"
    if r > 1 and rng.random() < 0.4:
        layout += " rts=optimizer"
    devices = p * t * r
    ranks = rng.choice([ranks for ranks in (2, 4, 8) if devices % ranks == 0]) if devices > 1 and rng.random() < 0.4 else 0
    return settings, layout, devices, ranks, 0


def run(words, launcher=(), **variables):
    result = subprocess.run([*launcher, str(ROOT / "build/ramet"), *words, "--json"], capture_output=True, text=True, cwd=RUNS,
                            env={**os.environ, **variables})
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    return (lines if result.returncode == 0 else None), result.stderr


def undisturbed(values):
    """The first quartile: disturbances only ever add time."""
    return statistics.quantiles(values, n=4, method="inclusive")[0]


def spread(values):
    """Standard deviation of the quicker half, as a share, as far as it is normal: from the first quartile to the median."""
    return (statistics.median(values) - undisturbed(values)) / 0.6745 / undisturbed(values)


def uncertainty(values):
    """Standard error of the first quartile: sqrt(1/4 * 3/4 / n) over the normal density there."""
    return 1.36 * spread(values) / math.sqrt(len(values))


def holds_what_was_planned(plan, end, devices):
    # Devices of a stage are alike, and follow each other. One that holds all is no list in its plan.
    predicted = [stage["planned_bytes"] for stage in plan["devices"]] if "devices" in plan else [plan["planned_bytes"]]
    held = [device["arena_bytes"] for device in end["devices"]]
    return held == [predicted[device["device"] * len(predicted) // devices] for device in end["devices"]]


class Kept:
    """What was measured of the same program: for each draw its rounds, or why there are none."""

    def __init__(self, options):
        alike = {key: value for key, value in vars(options).items() if key not in ("cases", "rounds", "most_rounds", "precision", "minutes")}
        self.of = hashlib.sha256((ROOT / "build/ramet").read_bytes() + json.dumps(alike, default=str).encode()).hexdigest()
        kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
        self.draws = kept["draws"] if kept.get("of") == self.of else []

    def draw(self, number):
        while len(self.draws) <= number:
            self.draws.append({"predicted": [], "measured": [], "memory_equal": True, "load": 0, "refused": ""})
        return self.draws[number]

    def save(self):
        KEPT.with_suffix(".new").write_text(json.dumps({"of": self.of, "draws": self.draws}))
        KEPT.with_suffix(".new").replace(KEPT)


def name_of(settings):
    sizes = f" {settings['model.layers']} x {settings['model.hidden']}" if "model.hidden" in settings else f"-{settings['model.preset']}"
    return f"{settings['model.kind']}{sizes} {settings['train.precision']}".replace('"', "")


def measure(settings, layout, devices, ranks, wanted_threads, options, known, save):
    """The case's figures, or None where it cannot be: what plan refuses, or too short or long a step. `known`: what is kept of it."""
    if known["refused"]:
        return None, known["refused"]
    recipe = RUNS / "case.toml"
    recipe.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
    threads = wanted_threads or max(1, options.processors // devices)
    words = [str(recipe), *(["--layout", layout] if layout else [])]
    of_process = devices // ranks if ranks else devices
    launcher = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)] if ranks else []
    predicted_seconds, medians = known["predicted"], known["measured"]
    for turn in range(len(medians), options.most_rounds):
        if turn >= options.rounds and math.hypot(uncertainty(predicted_seconds), uncertainty(medians)) <= options.precision:
            break
        planned, why = run(["plan", *words, "--threads", str(devices * threads), *(["--as-ranks"] if ranks else [])],
                           XDG_CACHE_HOME=str(RUNS / f"cache{turn}"))
        shutil.rmtree(RUNS / f"cache{turn}", ignore_errors=True)
        if not planned or "step_seconds" not in planned[-1]:
            known["refused"] = why or "no time"
        elif turn == 0 and not options.shortest <= planned[-1]["step_seconds"] <= options.longest:
            known["refused"] = f"{planned[-1]['step_seconds']:.3f} s a step"
        if known["refused"]:
            save()
            return None, known["refused"]
        plan = planned[-1]
        count = max(options.steps, math.ceil(options.seconds / plan["step_seconds"]))
        trained, why = run(["train", *words, "--steps", str(count + 1), "--threads", str(of_process * threads),
                            "--run-dir", str(RUNS / "runs")], launcher)
        if not trained:
            sys.exit(f"ramet train failed on what ramet plan takes:\n{json.dumps(settings)}\n{layout}, {ranks} ranks\n{why[-2000:]}")
        predicted_seconds.append(plan["step_seconds"])
        medians.append(statistics.median(line["step_seconds"] for line in trained if line.get("event") == "step" and line["step"] > 1))
        known["load"] = round(os.getloadavg()[0], 2)
        known["memory_equal"] = known["memory_equal"] and holds_what_was_planned(plan, trained[-1], devices)
        save()
    seconds, predicted_step = undisturbed(medians), undisturbed(predicted_seconds)
    return {"layout": layout, "transport": f"mpi {ranks}" if ranks else "threads", "devices": devices,
            "threads": devices * threads, "model": name_of(settings),
            "rounds": len(medians), "predicted": round(predicted_step, 4), "predicted_spread": round(spread(predicted_seconds), 3), "measured": round(seconds, 4),
            "measured_spread": round(spread(medians), 3), "error": round(predicted_step / seconds - 1, 4),
            "uncertainty": round(math.hypot(uncertainty(predicted_seconds), uncertainty(medians)), 4),
            "memory_equal": known["memory_equal"], "load": known["load"]}, ""


def profile_graphs(options):
    """Prints each graph network's predicted and measured step; the worst error."""
    predicted, measured = ({name: [] for name in GRAPHS} for _ in range(2))
    begun = time.monotonic()
    for turn in range(options.most_rounds):
        if turn >= options.rounds and time.monotonic() - begun > 60 * options.minutes:
            break
        for name in GRAPHS:  # in turn, so that a slow minute does not fall on one alone
            case, cache = GRAPH_CASES[name], RUNS / "cache"
            shutil.rmtree(cache, ignore_errors=True)
            settings = {**case.settings, "data.graphs.set": options.graphs.resolve() / case.set.name}
            seconds = predicted[name][0] if predicted[name] else 0.02
            steps = max(options.steps, min(10000, math.ceil(options.seconds / seconds)))
            result = subprocess.run([str(ROOT / "build/bench/profile"), f"examples/{case.recipe}.toml", "--steps", str(steps),
                                     *(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))],
                                    capture_output=True, text=True, cwd=ROOT, env={**os.environ, "XDG_CACHE_HOME": str(cache)})
            found = re.search(r"predicted (\S+) ms a step.* median (\S+) ms", result.stdout)
            if not found:
                sys.exit(f"{name}: {result.stderr[-2000:]}")
            predicted[name].append(float(found[1]) / 1e3)
            measured[name].append(float(found[2]) / 1e3)
    worst = 0
    for name in GRAPHS:
        first, second = undisturbed(predicted[name]), undisturbed(measured[name])
        worst = max(worst, abs(first / second - 1))
        print(json.dumps({"graphs": name, "rounds": len(measured[name]), "predicted": round(first, 6), "measured": round(second, 6),
                          "error": round(first / second - 1, 4),
                          "uncertainty": round(math.hypot(uncertainty(predicted[name]), uncertainty(measured[name])), 4),
                          "load": round(os.getloadavg()[0], 2)}), flush=True)
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=5, help="measured steps of a round, at least")
    parser.add_argument("--rounds", type=int, default=6, help="turns of plan and train in a case, at least")
    parser.add_argument("--most-rounds", type=int, default=12)
    parser.add_argument("--precision", type=float, default=0.015, help="standard error of a case at which no more rounds follow")
    parser.add_argument("--seconds", type=float, default=1.5, help="seconds of measured steps of a round, about")
    parser.add_argument("--shortest", type=float, default=0.05, help="seconds of a step that is worth measuring")
    parser.add_argument("--longest", type=float, default=5)
    parser.add_argument("--networks", action="store_true", help="the list of networks and layouts instead of random cases")
    parser.add_argument("--only", choices=list(NETWORKS), action="append", help="with --networks: these alone")
    parser.add_argument("--graphs", type=pathlib.Path, help="folder of graph sets: the list of graph networks instead of random cases")
    parser.add_argument("--minutes", type=float, default=math.inf, help="end with status 3 after about so long; the next call goes on")
    parser.add_argument("--processors", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    if not 2 <= options.rounds <= options.most_rounds:
        parser.error("--rounds must be 2 at least, and --most-rounds not less")
    rng, kept = random.Random(options.seed), Kept(options)
    shutil.rmtree(RUNS, ignore_errors=True)
    RUNS.mkdir(parents=True)
    if options.graphs:
        return 0 if profile_graphs(options) <= MOST_WORST else 1
    load = os.getloadavg()[0]
    cases, refused = [], 0
    listed = list(network_cases(options.only)) if options.networks else []
    wanted = len(listed) or options.cases
    until = time.monotonic() + 60 * options.minutes
    while len(cases) + (refused if listed else 0) < wanted:
        if refused > 20 * wanted:
            sys.exit(f"{refused} draws were refused, of {refused + len(cases)}")
        if time.monotonic() > until:
            print(f"{len(cases)} of {wanted} cases", file=sys.stderr)
            return 3
        number = len(cases) + refused
        case, why = measure(*(listed[number] if listed else draw(rng)), options, kept.draw(number), kept.save)
        if case is None:
            refused += 1
            print(f"{'refused' if listed else 'drawn again'}: {(why.strip().splitlines() or [''])[-1][:160]}", file=sys.stderr)
            continue
        cases.append(case)
        print(json.dumps(case), flush=True)
    errors = [abs(case["error"]) for case in cases]
    equal = all(case["memory_equal"] for case in cases)
    print(json.dumps({"cases": len(cases), "drawn_again": refused, "mean_error": round(statistics.mean(errors), 4),
                      "worst_error": round(max(errors), 4),
                      "mean_uncertainty": round(statistics.mean(case["uncertainty"] for case in cases), 4),
                      "memory_equal": equal, "processors": options.processors,
                      "load_before": round(load, 2), "load_after": round(os.getloadavg()[0], 2)}))
    shutil.rmtree(RUNS, ignore_errors=True)
    return 0 if equal and statistics.mean(errors) <= MOST_MEAN and max(errors) <= MOST_WORST else 1


if __name__ == "__main__":
    sys.exit(main())
