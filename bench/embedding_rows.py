"""Embeddings of a made-up knowledge graph, with the table of entities on the device and with its rows in streaming memory
(offload=rows): time of a step, and the peak of the process.

    python bench/embedding_rows.py --folder /fast/disk                   # 3 million entities of 128 features
    python bench/embedding_rows.py --folder /fast/disk --layouts file --entities 10000000

Each layout trains for some seconds, and is ended before it saves anything. Heads and tails are drawn from Zipf's law, as entities
of real graphs are frequent or rare. --cap limits the anonymous memory of the process (RLIMIT_DATA).
"""

import argparse
import csv
import json
import pathlib
import re
import resource
import statistics
import struct
import subprocess
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent


def write_set(path, entities, triples, relations=20):
    """A graph set of drawn triples, as docs/graphs.md describes the file."""
    draw = np.random.default_rng(1)
    rank = np.exp(draw.random((2, triples)) * np.log(entities)).astype(np.int64) - 1  # density 1 / rank
    ends = (rank * 2654435761 % entities).astype(np.int32)  # frequent ones lie anywhere in the table
    relation = draw.integers(0, relations, triples, dtype=np.int32)
    order = np.lexsort((ends[0], ends[1]))
    tensors = {
        "node.ptr": np.array([0, entities], np.int64),
        "edge.ptr": np.array([0, triples], np.int64),
        "edge.index": ends[:, order],
        "edge.relation": relation[order],
    }
    schema = {
        "version": 1,
        "graphs": 1,
        "nodes": ["node"],
        "edges": [["node", "edge", "node"]],
        "fields": [{"name": "relation", "per": "edge", "of": "edge", "values": [f"r{i}" for i in range(relations)]}],
    }
    header, offset = {"__metadata__": {"ramet.graphs": json.dumps(schema)}}, 0
    for name, tensor in tensors.items():
        kind = {"int64": "I64", "int32": "I32"}[str(tensor.dtype)]
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [offset, offset + tensor.nbytes]}
        offset += tensor.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(np.ascontiguousarray(tensor).tobytes())


def peak_of(pid):
    """The most resident memory that a process had, in MiB."""
    return int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) // 1024


def measure(args, layout, graphs, runs):
    command = [ROOT / "build/ramet", "train", ROOT / "bench/embedding_rows.toml", f"--set=data.triples.set={graphs}"]
    command += [f"--set=model.knowledge.width={args.width}", "--layout", layout, "--threads", args.threads, "--json"]
    command += ["--run", runs / "run", *(f"--set={each}" for each in args.set)]
    cap = int(args.cap * 2**30)

    def limit():
        if cap and "streaming" in layout:
            resource.setrlimit(resource.RLIMIT_DATA, (cap, cap))

    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, preexec_fn=limit)
    try:
        process.wait(args.seconds)
        raise SystemExit(f"the run with {layout} ended by itself")
    except subprocess.TimeoutExpired:
        peak = peak_of(process.pid)
    finally:
        process.kill()
        process.wait()
    export = [ROOT / "build/ramet", "runs", "export", runs / "run", "--format", "csv", "--out", runs / "run.csv"]
    subprocess.run([str(word) for word in export], check=True, stdout=subprocess.DEVNULL)
    rows = list(csv.DictReader(open(runs / "run.csv")))
    later = [float(row["step_seconds"]) for row in rows[len(rows) // 4 :] if row.get("step_seconds")]
    return {
        "layout": layout.replace(str(args.folder), "FOLDER"),
        "steps": len(rows),
        "median_ms": round(1000 * statistics.median(later), 2) if later else None,
        "peak_mib": peak,
        "losses": [rows[at]["loss"] for at in (0, 99) if at < len(rows)],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="of the graph set and of streaming files")
    parser.add_argument("--entities", type=int, default=3_000_000)
    parser.add_argument("--triples", type=int, default=3_000_000)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cap", type=float, default=0, help="GiB of memory of the run with rows in a file")
    parser.add_argument("--seconds", type=float, default=60, help="of a run, drawing the first weights included")
    parser.add_argument("--layouts", nargs="+", default=["device", "ram", "file"], choices=["device", "ram", "file"])
    parser.add_argument("--set", action="append", default=[], help="a setting of the recipe")
    args = parser.parse_args()
    layouts = {"device": "p=1", "ram": "offload=rows", "file": f"offload=rows streaming={args.folder}"}
    graphs = args.folder / f"made-{args.entities}-{args.triples}.safetensors"
    if not graphs.exists():
        write_set(graphs, args.entities, args.triples)
    print(json.dumps({"table_mib": args.entities * args.width * 8 // 2**20, "of": "entities and sums of squares"}))
    for name in args.layouts:
        with tempfile.TemporaryDirectory(dir=args.folder) as runs:
            print(json.dumps(measure(args, layouts[name], graphs, pathlib.Path(runs))), flush=True)


if __name__ == "__main__":
    main()
