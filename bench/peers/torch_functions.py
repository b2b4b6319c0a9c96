"""Computes losses and element-wise functions of PyTorch in f64, with their gradients, on cases drawn from a fixed seed, and records them for
tests/ops/functions_test.cc to be held against.

    python bench/peers/torch_functions.py tests/samples/functions.json

A case is {"function", "options", "inputs", "value", "gradients"}. Inputs are {"type", "shape", "values"}; numbers are rounded to f32 first.
Gradients are those of the sum of value * weight by each input of floats, where weight of element i is 1 + (i % 3) / 2.
"""

import argparse
import json
import pathlib

import numpy
import torch
import torch.nn.functional as F

random = numpy.random.RandomState(7)
CASES = []


def real(*shape, low=-2.0, high=2.0):
    """Numbers that f32 and a short text hold."""
    return torch.tensor(numpy.float32(numpy.round(random.uniform(low, high, shape), 3)).astype(numpy.float64))


def whole(*shape, low=0, high=2):
    return torch.tensor(random.randint(low, high, shape))


def labels(*shape, classes, none=None):
    chosen = whole(*shape, high=classes)
    if none is not None:
        chosen[torch.tensor(random.uniform(size=shape)) < 0.3] = none
    return chosen


def numbers(tensor):
    if not tensor.is_floating_point():
        return [int(x) for x in tensor.reshape(-1)]
    return [x if numpy.isfinite(x) else str(x) for x in (float(numpy.format_float_positional(v, 12, fractional=False)) if numpy.isfinite(v) else float(v)
                                                         for v in tensor.detach().reshape(-1).tolist())]


def add(function, compute, inputs, constants=(), **options):
    """`constants`: numbers of the inputs that get no gradient."""
    inputs = [x.clone() for x in inputs]
    wanted = [i for i, x in enumerate(inputs) if x.is_floating_point() and i not in constants]
    for i in wanted:
        inputs[i].requires_grad_(True)
    value = compute(*inputs)
    gradients = {}
    if value.is_floating_point() and wanted and value.requires_grad:
        weight = 1 + torch.arange(value.numel(), dtype=torch.float64).reshape(value.shape) % 3 / 2
        found = torch.autograd.grad((value * weight).sum(), [inputs[i] for i in wanted], allow_unused=True)
        gradients = {str(i): numbers(g) for i, g in zip(wanted, found) if g is not None}
    kinds = {torch.float64: "f32", torch.bool: "bool", torch.int64: "i64", torch.int32: "i32"}
    CASES.append({"function": function, "options": options,
                  "inputs": [{"type": kinds[x.dtype], "shape": list(x.shape), "values": numbers(x)} for x in inputs],
                  "shape": list(value.shape), "value": numbers(value), "gradients": gradients})


REDUCTIONS = ("none", "sum", "mean")


def class_losses():
    for shape in ((5, 4), (2, 3, 4), (2, 5, 2, 3), (6,)):
        classes = shape[1] if len(shape) > 1 else shape[0]
        target_shape = (shape[0],) + shape[2:] if len(shape) > 1 else ()
        for reduction in REDUCTIONS:
            for smoothing in (0.0, 0.15):
                for weighted in (False, True):
                    # A row alone that is ignored: PyTorch gives NaN, Ramet 0.
                    ignore = int(random.choice([-100, 1])) if target_shape else -100
                    target = labels(*target_shape, classes=classes, none=ignore if target_shape else None)
                    if target_shape:
                        target.reshape(-1)[0] = 0
                    inputs = [real(*shape), target] + ([real(classes, low=0.2, high=2)] if weighted else [])
                    add("cross_entropy", lambda a, t, w=None: F.cross_entropy(a, t, w, ignore_index=ignore, reduction=reduction, label_smoothing=smoothing),
                        inputs, (2,), reduction=reduction, smoothing=smoothing, ignore=ignore)
                    soft = torch.softmax(real(*shape), 1 if len(shape) > 1 else 0).float().double()
                    inputs = [real(*shape), soft] + ([real(classes, low=0.2, high=2)] if weighted else [])
                    add("cross_entropy", lambda a, t, w=None: F.cross_entropy(a, t, w, reduction=reduction, label_smoothing=smoothing), inputs, (2,),
                        reduction=reduction, smoothing=smoothing, ignore=-100)
            for weighted in (False, True):
                target = labels(*target_shape, classes=classes, none=-100 if target_shape else None)
                if target_shape:
                    target.reshape(-1)[0] = 0
                inputs = [real(*shape, low=-4, high=0), target] + ([real(classes, low=0.2, high=2)] if weighted else [])
                add("nll", lambda a, t, w=None: F.nll_loss(a, t, w, reduction=reduction), inputs, (2,), reduction=reduction)
    for reduction in REDUCTIONS:
        for p in (1, 2):
            add("multi_margin", lambda a, t: F.multi_margin_loss(a, t, p=p, margin=0.7, reduction=reduction), [real(4, 5), labels(4, classes=5)],
                reduction=reduction, p=p, margin=0.7)
            add("multi_margin", lambda a, t, w: F.multi_margin_loss(a, t, p=p, weight=w, reduction=reduction),
                [real(4, 5), labels(4, classes=5), real(5, low=0.2, high=2)], (2,), reduction=reduction, p=p, margin=1.0)
        target = torch.tensor([[3, 0, -1, 1], [-1, 0, 0, 0], [0, 1, 2, 3]])
        add("multilabel_margin", lambda a, t: F.multilabel_margin_loss(a, t, reduction=reduction), [real(3, 4), target], reduction=reduction)
        add("multilabel_soft_margin", lambda a, t: F.multilabel_soft_margin_loss(a, t, reduction=reduction), [real(3, 4), whole(3, 4).double()], (1,),
            reduction=reduction)


def element_losses():
    for reduction in REDUCTIONS:
        a, b = real(3, 5), real(3, 5)
        for name, loss in (("mse", F.mse_loss), ("l1", F.l1_loss)):
            add(name, lambda x, t: loss(x, t, reduction=reduction), [a, b], reduction=reduction)
        for beta in (0.0, 0.5, 1.3):
            add("smooth_l1", lambda x, t: F.smooth_l1_loss(x, t, reduction=reduction, beta=beta), [a, b], reduction=reduction, beta=beta)
        for delta in (0.5, 1.0):
            add("huber", lambda x, t: F.huber_loss(x, t, reduction=reduction, delta=delta), [a, b], reduction=reduction, delta=delta)
        p, t = real(3, 4, low=0.05, high=0.95), real(3, 4, low=0, high=1)
        add("bce", lambda x, y: F.binary_cross_entropy(x, y, reduction=reduction), [p, t], (1,), reduction=reduction)
        add("bce", lambda x, y, w: F.binary_cross_entropy(x, y, w, reduction=reduction), [p, t, real(4, low=0.2)], (1, 2), reduction=reduction)
        add("bce_logits", lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction=reduction), [real(3, 4, low=-30, high=30), t], reduction=reduction)
        add("bce_logits", lambda x, y, w, v: F.binary_cross_entropy_with_logits(x, y, w, reduction=reduction, pos_weight=v),
            [real(3, 4), t, real(3, 1, low=0.2), real(4, low=0.2)], (2, 3), reduction=reduction)
        logs = torch.log_softmax(real(3, 4), 1).float().double()
        share = torch.softmax(real(3, 4), 1).float().double()
        share[1] = torch.tensor([0, 0.25, 0.75, 0])
        add("kl", lambda x, y: F.kl_div(x, y, reduction=reduction), [logs, share], (1,), reduction=reduction, log_target=False)
        add("kl", lambda x, y: F.kl_div(x, y, reduction=reduction, log_target=True), [logs, torch.log_softmax(real(3, 4), 1).float().double()],
            reduction=reduction, log_target=True)
        for full in (False, True):
            add("gaussian_nll", lambda x, y, v: F.gaussian_nll_loss(x, y, v, full=full, eps=0.1, reduction=reduction), [a, b, real(3, 5, low=0.02, high=2)],
                reduction=reduction, full=full, epsilon=0.1)
            for log_input in (True, False):
                add("poisson_nll", lambda x, y: F.poisson_nll_loss(x, y, log_input=log_input, full=full, reduction=reduction),
                    [real(3, 4, low=0.1), real(3, 4, low=0, high=4)], (1,), reduction=reduction, full=full, log_input=log_input)
        sign = whole(3, 5).double() * 2 - 1
        add("margin_ranking", lambda x, y, t: F.margin_ranking_loss(x, y, t, margin=0.3, reduction=reduction), [a, b, sign], (2,), reduction=reduction, margin=0.3)
        add("hinge_embedding", lambda x, t: F.hinge_embedding_loss(x, t, margin=1.2, reduction=reduction), [a, sign], (1,), reduction=reduction, margin=1.2)
        add("soft_margin", lambda x, t: F.soft_margin_loss(x, t, reduction=reduction), [a, sign], (1,), reduction=reduction)
        add("cosine_embedding", lambda x, y, t: F.cosine_embedding_loss(x, y, t, margin=0.1, reduction=reduction), [a, b, torch.tensor([1.0, -1, -1]).double()],
            (2,), reduction=reduction, margin=0.1)
        for p in (1.0, 2.0, 3.0):
            for swap in (False, True):
                add("triplet_margin", lambda x, y, z: F.triplet_margin_loss(x, y, z, margin=1.5, p=p, swap=swap, reduction=reduction), [a, b, real(3, 5)],
                    reduction=reduction, p=p, swap=swap, margin=1.5)
    add("kl", lambda x, y: F.kl_div(x, y, reduction="batchmean"), [logs, share], (1,), reduction="batchmean", log_target=False)
    add("cosine_similarity", lambda x, y: F.cosine_similarity(x, y, dim=1), [real(3, 5, 2), real(3, 5, 2)], axis=1)
    add("pairwise_distance", lambda x, y: F.pairwise_distance(x, y, p=2.0), [real(3, 5), real(3, 5)], p=2.0)


def ctc():
    for times, samples, classes, longest in ((8, 3, 4, 3), (12, 2, 6, 5), (3, 4, 5, 4), (1, 2, 3, 1)):
        for reduction in REDUCTIONS:
            for blank in (0, classes - 1):
                logs = torch.log_softmax(real(times, samples, classes), 2).float().double()
                symbols = [c for c in range(classes) if c != blank]
                targets = torch.tensor(random.choice(symbols, (samples, longest)))
                target_lengths = whole(samples, low=0, high=longest + 1)
                input_lengths = whole(samples, low=max(1, times // 2), high=times + 1)

                # PyTorch's gradient holds for log-probabilities that come from log_softmax only, so that it is taken through one.
                def loss(x, t, n, m):
                    return F.ctc_loss(torch.log_softmax(x, 2), t, n, m, blank=blank, reduction=reduction, zero_infinity=True)
                add("ctc", loss, [logs, targets, input_lengths, target_lengths], reduction=reduction, blank=blank)


def element_functions():
    span = real(4, 6, low=-5, high=5)
    for name, function in (("silu", F.silu), ("celu", lambda x: F.celu(x, 0.7)), ("selu", F.selu), ("relu6", F.relu6), ("hardtanh", F.hardtanh),
                           ("hardsigmoid", F.hardsigmoid), ("hardswish", F.hardswish), ("mish", F.mish), ("softsign", F.softsign),
                           ("softplus", lambda x: F.softplus(x, 2, 3)), ("log_sigmoid", F.logsigmoid), ("tanhshrink", F.tanhshrink),
                           ("softshrink", lambda x: F.softshrink(x, 0.7)), ("hardshrink", lambda x: F.hardshrink(x, 0.7)),
                           ("threshold", lambda x: F.threshold(x, 0.5, -3)), ("glu", lambda x: F.glu(x, 1)), ("elu", lambda x: F.elu(x, 1.3)),
                           ("leaky_relu", lambda x: F.leaky_relu(x, 0.2)), ("frac", torch.frac), ("trunc", torch.trunc), ("exp2", torch.exp2),
                           ("tan", torch.tan), ("sinh", torch.sinh), ("cosh", torch.cosh), ("asinh", torch.asinh), ("atan", torch.atan), ("erfc", torch.erfc),
                           ("lgamma", torch.lgamma), ("digamma", torch.digamma), ("quick_gelu", lambda x: x * torch.sigmoid(1.702 * x)),
                           ("clamp_low", lambda x: torch.clamp(x, min=-0.5)), ("clamp", lambda x: torch.clamp(x, -0.5, 1.5))):
        add(name, function, [span], (0,) if name in ("digamma", "trunc") else ())
    for name, function, low, high in (("log2", torch.log2, 0.01, 9), ("log10", torch.log10, 0.01, 99), ("acosh", torch.acosh, 1.1, 9),
                                      ("atanh", torch.atanh, -0.95, 0.95), ("asin", torch.asin, -0.95, 0.95), ("acos", torch.acos, -0.95, 0.95)):
        add(name, function, [real(4, 6, low=low, high=high)])
    a, b = real(4, 6, low=-9, high=9), real(6, low=-3, high=3)
    for name, function in (("remainder", torch.remainder), ("fmod", torch.fmod), ("floor_divide", torch.floor_divide), ("atan2", torch.atan2),
                           ("hypot", torch.hypot), ("copysign", torch.copysign), ("logaddexp", torch.logaddexp),
                           ("trunc_divide", lambda x, y: torch.div(x, y, rounding_mode="trunc"))):
        add(name, function, [a, b], (0, 1) if "divide" in name else (1,) if name == "copysign" else ())
    add("addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=0.5), [a, b, real(4, 1)])
    add("addcdiv", lambda x, y, z: torch.addcdiv(x, y, z, value=0.5), [a, b, real(4, 1, low=0.5)])
    add("lerp", torch.lerp, [a, real(4, 6), real(6, low=0, high=1)])
    add("xlogy", torch.xlogy, [torch.tensor([0, 1, 2.5, 0]).double(), torch.tensor([0.5, 3, 0.25, 2]).double()])
    add("prelu", lambda x, w: F.prelu(x, w.reshape(-1)), [real(2, 3, 4), real(3, 1, low=0.1, high=0.5)])
    add("swiglu", lambda x, y: F.silu(x) * y, [a, real(4, 6)])
    for name, function in (("remainder", torch.remainder), ("fmod", torch.fmod), ("floor_divide", torch.floor_divide), ("bitwise_and", torch.bitwise_and),
                           ("bitwise_or", torch.bitwise_or), ("bitwise_xor", torch.bitwise_xor)):
        add(name, function, [whole(4, 6, low=-40, high=40), torch.tensor([-7, -3, -1, 1, 2, 9])])
    add("shift_left", torch.bitwise_left_shift, [whole(4, 6, low=-40, high=40), torch.tensor([0, 1, 5, 13, 20, 31])])
    add("shift_right", torch.bitwise_right_shift, [whole(4, 6, low=-40000, high=40000), torch.tensor([0, 1, 5, 13, 20, 31])])
    odd = torch.tensor([float("nan"), float("inf"), -float("inf"), 1.5]).double()
    add("nan_to_num", lambda x: torch.nan_to_num(x, 2.0, 100.0, -50.0), [odd], (0,))
    for name, function in (("is_nan", torch.isnan), ("is_inf", torch.isinf), ("is_finite", torch.isfinite)):
        add(name, function, [odd], (0,))


def distances():
    add("cosine_similarity", lambda x, y: F.cosine_similarity(x, y, dim=-2), [real(1, 2, 3), real(2, 1, 3)], axis=-2)
    for p in (-1.0, 0.0, 3.0, -float("inf")):
        add("pairwise_distance", lambda x, y: F.pairwise_distance(x, y, p=p), [real(3, 5), real(3, 5)], p=str(p))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("output", type=pathlib.Path)
    args = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    class_losses()
    element_losses()
    ctc()
    element_functions()
    distances()
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in CASES)
    args.output.write_text(f'{{"torch":"{torch.__version__}","cases":[\n{lines}\n]}}\n')


main()
