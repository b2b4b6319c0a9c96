#!/usr/bin/env python3
"""PyTorch's own samples of its operators (OpInfo, f32) computed by Ramet: results and gradients beside PyTorch's.

For every OpInfo with an entry in bench/peers/opinfo_table.py, each sample is computed by build/bench/op_server with the CPU's kernels,
and so are the gradients of all floating inputs, with random weights of the outputs. A number agrees when it differs by no more than
RTOL times its size and RTOL / 10 times the largest of its tensor (at least 1); integers and bools must be equal. What Ramet refuses is
counted, with the words of the refusal. Where Ramet and PyTorch differ, PyTorch computes the sample again in f64 from the same f32 inputs:
when Ramet agrees with that, PyTorch's f32 is what rounds more; such samples agree, and are counted apart ("f64"). The exit status is 1
when a sample is wrong.

usage: bench/opinfo.py [--only PATTERN ...] [--server PATH] [--reference] [--verbose] [--refusals] [--missing] [--summary]
"""
import argparse
import collections
import fnmatch
import functools
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# In place of this file's folder, whose tokenize.py would stand for the standard library's.
sys.path[0] = str(ROOT / "bench/peers")
try:
    import numpy as np
    import torch
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.utils._pytree import tree_flatten, tree_map
except ImportError as missing:
    sys.exit(f"opinfo: {missing}; scripts/setup.sh --peers installs what it needs")
import opinfo_derived  # adds its entries to the table  # noqa: F401
import opinfo_table

RTOL = 1e-4
DTYPES = opinfo_table.NAMES
# bf16, which NumPy lacks, is read as the upper half of an f32.
NUMPY = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": np.uint16, "i64": np.int64, "i32": np.int32, "i16": np.int16,
         "i8": np.int8, "u8": np.uint8, "bool": np.bool_}


class Server:
    """build/bench/op_server, started again after it has died."""

    def __init__(self, path, backend):
        self.path, self.backend, self.process = path, backend, None

    def ask(self, request, arrays):
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen([self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        pipe = self.process
        request["backend"] = self.backend
        try:
            pipe.stdin.write(json.dumps(request).encode() + b"\n" + b"".join(array.tobytes() for array in arrays))
            pipe.stdin.flush()
        except BrokenPipeError:
            pass
        line = pipe.stdout.readline()
        if not line:
            raise RuntimeError(f"op_server died with status {pipe.wait()} of {json.dumps(request)}")
        answer = json.loads(line)
        for name in ("outputs", "gradients"):
            answer[name] = [self.read(type_) for type_ in answer[name]] if name in answer else None
        return answer

    def read(self, type_):
        dtype = np.dtype(NUMPY[type_["dtype"]])
        count = int(np.prod(type_["shape"], dtype=np.int64))
        data = self.process.stdout.read(count * dtype.itemsize)
        values = np.frombuffer(data, dtype, count).reshape(type_["shape"])
        return (values.astype(np.uint32) << 16).view(np.float32) if type_["dtype"] == "bf16" else values


def array_of(tensor):
    tensor = tensor.detach()
    return np.array((tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy(force=True), order="C")


def bytes_of(tensor):
    return array_of(tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor)


def differs(found, wanted):
    """Why two arrays do not agree, or None."""
    if list(found.shape) != list(wanted.shape):
        return f"shape {list(found.shape)} where PyTorch has {list(wanted.shape)}"
    if not np.issubdtype(wanted.dtype, np.floating):
        unequal = int(np.sum(found.astype(np.int64) != wanted.astype(np.int64)))
        return f"{unequal} of {wanted.size} elements differ" if unequal else None
    found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    finite = wanted[np.isfinite(wanted)]
    most = max(1.0, float(np.max(np.abs(finite)))) if finite.size else 1.0
    close = np.isclose(found, wanted, rtol=RTOL, atol=RTOL / 10 * most, equal_nan=True)
    if close.all():
        return None
    at = np.argwhere(~close)[0]
    return (f"{int((~close).sum())} of {wanted.size} elements differ; [{','.join(map(str, at))}] is {found[tuple(at)]:.9g} "
            f"where PyTorch has {wanted[tuple(at)]:.9g}")


def short(text):
    """A refusal without the shapes that it was found with, so that alike ones count together."""
    text = re.sub(r"^\w+(?: '[^']*')? \([^()]*\)[^:]*: ", "", text)
    return text.split("; found")[0].split(". ")[0][:110]


def describe(sample):
    def text(value):
        if isinstance(value, torch.Tensor):
            return f"{DTYPES.get(value.dtype, value.dtype)}{list(value.shape)}"
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(map(text, value)) + "]"
        return repr(value)
    parts = [text(sample.input)] + [text(arg) for arg in sample.args] + [f"{k}={text(v)}" for k, v in sample.kwargs.items()]
    return "(" + ", ".join(parts) + ")"


class Row:
    """The counts of one operator."""

    def __init__(self, name):
        self.name = name
        self.counts = {way: collections.Counter() for way in ("result", "gradient")}
        self.reasons = {way: collections.Counter() for way in ("result", "gradient")}
        self.wrong, self.refused = [], []
        self.remark = None

    def agree(self, way, in_f64=False):
        self.counts[way]["agree"] += 1
        self.counts[way]["f64"] += in_f64

    def refuse(self, way, sample, reason):
        self.counts[way]["refused"] += 1
        self.refused.append(f"{self.name} {way} {describe(sample)}: {reason}")
        self.reasons[way][short(reason)] += 1

    def fail(self, way, sample, reason):
        self.counts[way]["wrong"] += 1
        self.wrong.append(f"{self.name} {way} {describe(sample)}: {reason}")


def floats_of(tensors):
    return [tensor for tensor in tensors if isinstance(tensor, torch.Tensor) and tensor.is_floating_point()]


def peers_gradients(outputs, targets, weights):
    """PyTorch's gradients of the weighted sum; None where it has none."""
    flowing = [(out, weight) for out, weight in zip(floats_of(outputs), weights) if out.requires_grad]
    if not flowing:
        return None
    gradients = torch.autograd.grad([out for out, _ in flowing], targets, [weight for _, weight in flowing], allow_unused=True)
    return [torch.zeros_like(target) if gradient is None else gradient for target, gradient in zip(targets, gradients)]


def peers_outputs(op, sample):
    torch.manual_seed(1)
    return [out for out in tree_flatten(op(sample.input, *sample.args, **sample.kwargs))[0] if isinstance(out, torch.Tensor)]


def wide_answer(op, sample, kept, weights, targets):
    """PyTorch's outputs and gradients in f64, or None where it refuses."""
    copies = {}

    def wide(value):
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
            return value
        if id(value) not in copies:
            copies[id(value)] = value.detach().double().requires_grad_(value.requires_grad)
        return copies[id(value)]
    try:
        # Samples hold their tensors, so that ids stay theirs.
        other = type(sample)(wide(sample.input) if isinstance(sample.input, torch.Tensor) else tree_map(wide, sample.input),
                             args=tree_map(wide, sample.args), kwargs=tree_map(wide, sample.kwargs))
        outputs = [out for out, keep in zip(peers_outputs(op, other), kept) if keep]
        leaves = [copies[id(target)] for target in targets]
        gradients = peers_gradients(outputs, leaves, [weight.double() for weight in weights])
        narrow = lambda tensors: [tensor.to(torch.float32) if tensor.dtype == torch.float64 else tensor for tensor in tensors]
        return narrow(outputs), narrow(gradients or [])
    except (RuntimeError, TypeError, ValueError, KeyError):
        return None


def compares_gradients(op, entry):
    return op.supports_autograd and not (entry.no_gradients and op.variant_test_name != "grad")


def run_sample(op, entry, sample, server, row):
    outputs = peers_outputs(op, sample)
    program = opinfo_table.Program(DTYPES, outputs)
    values = tree_map(lambda v: program.input(v) if isinstance(v, torch.Tensor) else v, (sample.input, sample.args, sample.kwargs))
    try:
        results = entry.build(program, values[0], *values[1], **values[2])
    except (AttributeError, IndexError, KeyError, StopIteration, TypeError, ValueError) as error:
        raise opinfo_table.Refused(f"arguments that the table does not map ({error})") from error
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    if len(results) > len(outputs):
        raise RuntimeError(f"{op.name}: the entry gives {len(results)} results, PyTorch {len(outputs)}")
    # An entry may leave out results: None.
    kept = [number < len(results) and results[number] is not None for number in range(len(outputs))]
    refs = [ref for ref in results if ref is not None]
    outputs = [out for out, keep in zip(outputs, kept) if keep]
    generator = torch.Generator().manual_seed(2)
    weights = [(torch.rand(out.shape, generator=generator) + 0.5).to(out.dtype) for out in floats_of(outputs)]
    targets = [(number, tensor) for number, tensor in enumerate(program.inputs) if tensor.requires_grad and tensor.is_floating_point()]
    leaves = [tensor for _, tensor in targets]
    wanted = peers_gradients(outputs, leaves, weights) if targets and compares_gradients(op, entry) else None
    request = program.request(refs, weights, [number for number, _ in targets] if wanted is not None else [])
    answer = server.ask(request, [bytes_of(tensor) for tensor in program.inputs + weights])
    wide = functools.cache(lambda: wide_answer(op, sample, kept, weights, leaves))

    def compare(way, found, expected, which):
        faults = lambda tensors: next((f"{way if way == 'gradient' else 'output'} {i}: {fault}" for i, fault in enumerate(
            differs(mine, array_of(tensor)) for mine, tensor in zip(found, tensors)) if fault), None)
        fault = faults(expected)
        if not fault:
            row.agree(way)
        elif wide() is not None and not faults(wide()[which]):
            row.agree(way, in_f64=True)
        else:
            row.fail(way, sample, fault)
            return False
        return True

    if answer["outputs"] is None:
        return row.refuse("result", sample, answer["refused"])
    if not compare("result", answer["outputs"], outputs, 0) or wanted is None:
        return None
    if answer["gradients"] is None:
        return row.refuse("gradient", sample, answer["gradient_refused"])
    return compare("gradient", answer["gradients"], wanted, 1)


def run_op(op, entry, server):
    row = Row(op.name + (f".{op.variant_test_name}" if op.variant_test_name else ""))
    if not compares_gradients(op, entry) and entry.no_gradients:
        row.remark = f"gradients are not compared: {entry.no_gradients}"
    torch.manual_seed(0)
    np.random.seed(0)
    for sample in op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd):
        try:
            run_sample(op, entry, sample, server, row)
        except opinfo_table.Refused as refused:
            row.refuse("result", sample, str(refused))
        except RuntimeError as error:
            row.fail("result", sample, str(error)[:300])
    return row


def print_table(rows):
    print("| op | results agree | wrong | refused | gradients agree | wrong | refused |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in rows:
        cells = [str(row.counts[way][kind]) for way in ("result", "gradient") for kind in ("agree", "wrong", "refused")]
        print(f"| {row.name} | {' | '.join(cells)} |")


def print_refusals(rows):
    print("\nRefused:")
    reasons = collections.defaultdict(list)
    for row in rows:
        for way in ("result", "gradient"):
            for reason, count in row.reasons[way].items():
                reasons[(way, reason)].append((count, row.name))
    for (way, reason), ops in sorted(reasons.items(), key=lambda item: -sum(count for count, _ in item[1])):
        names = ", ".join(f"{name} {count}" for count, name in sorted(ops, key=lambda op: (-op[0], op[1])))
        print(f"- {sum(count for count, _ in ops)} {way}s: {reason}: {names}")


def print_summary(rows, missing):
    for way in ("result", "gradient"):
        total = collections.Counter()
        for row in rows:
            total.update(row.counts[way])
        samples = total["agree"] + total["wrong"] + total["refused"]
        print(f"{way}s: {total['agree']} agree ({total['f64']} of them with PyTorch in f64), {total['wrong']} wrong, "
              f"{total['refused']} refused, of {samples} samples")
    whole = sum(1 for row in rows if row.counts["result"]["agree"] and not any(
        row.counts[way][kind] for way in row.counts for kind in ("wrong", "refused")))
    print(f"operators: {len(rows)} with an entry, {whole} of them agree on every sample; {len(missing)} without an entry")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", default=["*"], help="operators whose names match one of these patterns")
    parser.add_argument("--server", default=ROOT / "build/bench/op_server")
    parser.add_argument("--reference", action="store_true", help="the kernels of the reference")
    parser.add_argument("--verbose", action="store_true", help="lists every sample that is refused")
    parser.add_argument("--refusals", action="store_true", help="lists the reasons of refusals")
    parser.add_argument("--missing", action="store_true", help="lists operators without an entry")
    parser.add_argument("--summary", action="store_true", help="no table")
    arguments = parser.parse_args()
    if not pathlib.Path(arguments.server).exists():
        sys.exit(f"opinfo: no {arguments.server}; build it: cmake --build build --target bench_op_server")
    torch.set_num_threads(1)
    server = Server(str(arguments.server), "reference" if arguments.reference else "cpu")
    rows, missing = [], []
    for op in sorted(op_db, key=lambda op: (op.name, op.variant_test_name)):
        if torch.float32 not in op.dtypes or not any(fnmatch.fnmatch(op.name, pattern) for pattern in arguments.only):
            continue
        entry = opinfo_table.TABLE.get(op.name)
        if entry is None:
            missing.append(op.name + (f".{op.variant_test_name}" if op.variant_test_name else ""))
            continue
        rows.append(run_op(op, entry, server))
    if not arguments.summary:
        print_table(rows)
    for row in rows:
        for line in row.wrong:
            print("WRONG", line)
        for line in row.refused if arguments.verbose else ():
            print("refused:", line)
    for row in rows:
        if row.remark:
            print(f"{row.name}: {row.remark}")
    if arguments.refusals:
        print_refusals(rows)
    if arguments.missing:
        print("\nNo entry: " + ", ".join(missing))
    print_summary(rows, missing)
    return 1 if any(row.wrong for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
