"""Times a PyTorch training step of a network for images and prints one JSON object: median step seconds, images per
second, peak memory, and the memory that the interpreter and the libraries took before there was a network.

    python bench/peers/torch_vision_train.py --model resnet-50 --batch 16 --size 224 --precision bf16 --channels-last --compile
"""

import argparse
import json
import os
import statistics
import time

import torch
from torch.nn import functional

from torch_tools import all_is_imported, memory
from torch_vision import PRESETS, Images, decay_groups, make


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=list(PRESETS), default="resnet-50")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--precision", choices=["f32", "bf16"], default="bf16")
    parser.add_argument("--compile", action="store_true", help="torch.compile the network")
    parser.add_argument("--channels-last", action="store_true", help="weights and activations in channels_last")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    kind, sizes = PRESETS[args.model]
    if kind == "vit":
        sizes = sizes | {"size": args.size}
    if kind == "unet":
        sizes = sizes | {"classes": 4}
    classes = sizes.get("classes", 1000)
    all_is_imported()
    network = make(kind, **sizes).train()
    layout = torch.channels_last if args.channels_last else torch.contiguous_format
    network = network.to(memory_format=layout)
    optimizer = torch.optim.SGD(decay_groups(network, 1e-4), lr=0.1, momentum=0.9)
    forward = torch.compile(network) if args.compile else network
    normalise = Images([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    generator = torch.Generator().manual_seed(1)

    def batch():
        images = torch.randint(0, 256, (args.batch, 3, args.size, args.size), generator=generator, dtype=torch.uint8)
        shape = (args.batch, args.size, args.size) if kind == "unet" else (args.batch,)
        return images, torch.randint(0, classes, shape, generator=generator)

    def step(images, labels):
        numbers = normalise(images).contiguous(memory_format=layout)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.precision == "bf16"):
            loss = functional.cross_entropy(forward(numbers).float(), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    seconds = []
    for number in range(args.warmup + args.steps):
        images, labels = batch()
        start = time.perf_counter()
        loss = step(images, labels)
        if number >= args.warmup:
            seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    print(json.dumps({
        "peer": f"torch {torch.__version__}" + (" compiled" if args.compile else " eager") + (", channels last" if args.channels_last else ""),
        "step_seconds": median, "step_seconds_min": min(seconds), "step_seconds_max": max(seconds),
        "images_per_second": args.batch / median, **memory(), "loss": loss.item(), "load_average": os.getloadavg()[0],
    }))


if __name__ == "__main__":
    main()
