"""Imports models of torchvision, timm and transformers, takes one step of SGD, and compares with PyTorch.

    cmake --preset release -DRAMET_PYTHON=ON && cmake --build --preset release --target bench_torch_step ramet_python
    .venv/bin/python bench/torch_survey.py [--only PATTERN ...] [--export-only] [--again] [--table]

Each model is traced once; the trace, the weights, and the loss and weights that PyTorch has after a step are kept in
build/survey/NAME, so that a repeated run skips PyTorch. A learning rate of 1 makes the change of each weight its
gradient. Results are in build/survey/results.json, by name; a model that has a result of the same program is not run again
without --again.

A model agrees when its loss has a relative error of at most 1e-4, and the change of each weight one of at most 1e-2. Where
one of the two is larger, PyTorch takes the step in f64 too: then the errors against that step must be at most 5 times
the largest of PyTorch's own f32 step. (In either program a rounding error may move an element across the kink of a relu, or
change which of two near-equal elements a max pool takes.) A model that still differs is taken again by PyTorch in f32, from
16 sets of weights that differ from the given ones by at most 2^-22 of each, as rounding errors do: where the largest error of
these steps is at least a fifth of Ramet's, rounding explains the difference, and the model agrees "by rounding". Errors of a weight are norms, relative to the norm of its change,
but at least 1e-4 of the largest change. A model is unstable, and says nothing, when PyTorch's own f32 step is off by more
than a fifth.
"""

import os
import sys

# In place of bench/, whose tokenize.py would hide Python's own from the modules below.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers")

import argparse  # noqa: E402
import copy
import fcntl
import json
import logging
import pathlib
import subprocess
import time
import traceback
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
STORE = ROOT / "build" / "survey"
BEGIN, END = "<!-- table by bench/torch_survey.py -->", "<!-- end of the table -->"
PROGRAM = ROOT / "build" / "bench" / "torch_step"
sys.path.append(str(ROOT / "build" / "python"))  # of the target ramet_python


def sanitized(name):
    return name.replace("/", "-").replace(", seed ", "-seed")


def program_text(exported):
    from torch._export.serde.serialize import ExportedProgramSerializer, _to_json_bytes
    return _to_json_bytes(ExportedProgramSerializer(None, None).serialize(exported).exported_program).decode()


def step_of(module, arguments, rate, dtype):
    """Loss, and parameters and buffers after a step of SGD, of a copy of the module."""
    import torch
    module = copy.deepcopy(module).to(dtype).train()
    inputs = {name: each.to(dtype) if isinstance(each, torch.Tensor) and each.is_floating_point() else each
              for name, each in arguments.items()}
    loss = module(**inputs)["loss"]
    loss.backward()
    with torch.no_grad():
        for each in module.parameters():
            if each.grad is not None:
                each -= rate * each.grad
    return loss.item(), {name: each.detach().clone().contiguous() for name, each in module.state_dict().items()}


def export(make, folder, seed):
    """Traces the model and keeps what a run needs in `folder`."""
    import torch
    from ramet.torch._marks import set_marks
    from safetensors.torch import save_file
    torch.manual_seed(seed)
    module, _, arguments = make()
    module.train()
    rate = 1.0
    loss, after = step_of(module, arguments, rate, torch.float32)
    start = time.time()
    exported = torch.export.export(module, (), arguments, strict=False)
    set_marks(exported)
    exported = exported.run_decompositions({})
    text = program_text(exported)
    seconds = time.time() - start
    tensors, described, seen = {}, [], {}
    signature = exported.graph_signature
    trained = {key: each.requires_grad for key, each in module.named_parameters(remove_duplicate=False)}
    values = dict(exported.state_dict)
    values.update({key: each for key, each in exported.constants.items() if isinstance(each, torch.Tensor)})
    for key, value in values.items():
        place = (value.untyped_storage().data_ptr(), value.storage_offset(), tuple(value.shape)) if value.numel() else key
        storage = seen.setdefault(place, key)
        tensors[key] = value.detach().clone().contiguous()
        described.append({"name": key, "storage": storage, "trained": trained.get(key, False)})
    inputs = {}
    for key, value in arguments.items():
        if isinstance(value, torch.Tensor) and key in signature.user_inputs:
            inputs["input/" + key] = value.contiguous()
    folder.mkdir(parents=True, exist_ok=True)
    save_file({**tensors, **inputs}, folder / "tensors.safetensors")
    save_file(after, folder / "expected.safetensors")
    (folder / "program.json").write_text(text)
    (folder / "case.json").write_text(json.dumps({
        "tensors": described, "outputs": ["loss"], "loss": "loss", "rate": rate, "torch_loss": loss,
        "export_seconds": seconds, "parameters": sum(each.numel() for each in module.parameters()),
        "user_inputs": [each for each in signature.user_inputs if isinstance(each, str)]}))


def changes(folder, described, names, after):
    """Of each trained weight the change of a step, by `after`, a dictionary of tensors."""
    from safetensors.torch import load_file
    before = load_file(folder / "tensors.safetensors")
    return {name: after[name].double() - before[name].double() for name in names if name in after}


def errors_of(got, expected):
    """Relative error of the change of each weight."""
    largest = max((each.norm().item() / max(each.numel(), 1) ** 0.5 for each in expected.values()), default=0)
    found = {}
    for name, change in expected.items():
        if name in got:
            floor = 1e-4 * largest * max(change.numel(), 1) ** 0.5
            found[name] = (got[name] - change).norm().item() / max(change.norm().item(), floor, 1e-30)
    return found


NEARBY, ROUNDING = 16, 2.0 ** -22


def errors_nearby(make, seed, exact_changes):
    """Of PyTorch's f32 steps from weights within a rounding error of the given ones: the largest error of the change of a
    weight, of each step."""
    import torch
    found = []
    torch.manual_seed(seed)
    module, _, arguments = make()
    module.train()
    start = copy.deepcopy(module.state_dict())
    random = torch.Generator().manual_seed(1)
    for _ in range(NEARBY):
        module.load_state_dict(start)
        with torch.no_grad():
            for each in module.parameters():
                each *= 1 + ROUNDING * (2 * torch.rand(each.shape, generator=random) - 1)
        module.zero_grad()
        module(**arguments)["loss"].backward()
        own = {name: -each.grad.double() for name, each in module.named_parameters() if each.grad is not None}
        found.append(max(errors_of(own, exact_changes).values()))
    return found


def compare(make, folder, answer, seed):
    import torch
    from safetensors.torch import load_file
    case = json.loads((folder / "case.json").read_text())
    loss, torch_loss = answer["losses"][0], case["torch_loss"]
    loss_error = abs(loss - torch_loss) / max(abs(torch_loss), 1e-3)
    by_storage = {}
    for each in case["tensors"]:
        if each["trained"]:
            by_storage.setdefault(each["storage"], []).append(each["name"])
    after, expected = load_file(folder / "after.safetensors"), load_file(folder / "expected.safetensors")
    names, unknown = [], []
    for group in by_storage.values():
        known = [each for each in group if each in after]
        names += known[:1]
        unknown += [] if known else group[:1]
    got = changes(folder, case, names, after)
    torch_changes = changes(folder, case, names, expected)
    # A parameter that the loss does not depend on is a constant, which no file of weights holds.
    missing = [each for each, change in changes(folder, case, unknown, expected).items() if change.abs().max() > 0]
    errors = errors_of(got, torch_changes)
    worst = max(errors, key=errors.get, default="")
    result = {"loss": loss, "torch_loss": torch_loss, "loss_error": loss_error, "weight": worst,
              "weight_error": errors.get(worst, 0), "missing": missing[:5], "weights": len(errors)}
    unstable = False
    agrees = loss_error <= 1e-4 and not missing and result["weight_error"] <= 1e-2
    if not agrees:  # how far is PyTorch's own f32 from f64?
        torch.manual_seed(seed)
        module, _, arguments = make()
        try:
            exact_loss, exact = step_of(module, arguments, case["rate"], torch.float64)
            exact_changes = changes(folder, case, names, exact)
            own, ours = errors_of(torch_changes, exact_changes), errors_of(got, exact_changes)
            worst = max(ours, key=ours.get, default="")
            scale = max(abs(exact_loss), 1e-3)
            noise = max(own.values(), default=0)
            result.update(weight=worst, error_to_f64=ours.get(worst, 0), torch_error_to_f64=noise,
                          loss_error_to_f64=abs(loss - exact_loss) / scale,
                          torch_loss_error_to_f64=abs(torch_loss - exact_loss) / scale)
            agrees = not missing and ours.get(worst, 0) <= max(1e-2, 5 * noise) and \
                abs(loss - exact_loss) / scale <= max(1e-4, 5 * abs(torch_loss - exact_loss) / scale)
            if not agrees and not missing:
                nearby = errors_nearby(make, seed, exact_changes)
                result["nearby"] = nearby
                agrees = max(nearby) >= ours[worst] / 5 and \
                    result["loss_error_to_f64"] <= max(1e-4, 5 * result["torch_loss_error_to_f64"])
            unstable = noise > 0.2 or result["torch_loss_error_to_f64"] > 1e-3
        except Exception as error:
            result["f64"] = str(error)[:200]
    result["status"] = "unstable" if unstable else "agrees" if agrees else "differs"
    return result


def run(make, folder, timeout, seed):
    start = time.time()
    environment = dict(os.environ, RAMET_THREADS="1")
    try:
        done = subprocess.run([str(PROGRAM), str(folder)], capture_output=True, timeout=timeout, env=environment)
    except subprocess.TimeoutExpired:
        return {"status": "hangs", "why": f"no answer in {timeout} s"}
    try:
        answer = json.loads(done.stdout.decode(errors="replace").splitlines()[-1])
    except (IndexError, json.JSONDecodeError):
        return {"status": "crashes", "why": f"exit status {done.returncode}: " + done.stderr.decode(errors="replace")[-500:]}
    if "refused" in answer:
        return {"status": "refused", "why": answer["refused"]}
    result = {**compare(make, folder, answer, seed), "import_seconds": answer["import_seconds"],
              "compile_seconds": answer["compile_seconds"], "step_seconds": answer["step_seconds"]}
    (folder / "after.safetensors").unlink(missing_ok=True)
    result["seconds"] = time.time() - start
    return result


def keep(name, result):
    """Adds a result to those of this run and of others that may go on beside it."""
    STORE.mkdir(parents=True, exist_ok=True)
    with open(STORE / "results.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = STORE / "results.json"
        results = json.loads(path.read_text()) if path.exists() else {}
        results[name] = result
        path.with_suffix(".new").write_text(json.dumps(results, indent=1))
        path.with_suffix(".new").rename(path)


def line_of(name, result):
    status = result["status"]
    if status in ("agrees", "differs", "unstable"):
        more = f"loss {result['loss']:.6g} torch {result['torch_loss']:.6g} weights off by {result['weight_error']:.1e}"
        if "error_to_f64" in result:
            more += f" (to f64: {result['error_to_f64']:.1e}, torch {result['torch_error_to_f64']:.1e}, {result['weight']})"
        if "nearby" in result:
            more += " nearby " + " ".join(f"{each:.1e}" for each in sorted(result["nearby"]))
        if result.get("missing"):
            more += f" missing {result['missing']}"
        more += f", compiled in {result['compile_seconds']:.1f} s"
    else:
        more = result.get("why", "")
    return f"{status:8} {name:45} {more}"


def table(results):
    by_library = {}
    for name, result in results.items():
        if ", seed " in name and name.split(", seed ")[0] in results:
            continue
        counts = by_library.setdefault(name.split("/")[0], {})
        counts[result["status"]] = counts.get(result["status"], 0) + 1
    for library, counts in by_library.items():
        print(f"{library:15} {sum(counts.values()):4} models: " + ", ".join(f"{n} {key}" for key, n in sorted(counts.items())))
    total = {}
    for counts in by_library.values():
        for key, n in counts.items():
            total[key] = total.get(key, 0) + n
    print(f"{'all':15} {sum(total.values()):4} models: " + ", ".join(f"{n} {key}" for key, n in sorted(total.items())))


def row_of(name, result):
    """A model's row of the page."""
    if "loss_error" not in result:
        return f"| {name} | {result['status']} | | | {result.get('why', '')[:200]} |".replace("\n", " ")
    note = ""
    if "error_to_f64" in result:
        note = f"to f64: {result['error_to_f64']:.0e}, PyTorch's f32 {result['torch_error_to_f64']:.0e}"
    if "nearby" in result:
        note += f", PyTorch's f32 nearby up to {max(result['nearby']):.0e}"
    return f"| {name} | {result['status']} | {result['loss_error']:.0e} | {result['weight_error']:.0e} | {note} |"


def write_docs(results, names):
    page = ROOT / "docs" / "pytorch-models.md"
    before, rest = page.read_text(encoding="utf-8").split(BEGIN, 1)
    run = [name for name in names if name in results]
    stepped = [name for name in run if "loss_error" in results[name]]
    head = f"Of {len(names)} models {len(run)} were run; {len(stepped)} of them import and take a step, and " \
           f"{sum(results[name]['status'] == 'agrees' for name in run)} agree with PyTorch."
    lines = [head, "", "| model | result | loss | weights | |", "| --- | --- | ---: | ---: | --- |"]
    lines += [row_of(name, results[name]) for name in run]
    page.write_text(before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + rest.split(END, 1)[1], encoding="utf-8")


def main():
    global STORE
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], help="regular expressions of names")
    parser.add_argument("--export-only", action="store_true")
    parser.add_argument("--again", action="store_true", help="also models that agreed before")
    parser.add_argument("--export-again", action="store_true")
    parser.add_argument("--table", action="store_true", help="print the results that there are")
    parser.add_argument("--write-docs", action="store_true", help="the table in docs/pytorch-models.md, from the results")
    parser.add_argument("--seed", type=int, default=0, help="of weights and inputs")
    parser.add_argument("--timeout", type=int, default=600)
    parser.add_argument("--store", type=pathlib.Path, default=STORE, help="folder of traces and results")
    options = parser.parse_args()
    STORE = options.store
    path = STORE / "results.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    if options.table:
        for name in sorted(results):
            print(line_of(name, results[name]))
        table(results)
        return
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    import torch
    torch.set_num_threads(1)
    import survey_models
    if options.write_docs:
        write_docs(results, list(survey_models.models()))
        return
    chosen = survey_models.matching(options.only)
    if options.seed:
        chosen = {f"{name}, seed {options.seed}": make for name, make in chosen.items()}
    for name, make in chosen.items():
        folder = STORE / sanitized(name)
        if not options.again and not options.export_only and results.get(name, {}).get("status") == "agrees":
            continue
        try:
            if options.export_again or not (folder / "case.json").exists():
                export(make, folder, options.seed)
        except Exception as error:
            results[name] = {"status": "untraced", "why": f"{type(error).__name__}: {error}"[:400].replace("\n", " ")}
            if os.environ.get("SURVEY_TRACE"):
                traceback.print_exc()
        else:
            if options.export_only:
                print(f"traced   {name}", flush=True)
                continue
            results[name] = run(make, folder, options.timeout, options.seed)
        keep(name, results[name])
        print(line_of(name, results[name]), flush=True)
    table({name: results[name] for name in chosen if name in results})


if __name__ == "__main__":
    main()
