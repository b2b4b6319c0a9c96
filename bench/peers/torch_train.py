"""Times a PyTorch training step and prints one JSON object: median step seconds, tokens per second, peak memory, the
memory that the interpreter and the libraries took before there was a model, and the attention kernel that ran.

    python bench/peers/torch_train.py --model bert --preset base --sequence 128 --micro-batch 16 --precision bf16 --dropout 0
"""

import argparse
import json
import os
import statistics
import time

import torch

from torch_models import Bert, Gpt2, parameter_groups
from torch_tools import attention_path, card_memory, memory, wait_for

PADDING, CLASSIFY, SEPARATOR, MASK, SPECIAL = 0, 2, 3, 4, 5  # special tokens of BERT, and how many there are


def draw_tokens(shape, count, generator):
    """Tokens of `count` with the frequencies of Ramet's synthetic data (src/ramet/text/synthetic_batches.cc): nearly
    Zipf's law. One octave of the ranks, then one of its ranks."""
    least = 1 << torch.randint(0, count.bit_length(), shape, generator=generator)
    most = torch.clamp(2 * least - 1, max=count)
    return least - 1 + (torch.rand(shape, generator=generator, dtype=torch.float64) * (most - least + 1)).long()


def causal_batch(args, vocab, generator):
    tokens = draw_tokens((args.micro_batch, args.sequence + 1), vocab, generator)
    return {"input_ids": tokens[:, :-1].contiguous(), "labels": tokens[:, 1:].contiguous()}


def bert_batch(args, vocab, generator):
    """[CLS] a [SEP] b [SEP], 15% of the words masked: of these 80% by [MASK], 10% by another word."""
    rows, length = args.micro_batch, args.sequence
    ids = SPECIAL + draw_tokens((rows, length), vocab - SPECIAL, generator)
    cut = torch.randint(2, length - 2, (rows,), generator=generator)  # where the first [SEP] stands
    ids[:, 0], ids[:, -1] = CLASSIFY, SEPARATOR
    ids[torch.arange(rows), cut] = SEPARATOR
    masked = min(args.max_predictions, round(0.15 * (length - 3)))
    positions = torch.zeros((rows, args.max_predictions), dtype=torch.long)
    labels = torch.full((rows, args.max_predictions), -1)
    for row in range(rows):
        words = torch.nonzero(ids[row] >= SPECIAL).flatten()
        chosen = words[torch.randperm(len(words), generator=generator)[:masked]].sort().values
        positions[row, :masked], labels[row, :masked] = chosen, ids[row, chosen]
        fate = torch.rand(masked, generator=generator)
        ids[row, chosen[fate < 0.8]] = MASK
        other = chosen[fate >= 0.9]
        ids[row, other] = SPECIAL + draw_tokens(other.shape, vocab - SPECIAL, generator)
    return {
        "input_ids": ids,
        "token_type_ids": (torch.arange(length) > cut[:, None]).long(),
        "attention_mask": torch.ones((rows, length), dtype=torch.long),
        "masked_positions": positions,
        "masked_labels": labels,
        "next_sentence_label": torch.randint(0, 2, (rows,), generator=generator),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["bert", "gpt2"], default="bert")
    parser.add_argument("--preset", default="base")
    parser.add_argument("--sequence", type=int, default=128)
    parser.add_argument("--micro-batch", type=int, default=16)
    parser.add_argument("--max-predictions", type=int, default=20)
    parser.add_argument("--precision", choices=["f32", "bf16"], default="bf16")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--pad-vocabulary", type=int, default=1, help="embeddings have a multiple of so many rows")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.set_float32_matmul_precision("highest")
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    vocab = 30522 if args.model == "bert" else 50257
    rows = -(-vocab // args.pad_vocabulary) * args.pad_vocabulary
    make, make_batch = (Bert, bert_batch) if args.model == "bert" else (Gpt2, causal_batch)
    model = make(args.preset, vocab=rows, dropout=args.dropout, attention_dropout=args.dropout).train().to(args.device)
    optimizer = torch.optim.AdamW(parameter_groups(model, 0.01), lr=1e-4, fused=True)
    forward = torch.compile(model) if args.compile else model

    def step(batch):
        with torch.autocast(args.device, dtype=torch.bfloat16, enabled=args.precision == "bf16"):
            loss = forward(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    seconds = []
    for number in range(args.warmup + args.steps):
        batch = {key: tensor.to(args.device) for key, tensor in make_batch(args, vocab, generator).items()}
        wait_for(args.device)
        start = time.perf_counter()
        loss = step(batch)
        wait_for(args.device)
        if number >= args.warmup:
            seconds.append(time.perf_counter() - start)
    used = memory() if args.device == "cpu" else card_memory()
    median = statistics.median(seconds)
    print(json.dumps({
        "peer": f"torch {torch.__version__}" + (" compiled" if args.compile else " eager"),
        "device": args.device if args.device == "cpu" else torch.cuda.get_device_name(),
        "step_seconds": median, "step_seconds_min": min(seconds), "step_seconds_max": max(seconds),
        "tokens_per_second": args.micro_batch * args.sequence / median,
        **used, "attention": attention_path(lambda: step(batch)), "dropout": args.dropout,
        "loss": loss.item(), "load_average": os.getloadavg()[0],
    }))


if __name__ == "__main__":
    main()
