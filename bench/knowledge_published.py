"""Embeddings of knowledge graphs beside published results: trains the examples, and ranks the test triples with the weights
of the best evaluation.

    python bench/knowledge_published.py                              # both examples, whole
    python bench/knowledge_published.py --only complex --epochs 20   # a shorter run
    until python bench/knowledge_published.py --seconds 200; do sleep 1; done   # in pieces

Needs FB15k-237.tar.gz and WN18RR.tar.gz in RAMET_DATA/kg. With --seconds the bench works for about so long and ends with
status 3; called again with the same arguments, it goes on from its checkpoints in build/knowledge.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
NOT_DONE = 3

# Example, archive, graph set, and what LibKGE reports on the test triples.
EXAMPLES = {
    "complex": ("examples/complex-fb15k237.toml", "FB15k-237", "fb15k237.safetensors", 0.348),
    "rotate": ("examples/rotate-wn18rr.toml", "WN18RR", "wn18rr.safetensors", 0.478),
}


def call(command, **more):
    """The objects that a command prints."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=True, **more)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def prepare(args, archive, name, folder):
    """The graph set, made of the archive."""
    graphs = folder / name
    if graphs.exists():
        return graphs
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(args.data / "kg" / f"{archive}.tar.gz") as tar:
        members = [member for member in tar if member.isfile() and member.name.endswith(".txt")]
        texts = {pathlib.Path(member.name).name: tar.extractfile(member).read() for member in members}
    for text, content in texts.items():
        (folder / text).write_bytes(content)
    call([args.build / "ramet", "graphs", "prepare", "triples", folder, "--out", graphs], cwd=ROOT)
    return graphs


def train(args, recipe, graphs, run):
    """Whether all steps are done; the training is interrupted, and saved, when the time is up before."""
    if any(run.glob("checkpoints/*")):
        begin = ["--resume", run]
    else:
        begin = [recipe, f"--set=data.triples.set={graphs}", "--run", run, *(f"--set={each}" for each in args.set)]
        if args.epochs:
            begin.append(f"--set=train.epochs={args.epochs}")
    command = [args.build / "ramet", "train", *begin, "--threads", args.threads, "--json"]
    log = run.with_suffix(".jsonl")
    with log.open("a") as out:
        work = subprocess.Popen([str(word) for word in command], stdout=out, cwd=ROOT)
        try:
            status = work.wait(max(1.0, args.until - time.time()) if args.seconds else None)
        except subprocess.TimeoutExpired:
            work.send_signal(signal.SIGINT)
            status = work.wait()
    if status != 0:
        sys.exit(f"training failed: {log}")
    return json.loads(log.read_text().splitlines()[-1]).get("status") == "done"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path(os.environ.get("RAMET_DATA", "data")))
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/knowledge")
    parser.add_argument("--only", choices=EXAMPLES)
    parser.add_argument("--epochs", type=float, help="instead of the example's")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of the recipe")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0, help="work for about so long")
    args = parser.parse_args()
    args.until = time.time() + args.seconds
    for name, (recipe, archive, graphs, published) in EXAMPLES.items():
        if args.only in (None, name):
            folder = args.work / name
            found = prepare(args, archive, graphs, folder)
            if not train(args, ROOT / recipe, found, folder / "run"):
                sys.exit(NOT_DONE)
            test = call([args.build / "ramet", "eval", folder / "run", "--set", "data.triples.held_out=test", "--set",
                         "data.triples.ranked=0", "--threads", args.threads, "--json"], cwd=ROOT)[-1]
            print(f"{name} on {archive}: after {test['steps']} steps MRR {test['held_out_mrr']:.4f}, hits@1 "
                  f"{test['held_out_hits@1']:.4f}, hits@3 {test['held_out_hits@3']:.4f}, hits@10 "
                  f"{test['held_out_hits@10']:.4f} (published MRR {published})", flush=True)


if __name__ == "__main__":
    main()
