"""Times a PyTorch training step and prints one JSON object: median step seconds, tokens per second, peak memory.

    python bench/peers/torch_train.py --model bert --preset base --sequence 128 --micro-batch 16 --precision bf16
"""

import argparse
import json
import os
import resource
import statistics
import time

import torch

from torch_models import Bert, Gpt2, parameter_groups


def synthetic_batch(args, vocab, generator):
    shape = (args.micro_batch, args.sequence)
    ids = torch.randint(5, vocab, shape, generator=generator)
    if args.model == "gpt2":
        return {"input_ids": ids, "labels": torch.randint(5, vocab, shape, generator=generator)}
    predictions = args.max_predictions
    positions = torch.stack([torch.randperm(args.sequence, generator=generator)[:predictions].sort().values
                             for _ in range(args.micro_batch)])
    return {
        "input_ids": ids,
        "token_type_ids": (torch.arange(args.sequence) >= args.sequence // 2).long().expand(shape).contiguous(),
        "attention_mask": torch.ones(shape, dtype=torch.long),
        "masked_positions": positions,
        "masked_labels": torch.randint(5, vocab, (args.micro_batch, predictions), generator=generator),
        "next_sentence_label": torch.randint(0, 2, (args.micro_batch,), generator=generator),
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
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    vocab = 30522 if args.model == "bert" else 50257
    make = Bert if args.model == "bert" else Gpt2
    model = make(args.preset, vocab=vocab, dropout=args.dropout, attention_dropout=args.dropout).train()
    optimizer = torch.optim.AdamW(parameter_groups(model, 0.01), lr=1e-4, fused=True)
    forward = torch.compile(model) if args.compile else model

    seconds, losses = [], []
    for step in range(args.warmup + args.steps):
        batch = synthetic_batch(args, vocab, generator)
        start = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.precision == "bf16"):
            loss = forward(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step >= args.warmup:
            seconds.append(time.perf_counter() - start)
        losses.append(loss.item())
    median = statistics.median(seconds)
    print(json.dumps({
        "peer": f"torch {torch.__version__}" + (" compiled" if args.compile else " eager"),
        "step_seconds": median, "step_seconds_min": min(seconds), "step_seconds_max": max(seconds),
        "tokens_per_second": args.micro_batch * args.sequence / median,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "loss": losses[-1], "load_average": os.getloadavg()[0],
    }))


if __name__ == "__main__":
    main()
