"""Sums over neighbours and softmaxes over edges beside DGL's, on graphs of bench/graphs.py.

    python bench/graph_ops.py --dgl FOLDER/bin/python --set build/bench-graphs/dblp.safetensors

FOLDER is an environment with DGL (bench/peers/dgl_graph_ops.py says which packages). Both sides run on the same processors
with as many threads, by turns; a time is the least of a side's, and a ratio above 1 says that Ramet is faster. Needs
build/bench/graph_ops.
"""

import argparse
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def times(command, threads):
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), DGLBACKEND="pytorch")  # unbound: DGL and torch have an OpenMP each
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise SystemExit(done.stderr[-2000:])
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {(line["op"], line["width"]): line["ms"] for line in told}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dgl", required=True, help="python of an environment with DGL")
    parser.add_argument("--set", action="append", required=True)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.3, help="of an op in a round")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    print("| graph | op | width or heads | Ramet, ms | DGL, ms | speed |\n| --- | --- | ---: | ---: | ---: | ---: |")
    for graphs in args.set:
        best = {}
        sides = {"ramet": [ROOT / "build/bench/graph_ops", graphs, args.seconds, args.threads],
                 "dgl": [args.dgl, ROOT / "bench/peers/dgl_graph_ops.py", graphs, "--seconds", args.seconds, "--threads", args.threads]}
        for _ in range(args.rounds):
            for side, command in sides.items():
                for op, ms in times(command, args.threads).items():
                    best[side, op] = min(ms, best.get((side, op), 1e30))
        for side, op in best:
            if side == "ramet":
                ours, theirs = best["ramet", op], best["dgl", op]
                print(f"| {pathlib.Path(graphs).stem} | {op[0]} | {op[1]} | {ours:.3f} | {theirs:.3f} | {theirs / ours:.2f} |")
    print(f"load {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
