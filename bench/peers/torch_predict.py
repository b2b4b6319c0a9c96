"""Times prediction in PyTorch and prints one JSON object.

    python bench/peers/torch_predict.py bert --batch 8             # the likeliest words of 20 masks, sequences of 128
    python bench/peers/torch_predict.py gpt2                       # transformers' generate with its cache, 128 tokens after 128
    python bench/peers/torch_predict.py gpt2 --make-weights FILE   # random GPT-2 124M as safetensors
    python bench/peers/torch_predict.py gpt2 --weights FILE --greedy 32 --ids 5,6,7   # tokens and how sure each is, in f32
"""

import argparse
import json
import os
import statistics
import time

import torch

from torch_models import Bert
from torch_tools import all_is_imported, attention_path, memory


def timed(call, seconds, least=5):
    for _ in range(2):
        call()
    latencies = []
    begin = time.perf_counter()
    while len(latencies) < least or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        call()
        latencies.append(time.perf_counter() - start)
    return latencies


def bert(args):
    model = Bert("base", dropout=0, attention_dropout=0).eval().to(torch.bfloat16 if args.precision == "bf16" else torch.float32)
    generator = torch.Generator().manual_seed(1)
    shape = (args.batch, 128)
    batch = {"input_ids": torch.randint(5, 30522, shape, generator=generator),
             "token_type_ids": torch.zeros(shape, dtype=torch.long),
             "attention_mask": torch.ones(shape, dtype=torch.long),
             "masked_positions": torch.randint(0, 128, (args.batch, 20), generator=generator)}
    predict = torch.compile(model.predict) if args.compile else model.predict
    latencies = timed(lambda: predict(batch), args.seconds)
    used = memory()
    return {"p50_ms": 1000 * statistics.median(latencies), "samples_per_second": args.batch * len(latencies) / sum(latencies), **used,
            "attention": attention_path(lambda: predict(batch))}


def gpt2_model(args):
    from transformers import GPT2Config, GPT2LMHeadModel
    all_is_imported()
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config()).eval()  # the defaults are those of 124M
    if args.weights:
        from safetensors.torch import load_file
        missing, unexpected = model.load_state_dict(load_file(args.weights), strict=False)
        assert not unexpected and all("lm_head" in name or name.endswith(".attn.bias") for name in missing), (missing, unexpected)
        model.tie_weights()
    return model


def gpt2(args):
    model = gpt2_model(args)
    if args.make_weights:
        from safetensors.torch import save_file
        save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()
                   if name != "lm_head.weight" and not name.endswith((".attn.bias", ".attn.masked_bias"))}, args.make_weights)
        return {"weights": args.make_weights}
    never = {"pad_token_id": 0, "eos_token_id": None, "do_sample": False, "use_cache": True}
    if args.greedy:
        ids = torch.tensor([[int(word) for word in args.ids.split(",")]])
        out = model.generate(ids, max_new_tokens=args.greedy, output_scores=True, return_dict_in_generate=True,
                             attention_mask=torch.ones_like(ids), **never)
        gaps = [float(best[0] - best[1]) for best in (scores[0].topk(2).values for scores in out.scores)]
        return {"tokens": out.sequences[0, ids.shape[1]:].tolist(), "gaps": gaps}
    if args.precision == "bf16":
        model = model.to(torch.bfloat16)
    if args.compile:
        never["cache_implementation"] = "static"
        model.forward = torch.compile(model.forward, fullgraph=False)
    ids = torch.randint(0, 50257, (args.batch, 128), generator=torch.Generator().manual_seed(1))

    def generate(tokens):
        model.generate(ids, max_new_tokens=tokens, min_new_tokens=tokens, attention_mask=torch.ones_like(ids), **never)

    whole = statistics.median(timed(lambda: generate(128), args.seconds, least=3))
    first = statistics.median(timed(lambda: generate(1), 0, least=3))
    used = memory()
    return {"seconds": whole, "first_token_ms": 1000 * first, "token_ms": 1000 * (whole - first) / 127, **used,
            "attention": attention_path(lambda: generate(2))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=["bert", "gpt2"])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--precision", choices=["f32", "bf16"], default="bf16")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--make-weights")
    parser.add_argument("--weights")
    parser.add_argument("--greedy", type=int, default=0)
    parser.add_argument("--ids", default="0")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with torch.inference_mode():
        result = bert(args) if args.model == "bert" else gpt2(args)
    result.update({"peer": f"torch {torch.__version__}" + (" compiled" if args.compile else " eager"), "load_average": os.getloadavg()[0]})
    print(json.dumps(result))


if __name__ == "__main__":
    main()
