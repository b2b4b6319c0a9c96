"""Gloo's collectives between N processes of this machine, told what to do as build/bench/collectives is.

usage: gloo_collectives.py RANKS MOST_BYTES
Lines of standard input: "gloo KIND BYTES CALLS"; prints the seconds of a call, those of the slowest rank.
"""
import os
import socket
import sys
import time

os.environ["THP_MEM_ALLOC_ENABLE"] = "1"  # large pages for torch's memory, as Ramet's has

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as multiprocessing  # noqa: E402

KINDS = ["all-reduce", "reduce-scatter", "all-gather"]


def call_of(kind, ranks, whole, part, count):
    whole, part = whole[:count], part[:count // ranks]
    if kind == "all-reduce":
        return lambda: dist.all_reduce(whole)
    if kind == "reduce-scatter":
        return lambda: dist.reduce_scatter_tensor(part, whole)
    return lambda: dist.all_gather_into_tensor(whole, part)


def run(rank, ranks, port, most):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    # Written, so that the pages are there.
    whole, part = torch.empty(most // 4).fill_(0), torch.empty(most // 4 // ranks).fill_(0)
    while True:
        order = torch.zeros(3, dtype=torch.int64)
        if rank == 0:
            line = sys.stdin.readline().split()
            if line:
                order[0], order[1], order[2] = KINDS.index(line[1]), int(line[2]), int(line[3])
        dist.broadcast(order, 0)
        kind, size, calls = order.tolist()
        if calls == 0:
            break
        call = call_of(KINDS[kind], ranks, whole, part, size // 4)
        call()
        dist.barrier()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        took = torch.tensor([(time.perf_counter() - start) / calls], dtype=torch.float64)
        dist.all_reduce(took, dist.ReduceOp.MAX)
        if rank == 0:
            print(f"{took.item():.9f}", flush=True)
    dist.destroy_process_group()


def other(index, ranks, port, most):
    run(index + 1, ranks, port, most)


if __name__ == "__main__":
    ranks, most = int(sys.argv[1]), int(sys.argv[2])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Rank 0 is this process, which has the standard input.
    context = multiprocessing.spawn(other, (ranks, port, most), nprocs=ranks - 1, join=False)
    run(0, ranks, port, most)
    context.join()
