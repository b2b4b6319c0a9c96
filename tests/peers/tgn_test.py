"""The temporal graph network beside PyTorch Geometric's classes: from the same weights, on the same events and negatives."""

import argparse
import json
import pathlib
import random
import sys
import tempfile
import unittest

from peers import needs, ramet

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS, SEED, BATCH, RECENT, WIDTH = 60, 7, 8, 3, 8

RECIPE = """name = "peer"
[model]
kind = "tgn"
[model.tgn]
memory = {width}
time = {width}
embedding = {width}
heads = 2
dropout = 0
[data]
kind = "events"
[data.events]
set = "set.safetensors"
batch = {batch}
recent = {recent}
[train]
steps = {steps}
seed = {seed}
precision = "f32"
clip_norm = 0
[train.optimizer]
kind = "adam"
beta2 = 0.999
epsilon = 1e-4
weight_decay = 0
[train.schedule]
kind = "constant"
learning_rate = {rate}
[system]
every = 0
"""


def write_events(path):
    """Events whose times all differ: of one time, the peer may take either for a node's last event."""
    draw = random.Random(3)
    path.write_text("".join(f"{draw.randrange(20)} {draw.randrange(20, 30)} {i} {draw.random():.3f} {draw.random():.3f}\n"
                            for i in range(220)))


def last_events():
    """The peer's aggregator of last events, but with zeros for nodes without any. (PyTorch Geometric 2.8.1 without torch-scatter
    gives these nodes some other node's message.)"""
    import torch

    class LastEvents(torch.nn.Module):
        def forward(self, msg, index, t, dim_size):
            out = msg.new_zeros((dim_size, msg.size(-1)))
            order = torch.argsort(t)
            last = torch.full((dim_size,), -1)
            for row in order.tolist():
                last[index[row]] = row
            there = last >= 0
            out[there] = msg[last[there]]
            return out

    return LastEvents()


@needs("torch", "torch_geometric", "safetensors", "sklearn")
class TemporalNets(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        write_events(self.folder / "events.txt")
        ramet("graphs", "prepare", "events", "events.txt", "--out", "set.safetensors", "--apply", "split-by-time=70:15:15",
              folder=self.folder)

    def train(self, name, steps, rate):
        from safetensors.torch import load_file

        (self.folder / "recipe.toml").write_text(RECIPE.format(
            width=WIDTH, batch=BATCH, recent=RECENT, steps=steps, seed=SEED, rate=rate))
        printed = ramet("train", "recipe.toml", "--json", "--threads", "1", "--run-dir", name, folder=self.folder)
        told = [json.loads(line) for line in printed.splitlines()]
        run = next(path for path in sorted((self.folder / name).iterdir()) if (path / "run.json").exists())
        ramet("export", str(run), "--out", f"{name}.safetensors", folder=self.folder)
        return [each["loss"] for each in told if each["event"] == "step"], load_file(self.folder / f"{name}.safetensors")

    def test_losses(self):
        import torch

        sys.path.insert(0, str(ROOT / "bench" / "peers"))
        import torch_tgn

        _, first = self.train("first", 1, 1e-30)  # the weights stay as they were drawn
        losses, last = self.train("whole", STEPS, 0.003)
        args = argparse.Namespace(width=WIDTH, heads=2, dropout=0.0, recent=RECENT, batch=BATCH, seed=SEED)
        events = torch_tgn.Events(self.folder / "set.safetensors")
        network = torch_tgn.Network(events, args, last_events())
        own = dict(network.memory.named_parameters(prefix="memory")) | dict(network.gnn.named_parameters(prefix="gnn")) | dict(
            network.link_pred.named_parameters(prefix="link_pred"))
        own = {name: each for name, each in own.items() if not name.startswith("gnn.time_enc")}
        self.assertEqual(set(own), {name for name in first if name != "memory.memory"})
        with torch.no_grad():
            for name, each in own.items():
                each.copy_(first[name].reshape(each.shape))
        optimizer = torch.optim.Adam(network.parameters(), lr=0.003, eps=1e-4)
        told, epoch = [], 0
        while len(told) < STEPS:
            torch_tgn.train_epoch(network, optimizer, epoch, args, told)
            epoch += 1
        for step, (found, (wanted, _)) in enumerate(zip(losses, told)):
            self.assertLess(abs(found - wanted), 1e-5 if step == 0 else 1e-4 * max(1, wanted), f"step {step}: {found} and {wanted}")
        self.assertLess(losses[-1], losses[0])
        self.assertEqual(len(last), len(first))


if __name__ == "__main__":
    unittest.main()
