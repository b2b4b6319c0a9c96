"""PyTorch's and SparseLab's sparse products beside `build/bench/sparse`: the four matrices of BERT-base at 2048 tokens.

    python bench/sparse_vs_peers.py [--density 0.1] [--threads 2]

Prints, for CSR and for BSR of each block size, the milliseconds of the forward products of all matrices (the best of
several calls), in f32 and bf16; and of the gradients where PyTorch has them. Then the same of SparseLab's layer.
"""

import argparse
import sys
import time
import warnings

sys.path.pop(0)  # bench/tokenize.py has the name of a module of Python's

import torch  # noqa: E402

MATRICES = [(2304, 768), (768, 768), (3072, 768), (768, 3072)]
TOKENS = 2048


def best(run, calls=5):
    run()
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
        if sum(times) > 3:
            break
    return min(times)


def matrix(rows, columns, block, density, dtype):
    """A random pattern of blocks, as CSR (block 1) or BSR."""
    down, across = rows // block, columns // block
    kept = torch.zeros(down * across, dtype=torch.bool)
    kept[torch.randperm(down * across)[: round(density * down * across)]] = True
    mask = kept.view(down, across).repeat_interleave(block, 0).repeat_interleave(block, 1)
    dense = torch.randn(rows, columns, dtype=dtype) * mask
    return dense.to_sparse_csr() if block == 1 else dense.to_sparse_bsr((block, block))


def run_sparselab(density):
    """SparseLab's layer (f32, single elements), where it is installed."""
    try:
        import sparselab
    except ImportError:
        print("sparselab is not installed")
        return
    forward, training = 0.0, 0.0
    for rows, columns in MATRICES:
        layer = sparselab.SparseLinear(columns, rows, bias=False, sparsity=1 - density)
        x = torch.randn(TOKENS, columns, requires_grad=True)
        gradient = torch.randn(TOKENS, rows)

        def only_forward(layer=layer, x=x):
            with torch.no_grad():
                layer(x)

        def all_three(layer=layer, x=x, gradient=gradient):
            x.grad = None
            layer(x).backward(gradient)

        forward += best(only_forward, 3)
        training += best(all_three, 2)
    print(f"sparselab f32 forward {1e3 * forward:9.1f} ms  all three products {1e3 * training:9.1f} ms")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--density", type=float, default=0.1)
    options.add_argument("--threads", type=int, default=2)
    chosen = options.parse_args()
    torch.set_num_threads(chosen.threads)
    torch.manual_seed(1)
    warnings.filterwarnings("ignore")
    print(f"torch {torch.__version__}, {chosen.threads} threads, density {chosen.density}, {TOKENS} tokens")
    for dtype in (torch.float32, torch.bfloat16):
        for block in (1, 4, 8, 16):
            forward, backward, problem = 0.0, 0.0, ""
            for rows, columns in MATRICES:
                weight = matrix(rows, columns, block, chosen.density, dtype)
                x = torch.randn(columns, TOKENS, dtype=dtype)
                try:
                    forward += best(lambda: weight @ x)
                except RuntimeError as error:
                    problem = "no forward: " + str(error).split("\n")[0][:100]
                    break
                try:
                    leaf = weight.clone().requires_grad_()
                    given = x.clone().requires_grad_()
                    gradient = torch.randn(rows, TOKENS, dtype=dtype)

                    def both(leaf=leaf, given=given, gradient=gradient):
                        leaf.grad = given.grad = None
                        (leaf @ given).backward(gradient)

                    backward += best(both, 2)
                except RuntimeError as error:
                    problem = "no gradients: " + str(error).split("\n")[0][:100]
            kind = "CSR" if block == 1 else f"BSR {block}x{block}"
            print(f"{dtype} {kind:9} forward {1e3 * forward:9.1f} ms", end="")
            print(f"  {problem}" if problem else f"  all three products {1e3 * backward:9.1f} ms", flush=True)
    run_sparselab(chosen.density)


if __name__ == "__main__":
    main()
