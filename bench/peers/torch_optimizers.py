"""Runs optimizers of PyTorch and of transformers, and others by the equations of their papers, over ten steps in f64, and records the
weights that they end with, for tests/ops/optimizer_test.cc to be held against.

    python bench/peers/torch_optimizers.py tests/samples/optimizers.json
"""

import argparse
import json
import math
import pathlib

import torch
import transformers

STEPS = 10
SHAPES = {"matrix": (4, 6), "vector": (5,)}


def weights(shape):
    """The first weights: the same formula as in the test."""
    count = math.prod(shape)
    return torch.tensor([((i * 29) % 83 - 41) / 40 for i in range(count)], dtype=torch.float64).reshape(shape)


def gradient(shape, step):
    """Of step 1, 2, ...: likewise."""
    count = math.prod(shape)
    return torch.tensor([((i * 37 + step * 53) % 101 - 50) / 25 for i in range(count)], dtype=torch.float64).reshape(shape)


def torch_optimizer(make):
    def run(shape):
        w = torch.nn.Parameter(weights(shape))
        optimizer = make([w])
        for step in range(1, STEPS + 1):
            w.grad = gradient(shape, step)
            optimizer.step()
        return w.detach()
    return run


def moments(g, m, v, step, beta1, beta2, corrected=True):
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    c1, c2 = (1 - beta1**step, 1 - beta2**step) if corrected else (1, 1)
    return m, v, m / c1, v / c2


def lamb(corrected=True, cap=math.inf, decay=0.1, lr=0.01):
    """You et al., arXiv 1904.00962, algorithm 2, phi(z) = min(z, cap)."""
    def run(shape):
        w = weights(shape)
        m = v = torch.zeros_like(w)
        for step in range(1, STEPS + 1):
            m, v, m_hat, v_hat = moments(gradient(shape, step), m, v, step, 0.9, 0.99, corrected)
            u = m_hat / (v_hat.sqrt() + 1e-6) + decay * w
            w = w - lr * min(w.norm(), cap) / u.norm() * u
        return w
    return run


def lars(momentum=0.9, decay=0.01, trust=0.02, lr=0.5):
    """You et al., arXiv 1708.03888, algorithm 1."""
    def run(shape):
        w = weights(shape)
        v = torch.zeros_like(w)
        for step in range(1, STEPS + 1):
            g = gradient(shape, step)
            local = trust * w.norm() / (g.norm() + decay * w.norm())
            v = momentum * v + lr * local * (g + decay * w)
            w = w - v
        return w
    return run


def lion(beta1=0.9, beta2=0.99, decay=0.1, lr=0.01):
    """Chen et al., arXiv 2302.06675, algorithm 2."""
    def run(shape):
        w = weights(shape)
        m = torch.zeros_like(w)
        for step in range(1, STEPS + 1):
            g = gradient(shape, step)
            c = beta1 * m + (1 - beta1) * g
            m = beta2 * m + (1 - beta2) * g
            w = w - lr * (torch.sign(c) + decay * w)
        return w
    return run


CASES = {
    "sgd": torch_optimizer(lambda w: torch.optim.SGD(w, lr=0.01, momentum=0.9, nesterov=True, weight_decay=0.1)),
    "adam": torch_optimizer(lambda w: torch.optim.Adam(w, lr=0.01, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.1)),
    "adamw": torch_optimizer(lambda w: torch.optim.AdamW(w, lr=0.01, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.1)),
    "lamb": lamb(),
    "lamb_uncorrected": lamb(corrected=False),
    "lamb_capped": lamb(cap=0.5),
    "lars": lars(),
    "lion": lion(),
    "rmsprop": torch_optimizer(lambda w: torch.optim.RMSprop(w, lr=0.01, alpha=0.9, eps=1e-6, weight_decay=0.1)),
    "centered_rmsprop": torch_optimizer(lambda w: torch.optim.RMSprop(
        w, lr=0.01, alpha=0.9, eps=1e-6, weight_decay=0.1, momentum=0.8, centered=True)),
    "adagrad": torch_optimizer(lambda w: torch.optim.Adagrad(
        w, lr=0.05, lr_decay=0.1, eps=1e-8, weight_decay=0.1, initial_accumulator_value=0.2)),
    # PyTorch's decays by the plain rate, transformers' by that of the weight: only the latter is compared with decay.
    "adafactor_torch": torch_optimizer(lambda w: torch.optim.Adafactor(w, lr=0.3, eps=(1e-15, 1e-3), weight_decay=0.0)),
    "adafactor": torch_optimizer(lambda w: transformers.optimization.Adafactor(
        w, lr=0.05, scale_parameter=False, relative_step=False, weight_decay=0.1)),
    "adafactor_relative": torch_optimizer(lambda w: transformers.optimization.Adafactor(w, lr=None, weight_decay=0.1)),
    "adafactor_moment": torch_optimizer(lambda w: transformers.optimization.Adafactor(
        w, lr=0.05, beta1=0.8, clip_threshold=0.5, scale_parameter=True, relative_step=False)),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=pathlib.Path)
    options = parser.parse_args()
    results = {name: {which: run(shape).flatten().tolist() for which, shape in SHAPES.items()} for name, run in CASES.items()}
    text = json.dumps({"peer": f"torch {torch.__version__}, transformers {transformers.__version__}", "steps": STEPS, "cases": results}, indent=1)
    options.file.write_text(text + "\n")
    print(f"{len(results)} optimizers, {STEPS} steps: {options.file}")


if __name__ == "__main__":
    main()
