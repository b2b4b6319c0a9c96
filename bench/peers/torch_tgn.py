"""Trains PyTorch Geometric's temporal graph network (its classes TGNMemory, TransformerConv and LastNeighborLoader, put
together as its example tgn.py does) on a graph set of events that `ramet graphs prepare events` wrote, and prints one JSON
object an epoch: the loss, the numbers of Ramet's evaluation by the same names, and the seconds of training.

    python bench/peers/torch_tgn.py --set collegemsg.safetensors --epochs 50 --seed 1

The split is the set's, and negatives are those that Ramet draws with the same seed. --steps N times N steps and prints
their median, after --warm ones.
"""

import argparse
import json
import statistics
import time

import numpy
import torch
from safetensors import safe_open
from sklearn.metrics import average_precision_score, roc_auc_score
from torch_geometric.nn import TGNMemory, TransformerConv
from torch_geometric.nn.models.tgn import IdentityMessage, LastAggregator, LastNeighborLoader

from torch_tools import all_is_imported, memory

MASK = (1 << 64) - 1
SAMPLING = 9  # the purpose of these draws


def mix(x):
    """SplitMix64's finaliser."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def drawn(seed, evaluates, sample, count):
    """Random words of a sample: Philox 4x32 with 10 rounds (Salmon et al., SC'11), as src/ramet/base/rng.h has them."""
    key = mix(mix((seed + 0x9E3779B97F4A7C15 * SAMPLING) & MASK))
    blocks, low = (count + 3) // 4, numpy.uint64(0xFFFFFFFF)
    counter = [numpy.arange(blocks, dtype=numpy.uint64)] + [numpy.full(blocks, n, numpy.uint64) for n in (0, int(evaluates), sample)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = counter[0] * numpy.uint64(0xD2511F53), counter[2] * numpy.uint64(0xCD9E8D57)
        shift = numpy.uint64(32)
        counter = [(p1 >> shift) ^ counter[1] ^ numpy.uint64(k0), p1 & low, (p0 >> shift) ^ counter[3] ^ numpy.uint64(k1), p0 & low]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return numpy.stack(counter, 1).reshape(-1)[:count]


class Events:
    """The events of a set in order of time, and their parts."""

    def __init__(self, path):
        with safe_open(path, "pt") as file:
            fields = {name: file.get_tensor(name) for name in file.keys()}
        order = torch.argsort(fields["edge.event"])
        self.src, self.dst = (row[order].long() for row in fields["edge.index"])
        times = fields["edge.time"][order]
        self.t = (times - times[0]).long()
        # The classes need a message: without one, a zero.
        self.msg = fields["edge.message"][order] if "edge.message" in fields else torch.zeros(len(order), 1)
        self.nodes = int(fields["node.ptr"][-1])
        self.split = fields["edge.split"][order]
        self.destinations = torch.unique(self.dst)

    def batches(self, parts, size):
        """First and last event of each batch, which begin anew with each part."""
        for part in parts:
            places = (self.split == part).nonzero().view(-1)
            begin, end = int(places[0]), int(places[-1]) + 1
            for first in range(begin, end, size):
                yield first, min(first + size, end)

    def negatives(self, seed, evaluates, sample, count):
        words = drawn(seed, evaluates, sample, count)
        ranks = (words * numpy.uint64(len(self.destinations))) >> numpy.uint64(32)
        return self.destinations[torch.from_numpy(ranks.astype(numpy.int64))]


class Attention(torch.nn.Module):
    def __init__(self, width, out, message, time_enc, heads, dropout):
        super().__init__()
        self.time_enc = time_enc
        self.conv = TransformerConv(width, out // heads, heads=heads, dropout=dropout, edge_dim=message + time_enc.out_channels)

    def forward(self, x, last_update, edge_index, t, msg):
        since = last_update[edge_index[0]] - t
        return self.conv(x, edge_index, torch.cat([self.time_enc(since.to(x.dtype)), msg], -1))


class LinkPredictor(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.lin_src, self.lin_dst, self.lin_final = (torch.nn.Linear(width, size) for size in (width, width, 1))

    def forward(self, source, target):
        return self.lin_final((self.lin_src(source) + self.lin_dst(target)).relu())


class Network:
    def __init__(self, events, args, aggregator=None):
        self.events, self.args = events, args
        message = events.msg.size(-1)
        self.memory = TGNMemory(events.nodes, message, args.width, args.width, IdentityMessage(message, args.width, args.width),
                                aggregator or LastAggregator())
        self.gnn = Attention(args.width, args.width, message, self.memory.time_enc, args.heads, args.dropout)
        self.link_pred = LinkPredictor(args.width)
        self.neighbors = LastNeighborLoader(events.nodes, size=args.recent)
        self.assoc = torch.empty(events.nodes, dtype=torch.long)
        self.modules = [self.memory, self.gnn, self.link_pred]

    def parameters(self):
        return list({id(each): each for module in self.modules for each in module.parameters()}.values())

    def train(self, mode):
        for module in self.modules:
            module.train(mode)

    def reset(self):
        self.memory.reset_state()
        self.neighbors.reset_state()

    def scores(self, first, last, negatives):
        src, dst = self.events.src[first:last], self.events.dst[first:last]
        n_id, edge_index, e_id = self.neighbors(torch.cat([src, dst, negatives]).unique())
        self.assoc[n_id] = torch.arange(n_id.size(0))
        z, last_update = self.memory(n_id)
        z = self.gnn(z, last_update, edge_index, self.events.t[e_id], self.events.msg[e_id])
        return (self.link_pred(z[self.assoc[src]], z[self.assoc[dst]]), self.link_pred(z[self.assoc[src]], z[self.assoc[negatives]]))

    def remember(self, first, last):
        src, dst = self.events.src[first:last], self.events.dst[first:last]
        self.memory.update_state(src, dst, self.events.t[first:last], self.events.msg[first:last])
        self.neighbors.insert(src, dst)


def loss_of(right, wrong):
    cross_entropy = torch.nn.functional.binary_cross_entropy_with_logits
    return cross_entropy(right, torch.ones_like(right)) + cross_entropy(wrong, torch.zeros_like(wrong))


def train_epoch(network, optimizer, epoch, args, told=None):
    """The mean loss of an epoch; `told` gets each step's loss and seconds."""
    events = network.events
    network.train(True)
    network.reset()
    batches = list(events.batches([0], args.batch))
    total = 0.0
    for at, (first, last) in enumerate(batches):
        start = time.perf_counter()
        optimizer.zero_grad()
        negatives = events.negatives(args.seed, False, epoch * len(batches) + at, last - first)
        loss = loss_of(*network.scores(first, last, negatives))
        network.remember(first, last)
        loss.backward()
        optimizer.step()
        network.memory.detach()
        total += loss.item() * (last - first)
        if told is not None:
            told.append((loss.item(), time.perf_counter() - start))
    return total / sum(last - first for first, last in batches)


@torch.no_grad()
def evaluate(network, args):
    """Mean average precisions and areas under the curve of the validation and the test batches."""
    events = network.events
    network.train(False)
    sample, results = 0, []
    for part in (1, 2):
        precisions, areas = [], []
        for first, last in events.batches([part], args.batch):
            right, wrong = network.scores(first, last, events.negatives(args.seed, True, sample, last - first))
            answers = torch.cat([torch.ones(last - first), torch.zeros(last - first)])
            given = torch.cat([right, wrong]).sigmoid()
            precisions.append(average_precision_score(answers, given))
            areas.append(roc_auc_score(answers, given))
            network.remember(first, last)
            sample += 1
        results += [statistics.mean(precisions), statistics.mean(areas)]
    return results


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", required=True)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument("--recent", type=int, default=10)
    parser.add_argument("--width", type=int, default=100)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--warm", type=int, default=50)
    return parser.parse_args()


def main():
    args = parse()
    if args.threads:
        torch.set_num_threads(args.threads)
    all_is_imported()
    torch.manual_seed(args.seed)
    events = Events(args.set)
    network = Network(events, args)
    optimizer = torch.optim.Adam(network.parameters(), lr=args.rate, fused=True)
    if args.steps:
        told, epoch = [], 0
        while len(told) < args.warm + args.steps:
            train_epoch(network, optimizer, epoch, args, told)
            epoch += 1
        seconds = [each[1] for each in told[args.warm:args.warm + args.steps]]
        print(json.dumps({"step_seconds": statistics.median(seconds), "mean_seconds": statistics.mean(seconds), **memory()}))
        return
    for epoch in range(args.epochs):
        start = time.perf_counter()
        loss = train_epoch(network, optimizer, epoch, args)
        seconds = time.perf_counter() - start
        found = dict(zip(("average_precision", "roc_auc", "test_average_precision", "test_roc_auc"), evaluate(network, args)))
        print(json.dumps({"epoch": epoch + 1, "loss": loss, **found, "train_seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
