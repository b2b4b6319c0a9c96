"""Speed of Ramet's conversions between f32 and narrower floats against PyTorch's `copy_`, in one run on operands of one size.

    bench/casts.py [--build build] [--threads 2] [--rounds 3]

The two programs take turns; what is printed is GB/s of the median round and their ratio. PyTorch has no stochastic
rounding on a CPU: `drawn` lines are compared with its rounding to nearest. 8-bit types saturate in Ramet's.
"""

import argparse
import statistics
import subprocess
import time

SHAPE = (8192, 3072)


def ours(options, name):
    """GB/s of each kernel whose name begins so."""
    command = [f"{options.build}/bench/elementwise", str(options.threads), "0.2", name]
    found = {}
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        if line.startswith(name):
            words = line.split()
            found[line[:30].strip()] = float(words[words.index("GB/s") - 1])
    return found


def peers(options):
    import torch

    torch.set_num_threads(options.threads)
    types = {"f16": torch.float16, "bf16": torch.bfloat16, "f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}
    wide = torch.randn(SHAPE)
    found = {}
    for name, dtype in types.items():
        low = wide.to(dtype)
        for label, to, source in ((f"f32 to {name}", low, wide), (f"{name} to f32", wide, low)):
            best = 1e9
            for _ in range(6):
                start = time.perf_counter()
                to.copy_(source)
                best = min(best, time.perf_counter() - start)
            found[label] = wide.numel() * (4 + low.element_size()) / best * 1e-9
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    mine, torch_rates = {}, {}
    for _ in range(options.rounds):
        for name, rate in ours(options, "narrow").items():
            mine.setdefault(name.removeprefix("narrow "), []).append(rate)
        for name, rate in peers(options).items():
            torch_rates.setdefault(name, []).append(rate)
    print(f"{'conversion':<24} {'Ramet GB/s':>10} {'torch GB/s':>10} {'ratio':>6}")
    for name, rates in mine.items():
        rate, peer = statistics.median(rates), statistics.median(torch_rates[name.removesuffix(", drawn")])
        print(f"{name:<24} {rate:10.1f} {peer:10.1f} {rate / peer:6.2f}")


if __name__ == "__main__":
    main()
