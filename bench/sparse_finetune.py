"""How much accuracy fine-tuning keeps with sparse weights: examples/minilm-sst2-sparse.toml at several densities, beside a dense
model of as many steps on the same sentences. Prints the accuracy on dev of every run, their mean and deviation by density,
and draws them.

    make minilm                                                       # the weights
    python bench/sparse_finetune.py --data GLUE/SST-2                 # three seeds on all 67,349 sentences: many hours
    python bench/sparse_finetune.py --limit-train 8000 --seeds 1      # a look
    python bench/sparse_finetune.py --distil 0.9 --densities 1 0.1    # the dense run of each seed teaches the sparse ones
    python bench/sparse_finetune.py --distil 1 --made 3 --densities 1 0.1   # ... on made sentences, too (made_text.py)
    python bench/sparse_finetune.py --distil 1 --from-dense --made 3 --made-epochs 0.5 --static-epochs 1.5 --densities 1 0.1
                                                                      # ... pruned from the dense run, then on with what is left
    until python bench/sparse_finetune.py --seconds 300; do sleep 1; done   # in pieces

A run that was interrupted goes on from its checkpoint; runs are kept in build/sparse-finetune. With --seconds the bench works
for about so long and ends with status 3. What follows `--set KEY=VALUE` changes every run.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import sys

import made_text
from sparse import NOT_DONE, ROOT, Trainings, chart, run_command

RECIPE = ROOT / "examples/minilm-sst2-sparse.toml"
SPARSE = "\n[sparse]\n"  # the last table of the recipe


def recipe_of(folder, density):
    """The file to train: the example, or without its sparse weights for a density of 1."""
    if density < 1:
        return RECIPE
    dense, _, sparse = RECIPE.read_text().partition(SPARSE)
    if "\n[" in sparse:
        sys.exit(f"{RECIPE}: a table follows that of sparse weights")
    file = folder / "dense.toml"
    file.write_text(dense)
    return file


def settings(args, density, seed, folder):
    every = {"model.init_from": args.model, "task.data": args.data, "task.epochs": args.epochs, "task.limit_train": args.limit_train,
             "train.seed": seed, "train.evaluation.every": 0, "train.checkpoint.every": args.checkpoint_every,
             **({"sparse.density": density} if density < 1 else {"train.schedule.learning_rate": args.dense_rate})}
    if density < 1 and args.distil > 0:
        every |= {"task.teacher": args.teacher.resolve() if args.teacher else (folder / f"1-{seed}").resolve(), "task.teacher_weight": args.distil,
                  "task.teacher_temperature": args.temperature}
    if density < 1 and args.from_dense:
        every["model.init_from"] = (folder / f"1-{seed}").resolve()
    if density < 1 and args.made:
        made_text.widen(args.data, folder / f"made-{args.made}", args.made)
        every |= {"task.data": (folder / f"made-{args.made}").resolve(), "task.epochs": args.made_epochs}
    own = [word for word in args.set if density < 1 or not word.startswith("sparse.")]
    own += args.sparse_set if density < 1 else []
    return [f"--set={word}" for word in [f"{key}={value}" for key, value in every.items()] + own]


def stages(args, folder):
    """Names and settings of the runs that go on from one another with the pattern that is left."""
    if args.static_epochs:
        yield "static", {"task.epochs": args.static_epochs}
    if args.more_made:
        data = folder / f"made-{args.more_made}-more"
        made_text.widen(args.data, data, args.more_made, seed=2)
        yield "more", {"task.data": data.resolve(), "task.epochs": 1}


def static_run(args, density, seed, folder, trainings, before, run, changes):
    """The log of `run`, which goes on from the run `before` of the density and the seed with the pattern that is left; None when
    the time is up."""
    export, file = before.with_name(before.name + "-export"), folder / "static.toml"
    if not (export / "model.safetensors").exists():
        run_command(trainings.ramet, "export", before, "--out", export)
    dense, _, sparse = RECIPE.read_text().partition(SPARSE)
    kept = [line for line in sparse.splitlines() if line.split(" ")[0] in ("weights", "density", "block", "pattern")]
    file.write_text(dense + SPARSE + "\n".join(kept) + "\ndistribution = \"global\"\n")  # the pattern is what is not 0
    words = [word for word in settings(args, density, seed, folder) if not word.startswith("--set=sparse.") or word.startswith("--set=sparse.block=")]
    every = {"sparse.density": density, "model.init_from": export.resolve(), "train.schedule.kind": "linear", "task.warmup": 0.03, **changes}
    return trainings.finish(run, [file, *words, *(f"--set={key}={value}" for key, value in every.items())])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("RAMET_DATA")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path(data) / "glue/SST-2" if data else None, help="default: $RAMET_DATA/glue/SST-2")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models/all-MiniLM-L6-v2")
    parser.add_argument("--densities", type=float, nargs="+", default=[1, 0.5, 0.3, 0.2, 0.1])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--limit-train", type=int, default=0, help="train on so many sentences, the first; 0: on all")
    parser.add_argument("--dense-rate", type=float, default=1e-4, help="learning rate of the dense model")
    parser.add_argument("--distil", type=float, default=0, metavar="W", help="weight of a teacher's answers in the loss of sparse models")
    parser.add_argument("--teacher", type=pathlib.Path, help="folder of the teacher; default: the dense run of the same seed, which is trained first")
    parser.add_argument("--temperature", type=float, default=2, help="of the teacher's answers")
    parser.add_argument("--made", type=int, default=0, metavar="N", help="sparse models also learn from N made sentences for each of the task's")
    parser.add_argument("--made-epochs", type=float, default=1, help="epochs of all these sentences")
    parser.add_argument("--from-dense", action="store_true", help="sparse models begin from the dense run of the same seed, not from --model")
    parser.add_argument("--static-epochs", type=float, default=0, metavar="E", help="then E epochs with the pattern that is left; default: none")
    parser.add_argument("--more-made", type=int, default=0, metavar="N", help="then an epoch of the task's sentences and N others made of each; default: none")
    parser.add_argument("--sparse-set", action="append", default=[], metavar="KEY=VALUE", help="as --set, of sparse models alone")
    parser.add_argument("--set", action="append", default=[], help="a key of the recipe, as sparse.block=1; may stand several times")
    parser.add_argument("--name", default="runs", help="folder of the runs, below build/sparse-finetune: one for each choice of settings")
    parser.add_argument("--checkpoint-every", type=int, default=50, help="steps")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=math.inf, help="end after about so long; go on when called again")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="folder with the programs")
    parser.add_argument("--out", type=pathlib.Path, help="folder of --name's folder instead of build/sparse-finetune")
    args = parser.parse_args()
    if args.data is None:
        parser.error("no --data, and RAMET_DATA is not set")
    if args.teacher and not args.distil:
        parser.error("--teacher has no weight: give --distil W")
    if args.from_dense and 1 not in args.densities and (args.teacher or not args.distil):
        parser.error("--from-dense needs the dense runs: give --densities 1 ...")
    if (args.made or args.more_made) and not args.distil:
        parser.error("made sentences need a teacher, who answers them: give --distil W")
    densities = sorted(args.densities, reverse=True) if args.distil or args.from_dense else args.densities
    if args.distil and not args.teacher and densities[0] < 1:
        densities.insert(0, 1)
    trainings = Trainings(args.build / "ramet", args.threads, args.seconds)
    folder = (args.out or ROOT / "build/sparse-finetune") / args.name
    folder.mkdir(parents=True, exist_ok=True)
    scores = {density: [] for density in densities}
    for seed in range(1, args.seeds + 1):
        for density in densities:
            words = settings(args, density, seed, folder)
            lines = trainings.finish(folder / f"{density:g}-{seed}", [recipe_of(folder, density), *words])
            run = folder / f"{density:g}-{seed}"
            for name, changes in stages(args, folder) if density < 1 else ():
                before, run = run, folder / f"{density:g}-{seed}-{name}"
                lines = lines and static_run(args, density, seed, folder, trainings, before, run, changes)
            if lines is None:
                return NOT_DONE
            end = next(filter(trainings.is_end, lines))
            scores[density].append(end["held_out_accuracy"])
            print(json.dumps({"density": density, "seed": seed, "accuracy": round(scores[density][-1], 2), "steps": end["steps"]}), flush=True)
    for density, of_seeds in scores.items():
        deviation = {"deviation": round(statistics.stdev(of_seeds), 2)} if len(of_seeds) > 1 else {}
        print(json.dumps({"density": density, "mean": round(statistics.mean(of_seeds), 2), **deviation}))
    lines = {"mean": sorted((density, statistics.mean(of_seeds)) for density, of_seeds in scores.items())}
    lines |= {f"seed {seed + 1}": sorted((density, of_seeds[seed]) for density, of_seeds in scores.items()) for seed in range(args.seeds) if args.seeds > 1}
    (folder / "accuracy.svg").write_text(chart(lines, "density", "accuracy on dev, %", log_x=True))
    print(json.dumps({"picture": str(folder / "accuracy.svg")}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
