#!/usr/bin/env python3
"""Draws predicted orbital gaps beside the true ones, as SVG: all molecules as points, and some of them with their atoms.

usage: scripts/draw_molecules.py SET.safetensors ANSWERS.npz... --out PICTURE.svg

SET is a graph set with node.z and node.pos; each file of answers is what `ramet predict` wrote for one training on it.
The mean over trainings is the prediction, and their spread its error bar. Needs NumPy.
"""
import argparse
import json
import struct

import numpy as np

COLOURS = {1: "#cfd4da", 6: "#3b4048", 7: "#3b6fd4", 8: "#d43b3b", 9: "#3bab5a"}
RADII = {1: 0.31, 6: 0.76, 7: 0.71, 8: 0.66, 9: 0.57}  # covalent, in Angstrom
SIZE, MARGIN, TILE, COLUMNS, ROWS = 640, 70, 200, 4, 3
INK, FAINT, BLUE = "#22262b", "#aab0b8", "#2f62c8"


def read_set(path):
    """The tensors of a safetensors file that are needed, by name."""
    types = {"I64": np.int64, "F32": np.float32, "U8": np.uint8}
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        tensors = {}
        for name in ("node.ptr", "node.z", "node.pos"):
            begin, end = header[name]["data_offsets"]
            file.seek(8 + size + begin)
            values = np.frombuffer(file.read(end - begin), types[header[name]["dtype"]])
            tensors[name] = values.reshape(header[name]["shape"])
    return tensors


def read_answers(paths):
    """Numbers of graphs, true values, and the predictions of each training [trainings, graphs]."""
    found = [np.load(path) for path in paths]
    graphs = found[0]["graph"]
    for answers in found[1:]:
        if not np.array_equal(answers["graph"], graphs):
            raise SystemExit("the trainings have answered for different graphs")
    return graphs, found[0]["targets"][:, 0], np.stack([answers["values"][:, 0] for answers in found])


def text(x, y, words, size=14, anchor="middle", colour=INK, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}" {more}>{words}</text>'


def line(x1, y1, x2, y2, colour=FAINT, width=1.0):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def circle(x, y, radius, colour, more=""):
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour}" {more}/>'


def draw_points(true, mean, spread):
    """All molecules: true values to the right, predictions upwards."""
    low = np.floor(min(true.min(), mean.min()))
    high = np.ceil(max(true.max(), mean.max()))
    at = lambda value: (value - low) / (high - low) * (SIZE - 2 * MARGIN)
    x_of, y_of = lambda value: MARGIN + at(value), lambda value: SIZE - MARGIN - at(value)
    parts = []
    for tick in np.arange(low, high + 0.5, max(1, (high - low) // 8)):
        parts += [line(x_of(tick), y_of(low), x_of(tick), y_of(high), "#eceef1"), line(x_of(low), y_of(tick), x_of(high), y_of(tick), "#eceef1"),
                  text(x_of(tick), SIZE - MARGIN + 20, f"{tick:g}", 12), text(MARGIN - 10, y_of(tick) + 4, f"{tick:g}", 12, "end")]
    parts.append(line(x_of(low), y_of(low), x_of(high), y_of(high), FAINT, 1.5))
    for each in range(len(true)):
        x = x_of(true[each])
        parts.append(line(x, y_of(mean[each] - spread[each]), x, y_of(mean[each] + spread[each]), "#9db4e3", 1))
        parts.append(circle(x, y_of(mean[each]), 2.2, BLUE, 'fill-opacity="0.6"'))
    parts += [text(SIZE / 2, SIZE - 22, "true gap, eV"),
              text(22, SIZE / 2, "predicted gap, eV", more=f'transform="rotate(-90 22 {SIZE / 2})"')]
    return parts


def draw_molecule(z, pos, left, top, words):
    """One molecule, seen along the direction in which it is thinnest."""
    centred = pos - pos.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    flat = centred @ axes[:2].T if len(axes) > 1 else np.pad(centred @ axes[:1].T, ((0, 0), (0, 1)))
    depth = centred @ axes[2] if len(axes) > 2 else np.zeros(len(z))
    scale = min(30, (TILE - 70) / max(1e-6, np.ptp(flat, 0).max()))
    points = flat * scale + [left + TILE / 2, top + TILE / 2 - 14]
    parts = []
    for a in range(len(z)):
        for b in range(a):
            if np.linalg.norm(pos[a] - pos[b]) < 1.25 * (RADII[int(z[a])] + RADII[int(z[b])]):
                parts.append(line(*points[a], *points[b], "#7b828b", 2.5))
    for a in np.argsort(depth):
        parts.append(circle(*points[a], scale * (0.2 + 0.25 * RADII[int(z[a])]), COLOURS[int(z[a])], f'stroke="{INK}" stroke-width="0.6"'))
    return parts + [text(left + TILE / 2, top + TILE - 30 + 16 * i, each, 12, colour=INK if i == 0 else BLUE) for i, each in enumerate(words)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set")
    parser.add_argument("answers", nargs="+")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    tensors = read_set(args.set)
    graphs, true, found = read_answers(args.answers)
    mean, spread = found.mean(0), found.std(0)
    error = np.abs(mean - true).mean()
    parts = draw_points(true, mean, spread)
    known = [number for number, graph in enumerate(graphs) if set(tensors["node.z"][slice(*tensors["node.ptr"][graph:graph + 2])]) <= set(RADII)]
    chosen = [known[at] for at in np.linspace(0, len(known) - 1, COLUMNS * ROWS).astype(int)] if known else []
    for place, number in enumerate(chosen):
        atoms = slice(*tensors["node.ptr"][graphs[number]:graphs[number] + 2])
        words = [f"true {true[number]:.2f} eV", f"predicted {mean[number]:.2f}" + (f" &#177; {spread[number]:.2f}" if len(found) > 1 else "")]
        parts += draw_molecule(tensors["node.z"][atoms], tensors["node.pos"][atoms], SIZE + place % COLUMNS * TILE,
                               place // COLUMNS * TILE + 20, words)
    title = f"{len(true)} molecules that no training has seen: mean absolute error {error:.3f} eV"
    width = SIZE + COLUMNS * TILE + 20
    with open(args.out, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {SIZE + 20}" font-family="sans-serif">'
                   f'<rect width="{width}" height="{SIZE + 20}" fill="white"/>{text(SIZE / 2 + 20, 40, title, 15)}{"".join(parts)}</svg>\n')
    print(f"{args.out}: {title}; predicting the mean of all gives {np.abs(true - true.mean()).mean():.3f} eV")


if __name__ == "__main__":
    main()
