"""Sentences for a teacher to answer, made from a task's own: two of one label joined, words left out and words exchanged for
other words of the task. Tang et al. 2019 (arXiv 1903.12136, section 3.3) and Jiao et al. 2020 (TinyBERT, arXiv 1909.10351,
section 3.2) widen small sets of training sentences in such ways before they distil a model.

    python bench/made_text.py GLUE/SST-2 --copies 3 --out FOLDER
"""

import argparse
import pathlib
import random
import shutil

JOINED = 0.5  # share of made sentences that two sentences are joined in
LEFT_OUT = 0.1  # share of words
EXCHANGED = 0.1


def altered(words, vocabulary, draw):
    """Those words without some, and with some others; at least one is left."""
    kept = []
    for word in words:
        chance = draw.random()
        if chance < LEFT_OUT:
            continue
        kept.append(draw.choice(vocabulary) if chance < LEFT_OUT + EXCHANGED else word)
    return kept or [draw.choice(words)]


def made(rows, copies, seed):
    """`copies` sentences for each of `rows`, pairs of a sentence and its label. The same for the same seed."""
    draw = random.Random(seed)
    of_label = {}
    for text, label in rows:
        of_label.setdefault(label, []).append(text)
    vocabulary = [word for text, _ in rows for word in text.split()]  # as often as the task has each
    for _ in range(copies):
        for text, label in rows:
            words = text.split()
            if draw.random() < JOINED:
                words += draw.choice(of_label[label]).split()
            yield " ".join(altered(words, vocabulary, draw)), label


def widen(source, target, copies, seed=1):
    """Writes the folder `target`: the task of `source`, whose first line of train.tsv names the columns sentence and label, with
    `copies` made sentences beside each of its own. Does nothing where that is there already."""
    if (target / "train.tsv").exists():
        return
    head, *lines = (source / "train.tsv").read_text(encoding="utf-8").splitlines()
    if head.split("\t") != ["sentence", "label"]:
        raise SystemExit(f"{source / 'train.tsv'}: columns {head!r}; expected: sentence and label, as SST-2 has them")
    rows = [(text, label) for text, label in (line.split("\t") for line in lines) if text.strip()]
    target.mkdir(parents=True, exist_ok=True)
    for file in source.glob("*.tsv"):
        if file.name != "train.tsv":
            shutil.copy(file, target)
    text = "\n".join([head, *lines, *("\t".join(row) for row in made(rows, copies, seed))]) + "\n"
    draft = target / "train.tsv.draft"
    draft.write_text(text, encoding="utf-8")
    draft.rename(target / "train.tsv")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path, help="folder of SST-2")
    parser.add_argument("--copies", type=int, default=3, help="made sentences beside each of its own")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    widen(args.source, args.out, args.copies, args.seed)
