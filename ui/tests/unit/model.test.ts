import assert from "node:assert/strict";
import { test } from "node:test";
import { readFileSync } from "node:fs";
import { assignColours, contrast, inkOn, kClassColours, kRunColours, kWorkColours, scaleColour } from "../../src/lib/colours.ts";
import { insights } from "../../src/lib/insights.ts";
import { differences, gapsAt, layerOf, layersAt, liveAt, liveCurve, meshOf, positionOf, type Buffer, type LiveStage } from "../../src/lib/liveness.ts";
import { heatMap, mediaTable } from "../../src/lib/media.ts";
import { axisOf, brushesText, inBrushes, labelsOf, parseBrushes, placeOf, valueOf } from "../../src/lib/parallel.ts";
import { instructionTimes, nested, operations, programTree, runsOfSegments, type DeviceTimes, type ProgramStage } from "../../src/lib/program.ts";
import { firstVisible, measuredStep, replay } from "../../src/lib/replay.ts";
import { byteTicks, logTicks, spread, ticks } from "../../src/lib/stats.ts";
import { lineChartSvg } from "../../src/lib/svg.ts";

const buffer = (id: number, name: string, kind: string, offset: number, bytes: number, first: number, last: number, slots = 1): Buffer => ({ id, name, class: kind, offset, bytes, slots, stride: bytes, first, last });
const stage: LiveStage = {
  stage: 0, instants: 6, arena_bytes: 400, segments: [{ name: "step", first: 0, last: 4 }], streaming: [],
  buffers: [buffer(0, "bert.encoder.layer.0.w", "weights", 0, 100, 0, 5), buffer(1, "layer0/attention", "activations", 100, 50, 1, 3, 2), buffer(2, "scratch of layer1/x", "scratch", 250, 30, 2, 2)],
};
test("live bytes by class, the peak, and what is always live", () => {
  const curve = liveCurve(stage, ["weights", "activations"]);
  assert.deepEqual(curve.classes, ["weights", "activations", "scratch"]);
  assert.deepEqual([...curve.total], [100, 200, 230, 200, 100, 100]);
  assert.deepEqual([curve.peak, curve.peakInstant, curve.always], [230, 2, 100]);
  assert.deepEqual(liveAt(stage, 2).map((b) => b.id), [0, 1, 2]);
  assert.deepEqual(gapsAt(stage, 2), { top: 280, gaps: 50, largest: 50 });
  assert.deepEqual(layersAt(stage, 2).map((l) => [l.layer, l.bytes]), [["layer0", 200], ["layer1", 30]]);
});
test("layers of names", () => {
  for (const [name, layer] of [["bert.encoder.layer.11.output.weight", "layer11"], ["172.layer1/feed_forward", "layer1"], ["optimizer.m.bert.encoder.layer.3.x", "layer3"], ["h.4.attn", "layer4"], ["embeddings/backward", "embeddings"], ["scratch of update/x", "x"]]) assert.equal(layerOf(name), layer);
});
test("differences of two runs' buffers", () => {
  assert.deepEqual(differences(stage.buffers, [buffer(0, "bert.encoder.layer.0.w", "weights", 0, 100, 0, 5), buffer(5, "new", "stash", 0, 7, 0, 1)]).map((d) => [d.name, d.b - d.a]), [["layer0/attention", -100], ["scratch of layer1/x", -30], ["new", 7]]);
});
test("the mesh of a layout", () => {
  const mesh = meshOf("p=2 t=2x2 r=2 rts=optimizer head=first", 16);
  assert.deepEqual(mesh, { p: 2, r: 2, t1: 2, t2: 2 });
  assert.deepEqual(positionOf(mesh, 13), { stage: 1, replica: 1, tensor1: 0, tensor2: 1 });
  assert.deepEqual(meshOf("p=3", 4), { p: 1, r: 1, t1: 1, t2: 4 });
});

const instruction = (name: string, op: string, inputs: number[], outputs: number[]) => ({ name, op, kernel: "k", inputs, outputs });
const program = (of: number, steps: [string, number, number, string][]): ProgramStage => ({
  stage: of, lanes: 1, micro_batches_per_lane: 2,
  segments: [{ name: "forward", kind: "forward", part: 0, region: 0, first: 0, last: 4, instructions: [instruction("layer0/attention", "matmul", [0], [1]), instruction("layer0/attention", "matmul", [2], []), instruction("layer1/x", "all_reduce", [1], [1])] },
    { name: "never", kind: "prepare", part: 0, region: 1, first: 5, last: 7, instructions: [instruction("a", "cast", [], [])] }],
  programs: { train: steps.map(([kind, subject, micro, text], i) => ({ kind, subject, micro, superstep: i, text })) },
});
const first = program(0, [["run", 0, 0, "run 'forward', micro-batch 0"], ["send", 0, 0, "send 'b', micro-batch 0 to stage 1"], ["run", 0, 1, "run 'forward', micro-batch 1"], ["send", 0, 1, "send 'b', micro-batch 1 to stage 1"]]);
const second = program(1, [["receive", 0, 0, "receive 'b', micro-batch 0 from stage 0"], ["wait", 0, -1, "wait for step 0"], ["run", 0, 0, "run 'forward', micro-batch 0"], ["receive", 0, 1, "receive 'b', micro-batch 1 from stage 0"], ["wait", 3, -1, "wait for step 3"], ["run", 0, 1, "run 'forward', micro-batch 1"]]);
const kernels: DeviceTimes = { device: 0, stage: 0, kernels: [{ segment: "forward", op: "matmul", kernel: "k", calls: 40, seconds: 8, predicted_seconds: 4, flops: 800, bytes: 80 }, { segment: "forward", op: "all_reduce", kernel: "k", calls: 20, seconds: 2, predicted_seconds: null, flops: 0, bytes: 20 }] };

test("a profile's seconds are apportioned by bytes and come together again", () => {
  assert.deepEqual(runsOfSegments(first), [2, 0]);
  const times = instructionTimes(first, stage, kernels, 10);
  const sum = (by: (t: { measured: number }) => number) => times[0].reduce((a, t) => a + by(t), 0) * 2;
  assert.ok(Math.abs(sum((t) => t.measured) - 1) < 1e-12);
  assert.ok(times[0][0].measured > times[0][1].measured);
  const [top, ...rest] = operations(first, times, "layer");
  assert.deepEqual([top.names, top.instructions, top.calls], [["layer0"], 2, 4]);
  assert.ok(Math.abs(top.seconds - 0.8) < 1e-12 && Math.abs(top.predicted - 0.4) < 1e-12 && Math.abs(top.flops - 80) < 1e-9);
  assert.deepEqual(rest.map((r) => r.names[0]), ["layer1"]);
  assert.deepEqual(operations(first, times, "kernel").map((r) => r.names.join()), ["matmul,k", "all_reduce,k"]);
});
test("instructions nest by their names, and the tree has all of them", () => {
  const blocks = nested(first.segments[0], [1, 2, 3]);
  assert.deepEqual(blocks.map((b) => [b.name, b.start, b.end]), [["layer0", 0, 3], ["layer1", 3, 6]]);
  assert.equal(blocks[0].children[0].children.length, 2);
  const [train] = programTree(first, instructionTimes(first, stage, kernels, 10));
  assert.equal(train.label, "train");
  assert.ok(Math.abs(train.seconds - 1) < 1e-12);
  const walk = (nodes: ReturnType<typeof programTree>): number => nodes.reduce((n, node) => n + (node.kind === "instruction" ? 1 : node.children ? walk(node.children()) : 0), 0);
  assert.equal(walk([train]), 6);
});
test("a measured step has its own times in the replay's order", () => {
  const devices = [{ device: 0, stage: first, live: undefined, position: 0, durations: [2, 0] }, { device: 1, stage: second, live: undefined, position: 0, durations: [3, 0] }];
  const played = replay(devices);
  const steps = (stage: typeof first, begin: number) => stage.programs.train.map((_, i): [number, number, number] => [i, begin + i, begin + i + 0.75]);
  const measured = measuredStep(played, devices, [{ device: 0, stage: 0, kernels: [], last_step: steps(first, 0) }, { device: 1, stage: 1, kernels: [], last_step: steps(second, 0.5) }])!;
  const runs = (stage: typeof first, kind: string) => stage.programs.train.filter((s) => s.kind === kind).length;
  assert.equal(measured.devices[0].busy, 0.75 * runs(first, "run"));
  assert.equal(measured.devices[1].waiting, 0.75 * runs(second, "wait"));
  assert.equal(measured.seconds, Math.max(first.programs.train.length - 0.25, second.programs.train.length + 0.25));
  assert.deepEqual(measured.devices[0].spans.map((s) => s.label.split(":")[0]), first.programs.train.map((s) => s.text));
  assert.equal(measuredStep(played, devices, [{ device: 0, stage: 0, kernels: [], last_step: steps(first, 0) }]), null);
  assert.equal(measuredStep(played, devices, devices.map((d) => ({ device: d.device, stage: d.device, kernels: [], last_step: [[99, 0, 1]] as [number, number, number][] }))), null);
});

test("the replay waits for messages, and tells the bubble", () => {
  const played = replay([{ device: 0, stage: first, live: undefined, position: 0, durations: [2, 0] }, { device: 1, stage: second, live: undefined, position: 0, durations: [3, 0] }]);
  assert.deepEqual(played.devices.map((d) => [d.busy, d.waiting, d.end]), [[4, 0, 4], [6, 2, 8]]);
  assert.equal(played.seconds, 8);
  assert.ok(Math.abs(played.bubble - (1 - 10 / 16)) < 1e-12);
  assert.deepEqual(played.links.map((l) => [l.from, l.to, l.name, l.messages]), [[0, 1, "b", 2]]);
  assert.equal(played.stuck, false);
  assert.equal(played.devices[1].spans[firstVisible(played.devices[1].spans, 2.5)].kind, "run" === "run" ? "forward" : "");
  const alone = replay([{ device: 1, stage: second, live: undefined, position: 0, durations: [3, 0] }]);
  assert.equal(alone.stuck, true);
});

test("axes of parameters: numbers, logarithms, texts, brushes", () => {
  const rate = axisOf("rate", [1e-4, 1e-2, null, 1]);
  assert.equal(rate.log, true);
  assert.ok(Math.abs(placeOf(rate, 1e-2) - 0.5) < 1e-9 && Math.abs(valueOf(rate, 0.5) - 1e-2) < 1e-12);
  const kind = axisOf("kind", ["b", "a", 10, null]);
  assert.deepEqual(kind.texts, ["10", "a", "b"]);
  assert.equal(placeOf(kind, "a"), 0.5);
  assert.ok(Number.isNaN(placeOf(rate, null)) && Number.isNaN(placeOf(kind, "z")));
  assert.deepEqual(labelsOf(axisOf("n", [1, 2, 6])).map((l) => l.value), [1, 2, 3, 4, 5, 6]);
  assert.deepEqual(labelsOf(rate).map((l) => l.value), [1e-4, 1e-3, 1e-2, 1e-1, 1]);
  assert.deepEqual(labelsOf(kind).map((l) => l.value), ["10", "a", "b"]);
  assert.equal(axisOf("r", [1, 2], true).log, true);
  const row = (key: string) => ({ rate: 1e-2, kind: "a" })[key];
  assert.equal(inBrushes([rate, kind], row, { rate: [0.4, 0.6] }), true);
  assert.equal(inBrushes([rate, kind], row, { rate: [0.4, 0.6], kind: [0.9, 1] }), false);
  const brushes = { "config.a:b;c": [0.25, 0.5] as [number, number] };
  assert.deepEqual(parseBrushes(brushesText(brushes)), brushes);
  assert.deepEqual(parseBrushes("nonsense;a:b"), {});
});
test("spread, ticks", () => {
  assert.deepEqual(spread([1, 2, 3, NaN, null, "x"]), { n: 3, mean: 2, deviation: 1, min: 1, max: 3 });
  assert.equal(spread([null]), null);
  assert.deepEqual(ticks(0, 1, 5), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  assert.deepEqual(ticks(5, 5), [5]);
  assert.deepEqual(ticks(NaN, 1), []);
  assert.deepEqual(byteTicks(3.99 * 2 ** 30), [0, 1, 2, 3].map((n) => n * 2 ** 30));
  assert.deepEqual(byteTicks(0), [0]);
  assert.deepEqual(logTicks(0.5, 2000), [1, 10, 100, 1000]);
});
test("histograms over steps share their edges, and no count is lost", () => {
  const same = heatMap([{ step: 2, edges: [0, 1, 2], counts: [3, 4] }, { step: 1, edges: [0, 1, 2], counts: [1, 2] }]);
  assert.deepEqual([same.steps, same.most], [[1, 2], 4]);
  const mixed = heatMap([{ step: 1, edges: [0, 1], counts: [10] }, { step: 2, edges: [0, 4], counts: [8] }], 4);
  assert.deepEqual(mixed.cells.map((c) => Math.round(c.reduce((a, b) => a + b, 0))), [10, 8]);
  assert.deepEqual(heatMap([{ step: 1, edges: [0], counts: [1, 2] }]).steps, []);
  assert.equal(mediaTable({ columns: 1 }), null);
  assert.deepEqual(mediaTable({ columns: ["a", 2], rows: [[1, 2]] }), { columns: ["a", "2"], rows: [[1, 2]] });
});
test("insights name the fullest device and their own estimates", () => {
  const classes = { weights: { at_peak: 100, most: 100 }, optimizer: { at_peak: 400, most: 400 }, activations: { at_peak: 500, most: 500 } };
  const one = { stage: 0, devices: [0], threads: 1, planned_bytes: 1100, bound_bytes: 1000, streaming_bytes: 0, peak: "x of y.cc:1", peak_instant: 1, placement: "p", classes };
  const found = insights({ plan: { version: 1, layout: "p=2", planned_bytes: 1100, compile_seconds: 1, kernel_class: "k", stages: [one, { ...one, stage: 1, devices: [1], planned_bytes: 300 }] }, times: null, config: {}, machineMemory: 10000 });
  const titles = found.map((f) => f.title).join("\n");
  assert.match(titles, /Fits: 14% of the machine/);
  assert.match(titles, /Fullest: device 0 \(stage 0\), 1.07 KiB/);
  assert.match(titles, /Recomputation could save about 300 B/);
  assert.match(titles, /16-bit moments would save 200 B/);
  assert.deepEqual(insights({ plan: null, times: null, config: {}, machineMemory: null }), []);
});
test("a chart as SVG escapes its texts and leaves gaps where values are missing", () => {
  const svg = lineChartSvg([{ label: "<b>&", colour: "#123456", x: [1, 2, 3, 4], y: [1, 10, NaN, 100] }], { title: "a<b", xLabel: "step", yLabel: "y", width: 400, height: 300, logX: false, logY: true, xText: String, yText: String });
  assert.ok(!svg.includes("<b>") && svg.includes("a&#60;b"));
  assert.equal(/<path d="(M[^"]*)" fill="none" stroke="#123456"/.exec(svg)![1].match(/M/g)!.length, 2);
});

test("runs drawn together have different colours, their own first", () => {
  const ids = Array.from({ length: 16 }, (_, i) => `run-${i}`);
  const colours = assignColours(ids, (id) => (id === "run-3" ? "#ff0000" : ""));
  assert.equal(colours.get("run-3"), "#ff0000");
  assert.equal(new Set(colours.values()).size, 16);
});
test("inks and lines have the contrast of WCAG AA in both themes", () => {
  const css = readFileSync(new URL("../../src/app.css", import.meta.url), "utf8");
  const themes = [css.slice(0, css.indexOf("}")), css.slice(css.indexOf(':root[data-theme="dark"]'), css.indexOf("*, *::before"))].map((text) => Object.fromEntries([...text.matchAll(/--([\w-]+): (#[0-9a-f]{6})/g)].map((m) => [m[1], m[2]])));
  for (const theme of themes) {
    for (const ground of ["ground", "panel", "raised", "sunk", "hover", "chosen"])
      for (const ink of ["ink", "ink-soft", "ink-faint", "link"]) assert.ok(contrast(theme[ink], theme[ground]) >= 4.5, `${ink} ${theme[ink]} on ${ground} ${theme[ground]}: ${contrast(theme[ink], theme[ground]).toFixed(2)}`);
    for (const tone of ["good", "warn", "bad", "live"]) assert.ok(contrast(theme[tone], theme[`${tone}-soft`]) >= 4.5 && contrast(theme[tone], theme.panel) >= 4.5, tone);
    assert.ok(contrast(theme["accent-ink"], theme.accent) >= 4.5);
    assert.ok(contrast(theme["line-strong"], theme.panel) >= 3);
    for (const colour of [...kRunColours, ...Object.values(kClassColours), ...Object.values(kWorkColours)]) assert.ok(contrast(colour, theme.panel) >= 3, `${colour} on ${theme.panel}: ${contrast(colour, theme.panel).toFixed(2)}`);
  }
  for (let at = 0; at <= 1; at += 0.05) assert.ok(contrast(inkOn(scaleColour(at)), scaleColour(at)) >= 4.5);
});
