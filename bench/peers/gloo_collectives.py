"""Gloo's collectives between N processes of this machine: prints JSON lines like build/bench/collectives.

usage: gloo_collectives.py RANKS [MOST_BYTES [SECONDS]]
"""
import json
import os
import socket
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

KINDS = ["all-reduce", "reduce-scatter", "all-gather"]


def call_of(kind, ranks, rank, whole, other, count):
    part = count // ranks
    whole, mine = whole[:count], other[rank * part:(rank + 1) * part]
    if kind == "all-reduce":
        return lambda: dist.all_reduce(whole)
    if kind == "reduce-scatter":
        return lambda: dist.reduce_scatter_tensor(other[:part], whole)
    return lambda: dist.all_gather_into_tensor(whole, mine)


def run(rank, ranks, port, most, seconds):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    whole, other = torch.zeros(most // 4), torch.zeros(most // 4)
    more = torch.ones(1)
    size = 64 << 10
    while size <= most:
        for kind in KINDS:
            call = call_of(kind, ranks, rank, whole, other, size // 4)
            batch, samples, began = max(1, (8 << 20) // size // 2), [], time.perf_counter()
            while True:
                dist.barrier()
                call()
                start = time.perf_counter()
                for _ in range(batch):
                    call()
                samples.append((time.perf_counter() - start) / batch)
                more[0] = len(samples) < 5 or (time.perf_counter() - began < seconds and len(samples) < 200)
                dist.broadcast(more, 0)
                if not more[0]:
                    break
            if rank == 0:
                samples.sort()
                print(json.dumps({"ranks": ranks, "kind": kind, "bytes": size, "gloo": samples[len(samples) // 2]}), flush=True)
        size *= 16
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks = int(sys.argv[1])
    most = int(sys.argv[2]) if len(sys.argv) > 2 else 256 << 20
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 1.5
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    multiprocessing.spawn(run, (ranks, port, most, seconds), nprocs=ranks)
