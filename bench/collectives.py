#!/usr/bin/env python3
"""Exact collectives beside Open MPI's and Gloo's, between 2, 4 and 8 ranks of this machine, for 64 KiB to 256 MiB of f32: how many
times faster Ramet's are (ratio of medians), between MPI ranks and between threads; and exact beside fast (median ratio of
neighbouring turns). The libraries take turns, a batch of calls each, while the others sleep. The bar is 1 in every cell; 0.95 for
exact beside fast. The last column compares the algorithms of messages between hosts, halving beside a ring, run on this one machine,
where they are never chosen; it has no bar.

usage: bench/collectives.py [--ranks 2,4,8] [--kinds ...] [--sizes 64K,512K,4M,32M,256M] [--seconds S] [--no-gloo] [--json FILE]
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WAYS = ["ranks", "threads", "messages"]
OURS = [f"{way}_{bits}" for bits in ("exact", "fast") for way in WAYS]
BATCH_SECONDS = 0.02  # of one library's turn, if it has more than one call


class Job:
    """Processes that do batches of calls as told."""

    def __init__(self, command):
        self.command = [str(word) for word in command]
        self.process = subprocess.Popen(self.command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, library, kind, size, calls):
        try:
            self.process.stdin.write(f"{library} {kind} {size} {calls}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"collectives: {' '.join(self.command)} ended with status {self.process.wait()}")
        return float(line)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def bytes_of(text):
    unit = {"K": 10, "M": 20}.get(text[-1].upper())
    return int(text[:-1]) << unit if unit else int(text)


def size_text(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def measure_cell(jobs, kind, size, budget):
    """Median seconds of a call by library, and the median ratio of fast to exact of neighbouring turns."""
    calls = {}

    def turn(library):
        return jobs[library].seconds(library, kind, size, calls[library])

    for library, job in jobs.items():
        first = job.seconds(library, kind, size, 1)
        if first < BATCH_SECONDS:
            first = min(first, job.seconds(library, kind, size, 1))
        calls[library] = max(1, min(4000, round(BATCH_SECONDS / max(first, 1e-6))))
    samples = {library: [] for library in jobs if not library.startswith("messages") and not library.endswith("fast")}
    end = time.monotonic() + budget / 2
    while len(samples["ranks_exact"]) < 3 or time.monotonic() < end:
        for library, values in samples.items():
            values.append(turn(library))
    row = {library: statistics.median(values) for library, values in samples.items()}
    ratios = {way: [] for way in WAYS}
    end = time.monotonic() + budget / 2
    while len(ratios["ranks"]) < 6 or time.monotonic() < end:
        for way in WAYS:
            pair = [f"{way}_exact", f"{way}_fast"]
            order = pair if len(ratios[way]) % 2 else pair[::-1]
            seconds = {library: turn(library) for library in order}
            ratios[way].append(seconds[pair[1]] / seconds[pair[0]])
    return row | {f"{way}_fast_by_exact": statistics.median(values) for way, values in ratios.items()}


def measure(ranks, arguments, sizes):
    program = ROOT / "build/bench/collectives"
    mpi = Job(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", ranks, program, max(sizes)])
    jobs = {library: mpi for library in ["open_mpi", *OURS]}
    if not arguments.no_gloo:
        jobs["gloo"] = Job([sys.executable, "bench/peers/gloo_collectives.py", ranks, max(sizes)])
    for size in sizes:
        for kind in arguments.kinds.split(","):
            yield {"ranks": ranks, "kind": kind, "bytes": size} | measure_cell(jobs, kind, size, arguments.seconds)
    for job in set(jobs.values()):
        job.end()


def row_text(row):
    """A line of the table, and the ratios below their bars."""
    peers = [name for name in ("open_mpi", "gloo") if name in row]
    ratios = {f"{ours}/{peer}": row[peer] / row[f"{ours}_exact"] for ours in ("ranks", "threads") for peer in peers}
    exact = {f"{way} exact/fast": row[f"{way}_fast_by_exact"] for way in WAYS}
    times = [f"{row[name] * 1e6:.0f}" if name in row else "-" for name in ("open_mpi", "gloo", "ranks_exact", "threads_exact")]
    cells = [f"{ratios[name]:.2f}" if name in ratios else "-"
             for name in ("ranks/open_mpi", "threads/open_mpi", "ranks/gloo", "threads/gloo")]
    cells += [f"{value:.2f}" for value in exact.values()]
    low = [f"{name} {value:.2f}" for bar, values in ((1, ratios), (0.95, {name: value for name, value in exact.items() if "messages" not in name})) for name, value in values.items() if value < bar]
    return " | ".join([f"| {row['ranks']}", row["kind"], size_text(row["bytes"]), *times, *cells]) + " |", low


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--kinds", default="all-reduce,reduce-scatter,all-gather")
    parser.add_argument("--sizes", default="64K,512K,4M,32M,256M")
    parser.add_argument("--seconds", type=float, default=2, help="for each cell, all libraries together")
    parser.add_argument("--no-gloo", action="store_true")
    parser.add_argument("--json", help="file that each cell's seconds are added to, a line each")
    arguments = parser.parse_args()
    if not (ROOT / "build/bench/collectives").exists() or not shutil.which("mpirun"):
        print("collectives: needs MPI (libopenmpi-dev, openmpi-bin) and build/bench/collectives; left out")
        return
    sizes = [bytes_of(text) for text in arguments.sizes.split(",")]
    print(f"load {' '.join(f'{load:.1f}' for load in os.getloadavg())} before")
    print("| ranks | call | size | Open MPI us | Gloo us | ranks us | threads us | ranks/MPI | threads/MPI | ranks/Gloo | "
          "threads/Gloo | ranks exact/fast | threads exact/fast | messages exact/fast |")
    print("| ---: | --- | ---: |" + " ---: |" * 11)
    below = []
    for ranks in map(int, arguments.ranks.split(",")):
        for row in measure(ranks, arguments, sizes):
            text, low = row_text(row)
            print(text, flush=True)
            if low:
                below.append(f"{ranks} ranks, {row['kind']} of {size_text(row['bytes'])}: {', '.join(low)}")
            if arguments.json:
                with open(arguments.json, "a") as file:
                    file.write(json.dumps(row) + "\n")
    print(f"load {' '.join(f'{load:.1f}' for load in os.getloadavg())} after")
    print("below the bars: " + ("none" if not below else "; ".join(below)))


if __name__ == "__main__":
    main()
