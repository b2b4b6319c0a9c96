#!/usr/bin/env python3
"""Checks published weights against transformers: what it saves Ramet reads, with the same loss on the same rows, and what
Ramet exports it opens, with the same loss again. Small random models of every family and head; safetensors, several
safetensors with an index, and files of torch.save.

    .venv/bin/python scripts/weights.py            # needs the peers: scripts/setup.sh --peers
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORDS = ["the", "want", "run", "low", "cafe", "a"]
SEQUENCE = 16


def rows(head):
    """Rows of a file, its header first, and the recipe's keys for it."""
    texts = [(WORDS[i % 6] + " " + WORDS[(i * 5 + 1) % 6], WORDS[(i * i + 2) % 6], i) for i in range(12)]
    if head == "regression":
        return ["first\tsecond\tlabel"] + [f"{a}\t{b}\t{i / 4}" for a, b, i in texts]
    return ["first\tsecond\tlabel"] + [f"{a}\t{b}\t{'xyz'[i % 3]}" for a, b, i in texts]


def tiny_configs(transformers):
    sizes = {"vocab_size": 31, "max_position_embeddings": 20}
    bert = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24, **sizes}
    return {
        "bert": transformers.BertConfig(**bert, type_vocab_size=2),
        "bert-tanh": transformers.BertConfig(**bert, type_vocab_size=2, hidden_act="gelu_new", layer_norm_eps=1e-5),
        "roberta": transformers.RobertaConfig(**bert, type_vocab_size=1, pad_token_id=1),
        "distilbert": transformers.DistilBertConfig(dim=16, n_layers=2, n_heads=2, hidden_dim=24, **sizes),
    }


class Check:
    def __init__(self, folder, ramet):
        import torch
        import transformers

        self.torch, self.transformers = torch, transformers
        self.folder, self.ramet = pathlib.Path(folder), ramet
        self.vocabulary = ROOT / "tests/samples/data/tiny-vocab.txt"
        self.tokens = {token: i for i, token in enumerate(self.vocabulary.read_text().split("\n"))}
        self.bad = 0

    def model(self, config, head):
        make = self.transformers.AutoModelForSequenceClassification
        config.num_labels = 1 if head == "regression" else 3
        config.problem_type = "regression" if head == "regression" else None
        self.torch.manual_seed(0)
        model = make.from_config(config).eval()
        with self.torch.no_grad():  # larger than models begin, so that a wrong place shows
            for parameter in model.parameters():
                parameter.add_(self.torch.randn_like(parameter) * 0.3)
        return model

    def loss(self, model, head):
        ids, types, labels = [], [], []
        with_types = getattr(model.config, "type_vocab_size", 0) > 1
        for row in rows(head)[1:]:
            a, b, label = row.split("\t")
            first = ["[CLS]", *a.split(), "[SEP]"]
            second = [*b.split(), "[SEP]"]
            ids.append([self.tokens[token] for token in first + second])
            types.append([0] * len(first) + [1 if with_types else 0] * len(second))
            labels.append(float(label) if head == "regression" else "xyz".index(label))
        pad = lambda values: self.torch.tensor([v + [0] * (SEQUENCE - len(v)) for v in values])  # noqa: E731
        inputs = {"input_ids": pad(ids), "attention_mask": pad([[1] * len(v) for v in ids]), "labels": self.torch.tensor(labels)}
        if with_types:
            inputs["token_type_ids"] = pad(types)
        if model.config.model_type == "roberta":  # it finds positions by the padding's id, which the rows here do not have
            inputs["position_ids"] = self.torch.arange(2, 2 + SEQUENCE).expand(len(ids), -1)
        with self.torch.no_grad():
            return float(model(**inputs).loss)

    def run(self, *words):
        result = subprocess.run([str(self.ramet), *map(str, words), "--json"], capture_output=True, text=True, cwd=self.folder)
        if result.returncode != 0:
            sys.exit(f"weights: ramet {' '.join(map(str, words))} failed:\n{result.stderr[-2000:]}")
        return json.loads(result.stdout.strip().splitlines()[-1])

    def recipe(self, source, head, name):
        path = self.folder / f"{name}.toml"
        (self.folder / f"{head}.tsv").write_text("\n".join(rows(head)) + "\n")
        labels = "" if head == "regression" else 'labels = "x,y,z"\n'
        path.write_text(f'[model]\ninit_from = "{source}"\n[data]\nsequence_length = {SEQUENCE}\n[task]\nkind = "{head}"\n'
                        f'train = "{head}.tsv"\ndev = "{head}.tsv"\ntokenizer = "{self.vocabulary}"\ntext = "first"\n'
                        f'pair = "second"\nlabel = "label"\n{labels}[train]\nmicro_batch = 4\nprecision = "f32"\n')
        return path

    def compare(self, what, ours, theirs):
        good = abs(ours - theirs) <= 2e-5 * max(1.0, abs(theirs))
        self.bad += not good
        print(f"{'same ' if good else 'OTHER'} {what}: ramet {ours:.6f}, transformers {theirs:.6f}", flush=True)

    def family(self, name, config, head):
        model = self.model(config, head)
        saved = self.folder / f"{name}-{head}"
        model.save_pretrained(saved)
        recipe = self.recipe(saved, head, f"{name}-{head}")
        self.compare(f"{name} {head}, safetensors", self.run("eval", recipe)["held_out_loss"], self.loss(model, head))
        pieces = self.folder / f"{name}-{head}-pieces"
        model.save_pretrained(pieces, max_shard_size="8KB")
        assert (pieces / "model.safetensors.index.json").exists()
        self.compare(f"{name} {head}, several files", self.run("eval", self.recipe(pieces, head, "pieces"))["held_out_loss"],
                     self.loss(model, head))
        (saved / "model.safetensors").unlink()
        self.torch.save(model.state_dict(), saved / "pytorch_model.bin")
        run = self.folder / f"run-{name}-{head}"
        end = self.run("train", recipe, "--steps", 3, "--run", run)
        exported = self.folder / f"out-{name}-{head}"
        self.run("export", run / "checkpoints/step-00000003", "--out", exported)
        opened, notes = self.transformers.AutoModelForSequenceClassification.from_pretrained(exported, output_loading_info=True)
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            if notes[kind]:
                self.bad += 1
                print(f"OTHER {name} {head}: {kind} {notes[kind]}")
        self.compare(f"{name} {head}, torch.save, trained and exported", end["held_out_loss"], self.loss(opened.eval(), head))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ramet", type=pathlib.Path, default=ROOT / "build/ramet")
    args = parser.parse_args()
    os.environ |= {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1"}
    try:
        import transformers
    except ImportError:
        sys.exit("weights: no transformers here; run scripts/setup.sh --peers")
    with tempfile.TemporaryDirectory() as folder:
        check = Check(folder, args.ramet.resolve())
        for name, config in tiny_configs(transformers).items():
            for head in ("classification", "regression"):
                check.family(name, config, head)
    sys.exit(f"weights: {check.bad} comparisons differ" if check.bad else 0)


if __name__ == "__main__":
    main()
