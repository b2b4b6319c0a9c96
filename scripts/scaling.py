#!/usr/bin/env python3
"""Writes docs/scaling.md and its pictures from what `ramet simulate` and `ramet plan` say. Takes some minutes.

    scripts/scaling.py [--build build]
"""
import argparse
import json
import math
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SMALL = ["--set", "model.layers=24", "--set", "model.hidden=2048", "--set", "model.heads=16", "--set", "train.chunks=16"]
STREAMED = "recompute=layer sequence=true offload=weights,grads,optimizer,activations rts=weights,grads,optimizer"


class Tool:
    def __init__(self, build):
        self.ramet = ROOT / build / "ramet"

    def simulate(self, recipe, machine, layout="", settings=()):
        """The simulation, or why there is none; and the command."""
        arguments = ["simulate", recipe, "--machine", machine, *settings] + (["--layout", layout] if layout else [])
        shown = "build/ramet " + " ".join(f'"{a}"' if " " in a else a for a in arguments)
        run = subprocess.run([self.ramet, *arguments, "--json"], capture_output=True, text=True, cwd=ROOT, check=False)
        result = json.loads((run.stdout or run.stderr).splitlines()[-1])
        if "error" not in result and "simulation" not in result:
            raise SystemExit(f"scaling: {shown}: {run.stdout}{run.stderr}")
        print(shown, "->", result.get("error") or f"{result['simulation']['step_seconds']:.4g} s", flush=True)
        return result, shown


def gib(amount):
    return f"{amount / 2**30:.2f} GiB" if amount >= 2**30 else f"{amount / 2**20:.0f} MiB"


def share(stages, key, seconds):
    return f"{100 * max(s[key] for s in stages) / seconds:.0f}%"


def row_of(name, result):
    if "error" in result:
        found = result.get("found", result["error"])
        return f"| {name} | does not fit: {found.split(' (')[0]} | | | | | | |"
    s = result["simulation"]
    stages, seconds = s["stages"], s["step_seconds"]
    return (f"| {name} | {s['devices']} | {seconds:.3g} s | {result['samples_per_second']:.3g} | "
            f"{gib(max(x['planned_bytes'] for x in stages))} | {share(stages, 'compute', seconds)} | "
            f"{share(stages, 'exchange', seconds)} | {100 * s['bubble']:.0f}% |")


def table(rows, first="layout"):
    head = (f"| {first} | devices | step | samples/s | device memory | compute | exchange | bubble |\n"
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
    return head + "\n".join(rows) + "\n"


def plot(path, title, series, labels):
    """Lines over doublings of devices: `series` is [(name, [(devices, value)])], both axes logarithmic."""
    width, height, left, top, right, bottom = 560, 300, 64, 34, 130, 44
    points = [p for _, line in series for p in line]
    xs, ys = [math.log2(x) for x, _ in points], [math.log10(y) for _, y in points]
    x0, x1, y0, y1 = min(xs), max(max(xs), min(xs) + 1), math.floor(min(ys)), math.ceil(max(ys))
    place = lambda x, y: (left + (math.log2(x) - x0) / (x1 - x0) * (width - left - right),
                          top + (y1 - math.log10(y)) / max(y1 - y0, 1) * (height - top - bottom))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
           f'<rect width="{width}" height="{height}" fill="white"/><text x="{left}" y="18" font-size="13">{title}</text>']
    for decade in range(y0, y1 + 1):
        y = place(2**x0, 10.0**decade)[1]
        out.append(f'<line x1="{left}" x2="{width - right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
                   f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**decade:g}</text>')
    for x in sorted({x for x, _ in points}):
        at = place(x, 10.0**y0)[0]
        out.append(f'<text x="{at:.1f}" y="{height - bottom + 16}" text-anchor="middle">{x}</text>')
    out.append(f'<text x="{(left + width - right) / 2:.0f}" y="{height - 8}" text-anchor="middle">{labels}</text>')
    for (name, line), colour in zip(series, ["#1f77b4", "#d62728", "#2ca02c", "#9467bd"]):
        spots = [place(*p) for p in line]
        out.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="'
                   + " ".join(f"{x:.1f},{y:.1f}" for x, y in spots) + '"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in spots]
        out.append(f'<text x="{spots[-1][0] + 8:.1f}" y="{spots[-1][1] + 4:.1f}" fill="{colour}">{name}</text>')
    path.write_text("\n".join(out) + "\n</svg>\n")


def growth(tool, layouts):
    """Rows and points of [(name, lanes, micro-batches, layout)] of the small GPT on a POD256."""
    rows, points = [], []
    for name, lanes, micro_batches, layout in layouts:
        settings = SMALL + ["--set", f"train.lanes={lanes}", "--set", f"train.accumulation={micro_batches}"]
        result, _ = tool.simulate("examples/gpt3-175b.toml", "ipu-pod256", f"{layout} {STREAMED}", settings)
        rows.append(row_of(name, result))
        if "simulation" in result:
            points.append((result["simulation"]["devices"], result["samples_per_second"]))
    return rows, points


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    tool = Tool(parser.parse_args().build)
    pictures = ROOT / "docs" / "scaling"
    pictures.mkdir(exist_ok=True)

    text = ["# Scale on paper", "",
            "This page shows what the simulator predicts for large models on machines that few people have. `scripts/scaling.py`",
            "writes the page from the output of `ramet simulate`, on any machine, in some minutes. The model of docs/tiles.md",
            "predicts the times. docs/tiles.md also lists the figures that no vendor publishes. Memory is that of the programs that",
            "would run.", ""]

    text += ["## GPT-3 175B on 256 IPUs", ""]
    pipeline = "p=8 t=8 r=4 phases=12 recompute=layer offload=weights,grads,optimizer,activations rts=weights,grads,optimizer"
    phased = "t=8x8 r=4 phases=96 recompute=layer offload=weights,grads,optimizer,activations rts=weights,grads,optimizer"
    rows = []
    for name, layout in (("p=8 t=8 r=4, 12 phases", pipeline), ("the same, sequence=true", pipeline + " sequence=true"),
                         ("t=8x8 r=4, 96 phases", phased), ("the same, sequence=true", phased + " sequence=true")):
        result, command = tool.simulate("examples/gpt3-175b.toml", "ipu-pod256", layout)
        rows.append(row_of(name, result))
    text += ["A step has 128 sequences of 2048 tokens. All states and activations are in streaming memory, and layers are recomputed:", "", table(rows),
             "Gradients are summed in f32, in which an eighth of a layer's gradients alone takes 864 of the 897 MiB of an IPU. What",
             "else a device holds does not fit beside them. A 64th of a layer fits when activations between products are cut along",
             "the sequence (`sequence=true`). The command of the last row:", "",
             "    " + command, ""]

    result, command = tool.simulate("examples/gpt-1t.toml", "examples/machines/four-pod256.toml")
    s = result["simulation"]
    text += ["## A trillion weights on four POD256", "",
             "The model has 128 layers of width 25,600. The 256 IPUs of a pod compute one layer at a time, cut into 16 x 16 parts.",
             "Four pods are replicas, each with 24 sequences of 2048 tokens a step. A device has 64 GB of the pod's 16 TB of streaming",
             f"memory, and uses {gib(max(x['streaming_bytes'] for x in s['stages']))} of them.", "", table([row_of("t=16x16 r=4, 128 phases", result)]),
             f"A step takes {s['step_seconds']:.0f} s and reaches {100 * s['share_of_peak']:.1f}% of the peak of the matrix units. "
             "Products of 1600 by 1600 are small for 1472 tiles,", "and the operands of every product pass through ladders of links. "
             "The exchange of shards is the limit, not streaming", "memory.", "", "    " + command, ""]

    text += ["## Growth with t, r and p", "",
             "The model is a GPT of 24 layers of width 2048 on parts of a POD256, with all states and activations streamed. It is",
             "`examples/gpt3-175b.toml` with",
             "`" + " ".join(SMALL) + "`, and", f"`{STREAMED}`.", ""]
    series = []
    for title, intro, name, layouts in (
            ("Tensor shards", "16 micro-batches a step, layout `t=N phases=24`:", "t",
             [(f"t={t}", 1, 16, f"t={t} phases=24") for t in ("4", "8", "16", "4x4", "8x4", "16x4")]),
            ("Replicas", "16 micro-batches for each replica, layout `t=4 r=N phases=24`:", "r",
             [(f"r={r}", r, 16 * r, f"t=4 r={r} phases=24") for r in (1, 2, 4, 8, 16, 32, 64)]),
            ("Stages", "64 micro-batches a step, layout `t=4 p=N`, with so many phases that each has one layer:", "p",
             [(f"p={p}", 1, 64, f"p={p} t=4 phases={24 // p}") for p in (1, 2, 4, 8, 12)])):
        rows, points = growth(tool, layouts)
        text += [f"### {title}", "", intro, "", table(rows)]
        if name == "t":
            points = [p for p, (label, *_) in zip(points, layouts) if "x" not in label]
        series.append((f"{name} grows", points))
    plot(pictures / "growth.svg", "samples a second", series, "devices")
    text += ["![samples a second by devices](scaling/growth.svg)", "",
             "The rate grows nearly in proportion to the number of replicas, because each device streams a smaller range of every",
             "state when there are more of them. With stages it grows in proportion until the bubble becomes large. With tensor shards",
             "it grows least, because the exchange for every layer does not shrink when there are more shards."]
    (ROOT / "docs" / "scaling.md").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
