"""Trains a ResNet on samples that build/bench/batches wrote, in f32, and prints its losses and its accuracy on the test
images of Fashion-MNIST as one JSON object. With --first it only writes the weights to begin from.

    python bench/peers/torch_fashion.py --first build/first.safetensors --seed 1 --width 64
    python bench/peers/torch_fashion.py --from build/first.safetensors --batches build/batches --micro-batch 64 --width 64

With --state FILE an interrupt (SIGINT) ends the program after its step and keeps there what a later call goes on from.
"""

import argparse
import gzip
import json
import pathlib
import signal

import numpy
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional

from torch_vision import Images, decay_groups, make

FOLDER = pathlib.Path("/usr/share/datasets/fashion-mnist")


def test_images():
    with gzip.open(FOLDER / "t10k-images-idx3-ubyte.gz") as images, gzip.open(FOLDER / "t10k-labels-idx1-ubyte.gz") as labels:
        pixels = numpy.frombuffer(images.read()[16:], dtype=numpy.uint8).reshape(-1, 1, 28, 28)
        return torch.from_numpy(pixels.copy()), torch.from_numpy(numpy.frombuffer(labels.read()[8:], dtype=numpy.uint8).copy()).long()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", help="write the first weights here, and end")
    parser.add_argument("--from", dest="start", help="weights to begin from")
    parser.add_argument("--batches", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--stem", choices=("small", "large"), default="small")
    parser.add_argument("--micro-batch", type=int, default=64)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight-decay", type=float, default=5e-4)
    parser.add_argument("--mean", type=float, default=0.2860)
    parser.add_argument("--deviation", type=float, default=0.3530)
    parser.add_argument("--test-images", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--state", type=pathlib.Path, help="file of an interrupted training")
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    network = make("resnet", width=args.width, small_stem=args.stem == "small", channels=1, classes=10)
    if args.first:
        save_file({name: value.contiguous() for name, value in network.state_dict().items()}, args.first)
        return
    network.load_state_dict(load_file(args.start))
    normalise = Images([args.mean], [args.deviation])
    load = lambda name: numpy.load(args.batches / f"{name}.npy", mmap_mode="r")
    images, labels, rates = load("images"), load("labels"), load("rates")
    optimizer = torch.optim.SGD(decay_groups(network, args.weight_decay), lr=0.1, momentum=args.momentum)
    losses, interrupts = [], []
    if args.state:
        signal.signal(signal.SIGINT, lambda *_: interrupts.append(True))
    if args.state and args.state.exists():
        kept = torch.load(args.state)
        network.load_state_dict(kept["network"])
        optimizer.load_state_dict(kept["optimizer"])
        losses = kept["losses"]
    for step, rate in enumerate(rates):
        if step < len(losses):
            continue
        if interrupts:
            new = args.state.with_suffix(".new")
            torch.save({"network": network.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses}, new)
            new.replace(args.state)
            return
        for group in optimizer.param_groups:
            group["lr"] = float(rate)
        rows = slice(step * args.micro_batch, (step + 1) * args.micro_batch)
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(network(normalise(torch.from_numpy(images[rows].copy()))), torch.from_numpy(labels[rows].copy()).long())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    network.eval()
    pixels, classes = test_images()
    right, count = 0, min(args.test_images, len(pixels))
    with torch.no_grad():
        for first in range(0, count, 500):
            rows = slice(first, min(first + 500, count))
            right += (network(normalise(pixels[rows])).argmax(1) == classes[rows]).sum().item()
    print(json.dumps({"losses": losses, "accuracy": right / count}))


if __name__ == "__main__":
    main()
