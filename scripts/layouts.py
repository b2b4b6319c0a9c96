#!/usr/bin/env python3
"""The hash matrix: every layout must end with the weights of one device, bit for bit.

usage: scripts/layouts.py [--build DIR] [--quick] [--only TEXT] [--model TEXT] [--keep]

Trains narrow networks for images, for graphs, for events in time and of LSTM layers, embeddings of a knowledge graph, and small BERT and GPT-2 models (f32, bf16 and f16, f16 and f8 under unit scaling, also with all states held in 16 bits,
dropout, clipping, every optimizer for large batches, packed rows) for a few steps on one device, then on
every layout of the list, on threads and on MPI ranks, and compares hashes of the weights; the loss of every step must have
equal bits too, and every device's arena the planned size. Exit status 1 at the end if one differs; its first
differing step and tensor are named. --quick takes a few layouts, one model each.
"""
import argparse
import itertools
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

STEPS = 3

# Eight lanes and chunks for powers of two; six for threes and fives.
SIZES = {
    "eight": {"model.layers": 8, "model.hidden": 64, "model.heads": 8, "train.lanes": 8, "train.chunks": 8, "train.accumulation": 16},
    # Five heads, which no shard cuts, and 150 words in 192 rows: a whole eighth of them is padding.
    "odd": {"model.layers": 4, "model.hidden": 80, "model.heads": 5, "model.vocabulary_size": 150, "model.pad_vocabulary": 64, "train.lanes": 4,
            "train.chunks": 8, "train.accumulation": 8},
    "six": {"model.layers": 6, "model.hidden": 48, "model.heads": 6, "train.lanes": 6, "train.chunks": 6, "train.accumulation": 12},
}
MODELS = {
    "bert-f32-adamw": {"model.kind": "bert", "model.preset": "mini", "train.precision": "f32", "train.optimizer.kind": "adamw"},
    "gpt2-bf16-lamb": {"model.kind": "gpt2", "model.preset": "mini", "train.precision": "bf16", "train.optimizer.kind": "lamb"},
    "bert-bf16-lamb": {"model.kind": "bert", "model.preset": "mini", "train.precision": "bf16", "train.optimizer.kind": "lamb"},
    "bert-f16-held-f16": {"model.kind": "bert", "model.preset": "mini", "train.precision": "f16", "train.weights": "f16",
                          "train.accumulators": "f16", "train.optimizer.state": "f16", "train.optimizer.kind": "adamw"},
    "gpt2-bf16-held-bf16": {"model.kind": "gpt2", "model.preset": "mini", "train.precision": "bf16", "train.weights": "bf16",
                            "train.accumulators": "bf16", "train.optimizer.state": "bf16", "train.optimizer.kind": "lamb"},
    "bert-bf16-split": {"model.kind": "bert", "model.preset": "mini", "train.precision": "bf16", "train.weights": "split",
                        "train.optimizer.state": "bf16", "train.optimizer.kind": "lamb"},
    "bert-f16-unit": {"model.kind": "bert", "model.preset": "mini", "train.precision": "f16", "train.scaling": "unit"},
    "gpt2-f8-unit": {"model.kind": "gpt2", "model.preset": "mini", "train.precision": "f8", "train.scaling": "unit", "train.optimizer.kind": "lamb"},
    "gpt2-f32-adamw": {"model.kind": "gpt2", "model.preset": "mini", "train.precision": "f32", "train.optimizer.kind": "adamw"},
    "packed-f32-adamw": {"model.kind": "bert", "model.preset": "mini", "train.precision": "f32", "train.optimizer.kind": "adamw",
                         "data.packing": "lpfhp"},
    "packed-bf16-lamb": {"model.kind": "bert", "model.preset": "mini", "train.precision": "bf16", "train.optimizer.kind": "lamb",
                         "data.packing": "nnlshp", "data.packing_depth": 2},
    # Other optimizers, and loss scales, on the layouts of eight lanes.
    "bert-f32-lars": {"model.kind": "bert", "model.preset": "mini", "train.precision": "f32", "train.optimizer.kind": "lars",
                      "train.schedule.learning_rate": 1.0},
    "gpt2-bf16-adafactor": {"model.kind": "gpt2", "model.preset": "mini", "train.precision": "bf16", "train.optimizer.kind": "adafactor",
                            "train.optimizer.first_moment": True, "train.optimizer.relative_step": True},
    "bert-f16-lion": {"model.kind": "bert", "model.preset": "mini", "train.precision": "f16", "train.optimizer.kind": "lion",
                      "train.loss_scale": "auto"},
    "gpt2-f16-lamb": {"model.kind": "gpt2", "model.preset": "mini", "train.precision": "f16", "train.optimizer.kind": "lamb",
                      "train.optimizer.trust": "decayed", "train.optimizer.weight_norm_cap": 1.0, "train.loss_scale": "auto"},
    # Block-sparse weights in as many cells as the layouts have shards.
    "gpt2-f32-sparse": {"model.kind": "gpt2", "model.preset": "mini", "train.precision": "f32", "train.optimizer.kind": "adamw",
                        "sparse.weights": "transformer.h.*", "sparse.density": 0.2, "sparse.cells": 8},
    "bert-bf16-sparse": {"model.kind": "bert", "model.preset": "mini", "train.precision": "bf16", "train.optimizer.kind": "lamb",
                         "sparse.weights": "bert.encoder.*", "sparse.density": 0.4, "sparse.block": 4, "sparse.distribution": "erk"},
    # The same with patterns that change.
    "gpt2-f32-evolve": {"model.kind": "gpt2", "model.preset": "mini", "train.precision": "f32", "train.optimizer.kind": "adamw",
                        "sparse.weights": "transformer.h.*", "sparse.density": 0.2, "sparse.cells": 8, "sparse.every": 1},
    "bert-bf16-evolve": {"model.kind": "bert", "model.preset": "mini", "train.precision": "bf16", "train.optimizer.kind": "adamw",
                         "train.weights": "split", "sparse.weights": "bert.encoder.*", "sparse.density": 0.4, "sparse.block": 2,
                         "sparse.cells": 8, "sparse.every": 1, "sparse.regrow": "gradient", "sparse.first_density": 0.7,
                         "sparse.ramp_from": 0.0, "sparse.ramp_until": 1.0},
}
ALL_SIZES = 6  # of the models, so many on the other sizes too
# Networks with sizes of their own: batch norms with running statistics, attention, skips over many parts, recurrent layers.
NETWORKS = {
    "resnet-f32-sgd": {"model.kind": "resnet", "model.preset": "18", "model.width": 16, "model.drop_path": 0.1, "data.height": 16,
                       "data.augment.pad": 2, "data.augment.flip": 0.5, "data.augment.mixup": 0.4, "train.precision": "f32",
                       "train.optimizer.kind": "sgd", "train.label_smoothing": 0.1},
    "vit-bf16-adamw": {"model.kind": "vit", "model.preset": "tiny", "model.blocks": "8", "model.width": 64, "model.head_size": 8,
                       "model.drop_path": 0.1, "data.height": 16, "data.augment.cutmix": 1.0, "train.precision": "bf16",
                       "train.optimizer.kind": "adamw"},
    "unet-f32-adamw": {"model.kind": "unet", "model.preset": "mini", "model.width": 16, "data.height": 16, "data.augment.flip": 0.5,
                       "train.precision": "f32", "train.optimizer.kind": "adamw"},
    # Eight layers of recurrent cells; a word embedding and a head that shards cut.
    "lstm-f32-adamw": {"model.kind": "lstm", "model.preset": "mini", "model.layers": 8, "model.hidden": 32, "model.vocabulary_size": 96,
                       "data.sequence_length": 12, "train.precision": "f32", "train.optimizer.kind": "adamw"},
}
# Networks on graphs of eight layers: batch norms over real nodes, attention, sampled neighbours, filters of distances.
GRAPHS = {
    "gin-f32-adamw": {"model.kind": "gin", "data.graphs.batch": "count:6"},
    "gat-f32-adamw": {"model.kind": "gat", "model.graph.heads": 4, "model.graph.attention_dropout": 0.2,
                      "data.graphs.batch": "stream:60"},
    "sage-f32-lamb": {"model.kind": "sage", "data.graphs.batch": "histogram:40:8",
                      "train.optimizer.kind": "lamb"},
    # Attention within graphs, positions, and stochastic depth of graphs.
    "gps-f32-adamw": {"model.kind": "gps", "model.graph.heads": 4, "model.graph.attention_dropout": 0.2, "model.graph.drop_path": 0.1,
                      "data.graphs.edge_features": "edge.distance", "data.graphs.positions": "node.returns,node.laplacian",
                      "data.graphs.batch": "count:6"},
    # Attention that knows distances, noise, and groups of inputs that a graph loses.
    "gps++-f32-adamw": {"model.kind": "gps", "model.graph.heads": 4, "model.graph.attention_dropout": 0.2, "model.graph.drop_path": 0.1,
                        "model.graph.node_noise": 0.1, "model.graph.input_masks": "distances+hops:0.2,node.returns+node.laplacian:0.2",
                        "data.graphs.edge_features": "edge.distance", "data.graphs.positions": "node.returns,node.laplacian",
                        "data.graphs.hops": 3, "data.graphs.distances": "node.pos", "data.graphs.batch": "count:6"},
    "schnet-f32-adamw": {"model.kind": "schnet", "data.graphs.batch": "count:6"},
    "schnet-table-adamw": {"model.kind": "schnet", "data.graphs.batch": "count:6",
                           "model.graph.filter_points": 64},
}
OF_GRAPHS = {"model.graph.layers": 8, "model.graph.hidden": 16, "model.graph.dropout": 0.2, "model.graph.cutoff": 4, "model.graph.gaussians": 9,
             "data.kind": "graphs", "data.graphs.set": "molecules.safetensors", "data.graphs.features": "node.z", "data.graphs.label": "graph.energy",
             "data.graphs.split": "graph.split",
             "train.precision": "f32", "train.optimizer.kind": "adamw", "train.evaluation.batches": 1}
# Embeddings of a knowledge graph: a table that shards cut by entity, with negatives that triples share, and with all entities as answers.
EMBEDDINGS = {
    "rotate-f32-adam": {"model.kind": "rotate", "model.knowledge.width": 12, "model.knowledge.pad": 8, "model.knowledge.margin": 3,
                        "model.knowledge.temperature": 0.5, "data.triples.group": 8, "data.triples.negatives": 24, "train.precision": "f32",
                        "train.optimizer.kind": "adam"},
    "complex-bf16-adagrad": {"model.kind": "complex", "model.knowledge.width": 16, "model.knowledge.pad": 8, "model.knowledge.loss": "all",
                             "model.knowledge.penalty": 0.01, "data.triples.group": 8, "data.triples.reciprocal": True,
                             "train.precision": "bf16", "train.optimizer.kind": "adagrad"},
}
# The table of entities in shards, which layouts deal to devices.
SHARDED = {
    "rotate-shards": {"model.kind": "rotate", "model.knowledge.width": 12, "model.knowledge.shards": 8, "model.knowledge.margin": 3,
                      "model.knowledge.temperature": 0.5, "data.triples.group": 16, "data.triples.negatives": 24, "train.precision": "f32",
                      "train.optimizer.kind": "adam", "train.micro_batch": 8},
}
for settings in (EMBEDDINGS | SHARDED).values():
    settings |= {"data.kind": "triples", "data.triples.set": "triples.safetensors"}
# A memory that is chained from micro-batch to micro-batch: replicas, lanes and larger micro-batches would break the chain.
EVENTS = {
    "tgn-f32-adam": {"model.kind": "tgn", "model.tgn.memory": 16, "model.tgn.time": 8, "model.tgn.embedding": 32, "model.tgn.heads": 8,
                     "data.kind": "events", "data.events.set": "events.safetensors", "data.events.batch": 24, "data.events.recent": 4,
                     "train.precision": "f32", "train.optimizer.kind": "adam", "train.lanes": 1, "train.micro_batch": 1,
                     "train.accumulation": 2, "train.chunks": 8},
}
COMMON = {
    "data.kind": "synthetic",
    "train.steps": STEPS,
    "train.micro_batch": 2,
    "train.clip_norm": 0.5,
    "train.seed": 3,
    "train.schedule.learning_rate": 0.01,
    "train.schedule.warmup_steps": 1,
    "train.evaluation.batches": 3,
}

# (layout, ranks): ranks 0 are threads of one process. STREAM is a folder for streaming files.
EIGHT = [
    # one feature each
    ("threads=2", 0), ("p=2", 0), ("p=4", 0), ("p=8", 0), ("r=2", 0), ("r=4", 0), ("r=8", 0), ("t=2", 0), ("t=4", 0), ("t=8", 0),
    ("t=1x2", 0), ("t=2x2", 0), ("t=4x2", 0), ("t=2 sequence=true", 0), ("t=4 sequence=true", 0), ("phases=2", 0), ("phases=4", 0),
    ("recompute=cheap", 0), ("recompute=layer", 0), ("recompute=all", 0), ("recompute=layer:1,3", 0),
    ("offload=optimizer", 0), ("offload=weights phases=2", 0), ("offload=grads phases=2", 0), ("offload=activations", 0),
    ("offload=optimizer streaming=STREAM", 0),
    ("p=4 schedule=gpipe", 0), ("p=2 schedule=interleaved:2", 0), ("p=4 schedule=interleaved:2", 0), ("p=4 schedule=zero-bubble", 0),
    ("p=2 head=first", 0), ("p=4 layers=1+2+2+3", 0), ("p=2 head=first layers=3+5", 0),
    ("r=2 rts=weights", 0), ("r=2 rts=grads", 0), ("r=2 rts=optimizer", 0), ("r=4 rts=weights,grads,optimizer", 0),
    ("r=4 rts=weights:2,grads:4,optimizer:4", 0),
    # pairs
    ("p=2 r=2", 0), ("p=2 t=2", 0), ("t=2 r=2", 0), ("p=2 phases=2", 0), ("p=2 phases=2 schedule=gpipe", 0), ("r=2 phases=2", 0), ("t=2 phases=2", 0),
    ("p=2 recompute=layer", 0), ("t=2 recompute=layer", 0), ("r=2 rts=weights,optimizer phases=2", 0),
    ("phases=4 offload=weights,optimizer,activations", 0), ("p=2 offload=activations", 0),
    ("r=2 rts=optimizer offload=optimizer", 0), ("p=2 r=2 schedule=zero-bubble rts=optimizer", 0), ("t=2x2 recompute=all", 0),
    ("p=2 phases=2 offload=weights,grads,optimizer,activations streaming=STREAM", 0),
    # everything, on eight and on sixteen devices
    ("p=2 t=2 r=2", 0),
    ("p=2 t=2 r=2 rts=weights,grads,optimizer phases=2 recompute=layer offload=optimizer,activations", 0),
    ("p=2 t=2x2 r=2 rts=weights,grads,optimizer phases=2 recompute=layer offload=weights,grads,optimizer,activations streaming=STREAM", 0),
    ("p=4 t=2 r=2 rts=weights,optimizer schedule=interleaved:2 recompute=cheap", 0),
    ("p=2 t=2x2 r=2 sequence=true rts=optimizer schedule=gpipe", 0),
    ("r=8 p=2 rts=weights:4,grads:8,optimizer:8 recompute=layer", 0),
    # ranks
    ("p=2", 2), ("r=2", 2), ("t=2", 2), ("p=2 t=2", 4), ("p=2 t=2 r=2", 4), ("r=4 rts=weights,grads,optimizer", 4),
    ("p=2 t=2 r=2 rts=weights,grads,optimizer phases=2 recompute=layer offload=optimizer,activations", 8),
    ("p=2 t=2x2 r=2 rts=weights,grads,optimizer phases=2 recompute=layer offload=weights,grads,optimizer,activations streaming=STREAM", 4),
    ("p=4", 2),
]
SIX = [
    ("r=3", 0), ("t=3", 0), ("p=3", 0), ("p=5", 0), ("p=6 schedule=zero-bubble", 0), ("r=6 rts=weights,grads,optimizer", 0),
    ("p=3 phases=2 offload=activations", 0), ("r=3 t=3", 0), ("t=3 sequence=true recompute=layer", 0), ("p=3 r=3", 3),
    ("p=5 r=3 rts=optimizer recompute=cheap", 0),
]
NETWORK_LAYOUTS = [
    ("threads=2", 0), ("p=2", 0), ("p=4", 0), ("p=7", 0), ("r=2", 0), ("r=4", 0), ("r=8", 0), ("t=2", 0), ("t=4", 0), ("t=1x2", 0),
    ("t=2x2", 0), ("phases=2", 0), ("recompute=cheap", 0), ("recompute=layer", 0), ("recompute=all", 0), ("recompute=layer:1,3", 0),
    ("offload=optimizer", 0), ("offload=weights phases=2", 0), ("offload=activations", 0), ("offload=optimizer streaming=STREAM", 0),
    ("p=4 schedule=gpipe", 0), ("p=2 schedule=interleaved:2", 0), ("p=4 schedule=zero-bubble", 0), ("p=2 head=first", 0),
    ("r=2 rts=weights", 0), ("r=4 rts=weights,grads,optimizer", 0), ("p=2 r=2", 0), ("p=2 t=2", 0), ("t=2 r=2", 0),
    ("p=2 phases=2 offload=weights,grads,optimizer,activations", 0), ("p=2 t=2 r=2 rts=optimizer phases=2 recompute=layer offload=optimizer", 0),
    ("p=2 t=2x2 r=2 rts=weights,grads,optimizer recompute=layer", 0), ("r=2", 2), ("p=2 t=2", 4),
]
# One layer: no pipelines.
EMBEDDING_LAYOUTS = [
    ("threads=2", 0), ("r=2", 0), ("r=4", 0), ("r=8", 0), ("t=2", 0), ("t=4", 0), ("t=2x2", 0), ("t=1x2", 0), ("t=4x2", 0), ("t=2 r=2", 0),
    ("t=4 r=2", 0), ("t=2 r=4", 0), ("t=2x2 r=2", 0), ("recompute=cheap", 0), ("recompute=layer", 0), ("recompute=all", 0),
    ("offload=optimizer", 0), ("offload=weights", 0), ("offload=optimizer streaming=STREAM", 0), ("t=2 offload=optimizer", 0),
    ("r=2 rts=weights", 0), ("r=2 rts=grads", 0), ("r=2 rts=optimizer", 0), ("r=4 rts=weights,grads,optimizer", 0), ("r=8 rts=optimizer", 0),
    ("r=4 rts=weights:2,grads:4,optimizer:4", 0), ("t=2 r=2 rts=optimizer", 0), ("t=2 r=2 rts=weights,grads,optimizer recompute=all", 0),
    ("r=2 rts=optimizer offload=optimizer", 0), ("t=4 r=2 rts=optimizer offload=weights,optimizer streaming=STREAM", 0), ("r=2", 2), ("t=2", 2),
    ("t=2 r=2", 4), ("r=4 rts=weights,grads,optimizer", 4),
]
SHARD_LAYOUTS = [
    ("threads=2", 0), ("g=2", 0), ("g=4", 0), ("g=8", 0), ("t=2", 0), ("t=4", 0), ("r=2", 0), ("r=4", 0), ("g=2 r=2", 0), ("g=4 r=2", 0),
    ("g=2 r=4", 0), ("g=2 recompute=all", 0), ("g=2 offload=optimizer", 0), ("g=4 offload=optimizer streaming=STREAM", 0),
    ("g=2 r=2 rts=optimizer", 0), ("g=2 r=2 rts=weights,grads,optimizer", 0), ("g=4 r=2 rts=optimizer offload=optimizer", 0),
    ("g=2", 2), ("g=4", 4), ("g=8", 4), ("g=2 r=2", 4), ("g=4", 2),
]
# One layer: no pipelines.
CHAIN_LAYOUTS = [
    ("threads=2", 0), ("t=2", 0), ("t=4", 0), ("t=8", 0), ("t=1x2", 0), ("t=2x2", 0), ("t=4x2", 0), ("phases=1", 0),
    ("recompute=cheap", 0), ("recompute=layer", 0), ("recompute=all", 0), ("offload=optimizer", 0), ("offload=weights", 0),
    ("offload=grads", 0), ("offload=activations", 0), ("offload=optimizer streaming=STREAM", 0),
    ("offload=weights,grads,optimizer,activations streaming=STREAM", 0), ("t=2 phases=1", 0), ("t=2 recompute=layer", 0),
    ("t=4 recompute=all", 0), ("t=2 offload=optimizer", 0), ("t=4 offload=weights,optimizer streaming=STREAM", 0),
    ("t=2x2 recompute=all offload=weights,grads,optimizer", 0), ("t=2", 2), ("t=4", 2), ("t=4", 4), ("t=2x2", 4),
    ("t=2 recompute=layer offload=optimizer", 2),
]
ODD = [
    ("t=2", 0), ("t=4", 0), ("t=8", 0), ("t=4x2", 0), ("t=4 sequence=true", 0), ("p=2 t=2 r=2", 4),
    ("t=4 phases=4 recompute=layer offload=weights,grads,optimizer,activations streaming=STREAM", 0),
    ("t=2 r=2 rts=weights,grads,optimizer phases=2 recompute=layer offload=weights,grads,optimizer,activations streaming=STREAM", 0),
]
QUICK = [
    ("p=2", 0), ("r=2 rts=weights,grads,optimizer", 0), ("t=2", 0), ("phases=2 offload=weights,optimizer,activations", 0),
    ("p=2 t=2 r=2 rts=optimizer phases=2 recompute=layer offload=optimizer streaming=STREAM", 0), ("p=2 t=2", 2),
]


def molecules_text(count):
    """An SDF file of random molecules, each with an energy."""
    draw, text = random.Random(7), []
    for _ in range(count):
        atoms = [(draw.choice("HCNO"), *(4 * draw.random() for _ in range(3))) for _ in range(draw.randint(2, 12))]
        text += ["molecule", "", "", f"{len(atoms):3d}  0"]
        text += [f"{x:10.4f}{y:10.4f}{z:10.4f} {symbol}" for symbol, x, y, z in atoms]
        text += ["M  END", "> <energy>", f"{sum(map(ord, (atom[0] for atom in atoms))) / 50:.3f}", "", "$$$$"]
    return "\n".join(text) + "\n"


class Matrix:
    def __init__(self, options):
        self.options = options
        self.program = pathlib.Path(options.build).resolve() / "ramet"
        self.work = pathlib.Path(options.build).resolve() / "layouts"
        self.stream = self.work / "streaming"
        self.references = {}

    def make_triples(self):
        """A graph set of 60 entities, 3 relations and 240 triples; some are held out."""
        folder = self.work / "triples"
        folder.mkdir(exist_ok=True)
        lines = [f"e{number % 60}\tr{number % 3}\te{number * number % 59}\n" for number in range(240)]
        (folder / "train.txt").write_text("".join(lines[20:]))
        (folder / "valid.txt").write_text("".join(lines[:20]))
        subprocess.run([str(self.program), "graphs", "prepare", "triples", str(folder), "--out", str(self.work / "triples.safetensors")],
                       check=True, stdout=subprocess.DEVNULL)

    def make_events(self):
        """A graph set of 400 events among 40 nodes; some are held out."""
        draw = random.Random(5)
        lines = [f"{draw.randrange(40)} {draw.randrange(40)} {number // 3} {draw.random():.3f}\n" for number in range(400)]
        (self.work / "events.txt").write_text("".join(lines))
        subprocess.run([str(self.program), "graphs", "prepare", "events", "events.txt", "--out", "events.safetensors", "--apply",
                        "split-by-time=70:15:15"], cwd=self.work, check=True, stdout=subprocess.DEVNULL)

    def recipe(self, model, size):
        """The file of a recipe."""
        path = self.work / f"{model}-{size}.toml"
        if path.exists():
            return path
        settings = {**COMMON, **(OF_GRAPHS if model in GRAPHS else {}), **(MODELS | NETWORKS | GRAPHS | EMBEDDINGS | SHARDED | EVENTS)[model]}
        if model in GRAPHS:
            self.prepare_molecules()
        if model in EMBEDDINGS | SHARDED:
            self.make_triples()
        if model in EVENTS:
            self.make_events()
        elif size == "own":
            settings |= {"train.lanes": 8, "train.chunks": 4, "train.accumulation": 8}
        else:
            settings |= {"data.sequence_length": 24, **SIZES[size]}
        sections = {}
        for key, value in settings.items():
            section, name = key.rsplit(".", 1)
            sections.setdefault(section, []).append(f"{name} = {json.dumps(value)}")
        if size != "own":
            if "model.vocabulary_size" not in settings:
                sections["model"].append(f"vocabulary_size = {24 * settings['train.chunks']}")
            sections["model"].append("max_positions = 24")
        path.write_text("".join(f"[{section}]\n" + "\n".join(lines) + "\n" for section, lines in sections.items()))
        return path

    def prepare_molecules(self):
        graphs = self.work / "molecules.safetensors"
        if not graphs.exists():
            (self.work / "molecules.sdf").write_text(molecules_text(400))
            subprocess.run([str(self.program), "graphs", "prepare", "sdf", "molecules.sdf", "--out", graphs.name,
                            "--apply", "radius=4,split=300:60:40:1,returns=4,laplacian=3"], cwd=self.work, check=True, stdout=subprocess.DEVNULL)

    def run(self, model, size, layout, ranks, each_step=False):
        """One training: its end as an object, the losses, the folder; or an error's text."""
        folder = self.work / "run"
        shutil.rmtree(folder, ignore_errors=True)
        command = [str(self.program), "train", str(self.recipe(model, size)), "--run", str(folder), "--json"]
        if layout:
            command += ["--layout", layout.replace("STREAM", str(self.stream))]
        command += ["--set", f"train.checkpoint.every={1 if each_step else STEPS}", "--set", f"train.checkpoint.keep={STEPS}"]
        if ranks:
            command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *(["--allow-run-as-root"] if os.geteuid() == 0 else []), *command]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
        except subprocess.TimeoutExpired:
            return None, [], "no end after 600 s"
        objects = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        losses = [each["loss"] for each in objects if each.get("event") == "step"]
        losses += [each.get("held_out_loss") for each in objects if each.get("event") == "evaluation"]
        if done.returncode != 0 or not objects:
            return None, losses, f"exit status {done.returncode}: {done.stderr.strip()[-600:]}"
        return objects, losses, ""

    def tensors(self, step):
        manifest = json.loads((self.work / "run" / "checkpoints" / f"step-{step:08d}" / "manifest.json").read_text())
        return {each["name"]: each["xxh3"] for each in manifest["tensors"]}

    def reference(self, model, size):
        if (model, size) not in self.references:
            objects, losses, error = self.run(model, size, "", 0, each_step=True)
            if error:
                sys.exit(f"layouts: one device: {model} {size}: {error}")
            steps = [self.tensors(step) for step in range(1, STEPS + 1)]
            self.references[model, size] = (objects[-1]["weights_hash"], losses, steps)
        return self.references[model, size]

    def first_difference(self, model, size, layout, ranks):
        steps = self.reference(model, size)[2]
        _, _, error = self.run(model, size, layout, ranks, each_step=True)
        if error:
            return error
        for step, expected in enumerate(steps, 1):
            found = self.tensors(step)
            # Weights come first in the manifest, so that a name that people know is told.
            for name, value in expected.items():
                if found.get(name) != value:
                    others = sum(found.get(each) != expected[each] for each in expected) - 1
                    return f"first at step {step}, tensor '{name}'" + (f" and {others} more" if others else "")
        return "not when every step is saved: the run is not deterministic"

    def check(self, model, size, layout, ranks):
        """Empty, or what is wrong."""
        expected, losses, _ = self.reference(model, size)
        objects, found_losses, error = self.run(model, size, layout, ranks)
        if error:
            return error
        end = objects[-1]
        if end["weights_hash"] != expected:
            return "other weights: " + self.first_difference(model, size, layout, ranks)
        if found_losses != losses:
            return f"other losses: {found_losses}, on one device {losses}"
        for device in end["devices"]:
            if device["planned_bytes"] != device["arena_bytes"]:
                return f"device {device['device']}: planned {device['planned_bytes']} bytes, arena of {device['arena_bytes']}"
        return ""

    def all_cases(self):
        if self.options.quick:
            models, networks = itertools.cycle(MODELS), itertools.cycle([*NETWORKS, *GRAPHS])
            return [(next(models), "eight", *each) for each in QUICK] + [(next(networks), "own", *each) for each in QUICK]
        return [(model, "own", *each) for model in (*NETWORKS, *GRAPHS) for each in NETWORK_LAYOUTS] + [
            (model, "own", *each) for model in EMBEDDINGS for each in EMBEDDING_LAYOUTS] + [
            (model, "own", *each) for model in SHARDED for each in SHARD_LAYOUTS] + [
            (model, "own", *each) for model in EVENTS for each in CHAIN_LAYOUTS] + [(model, size, *each) for size, layouts in (("eight", EIGHT), ("odd", ODD), ("six", SIX))
                for model in (MODELS if size == "eight" else list(MODELS)[:ALL_SIZES]) for each in layouts]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=str(ROOT / "build"), help="folder with the program")
    parser.add_argument("--quick", action="store_true", help="a few layouts")
    parser.add_argument("--only", default="", help="layouts that contain this text")
    parser.add_argument("--model", default="", help="models whose name contains this text")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="only every N-th case, from the I-th on")
    parser.add_argument("--keep", action="store_true", help="keep the folder of the last run")
    options = parser.parse_args()
    matrix = Matrix(options)
    shutil.rmtree(matrix.work, ignore_errors=True)
    matrix.stream.mkdir(parents=True)
    every = matrix.all_cases()
    cases = [case for case in every if options.only in case[2] and options.model in case[0]]
    part, parts = map(int, options.part.split("/"))
    cases = cases[part - 1::parts]
    if not cases:
        models = ", ".join(sorted({case[0] for case in every}))
        sys.exit(f"layouts: no case of a model like '{options.model}' with a layout like '{options.only}' in part {options.part}"
                 f"{' of those that --quick takes' if options.quick else ''}; models: {models}")
    if not shutil.which("mpirun"):
        print("layouts: no mpirun: without the cases of MPI ranks")
        cases = [case for case in cases if not case[3]]
    begin, wrong = time.time(), []
    for index, (model, size, layout, ranks) in enumerate(cases, 1):
        start = time.time()
        problem = matrix.check(model, size, layout, ranks)
        place = f"{ranks} ranks" if ranks else "threads"
        print(f"[{index}/{len(cases)}] {model:15} {layout or 'p=1'} ({place}) {'DIFFERS' if problem else 'same bits'} {time.time() - start:.1f}s", flush=True)
        if problem:
            wrong.append((model, layout, place, problem))
            print("    " + problem.replace("\n", "\n    "), flush=True)
    if not options.keep:
        shutil.rmtree(matrix.work, ignore_errors=True)
    layouts = len({(layout, ranks) for _, _, layout, ranks in cases})
    print(f"{len(cases) - len(wrong)} of {len(cases)} runs of {layouts} layouts end with the bits of one device, in {time.time() - begin:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
