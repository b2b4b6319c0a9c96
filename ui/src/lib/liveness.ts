/** Memory of a stage over the instants of its program, from liveness.json. */

export interface Buffer {
  id: number;
  name: string;
  class: string;
  offset: number;
  bytes: number;
  slots: number;
  stride: number;
  first: number;
  last: number;
}
export interface LiveSegment {
  name: string;
  first: number;
  last: number;
}
export interface LiveStage {
  stage: number;
  instants: number;
  arena_bytes: number;
  segments: LiveSegment[];
  buffers: Buffer[];
  streaming: Buffer[];
}
export interface Liveness {
  version: number;
  ramet: string;
  stages: LiveStage[];
}

/** Bytes of the arena that a buffer takes: all its slots. */
export function sizeOf(buffer: Buffer): number {
  return buffer.stride * (buffer.slots - 1) + buffer.bytes;
}

/** Live at every instant. */
export function isAlways(buffer: Buffer, stage: LiveStage): boolean {
  return buffer.first <= 0 && buffer.last >= stage.instants - 1;
}

export interface LiveCurve {
  classes: string[];
  /** For each class the live bytes at each instant. */
  bytes: Float64Array[];
  total: Float64Array;
  always: number;
  peak: number;
  peakInstant: number;
}

/** Live bytes of each class at each instant. */
export function liveCurve(stage: LiveStage, order: readonly string[]): LiveCurve {
  const found = new Set(stage.buffers.map((b) => b.class));
  const classes = [...order.filter((c) => found.has(c)), ...[...found].filter((c) => !order.includes(c)).sort()];
  const at = new Map(classes.map((c, i) => [c, i]));
  const change = classes.map(() => new Float64Array(stage.instants + 1));
  let always = 0;
  for (const buffer of stage.buffers) {
    const size = sizeOf(buffer);
    const of = change[at.get(buffer.class)!];
    const first = Math.max(0, buffer.first), last = Math.min(stage.instants - 1, buffer.last);
    if (last < first) continue;
    of[first] += size;
    of[last + 1] -= size;
    if (isAlways(buffer, stage)) always += size;
  }
  const total = new Float64Array(stage.instants);
  const bytes = change.map((of) => {
    const live = new Float64Array(stage.instants);
    let sum = 0;
    for (let i = 0; i < stage.instants; ++i) (sum += of[i]), (live[i] = sum), (total[i] += sum);
    return live;
  });
  let peakInstant = 0;
  for (let i = 1; i < total.length; ++i) if (total[i] > total[peakInstant]) peakInstant = i;
  return { classes, bytes, total, always, peak: total[peakInstant] ?? 0, peakInstant };
}

/** Buffers that are live at an instant, largest first. */
export function liveAt(stage: LiveStage, instant: number): Buffer[] {
  return stage.buffers.filter((b) => b.first <= instant && instant <= b.last).sort((a, b) => sizeOf(b) - sizeOf(a) || a.id - b.id);
}

/** The segment in which an instant lies. */
export function segmentAt(stage: LiveStage, instant: number): LiveSegment | null {
  return stage.segments.find((s) => s.first <= instant && instant <= s.last) ?? null;
}

/** Layer of a name: "scratch of layer3/attention/backward" and "bert.encoder.layer.3.x" both are "layer3"; others keep their first part. */
export function layerOf(name: string): string {
  const plain = name.replace(/^scratch of /, "").replace(/^(update|gradient_norm)\//, "").replace(/^optimizer\.[a-z]+\./, "");
  const numbered = /(?:^|[./])(?:layers?|h|blocks?)[._]?(\d+)(?=[./]|$)/.exec(plain);
  if (numbered) return `layer${numbered[1]}`;
  return plain.split(/[/]/)[0] || "other";
}

export interface LayerBytes {
  layer: string;
  bytes: number;
  classes: Map<string, number>;
}

/** Live bytes at an instant by layer, largest first. */
export function layersAt(stage: LiveStage, instant: number): LayerBytes[] {
  const layers = new Map<string, LayerBytes>();
  for (const buffer of liveAt(stage, instant)) {
    const name = layerOf(buffer.name);
    const entry = layers.get(name) ?? { layer: name, bytes: 0, classes: new Map<string, number>() };
    entry.bytes += sizeOf(buffer);
    entry.classes.set(buffer.class, (entry.classes.get(buffer.class) ?? 0) + sizeOf(buffer));
    layers.set(name, entry);
  }
  return [...layers.values()].sort((a, b) => b.bytes - a.bytes);
}

/** Free bytes below the highest live byte at an instant: gaps of the arena. */
export function gapsAt(stage: LiveStage, instant: number): { top: number; gaps: number; largest: number } {
  const live = stage.buffers.filter((b) => b.first <= instant && instant <= b.last && b.bytes > 0).sort((a, b) => a.offset - b.offset);
  let end = 0, gaps = 0, largest = 0;
  for (const buffer of live) {
    if (buffer.offset > end) (gaps += buffer.offset - end), (largest = Math.max(largest, buffer.offset - end));
    end = Math.max(end, buffer.offset + sizeOf(buffer));
  }
  return { top: end, gaps, largest };
}

export interface BufferDifference {
  name: string;
  class: string;
  a: number;
  b: number;
}

/** Buffers of two stages at an instant each, by class and name, the largest difference first. */
export function differences(a: readonly Buffer[], b: readonly Buffer[]): BufferDifference[] {
  const rows = new Map<string, BufferDifference>();
  const add = (buffers: readonly Buffer[], side: "a" | "b") => {
    for (const buffer of buffers) {
      const key = `${buffer.class}\0${buffer.name}`;
      const row = rows.get(key) ?? { name: buffer.name, class: buffer.class, a: 0, b: 0 };
      row[side] += sizeOf(buffer);
      rows.set(key, row);
    }
  };
  add(a, "a"), add(b, "b");
  return [...rows.values()].filter((r) => r.a !== r.b).sort((x, y) => Math.abs(y.b - y.a) - Math.abs(x.b - x.a));
}

export interface StagePlan {
  stage: number;
  devices: number[];
  threads: number;
  planned_bytes: number;
  bound_bytes: number;
  streaming_bytes: number;
  peak: string;
  peak_instant: number;
  placement: string;
  classes: Record<string, { at_peak: number; most: number }>;
}
export interface Plan {
  version: number;
  layout: string;
  planned_bytes: number;
  compile_seconds: number;
  kernel_class: string;
  stages: StagePlan[];
}

export interface Insight {
  level: "good" | "info" | "warn";
  title: string;
  text: string;
}

/** Where a device stands in the mesh; the stage varies slowest and t2 fastest. */
export interface Mesh { p: number; r: number; t1: number; t2: number }
export function meshOf(layout: string, devices: number): Mesh {
  const of = (key: string) => Number(new RegExp(`(?:^|\\s)${key}=(\\d+)`).exec(layout)?.[1] ?? 1);
  const t = /(?:^|\s)t=(\d+)x(\d+)/.exec(layout);
  const mesh = { p: of("p"), r: of("r"), t1: t ? Number(t[1]) : of("t1") * of("t"), t2: t ? Number(t[2]) : of("t2") };
  return mesh.p * mesh.r * mesh.t1 * mesh.t2 === devices ? mesh : { p: 1, r: 1, t1: 1, t2: devices };
}
export function positionOf(mesh: Mesh, device: number): { stage: number; replica: number; tensor1: number; tensor2: number } {
  return {
    tensor2: device % mesh.t2, tensor1: Math.floor(device / mesh.t2) % mesh.t1,
    replica: Math.floor(device / (mesh.t1 * mesh.t2)) % mesh.r, stage: Math.floor(device / (mesh.r * mesh.t1 * mesh.t2)),
  };
}
