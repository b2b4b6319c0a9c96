"""A temporal graph network on CollegeMsg beside PyTorch Geometric's own classes, on the same split and negatives.

    python bench/tgn.py --data FOLDER --speed               # steps of both sides in turn, loaders included
    python bench/tgn.py --data FOLDER --seeds 3 --epochs 50 # average precisions of the test events

Each side trains with each seed, and says the mean average precision of the test batches after the epoch whose validation
batches have the best. Sides are within two standard errors where their means are. Every epoch adds a line to the file of
--results; a later call does only the trainings that it does not have to the end, and --tell only reads it, up to the epoch
that the least of them has reached. FOLDER holds the folder jodie. Needs the peers (scripts/setup.sh --peers) and
torch_geometric.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

from peers.sides import ROOT, first_processors, objects, run, stream

RECIPE = ROOT / "examples" / "tgn-collegemsg.toml"
SIDES = ["ramet", "torch eager"]


def prepare(args):
    args.work.mkdir(parents=True, exist_ok=True)
    if not set_of(args).exists():
        subprocess.run([args.program, "graphs", "prepare", "events", args.data / "jodie" / "CollegeMsg.txt", "--out", set_of(args),
                        "--apply", "split-by-time=70:15:15"], check=True, stdout=sys.stderr)


def set_of(args):
    return args.work / "collegemsg.safetensors"


def ramet(args, *settings):
    return [args.program, "train", RECIPE, "--json", "--threads", args.threads, "--set", f"data.events.set={set_of(args)}",
            "--set", "system.every=0", "--run-dir", args.work / "runs", *(word for setting in settings for word in ("--set", setting))]


def torch(args, *more):
    return [sys.executable, ROOT / "bench" / "peers" / "torch_tgn.py", "--set", set_of(args), "--threads", args.threads, *more]


def measure_speed(args, processors):
    """Medians over rounds of the median step of each side, in the first epoch."""
    found = {"ramet": [], "torch eager": []}
    for _ in range(args.rounds):
        ours = [each["step_seconds"] for each in objects(
            ramet(args, "train.epochs=1"), processors) if each.get("event") == "step"]
        found["ramet"].append(statistics.median(ours[args.warm:args.warm + args.steps]))
        found["torch eager"].append(run(torch(args, "--warm", args.warm, "--steps", args.steps), processors)["step_seconds"])
        print({side: round(1e3 * values[-1], 2) for side, values in found.items()}, f"load {os.getloadavg()[0]:.2f}", flush=True)
    medians = {side: statistics.median(values) for side, values in found.items()}
    print(json.dumps({"step_ms": {side: round(1e3 * value, 2) for side, value in medians.items()},
                      "speed_ratio": round(medians["torch eager"] / medians["ramet"], 2), "load_average": os.getloadavg()[0]}))


def epochs_of(side, seed, args):
    """Of each epoch: the average precisions of validation and test, and EdgeBank's of the test, as they come."""
    if side == "ramet":
        for each in stream(ramet(args, f"train.seed={seed}", f"train.epochs={args.epochs}", "data.events.held_out=test")):
            if each.get("event") == "evaluation":
                yield {"validation": each["held_out_average_precision"], "test": each["held_out_test_average_precision"],
                       "edgebank": each["held_out_test_edgebank_precision"]}
    else:
        for each in stream(torch(args, "--seed", seed, "--epochs", args.epochs)):
            yield {"validation": each["average_precision"], "test": each["test_average_precision"]}


def kept(args):
    """The epochs of each side and seed that the file has, of trainings for args.epochs. A training that was begun again
    stands there with its last try alone."""
    found = {}
    for line in args.results.read_text().splitlines() if args.results and args.results.exists() else []:
        each = json.loads(line)
        if each["epochs"] == args.epochs:
            epochs = found.setdefault((each["side"], each["seed"]), [])
            del epochs[each["epoch"] - 1:]
            epochs.append(each)
    return found


def measure_precision(args):
    found = kept(args)
    for seed in range(args.first, args.first + args.seeds):
        for side in SIDES:
            if args.tell or len(found.get((side, seed), [])) >= args.epochs:
                continue
            found[side, seed] = []
            for epoch, each in enumerate(epochs_of(side, seed, args), 1):
                found[side, seed].append({"side": side, "seed": seed, "epochs": args.epochs, "epoch": epoch, **each,
                                          "load": round(os.getloadavg()[0], 2)})
                if args.results:
                    with open(args.results, "a", encoding="utf-8") as file:
                        file.write(json.dumps(found[side, seed][-1]) + "\n")
            tell(found)
    if args.tell:
        tell(found)


def tell(found):
    """What trainings of equally many epochs have reached."""
    least = min(map(len, found.values()), default=0)
    for side in SIDES:
        best = [max(epochs[:least], key=lambda each: each["validation"])["test"] for (of, _), epochs in found.items() if of == side]
        if best and least:
            spread = statistics.stdev(best) if len(best) > 1 else 0
            print(f"{side}, {least} epochs: {statistics.mean(best):.4f} +- {spread:.4f} ({len(best)} seeds)", flush=True)
    bank = [epochs[0]["edgebank"] for (side, _), epochs in found.items() if side == "ramet" and epochs]
    if bank:
        print(f"EdgeBank: {statistics.mean(bank):.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("RAMET_DATA", ""), type=pathlib.Path, help="folder of the data (default: RAMET_DATA)")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--tell", action="store_true", help="train nothing: tell what the file of --results has")
    parser.add_argument("--results", type=pathlib.Path, help="file of what was reached")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=60)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--program", default=ROOT / "build" / "ramet", type=pathlib.Path)
    parser.add_argument("--work", default=ROOT / "build" / "bench-graphs", type=pathlib.Path)
    args = parser.parse_args()
    args.work, args.program = args.work.resolve(), args.program.resolve()
    prepare(args)
    if args.speed:
        measure_speed(args, first_processors(args.threads))
    else:
        measure_precision(args)


if __name__ == "__main__":
    main()
