#!/usr/bin/env python3
"""PyTorch's own samples of its operators (OpInfo, f32), exported by torch.export and imported by Ramet: results and gradients beside
PyTorch's.

Each sample becomes a module that calls the operator. torch.export traces the module, and build/bench/op_server imports the program and
computes it with the CPU's kernels, and the gradients of all floating inputs that have one. What agrees is said in bench/opinfo.py, which
compares Ramet's own ops in the same way. Samples that torch.export itself refuses, or whose arguments Ramet has no element type for, are
counted apart. The exit status is 1 when a sample is wrong.

usage: bench/torch_ops.py [--only PATTERN ...] [--most N] [--server PATH] [--reference] [--summary]
"""
import sys
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Not this file's folder, whose tokenize.py would stand for the standard library's.
sys.path[0] = str(ROOT / "bench/peers")
import argparse
import collections
import fnmatch
import functools
import importlib.util
import json
import logging
import re
import warnings

specification = importlib.util.spec_from_file_location("opinfo", ROOT / "bench/opinfo.py")
opinfo = importlib.util.module_from_spec(specification)
specification.loader.exec_module(opinfo)
import torch
from torch._export.serde.serialize import EnumEncoder, ExportedProgramSerializer, _dataclass_to_dict
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

# Draws: the numbers are others than PyTorch's.
RANDOM = ("bernoulli", "multinomial", "normal*", "randn*", "rand*", "uniform", "exponential", "cauchy", "geometric", "log_normal",
          "nn.functional.*dropout*", "nn.functional.rrelu", "randint*", "empty*", "new_empty*", "*empty_like", "empty_permuted", "nn.functional.fractional_max_pool*",
          "nn.functional.multi_head_attention_forward")


class NotExported(Exception):
    """What torch.export does not trace."""


class Call(torch.nn.Module):
    """An operator on tensors that stand among other arguments."""

    def __init__(self, op, structure, values):
        super().__init__()
        self.op, self.structure, self.values = op, structure, values

    def forward(self, *tensors):
        given = iter(tensors)
        leaves = [next(given) if isinstance(value, torch.Tensor) else value for value in self.values]
        sample, args, kwargs = tree_unflatten(leaves, self.structure)
        made = self.op(sample, *args, **kwargs)
        return tuple(out for out in tree_flatten(made)[0] if isinstance(out, torch.Tensor))


def text_of(program):
    serialized = ExportedProgramSerializer(None, None).serialize(program).exported_program
    if isinstance(serialized, bytes):
        return serialized.decode()
    return json.dumps(_dataclass_to_dict(serialized), cls=EnumEncoder)


class Sample:
    """A sample as a program: the text of torch.export, and its tensors."""

    def __init__(self, op, sample):
        leaves, structure = tree_flatten((sample.input, sample.args, sample.kwargs))
        self.tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        for tensor in self.tensors:
            if tensor.dtype not in opinfo.DTYPES or tensor.layout != torch.strided:
                raise NotExported("a tensor of another element type or layout")
        if not self.tensors:
            raise NotExported("no tensor among the arguments")
        if any(tensor.is_leaf is False for tensor in self.tensors):
            raise NotExported("a tensor that is no leaf")
        if sample.kwargs.get("dropout_p"):
            raise NotExported("random numbers")
        try:
            program = torch.export.export(Call(op.op, structure, leaves), tuple(self.tensors), strict=False)
            self.text = text_of(program.run_decompositions({}))
        except Exception as error:  # whatever torch.export throws
            raise NotExported(f"torch.export: {type(error).__name__}") from error


def run_sample(op, sample, server, row):
    outputs = opinfo.peers_outputs(op, sample)
    if any(out.dtype not in opinfo.DTYPES and out.dtype != torch.float64 for out in outputs):
        raise NotExported("a result of another element type")
    traced = Sample(op, sample)
    floats = opinfo.floats_of(outputs)
    weights = [torch.rand(out.shape, generator=torch.Generator().manual_seed(2)) + 0.5 for out in floats]
    targets = [(number, tensor) for number, tensor in enumerate(traced.tensors) if tensor.requires_grad and tensor.is_floating_point()]
    leaves = [tensor for _, tensor in targets]
    wanted = opinfo.peers_gradients(outputs, leaves, weights) if targets and op.supports_autograd else None
    inputs = traced.tensors + weights
    request = {"program": traced.text, "gradients": [number for number, _ in targets] if wanted is not None else [],
               "inputs": [{"dtype": opinfo.DTYPES[tensor.dtype], "shape": list(tensor.shape)} for tensor in inputs]}
    answer = server.ask(request, [opinfo.array_of(tensor) for tensor in inputs])
    wide = functools.cache(lambda: opinfo.wide_answer(op, sample, [True] * len(outputs), weights, leaves))

    def compare(way, found, expected, which):
        def fault_of(tensors):
            return next((f"{way} {i}: {fault}" for i, fault in enumerate(
                opinfo.differs(mine, opinfo.array_of(tensor)) for mine, tensor in zip(found, tensors)) if fault), None)
        fault = fault_of(expected)
        if not fault:
            row.agree(way)
        elif wide() is not None and not fault_of(wide()[which]):
            row.agree(way, in_f64=True)
        else:
            row.fail(way, sample, fault)
            return False
        return True

    if answer["outputs"] is None:
        return row.refuse("result", sample, reason_of(answer["refused"]))
    outputs = [out.float() if out.dtype == torch.float64 else out for out in outputs]
    if not compare("result", answer["outputs"], outputs, 0) or wanted is None:
        return None
    if answer["gradients"] is None:
        return row.refuse("gradient", sample, answer["gradient_refused"])
    return compare("gradient", answer["gradients"], wanted, 1)


def reason_of(refusal):
    """The words of a refusal without the calls' places."""
    lines = re.findall(r"^  (\S+) \(.*?\): (.*)$", refusal, re.MULTILINE)
    return "; ".join(f"{op}: {why}" for op, why in lines[:1]) or refusal


def spread(samples, most):
    """At most so many of the samples, evenly."""
    if len(samples) <= most:
        return samples
    return [samples[i * len(samples) // most] for i in range(most)]


def run_op(op, server, most, apart):
    row = opinfo.Row(op.name + (f".{op.variant_test_name}" if op.variant_test_name else ""))
    torch.manual_seed(0)
    opinfo.np.random.seed(0)
    for sample in spread(list(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd)), most):
        try:
            run_sample(op, sample, server, row)
        except NotExported as reason:
            apart[str(reason)] += 1
        except RuntimeError as error:
            row.fail("result", sample, str(error)[:300])
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", default=["*"], help="operators whose names match one of these patterns")
    parser.add_argument("--most", type=int, default=8, help="samples an operator")
    parser.add_argument("--server", default=ROOT / "build/bench/op_server")
    parser.add_argument("--reference", action="store_true", help="the kernels of the reference")
    parser.add_argument("--summary", action="store_true", help="no table")
    arguments = parser.parse_args()
    if not pathlib.Path(arguments.server).exists():
        sys.exit(f"torch_ops: no {arguments.server}; build it: cmake --build build --target bench_op_server")
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)
    server = opinfo.Server(str(arguments.server), "reference" if arguments.reference else "cpu")
    rows, apart = [], collections.Counter()
    for op in sorted(op_db, key=lambda op: (op.name, op.variant_test_name)):
        if torch.float32 not in op.dtypes or not any(fnmatch.fnmatch(op.name, pattern) for pattern in arguments.only):
            continue
        if any(fnmatch.fnmatch(op.name, pattern) for pattern in RANDOM):
            continue
        rows.append(run_op(op, server, arguments.most, apart))
        for line in rows[-1].wrong:
            print("WRONG", line, flush=True)
    if not arguments.summary:
        opinfo.print_table(rows)
    opinfo.print_refusals(rows)
    print("not compared: " + ", ".join(f"{count} {reason}" for reason, count in apart.most_common()))
    opinfo.print_summary(rows, [])
    return 1 if any(row.wrong for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
