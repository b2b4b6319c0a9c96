"""Times a PyTorch training step of a language model of LSTM layers and prints one JSON object: median step seconds,
tokens per second, peak memory, and the memory that the interpreter and the libraries took before there was a model.

    python bench/peers/torch_lstm_train.py --precision f32 --batch 20 --sequence 35 --dropout 0.5
"""

import argparse
import json
import os
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

from torch_tools import all_is_imported, memory
from torch_train import draw_tokens


class LanguageModel(nn.Module):
    """Zaremba et al.'s (arXiv 1409.2329), with the names of PyTorch's example of a word language model."""

    def __init__(self, vocabulary, hidden, layers, dropout, tied):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(vocabulary, hidden)
        self.rnn = nn.LSTM(hidden, hidden, layers, dropout=dropout)
        self.decoder = nn.Linear(hidden, vocabulary)
        if tied:
            self.decoder.weight = self.encoder.weight

    def forward(self, tokens, state):
        out, state = self.rnn(self.drop(self.encoder(tokens)), state)
        return self.decoder(self.drop(out)), state


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", type=int, default=10000)
    parser.add_argument("--hidden", type=int, default=650)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--sequence", type=int, default=35)
    parser.add_argument("--dropout", type=float, default=0.5)
    parser.add_argument("--untied", action="store_true")
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    all_is_imported()
    model = LanguageModel(args.vocabulary, args.hidden, args.layers, args.dropout, not args.untied).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1.2e-6, fused=True)
    forward = torch.compile(model) if args.compile else model
    state = tuple(torch.zeros(args.layers, args.batch, args.hidden) for _ in range(2))

    def step(tokens):
        nonlocal state
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.precision == "bf16"):
            logits, state = forward(tokens[:-1], state)
        loss = functional.cross_entropy(logits.float().flatten(0, 1), tokens[1:].flatten())
        loss.backward()
        state = tuple(part.detach().float() for part in state)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    seconds = []
    for number in range(args.warmup + args.steps):
        tokens = draw_tokens((args.sequence + 1, args.batch), args.vocabulary, generator)
        start = time.perf_counter()
        loss = step(tokens)
        if number >= args.warmup:
            seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    print(json.dumps({
        "peer": f"torch {torch.__version__}" + (" compiled" if args.compile else " eager"),
        "step_seconds": median, "step_seconds_min": min(seconds), "step_seconds_max": max(seconds),
        "tokens_per_second": args.batch * args.sequence / median, **memory(), "loss": loss.item(),
        "load_average": os.getloadavg()[0],
    }))


if __name__ == "__main__":
    main()
