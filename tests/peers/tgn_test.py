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
EPOCH = 20  # samples: of 220 events the first 154 are trained on

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
        """The losses, the run's folder and the weights at the end."""
        from safetensors.torch import load_file

        (self.folder / "recipe.toml").write_text(RECIPE.format(
            width=WIDTH, batch=BATCH, recent=RECENT, steps=steps, seed=SEED, rate=rate))
        printed = ramet("train", "recipe.toml", "--json", "--threads", "1", "--run", name, folder=self.folder)
        told = [json.loads(line) for line in printed.splitlines()]
        ramet("export", name, "--out", f"{name}.safetensors", folder=self.folder)
        return [each["loss"] for each in told if each["event"] == "step"], load_file(self.folder / f"{name}.safetensors")

    def peer(self, weights):
        """The peer's module, its events, and its network with these weights."""
        import torch

        sys.path.insert(0, str(ROOT / "bench" / "peers"))
        import torch_tgn

        args = argparse.Namespace(width=WIDTH, heads=2, dropout=0.0, recent=RECENT, batch=BATCH, seed=SEED)
        events = torch_tgn.Events(self.folder / "set.safetensors")
        network = torch_tgn.Network(events, args, last_events())
        own = {f"{part}.{name}": each for part in ("memory", "gnn", "link_pred")
               for name, each in getattr(network, part).named_parameters() if not name.startswith("time_enc") or part == "memory"}
        self.assertEqual(set(own), {name for name in weights if name != "memory.memory"})
        with torch.no_grad():
            for name, each in own.items():
                each.copy_(weights[name].reshape(each.shape))
        return torch_tgn, events, network, args

    def test_losses(self):
        import torch

        _, first = self.train("first", 1, 1e-30)  # the weights stay as they were drawn
        losses, _ = self.train("whole", STEPS, 0.003)
        torch_tgn, _, network, args = self.peer(first)
        optimizer = torch.optim.Adam(network.parameters(), lr=0.003, eps=1e-4)
        told, epoch = [], 0
        while len(told) < STEPS:
            torch_tgn.train_epoch(network, optimizer, epoch, args, told)
            epoch += 1
        for step, (found, (wanted, _)) in enumerate(zip(losses, told)):
            self.assertLess(abs(found - wanted), 1e-5 if step == 0 else 1e-4 * max(1, wanted), f"step {step}: {found} and {wanted}")
        self.assertLess(losses[-1], losses[0])

    def test_scores(self):
        """After an epoch without learning, the scores of all events behind it, one batch after the other. The peer stays in the
        mode of training: out of it, it would bring memories up to date right behind each batch, not before their next use, and a
        message would hold an older memory of the partner."""
        import numpy
        import torch

        _, weights = self.train("still", EPOCH, 1e-30)
        ramet("predict", "still", "--set", "data.events.held_out=test", "--out", "scores.npz", folder=self.folder)
        rows = dict(numpy.load(self.folder / "scores.npz"))
        _, events, network, args = self.peer(weights)
        network.train(True)
        network.reset()
        with torch.no_grad():
            for first, last in events.batches([0], BATCH):
                network.remember(first, last)
            for sample, (first, last) in enumerate(events.batches([1, 2], BATCH)):
                negatives = events.negatives(SEED, True, sample, last - first)
                at = numpy.searchsorted(rows["event"], numpy.arange(first, last))
                self.assertTrue(numpy.array_equal(rows["negative"][at], negatives))
                self.assertTrue(numpy.array_equal(rows["target"][at], events.dst[first:last]))
                for name, wanted in zip(("score", "negative_score"), network.scores(first, last, negatives)):
                    difference = numpy.abs(rows[name][at] - wanted.numpy().reshape(-1)).max()
                    self.assertLess(difference, 1e-5, f"{name} of batch {sample}")
                network.remember(first, last)
        self.assertEqual(set(rows["part"]), {1, 2})


if __name__ == "__main__":
    unittest.main()
