"""Trains a small network in f32 on samples that build/bench/batches wrote, with SGD and momentum, and prints its losses
as one JSON object, beside those of the same training with other sums (two threads, channels last) and in f64. With --first it only writes the weights to begin from.

    python bench/peers/torch_curve.py --model unet --first build/first.safetensors
    python bench/peers/torch_curve.py --model unet --from build/first.safetensors --batches build/batches --micro-batch 4
"""

import argparse
import json
import pathlib

import numpy
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional

from torch_lstm_train import LanguageModel
from torch_vision import Images, make

# Sizes that are also those of bench/curves.py.
SIZES = {"resnet": dict(width=16, small_stem=True, classes=10), "vit": dict(layers=12, patch=8, size=32, classes=10),
         "unet": dict(width=16, levels=3, classes=4)}
LSTM = dict(vocabulary=512, hidden=128, layers=2, dropout=0.0, tied=False)


def loss_of(model, network, load, rows, normalise):
    if model == "lstm":
        tokens, labels = (torch.from_numpy(load(name)[rows].copy()).long().T for name in ("input_ids", "labels"))
        logits, _ = network(tokens, None)
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    labels = torch.from_numpy(load("masks" if model == "unet" else "labels")[rows].copy()).long()
    images = normalise(torch.from_numpy(load("images")[rows].copy())).to(next(network.parameters()).dtype)
    return functional.cross_entropy(network(images), labels)


def network_of(model):
    return LanguageModel(**LSTM) if model == "lstm" else make(model, **SIZES[model])


def train(args, threads=1, channels_last=False, wide=False):
    """The losses of the steps; `wide`: computed in f64."""
    torch.set_num_threads(threads)
    network = network_of(args.model)
    network.load_state_dict(load_file(args.start))
    if channels_last:
        network = network.to(memory_format=torch.channels_last)
    if wide:
        network = network.double()
    normalise = Images([0.5] * 3, [0.25] * 3)
    arrays = {}
    load = lambda name: arrays.setdefault(name, numpy.load(args.batches / f"{name}.npy", mmap_mode="r"))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step, rate in enumerate(load("rates")):
        for group in optimizer.param_groups:
            group["lr"] = float(rate)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(args.model, network, load, slice(step * args.micro_batch, (step + 1) * args.micro_batch), normalise)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=[*SIZES, "lstm"], required=True)
    parser.add_argument("--first", help="write the first weights here, and end")
    parser.add_argument("--from", dest="start", help="weights to begin from")
    parser.add_argument("--batches", type=pathlib.Path)
    parser.add_argument("--micro-batch", type=int, default=4)
    args = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(1)
    if args.first:
        network = network_of(args.model)
        save_file({name: value.contiguous() for name, value in network.state_dict().items()}, args.first)
        return
    others = [train(args, threads=2)]
    if args.model != "lstm":
        others.append(train(args, channels_last=True))
    print(json.dumps({"losses": train(args), "others": others, "wide": train(args, wide=True)}))


if __name__ == "__main__":
    main()
