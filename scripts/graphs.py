#!/usr/bin/env python3
"""Published figures of networks on graphs, again: trains with the protocols of papers, and prints a table.

usage: scripts/graphs.py [--data DIR] [--only TEXT ...] [--seeds N] [--full] [--jobs N] [--work DIR]

Every training that ends adds a line to results.jsonl in the work folder. A later call reads the file and does only what
is missing, so the script may be interrupted at any time. DIR (default: RAMET_DATA) holds the folders planetoid,
tudatasets, kg, qm9, jodie and moleculenet (whose figures need what `make molecules` builds). --seeds N takes N seeds where
a protocol has more; --full adds the runs that take hours. Small networks gain little from a second thread, so that
--jobs N (default: one for each processor) trainings of one thread each run at a time; the bits are the same.
"""
import argparse
import ast
import concurrent.futures
import csv
import fcntl
import json
import math
import os
import pathlib
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tarfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDS = 10


class Failed(Exception):
    """A training that did not come to its end, and why."""


class Figure:
    """One row: a recipe, what it learns from, how many trainings, and what others publish."""

    def __init__(self, name, recipe, graphs, settings, runs, metric, published, each=None, full=False, keys=("data.graphs.set",), peer=False,
                 selected=False):
        self.name, self.recipe, self.sets, self.settings, self.runs = name, recipe, graphs.split(), settings, runs
        self.metric, self.published, self.each, self.full = metric, published, each or {}, full
        self.keys = keys  # of the sets, in their order
        self.selected = selected  # whether the figure is of the step with the lowest loss of validation, not of the last one
        self.peer = peer  # whether `recipe` is a script of bench/peers in place of a recipe, and `settings` its options

    def settings_of(self, run):
        """Settings of one training; those of a fold name the fold."""
        made = dict(self.settings, **{"train.seed": run + 1})
        return made | {key: value.format(fold=run % FOLDS) for key, value in self.each.items()}


def planetoid(name):
    return ["planetoid", "planetoid", "--name", name], "normalise=x,self-loops,gcn"


def molecules(file, column, changes):
    return ["molecules", f"moleculenet/{file}.csv", "--targets", column], changes


TOX21 = "NR-AR,NR-AR-LBD,NR-AhR,NR-Aromatase,NR-ER,NR-ER-LBD,NR-PPAR-gamma,SR-ARE,SR-ATAD5,SR-HSE,SR-MMP,SR-p53"
POSITIONS = "returns=16,laplacian=8,"  # of nodes in their graphs
QM9_SHARE = 20000  # molecules of QM9 beside those of Tox21
QM9_COLUMNS = 16   # without the rotational constants, of which some are not known


SETS = {
    "cora": planetoid("cora"),
    "citeseer": planetoid("citeseer"),
    "nci1": (["tu", "tudatasets/NCI1", "--splits", "tudatasets/splits/NCI1_splits.json"], ""),
    "proteins": (["tu", "tudatasets/PROTEINS", "--splits", "tudatasets/splits/PROTEINS_full_splits.json"], ""),
    **{name: (["triples", f"kg/grail/{name}"], "") for name in ("fb237_v1", "fb237_v1_ind", "fb237_v2", "fb237_v2_ind")},
    "fb15k237": (["triples", "kg/FB15k-237.tar.gz"], ""),
    "wn18rr": (["triples", "kg/WN18RR.tar.gz"], ""),
    "collegemsg": (["events", "jodie/CollegeMsg.txt"], "split-by-time=70:15:15"),
    "qm9-small": (["qm9", "qm9"], "sample=24000:1,radius=10,split=20000:2000:2000:1"),
    "qm9": (["qm9", "qm9"], "radius=10,split=110000:10000:10831:1"),
} | {f"{name}-{seed}": molecules(file, column, "split=" + split.format(seed=seed)) for seed in range(3) for name, file, column, split in (
    ("esol", "ESOL_delaney-processed", "measured log solubility in mols per litre", "902:113:113:{seed}"),
    ("freesolv", "FreeSolv_SAMPL", "expt", "514:64:64:{seed}"),
    ("lipophilicity", "Lipophilicity", "exp", "3360:420:420:{seed}"))
} | {
    **{f"esol-gps-{seed}": molecules("ESOL_delaney-processed", "measured log solubility in mols per litre", POSITIONS + f"split=902:113:113:{seed}")
       for seed in range(3)},
    "tox21-scaffold": molecules("tox21", TOX21, POSITIONS + "split-by=scaffold:80:10:10"),
    "bbbp-scaffold": molecules("BBBP", "p_np", POSITIONS + "split-by=scaffold:80:10:10"),
    **{f"tox21-{seed}": molecules("tox21", TOX21, f"rename=graph.y:tox21,split=6240:780:780:{seed}") for seed in range(3)},
    **{f"tox21-alone-{seed}": molecules("tox21", TOX21, f"{POSITIONS}rename=graph.y:tox21,split=6240:780:780:{seed}") for seed in range(3)},
    **{f"tox21-qm9-{seed}": (["joined", f"tox21-{seed}", "qm9-smiles"], POSITIONS.rstrip(",")) for seed in range(3)},
    "qm9-smiles": (["qm9-smiles", "qm9", "--targets", ",".join(f"y{k}" for k in range(QM9_COLUMNS))],
                   f"rename=graph.y:qm9,split={QM9_SHARE - 100}:0:0:0"),
    "qm9-near": (["qm9", "qm9"], "sample=24000:1,radius=1.8," + POSITIONS + "split=20000:2000:2000:1"),
}
NODES = {"train.evaluation.every": 1, "train.checkpoint.every": 1000000}
GAT = NODES | {"model.kind": "gat", "model.graph.hidden": 8, "model.graph.heads": 8, "model.graph.dropout": 0.6,
               "model.graph.attention_dropout": 0.6, "train.schedule.learning_rate": 0.005, "train.steps": 300, "train.evaluation.every": 5}
SAGE = NODES | {"model.kind": "sage"}
GIN = {"train.evaluation.every": 1000000, "train.evaluation.batches": 100, "train.epochs": 100}
FOLD = {"data.graphs.split": "graph.split_{fold}"}
SMALL = {"model.graph.layers": 3, "model.graph.hidden": 64, "model.graph.gaussians": 25, "data.graphs.batch": "count:32",
         "train.epochs": 30, "train.evaluation.every": 1000000, "train.evaluation.batches": 100,
         "train.schedule.warmup_steps": 500, "data.graphs.held_out": "test"}
ENERGY = {"data.graphs.columns": 12}
# The weights of the last step, on the graph whose entities training has not seen.
PATHS = {"data.triples.held_out": "test", "train.evaluation.every": 1000000, "train.checkpoint.every": 1000000}
RANKS = PATHS | {"data.triples.ranked": 0}
LAST = {"train.evaluation.every": 1000000, "train.evaluation.batches": 100}
YES_OR_NO = LAST | {"model.graph.loss": "binary", "model.graph.readout": "mean", "train.epochs": 40}
ALONE = {"data.graphs.tasks": "tox21 graph.tox21 binary 1"}
EVENTS = {"data.events.held_out": "test"}
FIGURES = [
    Figure("GCN, Cora", "gcn-cora", "cora", NODES, 100, "accuracy", "81.5 % +- 0.6 (Fey and Lenssen, arXiv 1903.02428)", selected=True),
    Figure("GCN, Citeseer", "gcn-cora", "citeseer", NODES, 100, "accuracy", "71.1 % +- 0.7 (Fey and Lenssen)", selected=True),
    Figure("GAT, Cora", "gcn-cora", "cora", GAT, 20, "accuracy", "83.0 % +- 0.7 (Velickovic et al., arXiv 1710.10903)", selected=True),
    Figure("GAT, Citeseer", "gcn-cora", "citeseer", GAT, 20, "accuracy", "72.5 % +- 0.7 (Velickovic et al.)", selected=True),
    *(Figure(f"the same in PyTorch Geometric (GATConv), {name}", "torch_nodes", name.lower(), {"kind": "gat"}, 5, "accuracy", "", peer=True)
      for name in ("Cora", "Citeseer")),
    Figure("GraphSAGE, Cora", "gcn-cora", "cora", SAGE, 20, "accuracy", "none of this protocol", selected=True),
    Figure("GraphSAGE, Citeseer", "gcn-cora", "citeseer", SAGE, 20, "accuracy", "none of this protocol", selected=True),
    Figure("GIN, NCI1, ten folds", "gin-nci1", "nci1", GIN, 10, "accuracy", "80.0 % +- 1.4 (Errica et al., ICLR 2020)", FOLD),
    Figure("GIN, PROTEINS, ten folds", "gin-nci1", "proteins", GIN, 10, "accuracy", "73.3 % +- 4.0 (Errica et al.)", FOLD),
    *(Figure(f"GINE, {name}, random splits", "gine-esol", name.lower() + "-{run}", LAST | {"train.epochs": epochs}, 3, "squared",
             f"{published} (MoleculeNet); {chemprop} (chemprop)")
      for name, epochs, published, chemprop in (("ESOL", 100, "0.58 +- 0.03", "0.555 +- 0.047"),
                                                ("FreeSolv", 100, "1.15 +- 0.12", "1.075 +- 0.054"),
                                                ("Lipophilicity", 20, "0.655 +- 0.036", "0.555 +- 0.023"))),
    Figure("the same in PyTorch Geometric (GINEConv), ESOL", "torch_gine", "esol-{run}", {"epochs": 100}, 3, "squared", "", peer=True),
    *(Figure(f"NBFNet, inductive FB15k-237 {split}, {epochs} epochs", "nbfnet-fb15k237-v1", f"fb237_{split} fb237_{split}_ind",
             PATHS | {"train.epochs": epochs}, 3, "hits@10_of_50", published, keys=("data.triples.set", "data.triples.ranked_set"))
      for split, epochs, published in (("v1", 2, "83.4 % after 20 epochs (Zhu et al., arXiv 2106.06935)"),
                                       ("v2", 1, "94.9 % after 20 epochs (Zhu et al.)"))),
    *(Figure(f"{name}, all test triples", recipe, graphs, RANKS, 1, "mrr", published, keys=("data.triples.set",))
      for name, recipe, graphs, published in (
          ("ComplEx, FB15k-237", "complex-fb15k237", "fb15k237", "MRR 0.348 (LibKGE)"),
          ("RotatE, WN18RR", "rotate-wn18rr", "wn18rr", "MRR 0.476 (Sun et al., arXiv 1902.10197); 0.478 (LibKGE)"))),
    Figure("SchNet, QM9 gap, 20,000 molecules", "schnet-qm9", "qm9-small", SMALL, 3, "absolute", "none of this size"),
    Figure("the same in PyTorch Geometric (SchNet), QM9 gap", "torch_schnet", "qm9-small", {"epochs": 30}, 3, "absolute", "", peer=True),
    Figure("SchNet, QM9 U0, 20,000 molecules", "schnet-qm9", "qm9-small", SMALL | ENERGY, 3, "absolute", "none of this size"),
    Figure("the same in PyTorch Geometric (SchNet), QM9 U0", "torch_schnet", "qm9-small", {"epochs": 30, "column": 12}, 3, "absolute", "", peer=True),
    Figure("GPS, ESOL, random splits", "gps-esol", "esol-gps-{run}", LAST | {"train.epochs": 50}, 3, "squared",
           "0.58 +- 0.03 (MoleculeNet); 0.555 +- 0.047 (chemprop)"),
    Figure("the same in PyTorch Geometric (GPSConv), ESOL", "torch_gps", "esol-gps-{run}", {"epochs": 50}, 3, "squared", "", peer=True),
    Figure("GPS, Tox21, scaffolds", "gps-esol", "tox21-scaffold", YES_OR_NO, 3, "roc_auc",
           "74.0 % (GIN, Hu et al., arXiv 1905.12265, without pre-training)"),
    Figure("GPS, BBBP, scaffolds", "gps-esol", "bbbp-scaffold", YES_OR_NO, 3, "roc_auc", "73.7 % (chemprop); 72.9 % (MoleculeNet)"),
    Figure("GPS, Tox21 alone", "gps-tox21-qm9", "tox21-alone-{run}", LAST | ALONE, 3, "tox21_roc_auc", "78.3 % to 78.9 % (Graphium, arXiv 2310.04292)"),
    Figure("GPS, Tox21 with QM9", "gps-tox21-qm9", "tox21-qm9-{run}", LAST, 3, "tox21_roc_auc", "83.6 % to 85.7 % (Graphium, with QM9 and ZINC12k)"),
    Figure("GPS, QM9 gap, 20,000 molecules", "gps-plus-qm9", "qm9-near", LAST | {
        "data.graphs.distances": "", "data.graphs.hops": 0, "model.graph.input_masks": "", "model.graph.node_noise": 0,
        "data.graphs.held_out": "test"}, 1, "absolute", "none of this size"),
    Figure("GPS++, QM9 gap, 20,000 molecules", "gps-plus-qm9", "qm9-near", LAST | {"data.graphs.held_out": "test"}, 1, "absolute",
           "none of this size"),
    Figure("SchNet, QM9 gap, 110,000 molecules, 100 epochs", "schnet-qm9", "qm9",
           {"data.graphs.held_out": "test", "train.evaluation.every": 1000000}, 1, "absolute",
           "63 meV at convergence (Schuett et al. 2018, as DimeNet's table gives it)", full=True),
    Figure("TGN, CollegeMsg, 10 epochs", "tgn-collegemsg", "collegemsg", EVENTS | {"train.epochs": 10}, 3, "test_average_precision",
           "none of this protocol", keys=("data.events.set",)),
    Figure("the same in PyTorch Geometric (TGNMemory), CollegeMsg", "torch_tgn", "collegemsg", {"epochs": 10}, 3, "test_average_precision", "",
           peer=True),
    # EdgeBank learns nothing, so any training's evaluation has its answers to the same events.
    Figure("EdgeBank, CollegeMsg", "tgn-collegemsg", "collegemsg", EVENTS | {"train.epochs": 1}, 3, "test_edgebank_precision",
           "none of this protocol", keys=("data.events.set",)),
]


def numbers_of(path):
    """Of a file of NumPy's with rows of doubles: a function that gives row i."""
    bytes_of = path.read_bytes()
    start = 10 + int.from_bytes(bytes_of[8:10], "little")
    form = ast.literal_eval(bytes_of[10:start].decode())
    if form["descr"] != "<f8" or form["fortran_order"] or len(form["shape"]) != 2:
        raise SystemExit(f"{path}: {form}, and not rows of doubles")
    width = form["shape"][1]
    return lambda i: struct.unpack_from(f"<{width}d", bytes_of, start + 8 * width * i)


def write_qm9(folder, work):
    """A table of molecules drawn from QM9: their SMILES and numbers."""
    lines = (folder / "smiles.txt").read_text().splitlines()
    row = numbers_of(folder / "y.npy")
    path = work / "qm9.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["smiles", *(f"y{k}" for k in range(QM9_COLUMNS))])
        for i in sorted(random.Random(0).sample(range(len(lines)), QM9_SHARE)):
            table.writerow([lines[i], *map(repr, row(i)[:QM9_COLUMNS])])
    return path


def unpacked(archive, folder):
    """The triples of an archive, in a folder of their own."""
    folder.mkdir(exist_ok=True)
    with tarfile.open(archive) as tar:
        for member in tar:
            name = pathlib.PurePosixPath(member.name).name
            if member.isfile() and name in ("train.txt", "valid.txt", "test.txt"):
                (folder / name).write_bytes(tar.extractfile(member).read())
    return folder


def prepare(name, data, work, program):
    """The graph set, made once."""
    (kind, path, *more), changes = SETS[name]
    smiles = kind in ("molecules", "qm9-smiles")
    out = work / name / "molecules.safetensors" if smiles else work / f"{name}.safetensors"
    if kind == "joined" and not out.exists():
        first, second = (prepare(each, data, work, program) for each in (path, *more))
        command = [program, "graphs", "prepare", "set", first, "--out", out, "--apply", f"append={second},{changes}"]
        subprocess.run([*map(str, command)], check=True, stdout=sys.stderr)
    elif kind == "qm9-smiles" and not out.exists():
        table = write_qm9(data / path, work)
        command = [program, "molecules", table, *more, "--out", out.parent, "--apply", changes]
        subprocess.run([*map(str, command)], check=True, stdout=sys.stderr)
    elif not out.exists():
        words = [data / word if word.startswith("tudatasets") else word for word in more]
        source = unpacked(data / path, work / name) if path.endswith(".tar.gz") else data / path
        command = [program, "molecules", source, *words, "--out", out.parent] if kind == "molecules" else \
            [program, "graphs", "prepare", kind, source, *words, "--out", out]
        subprocess.run([*map(str, command), *(["--apply", changes] if changes else [])], check=True, stdout=sys.stderr)
    return out


def call(words, place):
    """Runs a program; gives its status, what it printed and told as an error, and the processor's seconds that it took."""
    with open(place / "out", "w+", encoding="utf-8") as out, open(place / "err", "w+", encoding="utf-8") as err:
        work = subprocess.Popen([str(word) for word in words], stdout=out, stderr=err)
        _, status, used = os.wait4(work.pid, 0)
        work.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        return work.returncode, out.read(), err.read(), used.ru_utime + used.ru_stime


def train_peer(figure, run, graphs, place):
    """The same of a script of bench/peers, or None where its packages are missing."""
    python = ROOT / ".venv" / "bin" / "python"
    words = [word for key, value in figure.settings.items() for word in ("--" + key, value)]
    status, out, err, seconds = call([python if python.exists() else sys.executable, ROOT / "bench" / "peers" / f"{figure.recipe}.py",
                                      "--set", graphs[0], *words, "--seed", run + 1, "--threads", 1], place)
    if status != 0 and "ModuleNotFoundError" in err:
        print(f"{figure.name}: left out: {err.splitlines()[-1]} (scripts/setup.sh --peers)", file=sys.stderr)
        return None
    if status != 0:
        raise Failed(f"{figure.name}: {err[-2000:]}")
    return json.loads(out.splitlines()[-1])[figure.metric], seconds


def train(figure, run, graphs, place, program):
    """Trains; gives the figure and the processor's seconds that all took."""
    if figure.peer:
        return train_peer(figure, run, graphs, place)
    if not figure.selected:
        lines, seconds = evaluations(figure, run, graphs, place, program, {})
        return lines[-1]["held_out_" + figure.metric], seconds
    # Both trainings have the same bits.
    (validation, first), (test, second) = (evaluations(figure, run, graphs, place, program, {"data.graphs.held_out": part})
                                           for part in ("validation", "test"))
    best = min(validation, key=lambda line: (line["held_out_loss"], line["step"]))["step"]
    return next(line for line in test if line["step"] == best)["held_out_" + figure.metric], first + second


def evaluations(figure, run, graphs, place, program, more):
    """All evaluations of one training, and the processor's seconds that it took."""
    folder = place / "run"
    shutil.rmtree(folder, ignore_errors=True)
    settings = {**dict(zip(figure.keys, graphs)), "system.every": 0, **figure.settings_of(run), **more}
    words = [f"--set={key}={value}" for key, value in settings.items()]
    status, out, err, seconds = call([program, "train", ROOT / "examples" / f"{figure.recipe}.toml", *words, "--threads", 1,
                                      "--run", folder, "--json"], place)
    told = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    if status != 0 or not told or told[-1].get("status") != "done":  # an interrupted training ends well, but early
        raise Failed(f"{figure.name}: {err[-2000:]}")
    return [line for line in told if line.get("event") == "evaluation"], seconds


def tell(figures, results, seconds):
    print("| figure | trainings | processor minutes | here | published |\n| --- | ---: | ---: | --- | --- |")
    for figure in figures:
        values = [value for run in range(figure.runs) if (value := results.get((figure.name, run))) is not None]
        if not values:
            continue
        if figure.metric == "squared":
            values = [math.sqrt(value) for value in values]
        spread = statistics.stdev(values) if len(values) > 1 else 0
        mean = statistics.mean(values)
        share = f"{100 * mean:.1f} % +- {100 * spread:.1f}"
        here = {"precision": f"AP {100 * mean:.2f} % +- {100 * spread:.2f}",
                "accuracy": share, "mrr": f"MRR {mean:.4f}", "hits@10_of_50": share, "squared": f"RMSE {mean:.3f} +- {spread:.3f}",
                "absolute": f"{1000 * mean:.1f} meV +- {1000 * spread:.1f}", "roc_auc": "ROC-AUC " + share}[
                    next((end for end in ("roc_auc", "precision") if figure.metric.endswith(end)), figure.metric)]
        minutes = sum(seconds[figure.name, run] for run in range(figure.runs) if (figure.name, run) in seconds) / 60
        print(f"| {figure.name} | {len(values)} | {minutes:.0f} | {here} | {figure.published} |")


class Trainings:
    """The trainings of some figures, several at a time; each that ends adds a line to the file of results."""

    def __init__(self, args, work):
        self.args, self.work, self.log = args, work, work / "results.jsonl"
        lines = [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []
        self.results = {(line["figure"], line["run"]): line["value"] for line in lines}
        self.seconds = {(line["figure"], line["run"]): line["seconds"] for line in lines}
        self.left_out, self.stopped = set(), threading.Event()
        self.preparing, self.telling = threading.Lock(), threading.Lock()

    def one(self, figure, run):
        """One training, unless its result is there or cannot be had."""
        if (figure.name, run) in self.results or figure.name in self.left_out or self.stopped.is_set():
            return
        try:
            with self.preparing:
                graphs = [prepare(each.format(run=run), pathlib.Path(self.args.data), self.work, self.args.program) for each in figure.sets]
        except (OSError, subprocess.CalledProcessError) as error:  # the program has said why
            if not self.stopped.is_set():
                print(f"{figure.name}: left out, a graph set could not be made: {error}", file=sys.stderr)
            self.left_out.add(figure.name)
            return
        place = self.work / threading.current_thread().name  # a folder of this thread's own
        place.mkdir(exist_ok=True)
        trained = train(figure, run, graphs, place, self.args.program)
        if trained is None:
            self.left_out.add(figure.name)
            return
        value, seconds = trained
        with self.telling, open(self.log, "a", encoding="utf-8") as file:
            self.results[figure.name, run], self.seconds[figure.name, run] = value, seconds
            file.write(json.dumps({"figure": figure.name, "run": run, "value": value, "seconds": round(seconds, 1)}) + "\n")
            print(f"{figure.name}, training {run + 1} of {figure.runs}: {value:.4f} ({seconds:.1f} s)", file=sys.stderr, flush=True)

    def all(self, figures):
        """Every training; one that fails or an interruption ends all."""
        with concurrent.futures.ThreadPoolExecutor(self.args.jobs, "job") as pool:
            waiting = [pool.submit(self.one, figure, run) for figure in figures for run in range(min(figure.runs, self.args.seeds))]
            try:
                for each in concurrent.futures.as_completed(waiting):
                    each.result()
            except BaseException:
                self.stopped.set()
                pool.shutdown(cancel_futures=True)
                raise


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("RAMET_DATA", ""))
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="figures whose name holds one of these texts")
    parser.add_argument("--seeds", type=int, default=10**6, help="the most trainings of a figure")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="trainings at a time, of one thread each")
    parser.add_argument("--work", default=str(ROOT / "build" / "graphs"))
    parser.add_argument("--program", default=str(ROOT / "build" / "ramet"))
    args = parser.parse_args()
    if not args.data:
        raise SystemExit("no data: give --data DIR, or set RAMET_DATA")
    work = pathlib.Path(args.work)
    work.mkdir(parents=True, exist_ok=True)
    lock = open(work / "lock", "w", encoding="utf-8")  # held until the end: folders of trainings would meet
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SystemExit(f"another call works in {work}: wait for it, or give another folder with --work") from None
    figures = [figure for figure in FIGURES if any(text in figure.name for text in args.only) and (args.full or not figure.full)]
    trainings = Trainings(args, work)
    try:
        trainings.all(figures)
    except KeyboardInterrupt:
        print("interrupted: a later call continues", file=sys.stderr)
    except Failed as error:
        raise SystemExit(str(error)) from None
    tell(figures, trainings.results, trainings.seconds)


if __name__ == "__main__":
    main()
