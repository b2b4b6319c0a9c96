"""Real tokens a second with and without packing, in turn in one run, against the packing factor.

    python bench/packing.py                                  # BERT-mini, sequence 128, bf16: about two minutes on two cores
    python bench/packing.py --preset base --micro-batch 8 --steps 4 --rounds 2
    python bench/packing.py --histogram lengths.tsv          # documents as long as a histogram's sequences, scaled to the row

Makes a corpus of short documents (words of a made-up vocabulary; nothing of what is measured depends on sense), then trains
the same recipe padded and packed, in turn. Real tokens are those that are no padding. The packing factor is how many times more
of them a row holds; packing must raise their rate by 0.9 of it. Prints a line of JSON a measurement and the table; ends with
status 1 below.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "bench-packing"
WORDS = 8000
LEAST_SHARE = 0.9


def ramet(*words):
    result = subprocess.run([str(ROOT / "build/ramet"), *words, "--json"], capture_output=True, text=True, cwd=WORK)
    if result.returncode != 0:
        sys.exit(result.stderr)
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def lengths(options, rng):
    """Endless lengths of documents, in tokens."""
    if not options.histogram:
        while True:
            yield rng.randint(options.sequence // 8, options.sequence)
    counts = [tuple(map(int, line.split())) for line in pathlib.Path(options.histogram).read_text().splitlines()[1:] if line.strip()]
    row = max(length for length, _ in counts)
    while True:
        length, = rng.choices([length for length, _ in counts], [count for _, count in counts])
        yield max(8, length * options.sequence // row)


def make_corpus(options):
    rng = random.Random(options.seed)
    vocabulary = WORK / "vocabulary"
    vocabulary.mkdir(parents=True, exist_ok=True)
    words = [f"w{i}" for i in range(WORDS)]
    (vocabulary / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]) + "\n")
    with open(WORK / "text.txt", "w") as text:
        for _, length in zip(range(options.documents), lengths(options, rng)):
            tokens = max(2, length - 3)
            cut = rng.randint(1, tokens - 1)
            for count in (cut, tokens - cut):
                text.write(" ".join(rng.choices(words, k=count)) + "\n")
            text.write("\n")
    corpus = WORK / "corpus"
    shutil.rmtree(corpus, ignore_errors=True)
    ramet("corpus", "--tokenizer", str(vocabulary), "--heldout", "0.01", "--out", str(corpus), str(WORK / "text.txt"))


def measure(packing, options):
    recipe = WORK / "recipe.toml"
    recipe.write_text(f"""
[model]
preset = "{options.preset}"
[data]
kind = "text"
corpus = "corpus"
sequence_length = {options.sequence}
short_sequences = 0
packing = "{packing}"
packing_depth = {options.depth}
[train]
steps = 1000
micro_batch = {options.micro_batch}
precision = "{options.precision}"
[train.evaluation]
batches = 0
""")
    shutil.rmtree(WORK / "runs", ignore_errors=True)
    lines = ramet("train", str(recipe), "--steps", str(options.steps + 1), "--run-dir", str(WORK / "runs"))
    steps = [line for line in lines if line.get("event") == "step"][1:]
    return {"packing": packing, "real_tokens_per_second": statistics.median(step["real_tokens_per_second"] for step in steps),
            "density": statistics.mean(step["real_tokens_per_second"] / step["tokens_per_second"] for step in steps),
            "step_seconds": statistics.median(step["step_seconds"] for step in steps)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="mini")
    parser.add_argument("--sequence", type=int, default=128)
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--packing", default="lpfhp")
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--micro-batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=12, help="steps a measurement, beside a first one that does not count")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--documents", type=int, default=6000)
    parser.add_argument("--histogram", help="a file of lengths and counts, as `ramet pack` reads them")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    make_corpus(options)
    load = os.getloadavg()[0]
    found = {"none": [], options.packing: []}
    for _ in range(options.rounds):
        for packing, measurements in found.items():
            measurements.append(measure(packing, options))
            print(json.dumps(measurements[-1]), flush=True)
    padded, packed = (
        {key: statistics.median(each[key] for each in measurements) for key in ("real_tokens_per_second", "density", "step_seconds")}
        for measurements in found.values())
    factor = packed["density"] / padded["density"]
    gain = packed["real_tokens_per_second"] / padded["real_tokens_per_second"]
    ratios = sorted(b["real_tokens_per_second"] / a["real_tokens_per_second"] for a, b in zip(*found.values()))
    print(f"{'':8}{'density':>10}{'ms a step':>12}{'real tokens/s':>16}")
    for name, row in (("padded", padded), ("packed", packed)):
        print(f"{name:8}{row['density']:10.1%}{1000 * row['step_seconds']:12.1f}{row['real_tokens_per_second']:16.0f}")
    print(f"packing factor {factor:.3f}, gain {gain:.3f} (rounds {ratios[0]:.3f} to {ratios[-1]:.3f}): "
          f"{gain / factor:.3f} of the factor; {options.preset}, sequence {options.sequence}, {options.precision}, "
          f"load {load:.1f} before, {os.getloadavg()[0]:.1f} after")
    sys.exit(gain < LEAST_SHARE * factor)


if __name__ == "__main__":
    main()
