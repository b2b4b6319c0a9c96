"""What roundings do to a ResNet-18 on Fashion-MNIST, in two parts.

Gradients: Ramet trains some steps and keeps a checkpoint after each. From the weights before a step, PyTorch computes the same
gradient in f64, in f32 and in f32 with channels last. The bench prints how far each is from f64, as a mean over all weights,
and how far Ramet's new weights and running statistics are from what its own gradient gives.

Curves: PyTorch trains several times, each time after a change as small as a rounding, and the bench prints how far its losses
are from those without the change.

    python bench/peers/torch_roundings.py --stem large --rate 0.05 --gradients 1 2 3 4 5 9 21 41
    python bench/peers/torch_roundings.py --stem large --rate 0.05 --curve 500
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import types

import numpy
import torch
from safetensors.torch import load_file
from torch.nn import functional

from sides import ROOT, objects
from torch_vision import Images, decay_groups, make

sys.path.append(str(ROOT / "bench"))
import fashion_accuracy

DECAY, MOMENTUM = 5e-4, 0.9
CHANGES = {"nothing": None, "weights by 1e-7": "noise", "channels last": "last"}


class Case:
    """One seed of bench/fashion_accuracy.py: first weights, batches, rates."""

    def __init__(self, args):
        self.args, self.folder = args, args.build / "roundings"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.first, self.run = self.folder / "first.safetensors", self.folder / "run"
        settings = types.SimpleNamespace(micro_batch=args.micro_batch, width=args.width, stem=args.stem, test_batches=1, steps=0, epochs=args.epochs)
        self.settings = [*fashion_accuracy.settings_of(settings, args.seed), f"--set=train.schedule.learning_rate={args.rate}"]
        self.folder.mkdir(parents=True)
        objects([sys.executable, "bench/peers/torch_fashion.py", "--width", args.width, "--stem", args.stem, "--first", self.first, "--seed", args.seed])
        plain = [word for setting in self.settings for word in ("--set", setting.removeprefix("--set="))]
        objects([args.build / "bench/batches", fashion_accuracy.RECIPE, "--out", self.folder / "batches", *plain])
        load = lambda name: numpy.load(self.folder / "batches" / f"{name}.npy", mmap_mode="r")
        self.images, self.labels, self.rates = load("images"), load("labels"), load("rates")
        self.normalise = Images([0.2860], [0.3530])

    def network(self, state, dtype=torch.float32, layout=torch.contiguous_format):
        network = make("resnet", width=self.args.width, small_stem=self.args.stem == "small", channels=1, classes=10)
        network.load_state_dict(state, strict=False)
        return network.to(dtype).to(memory_format=layout)

    def loss(self, network, step, dtype=torch.float32, layout=torch.contiguous_format):
        rows = slice(step * self.args.micro_batch, (step + 1) * self.args.micro_batch)
        images = self.normalise(torch.from_numpy(self.images[rows].copy())).to(dtype).contiguous(memory_format=layout)
        return functional.cross_entropy(network(images), torch.from_numpy(self.labels[rows].copy()).long())

    def gradients(self, state, step, dtype, layout=torch.contiguous_format):
        network = self.network(state, dtype, layout)
        loss = self.loss(network, step, dtype, layout)
        loss.backward()
        running = {name: value.double() for name, value in network.state_dict().items() if "running" in name}
        return loss.item(), {name: weight.grad.double() for name, weight in network.named_parameters()}, running

    def train(self, last_step):
        """Ramet's steps 1 to `last_step`, a checkpoint after each."""
        command = [self.args.build / "ramet", "train", fashion_accuracy.RECIPE, *self.settings, f"--set=model.init_from={self.first}",
                   "--set=train.checkpoint.every=1", f"--set=train.checkpoint.keep={last_step + 64}", "--run", self.run, "--threads", "1", "--json"]
        work = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for line in work.stdout:
            if json.loads(line).get("event") == "checkpoint" and json.loads(line)["step"] >= last_step:
                work.terminate()
                break
        work.communicate()

    def kept(self, step, roles):
        if step == 0:
            return load_file(self.first)
        files = [file for role in roles for file in (self.run / f"checkpoints/step-{step:08d}").glob(f"{role}-*")]
        return {name: value for file in files for name, value in load_file(file).items()}


def compare_gradients(case, steps):
    case.train(max(steps))
    for step in steps:
        before, after = case.kept(step - 1, ["weight", "deferred"]), case.kept(step, ["weight", "deferred"])
        momenta = case.kept(step, ["optimizer"])
        earlier = case.kept(step - 1, ["optimizer"]) if step > 1 else {}
        sides = {"f64": (torch.float64,), "torch": (torch.float32,), "torch_channels_last": (torch.float32, torch.channels_last)}
        found = {side: case.gradients(before, step - 1, *kind) for side, kind in sides.items()}
        exact, errors, updates = found["f64"][1], {"ramet": [], "torch": [], "torch_channels_last": []}, []
        for name, gradient in exact.items():
            key, decay = f"optimizer.momentum.{name}", DECAY if gradient.dim() > 1 else 0
            momentum = momenta[key].double()
            ours = momentum - (MOMENTUM * earlier[key].double() if earlier else 0) - decay * before[name].double()
            for side, value in (("ramet", ours), *((side, found[side][1][name]) for side in list(errors)[1:])):
                errors[side].append(((value - gradient).norm() / gradient.norm()).item())
            updates.append((after[name].double() - before[name].double() + float(case.rates[step - 1]) * momentum).abs().max().item())
        running = max(((after[name].double() - value).abs().max() / value.abs().max()).item() for name, value in found["f64"][2].items())
        print(json.dumps({"step": step, "loss": found["f64"][0], "torch_loss_apart": found["torch"][0] - found["f64"][0],
                          **{f"{side}_gradients_apart": statistics.geometric_mean(values) for side, values in errors.items()},
                          "ramet_running_statistics_apart": running, "ramet_update_apart": max(updates)}), flush=True)


def compare_curves(case, steps):
    base = None
    for what, change in CHANGES.items():
        layout = torch.channels_last if change == "last" else torch.contiguous_format
        network = case.network(load_file(case.first), layout=layout)
        if change == "noise":
            torch.manual_seed(1)
            with torch.no_grad():
                for weight in network.parameters():
                    weight.mul_(1 + 1e-7 * torch.randn_like(weight))
        optimizer, losses = torch.optim.SGD(decay_groups(network, DECAY), lr=0.1, momentum=MOMENTUM), []
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = float(case.rates[step])
            optimizer.zero_grad(set_to_none=True)
            loss = case.loss(network, step, layout=layout)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        base = base or losses
        print(json.dumps({"changed": what, "apart_at": {step: abs(losses[step - 1] / base[step - 1] - 1) for step in (1, 2, 3, 4, 5, 10, 50) if step <= steps},
                          "means_of_100": [round(statistics.mean(losses[i:i + 100]), 3) for i in range(0, steps, 100)],
                          "greatest_of_100": [round(max(losses[i:i + 100]), 2) for i in range(0, steps, 100)]}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gradients", type=int, nargs="*", default=[], help="steps whose gradients to compare")
    parser.add_argument("--curve", type=int, default=0, help="steps of PyTorch after each change")
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--epochs", type=float, default=3, help="of the schedule")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--stem", choices=("small", "large"), default="small")
    parser.add_argument("--micro-batch", type=int, default=64)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="folder with the programs")
    args = parser.parse_args()
    torch.set_num_threads(1)
    case = Case(args)
    if args.gradients:
        compare_gradients(case, args.gradients)
    if args.curve:
        compare_curves(case, args.curve)
    shutil.rmtree(case.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
