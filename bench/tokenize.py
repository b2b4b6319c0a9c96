"""Speed of Ramet's tokenizers against Hugging Face `tokenizers`, in one run on the same lines of text.

    bench/tokenize.py [--build build] [--threads 2] [--repeats 5] [FILE...]

Needs the package `tokenizers` and, in RAMET_DATA, vocab/bert-base-uncased.txt, vocab/gpt2-encoder.json,
vocab/gpt2-merges.bpe and text/*.txt. The two programs take turns; what is printed is the ratio of the medians, and
whether the ids are the same on every line. Hugging Face runs `encode_batch_fast` (no offsets) on as many threads.
"""

import argparse
import array
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def peer(kind, vocab):
    from tokenizers import BertWordPieceTokenizer, ByteLevelBPETokenizer

    if kind == "wordpiece":
        return BertWordPieceTokenizer(str(vocab / "bert-base-uncased.txt"), lowercase=True)
    return ByteLevelBPETokenizer(str(vocab / "gpt2-encoder.json"), str(vocab / "gpt2-merges.bpe"))


def read_ids(path):
    values = array.array("i", path.read_bytes())
    lines, at = [], 0
    while at < len(values):
        lines.append(values[at + 1 : at + 1 + values[at]].tolist())
        at += 1 + values[at]
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = str(options.threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    data = os.environ.get("RAMET_DATA")
    if not data:
        sys.exit("RAMET_DATA is not set: it names the folder with vocab/ and text/")
    vocab = Path(data) / "vocab"
    files = options.files or sorted(str(path) for path in (Path(data) / "text").glob("*.txt"))
    lines = []
    for name in files:
        text = Path(name).read_bytes().decode("utf-8")
        lines += text.removesuffix("\n").split("\n")
    worst = 1e9
    for kind, name in (("wordpiece", "bert-base-uncased.txt"), ("bpe", "gpt2-encoder.json")):
        other = peer(kind, vocab)
        ours, theirs = [], []
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "ids"
            for _ in range(options.repeats):
                command = [f"{options.build}/bench/tokenize", str(vocab / name), str(options.threads), "1", *files]
                run = subprocess.run([*command, "--ids", str(out)], capture_output=True, text=True)
                if run.returncode:
                    sys.exit(run.stderr)
                result = json.loads(run.stdout)
                ours += result["seconds"]
                start = time.perf_counter()
                encoded = other.encode_batch_fast(lines, add_special_tokens=False) if hasattr(
                    other, "encode_batch_fast") else other._tokenizer.encode_batch_fast(lines, add_special_tokens=False)
                theirs.append(time.perf_counter() - start)
            differ = sum(a != b.ids for a, b in zip(read_ids(out), encoded, strict=True))
        ratio = statistics.median(theirs) / statistics.median(ours)
        worst = min(worst, ratio)
        row = {
            "kind": kind, "megabytes": round(result["bytes"] / 1e6, 2), "tokens": result["tokens"],
            "threads": options.threads, "ramet_mb_per_second": round(result["bytes"] / 1e6 / statistics.median(ours), 1),
            "peer_mb_per_second": round(result["bytes"] / 1e6 / statistics.median(theirs), 1),
            "ratio_of_medians": round(ratio, 2), "lines_that_differ": differ, "lines": len(lines),
            "load_average": round(os.getloadavg()[0], 2),
        }
        print(json.dumps(row) if options.json else "  ".join(f"{k} {v}" for k, v in row.items()), flush=True)
        if differ:
            sys.exit(f"{kind}: {differ} lines differ from the peer's")
    return 0 if worst >= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
