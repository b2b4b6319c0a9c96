"""Loss curves beside PyTorch's own, and one result on every layout, for PyTorch modules of many families.

    python bench/torch_curves.py                          # all
    python bench/torch_curves.py --only bert --only resnet18 --steps 20
    python bench/torch_curves.py --list

Each model trains with PyTorch (gradient accumulation) and with ramet.torch, in f32, from the same weights, on the same
batches, without dropout. Reported: the largest relative difference of losses over all steps (bar 1e-4; 1e-3 with batch
norm), the largest difference of buffers after the last step (bar 1e-4), and for each layout whether the hash of the weights
after `--layout-steps` steps is that of one device. Networks with batch norm, and models beyond the bar, train in PyTorch in f64,
too: how far PyTorch's own f32 curve and buffers are from those tells what rounding alone does. The rate of batch norm is so low that this distance is small.
Needs the Python package (RAMET_PYTHON) and the peers: scripts/setup.sh --peers.
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
from ramet.torch._compile import source_of_training
from peers import torch_zoo

MICRO, MICRO_BATCHES = 4, 2
RATE = 3e-4  # at which PyTorch's f32 stays close to its f64 for networks with batch norm
LAYOUTS = ["p=2", "r=2 rts=optimizer", "phases=2 offload=optimizer recompute=layer", "t=2"]
INSTEAD = ["r=2 t=2", "r=2 rts=weights,grads,optimizer"]  # for a model that some of the layouts refuse
BAR, BAR_WITH_BATCH_NORM, BAR_OF_BUFFERS = 1e-4, 1e-3, 1e-4


def optimizer_of(module):
    """SGD with momentum for networks with batch norm, AdamW for all others."""
    if torch_zoo.has_batch_norm(module):
        return torch.optim.SGD(module.parameters(), lr=RATE, momentum=0.9)
    return torch.optim.AdamW(module.parameters(), lr=3e-4, eps=1e-6)


def batches_of(batch, steps):
    return [batch(MICRO * MICRO_BATCHES, torch.Generator().manual_seed(100 + step)) for step in range(steps)]


def part_of(batch, i, dtype=torch.float32):
    part = {key: value[i * MICRO:(i + 1) * MICRO] if isinstance(value, torch.Tensor) else value
            for key, value in batch.items()}
    return {key: value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value
            for key, value in part.items()}


def train_with_torch(name, batches, dtype=torch.float32):
    module, _, loss = torch_zoo.make(name)
    module = module.to(dtype)
    optimizer = optimizer_of(module)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        total = 0.0
        for i in range(MICRO_BATCHES):
            value = module(**part_of(batch, i, dtype))[loss] / MICRO_BATCHES
            value.backward()
            total += value.item()
        optimizer.step()
        losses.append(total)
    return module, losses


def options_of(name, layout="", threads=1):
    return rt.Options(layout=layout, micro_batches=MICRO_BATCHES, lanes=2, chunks=2, threads=threads,
                      parts=torch_zoo.PARTS.get(name, []))


def source_of(name):
    """The traced module: all layouts compile this one trace."""
    module, batch, loss = torch_zoo.make(name)
    example = part_of(batches_of(batch, 1)[0], 0)
    return source_of_training(module, example, loss, optimizer_of(module), options_of(name))


def distances(losses, expected):
    return [abs(own - theirs) / max(abs(theirs), 1e-8) for own, theirs in zip(losses, expected)]


def distance_of_buffers(module, reference):
    return max(((own.double() - theirs.double()).abs().max().item() / max(theirs.double().abs().max().item(), 1.0)
                for (_, own), (_, theirs) in zip(module.named_buffers(), reference.named_buffers()) if own.numel()), default=0.0)


def measure(name, steps, layout_steps, layouts):
    module, batch, _ = torch_zoo.make(name)
    batches = batches_of(batch, steps)
    reference, expected = train_with_torch(name, batches)
    began = time.monotonic()
    source = source_of(name)
    step = rt.TrainingModel(source, options_of(name))
    seconds = time.monotonic() - began
    losses, hash_of_one = [], ""
    for i, each in enumerate(batches):
        losses.append(step(**each).loss)
        if i + 1 == layout_steps:
            hash_of_one = step.weights_hash()
    mine = step.copy_to(torch_zoo.make(name)[0])
    found = distances(losses, expected)
    normed = torch_zoo.has_batch_norm(module)
    bar = BAR_WITH_BATCH_NORM if normed else BAR
    row = {"model": name, "steps": steps, "parameters": sum(each.numel() for each in module.parameters()),
           "first_loss": round(expected[0], 5), "last_loss": round(expected[-1], 5),
           "largest_difference": max(found), "at_step": found.index(max(found)) + 1, "bar": bar,
           "buffers": distance_of_buffers(mine, reference), "import_seconds": round(seconds, 1)}
    if normed or max(found) > bar:
        exact, exact_losses = train_with_torch(name, batches, torch.float64)
        row["f64"] = {"torch": max(distances(expected, exact_losses)), "ramet": max(distances(losses, exact_losses)),
                      "torch_buffers": distance_of_buffers(reference, exact), "ramet_buffers": distance_of_buffers(mine, exact)}
    del step
    row["layouts"] = {layout: hash_on(name, source, layout, batches[:layout_steps], hash_of_one) for layout in layouts}
    for layout in INSTEAD[:sum(each.startswith("refused") for each in row["layouts"].values())]:
        row["layouts"][layout] = hash_on(name, source, layout, batches[:layout_steps], hash_of_one)
    same = [each for each in row["layouts"].values() if each == "same"]
    row["met"] = max(found) <= bar and row["buffers"] <= BAR_OF_BUFFERS and "DIFFERENT" not in row["layouts"].values() and \
        len(same) >= len(layouts)
    return row


def hash_on(name, source, layout, batches, expected):
    try:
        step = rt.TrainingModel(source, options_of(name, layout, threads=2))
    except ramet.Error as error:
        return f"refused: {error}"
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
