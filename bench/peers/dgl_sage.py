"""Times a training step of GraphSAGE on sampled neighbours in DGL, sampling and features included, and prints one JSON object.
The peer of PyTorch Geometric's NeighborLoader, which needs libraries that PyPI does not have. Runs in an environment of its
own (bench/peers/dgl_graph_ops.py says which packages).

    python bench/peers/dgl_sage.py --set dblp.safetensors --seeds 512 --fanout 10,10 --hidden 64
"""

import argparse
import itertools
import json
import os
import statistics
import time

import dgl
import torch
from dgl.nn import SAGEConv
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional

from torch_tools import all_is_imported, memory


class Sage(nn.Module):
    def __init__(self, width, hidden, classes, dropout):
        super().__init__()
        self.convs = nn.ModuleList([SAGEConv(width, hidden, "mean"), SAGEConv(hidden, classes, "mean")])
        self.dropout = nn.Dropout(dropout)

    def forward(self, blocks, x):
        x = self.convs[0](blocks[0], self.dropout(x)).relu()
        return self.convs[1](blocks[1], self.dropout(x))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", required=True)
    parser.add_argument("--seeds", type=int, default=512)
    parser.add_argument("--fanout", default="10,10")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--dropout", type=float, default=0.5)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    fields = load_file(args.set)
    all_is_imported()
    nodes, index = int(fields["node.ptr"][1]), fields["edge.index"]
    graph = dgl.graph((index[0].long(), index[1].long()), num_nodes=nodes)
    x, y = fields["node.x"].float(), fields["node.y"].long()
    model = Sage(x.shape[1], args.hidden, int(y.max()) + 1, args.dropout)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=False)
    sampler = dgl.dataloading.NeighborSampler([int(k) for k in args.fanout.split(",")])
    loader = dgl.dataloading.DataLoader(graph, torch.arange(nodes), sampler, batch_size=args.seeds, shuffle=True, drop_last=True)
    endless = itertools.chain.from_iterable(itertools.repeat(loader))
    seconds = []
    start = time.perf_counter()
    for number, (inputs, outputs, blocks) in enumerate(endless):
        loss = functional.cross_entropy(model(blocks, x[inputs]), y[outputs])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        now = time.perf_counter()
        if number >= args.warmup:
            seconds.append(now - start)
        start = now
        if len(seconds) == args.steps:
            break
    print(json.dumps({"peer": f"dgl {dgl.__version__}, torch {torch.__version__}", "step_seconds": statistics.median(seconds),
                      "step_seconds_min": min(seconds), "step_seconds_max": max(seconds), **memory(), "loss": loss.item(),
                      "load_average": os.getloadavg()[0]}))


if __name__ == "__main__":
    main()
