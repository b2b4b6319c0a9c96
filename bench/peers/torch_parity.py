"""Trains a PyTorch model on weights and batches that Ramet wrote, in f32 and without dropout, and compares the losses.

    build/bench/parity --model bert --out build/parity-bert        # writes weights, batches and Ramet's losses
    python bench/peers/torch_parity.py build/parity-bert            # prints both curves' largest relative difference
    python bench/peers/torch_parity.py build/parity-bert --record tests/samples/parity_bert.json
"""

import argparse
import json
import pathlib
import sys

import torch
from safetensors.torch import load_file

import torch_models
from torch_models import Bert, Gpt2


def bert_names(layers):
    names = {
        "bert.embeddings.word_embeddings.weight": "word.weight",
        "bert.embeddings.position_embeddings.weight": "position.weight",
        "bert.embeddings.token_type_embeddings.weight": "token_type.weight",
        "cls.predictions.bias": "decoder_bias",
    }
    pairs = [("bert.embeddings.LayerNorm", "norm"), ("bert.pooler.dense", "pooler"), ("cls.seq_relationship", "next_sentence"),
             ("cls.predictions.transform.dense", "transform"), ("cls.predictions.transform.LayerNorm", "transform_norm")]
    for i in range(layers):
        ours, theirs = f"bert.encoder.layer.{i}.", f"layers.{i}."
        pairs += [(ours + a, theirs + b) for a, b in [
            ("attention.self.qkv", "attention.qkv"), ("attention.output.dense", "attention.out"),
            ("attention.output.LayerNorm", "norm1"), ("intermediate.dense", "up"), ("output.dense", "down"),
            ("output.LayerNorm", "norm2")]]
    for ours, theirs in pairs:
        names[ours + ".weight"], names[ours + ".bias"] = theirs + ".weight", theirs + ".bias"
    return names


def gpt2_names(layers):
    names = {"transformer.wte.weight": "word.weight", "transformer.wpe.weight": "position.weight"}
    pairs = [("transformer.ln_f", "norm")]
    for i in range(layers):
        ours, theirs = f"transformer.h.{i}.", f"layers.{i}."
        pairs += [(ours + a, theirs + b) for a, b in [
            ("ln_1", "norm1"), ("attn.c_attn", "attention.qkv"), ("attn.c_proj", "attention.out"), ("ln_2", "norm2"),
            ("mlp.c_fc", "up"), ("mlp.c_proj", "down")]]
    for ours, theirs in pairs:
        names[ours + ".weight"], names[ours + ".bias"] = theirs + ".weight", theirs + ".bias"
    return names


def load_model(config, folder):
    presets = torch_models.BERT_PRESETS if config["model"] == "bert" else torch_models.GPT2_PRESETS
    presets["parity"] = (config["layers"], config["hidden"], config["heads"])
    make, names = (Bert, bert_names) if config["model"] == "bert" else (Gpt2, gpt2_names)
    model = make("parity", vocab=config["vocabulary"], positions=config["positions"], dropout=0.0, attention_dropout=0.0)
    weights = load_file(folder / "weights.safetensors")
    state = {}
    for ours, theirs in names(config["layers"]).items():
        tensor = weights.pop(ours)
        # GPT-2 keeps its projections as [in, out].
        state[theirs] = tensor.t().contiguous() if ".h." in ours and tensor.ndim == 2 else tensor
    if weights:
        sys.exit(f"weights that PyTorch's model does not have: {sorted(weights)}")
    model.load_state_dict(state)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--record", type=pathlib.Path, help="write PyTorch's losses as the test's sample")
    args = parser.parse_args()
    torch.set_num_threads(2)
    config = json.loads((args.folder / "config.json").read_text())
    model = load_model(config, args.folder)
    decay = config["weight_decay"]
    groups = [{"params": [p for p in model.parameters() if p.ndim >= 2], "weight_decay": decay},
              {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.0, betas=(config["beta1"], config["beta2"]), eps=config["epsilon"])
    batches = load_file(args.folder / "batches.safetensors")
    losses = []
    for step, rate in enumerate(config["learning_rates"]):
        for group in optimizer.param_groups:
            group["lr"] = rate
        batch = {name.split("/", 1)[1]: tensor.long() for name, tensor in batches.items() if name.startswith(f"{step}/")}
        loss = model(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config["clip_norm"])
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    if args.record:
        args.record.write_text(json.dumps({"peer": f"torch {torch.__version__}", "config": config, "losses": losses}) + "\n")
    worst = max(abs(a - b) / abs(b) for a, b in zip(config["losses"], losses))
    print(json.dumps({"model": config["model"], "steps": len(losses), "first_loss": losses[0], "last_loss": losses[-1],
                      "worst_relative_difference": worst, "bar": 1e-4, "met": worst <= 1e-4}))
    return 0 if worst <= 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
