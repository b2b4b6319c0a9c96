#!/usr/bin/env python3
"""Exact collectives beside Open MPI's and Gloo's, between 2, 4 and 8 ranks of this machine, for 64 KiB to 256 MiB of f32: how many
times faster Ramet's are (ratio of medians), between MPI ranks and between threads. The bar is 1 in every cell.

usage: bench/collectives.py [--ranks 2,4,8] [--most BYTES] [--seconds S] [--no-gloo]
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def lines_of(command):
    result = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    if result.returncode != 0:
        sys.exit(f"collectives: {' '.join(map(str, command))} ended with status {result.returncode}")
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def size_text(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--most", type=int, default=256 << 20)
    parser.add_argument("--seconds", type=float, default=1.5, help="for each cell and library")
    parser.add_argument("--no-gloo", action="store_true")
    arguments = parser.parse_args()
    program = ROOT / "build/bench/collectives"
    if not program.exists() or not shutil.which("mpirun"):
        print("collectives: needs MPI (libopenmpi-dev, openmpi-bin) and build/bench/collectives; left out")
        return
    print(f"load {' '.join(f'{load:.1f}' for load in os.getloadavg())} before")
    print("| ranks | call | size | Open MPI us | Gloo us | ranks us | threads us | ranks/MPI | threads/MPI | ranks/Gloo | threads/Gloo | exact/fast |")
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    below = []
    for ranks in map(int, arguments.ranks.split(",")):
        mpi = lines_of(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), str(program), "--most",
                        str(arguments.most), "--seconds", str(4 * arguments.seconds)])
        gloo = [] if arguments.no_gloo else lines_of([sys.executable, "bench/peers/gloo_collectives.py", str(ranks),
                                                      str(arguments.most), str(arguments.seconds)])
        gloo_of = {(row["kind"], row["bytes"]): row["gloo"] for row in gloo}
        for row in mpi:
            other = gloo_of.get((row["kind"], row["bytes"]))
            ratios = [row["open_mpi"] / row["ranks_exact"], row["open_mpi"] / row["threads_exact"]]
            ratios += [other / row["ranks_exact"], other / row["threads_exact"]] if other else []
            cells = [f"{ratio:.2f}" for ratio in ratios] + ["-"] * (4 - len(ratios))
            print(f"| {ranks} | {row['kind']} | {size_text(row['bytes'])} | {row['open_mpi'] * 1e6:.0f} | "
                  f"{other * 1e6 if other else 0:.0f} | {row['ranks_exact'] * 1e6:.0f} | {row['threads_exact'] * 1e6:.0f} | "
                  + " | ".join(cells) + f" | {row['ranks_fast'] / row['ranks_exact']:.2f} |", flush=True)
            if min(ratios) < 1:
                below.append(f"{ranks} ranks, {row['kind']} of {size_text(row['bytes'])}: {min(ratios):.2f}")
    print(f"load {' '.join(f'{load:.1f}' for load in os.getloadavg())} after")
    print("below the bar of 1: " + ("none" if not below else "; ".join(below)))


if __name__ == "__main__":
    main()
