"""Architectures of transformers and diffusers by tasks: each cell is trained for ten steps by Ramet and by PyTorch, from the same
random weights and with the same batches (f32, AdamW, no dropout), and the losses are compared.

    python bench/hf_table.py                        # all cells; results in build/hf_table.json
    python bench/hf_table.py --only bert whisper    # cells whose name has one of these words
    python bench/hf_table.py --again                # only cells that were not equal in build/hf_table.json
    python bench/hf_table.py --export               # only torch.export: the ATen operators that the cells need
    python bench/hf_table.py --write-docs           # the table in docs/hugging-face.md, from the results

Needs the packages of scripts/setup.sh --peers and a build of Ramet's Python package (docs/python.md).
"""

import argparse
import collections
import copy
import json
import os
import pathlib
import sys
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT / "bench" / "peers")  # not bench/, whose tokenize.py would hide the module of Python's library

sys.path.insert(1, str(pathlib.Path(os.environ.get("RAMET_BUILD_DIR", ROOT / "build")) / "python"))

BAR, BAR_OF_BATCH_NORM = 1e-4, 1e-3
BEGIN, END = "<!-- table by bench/hf_table.py -->", "<!-- end of the table -->"


def optimizer_of(module):
    import torch
    return torch.optim.AdamW([weight for weight in module.parameters() if weight.requires_grad], lr=1e-3, weight_decay=0.01)


def losses_of_torch(module, batches):
    optimizer, losses = optimizer_of(module), []
    for batch in batches:
        optimizer.zero_grad()
        loss = module(**batch)["loss"]
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def losses_of_ramet(module, batches, layout):
    import ramet.torch
    step = ramet.torch.training_model(module, optimizer_of(module), example=batches[0], loss="loss",
                                      options=ramet.torch.Options(micro_batches=1, precision="f32", layout=layout))
    return [float(step(**batch).loss) for batch in batches]


def compare(cell, steps, layout):
    module, batches = cell.module(), [cell.batch(i) for i in range(steps)]
    weights = sum(weight.numel() for weight in module.parameters())
    began = time.time()
    expected = losses_of_torch(copy.deepcopy(module), batches)
    result = {"weights": weights, "torch": expected}
    try:
        found = losses_of_ramet(module, batches, layout)
    except Exception as error:
        kind = type(error).__name__
        return result | {"state": "refused", "error": f"{kind}: {error}"[:2000]}
    gap = max(abs(mine - other) / max(abs(other), 1e-6) for mine, other in zip(found, expected))
    equal = gap <= (BAR_OF_BATCH_NORM if cell.batch_norm else BAR)
    return result | {"state": "equal" if equal else "differs", "ramet": found, "gap": gap, "seconds": time.time() - began}


def export(cell):
    """The ATen operators of the cell's training program, with counts."""
    import torch
    module, batch = cell.module(), cell.batch(0)
    module(**batch)["loss"].backward()
    program = torch.export.export(module, (), batch, strict=False).run_decompositions({})
    names = [str(node.target).replace("aten.", "") for node in program.graph.nodes if node.op == "call_function"]
    return dict(collections.Counter(names))


def run_exports(cells):
    counts, users = collections.Counter(), collections.defaultdict(list)
    for key, cell in cells.items():
        name = ": ".join(key)
        try:
            found = export(cell)
        except Exception as error:
            print(f"FAILED {name}: {type(error).__name__}: {str(error).splitlines()[0][:300]}", flush=True)
            continue
        print(f"ok     {name}: {sum(found.values())} calls of {len(found)} operators", flush=True)
        counts.update(found)
        for operator in found:
            users[operator].append(name)
    for operator, count in sorted(counts.items(), key=lambda entry: (-len(users[entry[0]]), entry[0])):
        print(f"{operator}: {count} calls in {len(users[operator])} cells, such as {users[operator][0]}")


def state_of(result):
    """What the table says of a cell."""
    if result is None:
        return "not run"
    if result["state"] == "refused":
        return "refused: " + " ".join(result["error"].split(": ", 1)[-1].split())[:200].replace("|", "\\|")
    return f"{result['gap']:.0e}" + (" (**differs**)" if result["state"] == "differs" else "")


def markdown(cells, results):
    """The table: a row for each architecture, with the largest relative gap of the losses of each task."""
    rows, states = collections.defaultdict(list), collections.Counter()
    for key in cells:
        result = results.get(": ".join(key))
        states["not run" if result is None else result["state"]] += 1
        rows[key[0]].append(f"{key[1]} {state_of(result)}")
    head = f"Of {len(cells)} cells {states['equal']} are equal, {states['differs']} differ, {states['refused']} are refused, and " \
           f"{states['not run']} were not run."
    lines = [f"| {architecture} | {'; '.join(found)} |" for architecture, found in rows.items()]
    return "\n".join([head, "", "| architecture | tasks, each with its number |", "| --- | --- |", *lines])


def write_docs(cells, results):
    page = ROOT / "docs" / "hugging-face.md"
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN, 1)
    page.write_text(before + BEGIN + "\n" + markdown(cells, results) + "\n" + END + rest.split(END, 1)[1], encoding="utf-8")
    kept = {name: {key: result[key] for key in ("state", "gap", "weights", "torch", "ramet", "error") if key in result}
            for name, result in results.items()}
    (ROOT / "docs" / "hugging-face.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def breadth_first(cells):
    """The cells, the first of each architecture before the second of any."""
    seen, order = collections.Counter(), []
    for key, cell in cells.items():
        order.append((seen[key[0]], key, cell))
        seen[key[0]] += 1
    return [(key, cell) for _, key, cell in sorted(order, key=lambda entry: entry[0])]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--missing", action="store_true", help="only cells that have no result yet")
    parser.add_argument("--at-most", type=int, default=10**6, help="number of cells")
    parser.add_argument("--export", action="store_true")
    parser.add_argument("--write-docs", action="store_true")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--layout", default="")
    parser.add_argument("--json", default="build/hf_table.json")
    return parser.parse_args()


def main():
    args = arguments()
    warnings.filterwarnings("ignore")
    import torch
    import transformers
    import hf_cells
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    transformers.logging.set_verbosity_error()
    path = ROOT / args.json
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    cells = {key: cell for key, cell in hf_cells.CELLS.items()
             if not args.only or any(word.lower() in ": ".join(key).lower() for word in args.only)}
    if args.export:
        run_exports(cells)
        return
    if args.write_docs:
        write_docs(hf_cells.CELLS, results)
        return
    if args.again:
        cells = {key: cell for key, cell in cells.items() if results.get(": ".join(key), {}).get("state") != "equal"}
    if args.missing:
        cells = {key: cell for key, cell in cells.items() if ": ".join(key) not in results}
    cells = dict(breadth_first(cells)[:args.at_most])
    for key, cell in cells.items():
        name = ": ".join(key)
        result = results[name] = compare(cell, args.steps, args.layout)
        shown = f"gap {result['gap']:.1e} in {result['seconds']:.1f} s" if "gap" in result else " ".join(result["error"].split())[:400]
        print(f"{result['state']:8} {name}: {shown}", flush=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    states = collections.Counter(results[": ".join(key)]["state"] for key in cells)
    print(", ".join(f"{count} {state}" for state, count in sorted(states.items())))


if __name__ == "__main__":
    main()
