"""Loss curves beside PyTorch's own, and one result on every layout, for PyTorch modules of many families.

    python bench/torch_curves.py                          # all
    python bench/torch_curves.py --only bert --only resnet18 --steps 20
    python bench/torch_curves.py --list

Each model trains with PyTorch (gradient accumulation) and with ramet.torch, in f32, from the same weights, on the same
batches, without dropout. Reported: the largest relative difference of losses over all steps (bar 1e-4; 1e-3 with batch
norm), the largest difference of buffers after the last step, and for each layout whether the hash of the weights after
`--layout-steps` steps is that of one device. Needs the Python package (RAMET_PYTHON) and the peers: scripts/setup.sh --peers.
"""

import argparse
import json
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# This folder last: its tokenize.py must not stand before Python's.
sys.path = [each for each in sys.path if each != str(ROOT / "bench")] + [str(ROOT / "bench")]
sys.path.insert(0, str(pathlib.Path(os.environ.get("RAMET_BUILD_DIR", ROOT / "build")) / "python"))

import torch

import ramet
import ramet.torch as rt
from peers import torch_zoo

MICRO, MICRO_BATCHES = 4, 2
LAYOUTS = ["p=2", "r=2 rts=optimizer", "phases=2 offload=optimizer recompute=layer", "t=2"]
BAR, BAR_WITH_BATCH_NORM = 1e-4, 1e-3


def optimizer_of(name, module):
    """SGD with momentum for networks with batch norm, AdamW for all others."""
    if torch_zoo.has_batch_norm(module):
        return torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9)
    return torch.optim.AdamW(module.parameters(), lr=3e-4, eps=1e-6)


def batches_of(batch, steps):
    return [batch(MICRO * MICRO_BATCHES, torch.Generator().manual_seed(100 + step)) for step in range(steps)]


def part_of(batch, i):
    return {name: value[i * MICRO:(i + 1) * MICRO] if isinstance(value, torch.Tensor) else value
            for name, value in batch.items()}


def train_with_torch(name, batches):
    module, _, loss = torch_zoo.make(name)
    optimizer = optimizer_of(name, module)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        total = 0.0
        for i in range(MICRO_BATCHES):
            value = module(**part_of(batch, i))[loss] / MICRO_BATCHES
            value.backward()
            total += value.item()
        optimizer.step()
        losses.append(total)
    return module, losses


def compiled(name, layout="", threads=1):
    module, batch, loss = torch_zoo.make(name)
    began = time.monotonic()
    step = rt.training_model(module, optimizer_of(name, module), example=part_of(batches_of(batch, 1)[0], 0), loss=loss,
                             options=rt.Options(layout=layout, micro_batches=MICRO_BATCHES, lanes=2, chunks=2,
                                                threads=threads))
    return step, module, time.monotonic() - began


def measure(name, steps, layout_steps, layouts):
    module, batch, _ = torch_zoo.make(name)
    batches = batches_of(batch, steps)
    reference, expected = train_with_torch(name, batches)
    step, mine, seconds = compiled(name)
    losses, hash_of_one = [], ""
    for i, each in enumerate(batches):
        losses.append(step(**each).loss)
        if i + 1 == layout_steps:
            hash_of_one = step.weights_hash()
    differences = [abs(own - theirs) / max(abs(theirs), 1e-8) for own, theirs in zip(losses, expected)]
    step.copy_to(mine)
    buffers = [(own.double() - theirs.double()).abs().max().item() / max(theirs.double().abs().max().item(), 1.0)
               for (_, own), (_, theirs) in zip(mine.named_buffers(), reference.named_buffers()) if own.numel()]
    bar = BAR_WITH_BATCH_NORM if torch_zoo.has_batch_norm(module) else BAR
    row = {"model": name, "steps": steps, "parameters": sum(each.numel() for each in module.parameters()),
           "first_loss": round(expected[0], 5), "last_loss": round(expected[-1], 5),
           "largest_difference": max(differences), "at_step": differences.index(max(differences)) + 1, "bar": bar,
           "first_difference": differences[0], "buffers": max(buffers, default=0.0), "import_seconds": round(seconds, 1)}
    del step
    row["layouts"] = {layout: hash_on(name, layout, batches[:layout_steps], hash_of_one) for layout in layouts}
    row["met"] = row["largest_difference"] <= bar and row["buffers"] <= 1e-4 * (10 if bar > BAR else 1) and \
        all(each in ("same", "no parts") for each in row["layouts"].values())
    return row


def hash_on(name, layout, batches, expected):
    try:
        step, _, _ = compiled(name, layout, threads=2)
    except ramet.Error as error:
        return "no parts" if "declares no layers" in str(error) else f"refused: {error}"
    for each in batches:
        step(**each)
    return "same" if step.weights_hash() == expected else "DIFFERENT"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(torch_zoo.MODELS), action="append")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--layout-steps", type=int, default=3)
    parser.add_argument("--layout", action="append", help="instead of the four layouts; '' for none")
    parser.add_argument("--list", action="store_true", help="the names of the models")
    args = parser.parse_args()
    if args.list:
        print("\n".join(torch_zoo.MODELS))
        return 0
    torch.set_num_threads(1)
    layouts = LAYOUTS if args.layout is None else [each for each in args.layout if each]
    met = True
    for name in args.only or torch_zoo.MODELS:
        try:
            row = measure(name, args.steps, min(args.layout_steps, args.steps), layouts)
        except ramet.Error as error:
            row = {"model": name, "refused": str(error), "met": False}
        met = met and row["met"]
        print(json.dumps(row), flush=True)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
