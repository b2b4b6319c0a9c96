"""Training speed and memory of networks on graphs beside PyTorch Geometric's best configuration, in one run.

    python bench/graphs.py --data FOLDER --prepare          # makes the graph sets in build/bench-graphs
    python bench/graphs.py --data FOLDER --warm             # compiles what PyTorch's compiled sides need
    python bench/graphs.py --data FOLDER --only gcn-cora --only schnet-exact

Each round runs Ramet and every configuration of PyTorch Geometric once, each as a process of its own that prints the
median of its steps; a ratio is that of medians over rounds, beside the fastest of the peer's. The peer's batches are put
together before its first step, with weights of edges, distances and self loops in the data, so that its figure is of
computation alone; Ramet's loader makes each batch while the step before it runs, and is part of Ramet's figure. The
peer's threads are bound. sage-sampled is beside DGL, sampling included: it needs --dgl (bench/peers/dgl_sage.py). nbfnet-v1
is beside its authors' code: it needs --nbfnet (bench/peers/nbfnet_pyg.py). FOLDER holds the folders planetoid, tudatasets, kg and qm9. Needs the peers (scripts/setup.sh
--peers) and torch_geometric.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from peers.sides import ROOT, first_processors, objects, run

WORK = ROOT / "build" / "bench-graphs"

# Of each set: the reader's words, and the changes.
SETS = {
    "cora": (["planetoid", "planetoid", "--name", "cora"], "normalise=x,self-loops,gcn"),
    "dblp": (["npz", "planetoid/dblp.npz"], "no-loops,self-loops,gcn"),
    "nci1": (["tu", "tudatasets/NCI1"], ""),
    "fb237_v1": (["triples", "kg/grail/fb237_v1"], ""),
    "qm9": (["qm9", "qm9"], "sample=20000:1,radius=10"),
    "qm9-near": (["qm9", "qm9"], "sample=20000:1,radius=1.8,returns=16"),
}


class Case:
    """A network, its set, Ramet's recipe with settings, and the peer's arguments."""

    def __init__(self, graphs, recipe, settings, peer, runners):
        self.set, self.recipe, self.settings, self.peer, self.runners = WORK / f"{graphs}.safetensors", recipe, settings, peer, runners


FULL_GRAPH = {"eager": [], "eager sparse": ["--lists", "sparse"], "compiled": ["--compile"]}
BATCHES = {"eager": [], "compiled": ["--compile"]}
GCN = {"train.schedule.learning_rate": 1e-3}
GAT = GCN | {"model.kind": "gat", "model.graph.hidden": 8, "model.graph.heads": 8, "model.graph.dropout": 0.6,
             "model.graph.attention_dropout": 0.6}
GAT_PEER = ["--kind", "gat", "--hidden", 8, "--heads", 8, "--dropout", 0.6, "--attention-dropout", 0.6]
SPLITLESS = {"data.graphs.split": "", "train.evaluation.batches": 0}
GIN = SPLITLESS | {"data.graphs.batch": "count:128"}
GIN_PEER = ["--kind", "gin", "--layers", 4]
SAGE = GCN | SPLITLESS | {"model.kind": "sage", "model.graph.hidden": 64, "data.graphs.batch": "neighbors:512:10,10"}
SCHNET = {"data.graphs.split": "", "train.evaluation.batches": 0, "train.schedule.warmup_steps": 0}
SCHNET_PEER = ["--kind", "schnet", "--layers", 6, "--hidden", 128, "--batch", 128]
GPS = {"data.graphs.split": "", "train.evaluation.batches": 0, "train.schedule.warmup_steps": 0, "model.graph.drop_path": 0,
       "model.graph.node_noise": 0, "model.graph.input_masks": "", "data.graphs.hops": 0, "data.graphs.distances": "",
       "data.graphs.positions": "node.returns", "data.graphs.batch": "count:128", "train.optimizer.kind": "adam",
       "train.optimizer.weight_decay": 0, "train.clip_norm": 0}
GPS_PEER = ["--kind", "gps", "--layers", 4, "--hidden", 64, "--heads", 4, "--dropout", 0.1, "--attention-dropout", 0.1, "--batch", 128]
CASES = {
    "gcn-cora": Case("cora", "gcn-cora", GCN, ["--kind", "gcn", "--dropout", 0.5], FULL_GRAPH),
    "gcn-dblp": Case("dblp", "gcn-cora", GCN | SPLITLESS, ["--kind", "gcn", "--dropout", 0.5], FULL_GRAPH),
    "gat-cora": Case("cora", "gcn-cora", GAT, GAT_PEER, BATCHES),
    "gat-dblp": Case("dblp", "gcn-cora", GAT | SPLITLESS, GAT_PEER, BATCHES),
    "gin-nci1": Case("nci1", "gin-nci1", GIN | {"model.graph.hidden": 64}, [*GIN_PEER, "--hidden", 64, "--batch", 128],
                     BATCHES),
    "gin-nci1-narrow": Case("nci1", "gin-nci1", GIN, [*GIN_PEER, "--hidden", 32, "--batch", 128], BATCHES),
    "gin-nci1-recipe": Case("nci1", "gin-nci1", SPLITLESS, [*GIN_PEER, "--hidden", 32, "--batch", 32], BATCHES),
    "sage-sampled": Case("dblp", "gcn-cora", SAGE, ["--seeds", 512, "--fanout", "10,10", "--hidden", 64], {"dgl": []}),
    "nbfnet-v1": Case("fb237_v1", "nbfnet-fb15k237-v1", {"data.triples.split": "edge.split"}, [], {"authors' messages": [],
                      "authors' kernel": ["--rspmm"]}),
    "gps-qm9": Case("qm9-near", "gps-plus-qm9", GPS, GPS_PEER, BATCHES),
    "schnet-exact": Case("qm9", "schnet-qm9", SCHNET | {"model.graph.filter_points": 0}, SCHNET_PEER, BATCHES),
    "schnet-table": Case("qm9", "schnet-qm9", SCHNET | {"model.graph.filter_points": 1024}, SCHNET_PEER, BATCHES),
}


def ramet_command(case, steps, threads):
    key = "data.triples.set" if case.recipe.startswith("nbfnet") else "data.graphs.set"
    settings = {"train.epochs": None, key: case.set, "train.evaluation.every": 0, "train.schedule.kind": "constant",
                "system.every": 0, **case.settings}
    words = [f"--set={key}={value}" for key, value in settings.items() if value is not None]
    return ["build/ramet", "train", f"examples/{case.recipe}.toml", *words, "--steps", steps, "--threads", threads, "--run-dir",
            WORK / "runs", "--json"]


def measure_ramet(case, args, processors):
    """The median step behind the first ones, and the peak memory of the process."""
    told = objects(ramet_command(case, args.steps + 5, args.threads), processors)
    seconds = [line["step_seconds"] for line in told if line.get("event") == "step"][5:]
    end = told[-1]
    return {"step_seconds": statistics.median(seconds), "peak_bytes": end["measured_peak_bytes"]}


def peer_command(case, runner, args):
    if runner == "dgl":
        return [args.dgl, "bench/peers/dgl_sage.py", "--set", case.set, *case.peer, "--steps", args.steps, "--threads", args.threads]
    if runner.startswith("authors'"):
        return [sys.executable, "bench/peers/nbfnet_pyg.py", "--code", args.nbfnet, "--set", case.set, *case.runners[runner], "--steps",
                args.steps, "--threads", args.threads]
    return [sys.executable, "bench/peers/torch_graph_train.py", "--set", case.set, *case.peer, *case.runners[runner], "--steps",
            args.steps, "--threads", args.threads]


def measure(name, args, processors):
    case = CASES[name]
    results = {}
    for _ in range(args.rounds):
        for runner in ["ramet", *(runner for runner in case.runners if runner not in args.without)]:
            found = measure_ramet(case, args, processors) if runner == "ramet" else run(peer_command(case, runner, args), processors)
            results.setdefault(runner, []).append(found)
            print(f"  {name} {runner}: {1e3 * found['step_seconds']:.2f} ms a step, {found['peak_bytes'] / 2**20:.0f} MiB, "
                  f"load {os.getloadavg()[0]:.2f}", flush=True)
    keys = ("step_seconds", "peak_bytes", "imported_bytes")
    return {runner: {key: statistics.median(each[key] for each in found) for key in keys if key in found[0]}
            for runner, found in results.items()}


def compare(name, medians):
    peers = {runner: value for runner, value in medians.items() if runner != "ramet"}
    fastest = min(peers, key=lambda runner: peers[runner]["step_seconds"])
    ours, theirs = medians["ramet"], peers[fastest]
    print(json.dumps({"case": name, "peer": fastest, "speed_ratio": round(theirs["step_seconds"] / ours["step_seconds"], 2),
                      "memory_ratio": round(ours["peak_bytes"] / theirs["peak_bytes"], 3),
                      "memory_ratio_without_imports": round(ours["peak_bytes"] / (theirs["peak_bytes"] - theirs["imported_bytes"]), 3),
                      "step_ms": {runner: round(1e3 * value["step_seconds"], 2) for runner, value in medians.items()},
                      "peak_mib": {runner: round(value["peak_bytes"] / 2**20) for runner, value in medians.items()},
                      "load_average": os.getloadavg()[0]}), flush=True)


def prepare(data, wanted):
    WORK.mkdir(parents=True, exist_ok=True)
    for name, (words, changes) in SETS.items():
        out = WORK / f"{name}.safetensors"
        if out in wanted and not out.exists():
            kind, path, *more = words
            command = [ROOT / "build" / "ramet", "graphs", "prepare", kind, pathlib.Path(data) / path, *more, "--out", out]
            subprocess.run([*command, *(["--apply", changes] if changes else [])], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("RAMET_DATA", ""), help="folder of the data (default: RAMET_DATA)")
    parser.add_argument("--only", choices=list(CASES), action="append")
    parser.add_argument("--without", action="append", default=[], help="leave out a configuration of the peer: compiled, for one")
    parser.add_argument("--dgl", default="", help="python of an environment with DGL, for sage-sampled")
    parser.add_argument("--nbfnet", default="", help="a clone of github.com/KiddoZhu/NBFNet-PyG, for nbfnet-v1")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prepare", action="store_true", help="make the graph sets and measure nothing")
    parser.add_argument("--warm", action="store_true", help="compile for the compiled sides and measure nothing")
    args = parser.parse_args()
    names = args.only or [name for name, case in CASES.items()
                          if (args.dgl or "dgl" not in case.runners) and (args.nbfnet or name != "nbfnet-v1")]
    prepare(args.data, {case.set for name, case in CASES.items() if args.prepare or name in names})
    if args.prepare:
        return 0
    if args.warm:
        args.steps = 1
        for name in names:
            for runner in CASES[name].runners:
                if runner == "compiled":
                    start = time.monotonic()
                    run(peer_command(CASES[name], runner, args), first_processors(args.threads))
                    print(f"  {name} {runner}: {time.monotonic() - start:.0f} s", flush=True)
        return 0
    processors = first_processors(args.threads)
    for name in names:
        compare(name, measure(name, args, processors))
    return 0


if __name__ == "__main__":
    sys.exit(main())
