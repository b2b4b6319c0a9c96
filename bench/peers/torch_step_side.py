"""One side of bench/torch_step.py: some training steps of a model of transformers, with Ramet or with PyTorch, in bf16.

Prints one JSON object: the median seconds of a step, seconds until the first step is done (with export, import and
compilation, which Ramet's side gives one by one, or torch.compile), the overhead of Python (Ramet: the call's time without
the step's own), peak memory of the process, what it took before there was a model, and the hash of Ramet's weights in the end.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(pathlib.Path(os.environ.get("RAMET_BUILD_DIR", ROOT / "build")) / "python"))

import torch
import transformers

from torch_zoo import without_dropout


def ids(samples, length, words=30000):
    tokens = torch.randint(3, words, (samples, length))
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens.clone()}


def pixels(samples):
    return {"pixel_values": torch.randn(samples, 3, 224, 224), "labels": torch.randint(0, 10, (samples,))}


def speech(samples):
    return {"input_values": torch.randn(samples, 16000), "labels": torch.randint(0, 10, (samples,))}


CASES = {
    "bert-base": ("BertForMaskedLM", "BertConfig", {}, lambda: ids(16, 128)),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", dict(use_cache=False), lambda: ids(2, 1024)),
    "vit-b": ("ViTForImageClassification", "ViTConfig", dict(num_labels=10), lambda: pixels(16)),
    "t5-small": ("T5ForConditionalGeneration", "T5Config", dict(use_cache=False, decoder_start_token_id=0),
                 lambda: ids(16, 128)),
    "wav2vec2-base": ("Wav2Vec2ForSequenceClassification", "Wav2Vec2Config",
                      dict(apply_spec_augment=False, layerdrop=0.0, num_labels=10), lambda: speech(4)),
}


def ramet_step(module, optimizer, batch, args, found):
    import ramet.torch as rt
    step = rt.training_model(module, optimizer, example=batch, loss="loss", options=rt.Options(
        precision="bf16", max_grad_norm=args.clip or None, threads=args.threads, layout=args.layout,
        device_memory=args.device_memory or None, memory=args.memory, moments=args.moments))
    found |= {name + "_seconds": seconds for name, seconds in step.build_seconds.items()}

    def run():
        began = time.perf_counter()
        result = step(**batch)
        return time.perf_counter() - began - result.seconds
    run.weights_hash = step.weights_hash
    return run


def torch_step(module, optimizer, batch, args):
    def train():
        with torch.autocast("cpu", torch.bfloat16):
            loss = module(**batch)["loss"]
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if args.clip:
            torch.nn.utils.clip_grad_norm_(module.parameters(), args.clip)
        optimizer.step()
        return 0.0
    if args.side == "torch compiled":
        module.compile()
    return train


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=list(CASES), required=True)
    parser.add_argument("--side", choices=["ramet", "torch eager", "torch compiled"], required=True)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--layout", default="", help="of Ramet, such as recompute=cheap")
    parser.add_argument("--device-memory", default="", help="that Ramet's program may take, such as 1.9GiB")
    parser.add_argument("--memory", default="", help="Ramet: Options.memory, such as low")
    parser.add_argument("--moments", default="f32", help="Ramet: their type, f32 or bf16")
    parser.add_argument("--clip", type=float, default=0, help="largest norm of the gradients; 0: any")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    model_class, config_class, settings, make_batch = CASES[args.case]
    model_class = getattr(transformers, model_class)  # transformers imports its own needs only here
    config = getattr(transformers, config_class)(**settings)
    if args.side == "ramet":
        import ramet.torch  # a part of what the process has before there is a model
    found = {"imported_bytes": peak_bytes()}
    module, batch = without_dropout(model_class(config)).train(), make_batch()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4, fused=args.side != "ramet")
    began = time.perf_counter()
    run = ramet_step(module, optimizer, batch, args, found) if args.side == "ramet" else \
        torch_step(module, optimizer, batch, args)
    run()
    ready = time.perf_counter() - began
    seconds, overheads = [], []
    for _ in range(args.steps):
        began = time.perf_counter()
        overheads.append(run())
        seconds.append(time.perf_counter() - began)
    peak = peak_bytes()
    if args.side == "ramet":
        found["weights_hash"] = run.weights_hash()
    print(json.dumps(found | {"step_seconds": statistics.median(seconds), "ready_seconds": ready,
                              "overhead_seconds": statistics.median(overheads), "peak_bytes": peak}))


if __name__ == "__main__":
    main()
