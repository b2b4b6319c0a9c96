"""How PyTorch's side learns a number of each molecule of a graph set, for the scripts that print how far it is off."""

import argparse
import json
import math
import time

import torch
from safetensors import safe_open
from torch.nn import functional

from torch_graph_train import TEST, TRAIN

NODES = ("element", "chirality", "degree", "charge", "hydrogens", "radicals", "hybridization", "aromatic", "ring")
EDGES = ("kind", "stereo", "conjugated")


def parser_of(about, *, epochs, layers, hidden, rate, warmup):
    """The options that all such scripts have, with these defaults."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", required=True, help="graph set of molecules that `ramet` wrote")
    parser.add_argument("--epochs", type=int, default=epochs)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--layers", type=int, default=layers)
    parser.add_argument("--hidden", type=int, default=hidden)
    parser.add_argument("--rate", type=float, default=rate)
    parser.add_argument("--warmup", type=int, default=warmup)
    parser.add_argument("--threads", type=int, default=1)
    return parser


def categories(path):
    """How many categories each field has."""
    with safe_open(path, "pt") as file:
        fields = json.loads(file.metadata()["ramet.graphs"])["fields"]
    return {f"{each['per']}.{each['name']}": len(each["values"]) for each in fields if each.get("values")}


def one_hot(batch, per, names, sizes):
    return torch.cat([functional.one_hot(batch[f"{per}.{name}"].long(), sizes[f"{per}.{name}"]) for name in names], 1).float()


def rate_of(step, steps, args):
    if step < args.warmup:
        return args.rate * (step + 1) / (args.warmup + 1)
    return args.rate * (1 + math.cos(math.pi * (step - args.warmup) / (steps - args.warmup))) / 2


def learn(model, optimizer, answers, graphs, args, column=0, clip_norm=None):
    """Trains on the molecules of TRAIN, with a mean of 0 and a deviation of 1. `answers(numbers)`: the model's answer for each
    of these molecules. Returns how far the answers for those of TEST are off, and the steps and processor seconds that it took."""
    split, y = graphs.fields["graph.split"], graphs.fields["graph.y"][:, column].double()
    train, test = (torch.nonzero(split == part)[:, 0] for part in (TRAIN, TEST))
    mean, deviation = y[train].mean(), y[train].std(correction=0)
    start, step = time.process_time(), 0
    steps = args.epochs * math.ceil(len(train) / args.batch)
    for _ in range(args.epochs):
        for numbers in train[torch.randperm(len(train))].split(args.batch):
            for group in optimizer.param_groups:
                group["lr"] = rate_of(step, steps, args)
            loss = functional.mse_loss(answers(numbers), ((y[numbers] - mean) / deviation).float())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            if clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
            optimizer.step()
            step += 1
    model.eval()
    with torch.no_grad():
        apart = torch.cat([answers(numbers).double() * deviation + mean - y[numbers] for numbers in test.split(args.batch)])
    return apart, {"steps": steps, "processor_seconds": round(time.process_time() - start, 1)}
