#!/usr/bin/env python3
"""One graph over many devices: every number of devices and every deal must end with the weights of one device.

usage: .venv/bin/python scripts/graph_cuts.py [--build DIR] [--data DIR] [--only TEXT] [--keep]

Cuts Cora and DBLP (from DIR/planetoid; RAMET_DATA without --data) and a drawn graph of a million edges into 8 clusters,
by METIS, at random and in runs of nodes. Trains GCN, GraphSAGE and GAT for a few steps on one device, then on 2, 4 and 8
devices with the clusters dealt in order, by the rows that they exchange, and at random, on threads and, where there is
mpirun, on MPI ranks. Compares hashes of the weights, all losses, and each device's arena with the plan. Prints a table
in Markdown. Exit status 1 when something differs.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLUSTERS = 8
STEPS = 3
SETS = ("cora", "dblp", "million")
KINDS = ("metis", "random", "contiguous")
MODELS = {
    "gcn": ["model.kind=gcn", "model.graph.hidden=16"],
    "sage": ["model.kind=sage", "model.graph.hidden=16"],
    "gat": ["model.kind=gat", "model.graph.hidden=8", "model.graph.heads=8", "model.graph.attention_dropout=0.6"],
}
LAYOUTS = [(f"g={g} deal={deal}", 0) for g in (2, 4, 8) for deal in ("order", "near", "random:1")]
RANKS = [("g=2 deal=near", 2), ("g=4 deal=random:1", 4), ("g=8 deal=near", 4)]


def draw_million(path):
    """50,000 nodes on a ring: an edge goes to a node within 200 places or, one in ten, to any."""
    random = np.random.default_rng(25)
    nodes, pairs = 50_000, 500_000
    source = random.integers(0, nodes, pairs)
    near = (source + random.integers(-200, 201, pairs)) % nodes
    target = np.where(random.random(pairs) < 0.1, random.integers(0, nodes, pairs), near)
    labels = (np.arange(nodes) * 5 // nodes).astype(np.int64)
    features = random.standard_normal((nodes, 32)).astype(np.float32)
    features[np.arange(nodes), labels] += 1
    edge_index = np.stack([np.concatenate([source, target]), np.concatenate([target, source])])
    np.savez(path, edge_index=edge_index.astype(np.int64), x=features, labels=labels)


class Cuts:
    def __init__(self, options):
        self.options = options
        self.program = pathlib.Path(options.build).resolve() / "ramet"
        self.work = pathlib.Path(options.build).resolve() / "graph-cuts"
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)

    def prepare(self, name, kind):
        planetoid = pathlib.Path(self.options.data) / "planetoid"
        source = {"cora": ["planetoid", str(planetoid), "--name", "cora"], "dblp": ["npz", str(planetoid / "dblp.npz")],
                  "million": ["npz", str(self.work / "million.npz")]}[name]
        if name == "million" and not (self.work / "million.npz").exists():
            draw_million(self.work / "million.npz")
        out = self.work / f"{name}-{kind}.safetensors"
        changes = f"self-loops,gcn,{kind}={CLUSTERS}"
        subprocess.run([str(self.program), "graphs", "prepare", *source, "--out", str(out), "--apply", changes], check=True,
                       capture_output=True, text=True)
        return out

    def run(self, name, graph, model, layout, ranks):
        """The end of a training as an object, and its losses; or an error's text."""
        folder = self.work / "run"
        shutil.rmtree(folder, ignore_errors=True)
        settings = [*MODELS[model], f"data.graphs.set={graph}", "data.graphs.features=node.x", "data.graphs.batch=cut",
                    f"train.steps={STEPS}", f"train.micro_batch={CLUSTERS}", "train.checkpoint.every=0"]
        if name != "cora":
            settings += ["data.graphs.split=", "train.evaluation.batches=0"]
        if name != "cora":
            settings += ["train.evaluation.every=0"]
        command = [str(self.program), "train", str(ROOT / "examples" / "gcn-cora.toml"), "--run", str(folder), "--json"]
        for setting in settings:
            command += ["--set", setting]
        if layout:
            command += ["--layout", layout]
        if ranks:
            command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks),
                       *(["--allow-run-as-root"] if os.geteuid() == 0 else []), *command]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1800)
        objects = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode != 0 or not objects:
            return None, [], f"exit status {done.returncode}: {done.stderr.strip()[-600:]}"
        losses = [each["loss"] for each in objects if each.get("event") == "step"]
        losses += [each.get("held_out_loss") for each in objects if each.get("event") == "evaluation"]
        return objects[-1], losses, ""

    def check(self, expected, losses, found, found_losses):
        if found["weights_hash"] != expected["weights_hash"]:
            return "other weights"
        if found_losses != losses:
            return f"other losses: {found_losses}, on one device {losses}"
        for device in found["devices"]:
            if device["planned_bytes"] != device["arena_bytes"]:
                return f"device {device['device']}: planned {device['planned_bytes']}, arena of {device['arena_bytes']}"
        return ""

    def row(self, name, kind, model, graph):
        """A line of the table, and what is wrong."""
        expected, losses, error = self.run(name, graph, model, "", 0)
        if error:
            return f"| {name} | {kind} | {model} | {error} | | |", [error]
        wrong, sizes = [], {}
        layouts = LAYOUTS + (RANKS if shutil.which("mpirun") else [])
        for layout, ranks in layouts:
            found, found_losses, problem = self.run(name, graph, model, layout, ranks)
            problem = problem or self.check(expected, losses, found, found_losses)
            if problem:
                wrong.append(f"{name} {kind} {model} {layout} ({ranks or 'no'} ranks): {problem}")
            elif layout.endswith("near") and not ranks:
                sizes[layout.split()[0]] = max(device["arena_bytes"] for device in found["devices"]) / 2**20
        same = f"{len(layouts) - len(wrong)} of {len(layouts)}"
        memory = ", ".join(f"{size:.0f}" for size in [expected["devices"][0]["arena_bytes"] / 2**20, *sizes.values()])
        return f"| {name} | {kind} | {model} | `{expected['weights_hash'][:16]}` | {same} | {memory} |", wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=str(ROOT / "build"), help="folder with the program")
    parser.add_argument("--data", default=os.environ.get("RAMET_DATA", ""), help="folder with planetoid/")
    parser.add_argument("--only", default="", help="rows that contain this text, as 'dblp metis gat'")
    parser.add_argument("--keep", action="store_true", help="keep the graph sets")
    options = parser.parse_args()
    cuts, wrong, begin = Cuts(options), [], time.time()
    print("| graph | clusters | model | hash of the weights, one device | layouts with equal hash, losses and planned bytes | "
          "MiB a device: 1, 2, 4, 8 |\n| --- | --- | --- | --- | --- | --- |", flush=True)
    for name in SETS:
        if name != "million" and not (pathlib.Path(options.data) / "planetoid").exists():
            print(f"graph_cuts: no data for {name}", file=sys.stderr)
            continue
        for kind in KINDS:
            models = [model for model in MODELS if options.only in f"{name} {kind} {model}"]
            graph = cuts.prepare(name, kind) if models else None
            for model in models:
                line, problems = cuts.row(name, kind, model, graph)
                print(line, flush=True)
                wrong += problems
            if graph and not options.keep:
                graph.unlink()
    for problem in wrong:
        print("    " + problem)
    if not options.keep:
        shutil.rmtree(cuts.work, ignore_errors=True)
    print(f"in {time.time() - begin:.0f} s: {'all equal' if not wrong else str(len(wrong)) + ' runs differ'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
