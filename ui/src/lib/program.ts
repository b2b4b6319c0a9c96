/** The program of a run (program.json) and where its time goes (times.json). */
import type { LiveStage } from "./liveness.ts";

export interface Instruction { name: string; op: string; kernel: string; inputs: number[]; outputs: number[] }
export interface Segment { name: string; kind: string; part: number; region: number; first: number; last: number; instructions: Instruction[] }
export interface Step { kind: string; subject: number; micro: number; superstep: number; text: string }
export interface ProgramStage { stage: number; lanes: number; micro_batches_per_lane: number; segments: Segment[]; programs: Record<string, Step[]> }
export interface Program { version: number; stages: ProgramStage[] }

export interface KernelRow { segment: string; op: string; kernel: string; calls: number; /** null: only planned */ seconds: number | null; predicted_seconds: number | null; flops: number; bytes: number }
export interface DeviceTimes {
  device: number;
  stage: number;
  kernels: KernelRow[];
  /** Mean seconds of each instruction in a run of its segment, by segment. */
  instructions?: number[][];
  /** The last measured step: [step of the program `train`, begin, end]. */
  last_step?: [number, number, number][];
}
export interface Times { version: number; steps: number; step_seconds: number | null; predicted_step_seconds: number | null; devices: DeviceTimes[] }

/** Runs of each segment in one training step: of the program `train`. */
export function runsOfSegments(stage: ProgramStage): number[] {
  const runs = stage.segments.map(() => 0);
  for (const step of stage.programs.train ?? []) if (step.kind === "run" && step.subject >= 0) ++runs[step.subject];
  return runs;
}

const kExchangeOps = /^(all_reduce|reduce_scatter|all_gather|all_to_all|broadcast|send|receive|exchange)/;
/** Whether an operation moves data between devices. */
export function isExchange(op: string): boolean {
  return kExchangeOps.test(op);
}

/** Bytes that an instruction reads and writes. */
export function operandBytes(instruction: Instruction, live: LiveStage | undefined): number {
  if (!live) return 1;
  let sum = 0;
  for (const id of [...instruction.inputs, ...instruction.outputs]) {
    const buffer = live.buffers[id];
    if (buffer) sum += buffer.bytes;
  }
  return sum;
}

export interface InstructionTime {
  /** Seconds of one run; NaN where unknown. */
  measured: number;
  predicted: number;
  flops: number;
  bytes: number;
}

/**
 * Time of each instruction in one run of its segment. Predictions, operations and bytes are sums by (segment, op, kernel); where
 * several instructions share a row, the row is apportioned by the bytes of their operands. So are measured seconds where the files
 * do not hold those of each instruction.
 */
export function instructionTimes(stage: ProgramStage, live: LiveStage | undefined, times: DeviceTimes | undefined, steps: number): InstructionTime[][] {
  const rows = new Map<string, KernelRow>();
  for (const row of times?.kernels ?? []) rows.set(`${row.segment}\0${row.op}\0${row.kernel}`, row);
  const runs = runsOfSegments(stage);
  return stage.segments.map((segment, s) => {
    const keys = segment.instructions.map((i) => `${segment.name}\0${i.op}\0${i.kernel}`);
    const weights = segment.instructions.map((i) => operandBytes(i, live) + 64);
    const sums = new Map<string, number>();
    keys.forEach((key, i) => sums.set(key, (sums.get(key) ?? 0) + weights[i]));
    return segment.instructions.map((_, i) => {
      const row = rows.get(keys[i]);
      if (!row || steps <= 0) return { measured: NaN, predicted: NaN, flops: 0, bytes: 0 };
      const part = weights[i] / sums.get(keys[i])! / (steps * Math.max(1, runs[s]));
      return {
        measured: times?.instructions?.[s]?.[i] ?? (row.seconds === null ? NaN : row.seconds * part), predicted: row.predicted_seconds === null ? NaN : row.predicted_seconds * part,
        flops: row.flops * part, bytes: row.bytes * part,
      };
    });
  });
}

export interface OperationRow {
  key: string;
  /** Names of the columns by which rows are told apart. */
  names: string[];
  instructions: number;
  calls: number;
  seconds: number;
  predicted: number;
  flops: number;
  bytes: number;
  /** Bytes of the operands, from the program alone. */
  touched: number;
}

export type Grouping = "layer" | "block" | "op" | "kernel" | "segment";

/** First part of an instruction's name: "layer0" of "layer0/attention/backward". */
export function layerOfInstruction(name: string): string {
  const first = name.split("/")[0];
  return (/^(accumulator|optimizer|bert|model|transformer)\./.test(first) ? first.split(".")[0] : first) || "(none)";
}

/** Work of one training step by layer, by block of a layer, by operation, by kernel or by segment; the most expensive first. */
export function operations(stage: ProgramStage, times: InstructionTime[][], by: Grouping, live?: LiveStage): OperationRow[] {
  const runs = runsOfSegments(stage);
  const rows = new Map<string, OperationRow>();
  stage.segments.forEach((segment, s) => {
    if (runs[s] === 0) return;
    segment.instructions.forEach((instruction, i) => {
      const pass = /\/backward(\/|$)/.test(instruction.name) ? "backward" : segment.kind === "update" || instruction.name.startsWith("update/") ? "update" : "forward";
      const names = by === "layer" ? [layerOfInstruction(instruction.name)]
        : by === "block" ? [instruction.name.split("/").slice(0, 2).join("/") || "(none)", pass]
        : by === "op" ? [instruction.op] : by === "kernel" ? [instruction.op, instruction.kernel || "copy"] : [segment.name, segment.kind];
      const key = names.join("\0");
      const row = rows.get(key) ?? { key, names, instructions: 0, calls: 0, seconds: 0, predicted: 0, flops: 0, bytes: 0, touched: 0 };
      const time = times[s][i];
      row.instructions += 1;
      row.calls += runs[s];
      row.seconds += time.measured * runs[s];
      row.predicted += time.predicted * runs[s];
      row.flops += time.flops * runs[s];
      row.bytes += time.bytes * runs[s];
      if (live) row.touched += operandBytes(instruction, live) * runs[s];
      rows.set(key, row);
    });
  });
  return [...rows.values()].sort((a, b) => (b.seconds || 0) - (a.seconds || 0) || b.instructions - a.instructions);
}

export interface Block {
  name: string;
  start: number;
  end: number;
  children: Block[];
  /** Index of the instruction; -1 of a group. */
  instruction: number;
}

/** Consecutive instructions of a segment nested by the parts of their names; `widths` are the instructions' durations. */
export function nested(segment: Segment, widths: readonly number[]): Block[] {
  const top: Block[] = [];
  let at = 0;
  segment.instructions.forEach((instruction, i) => {
    const end = at + widths[i];
    let level = top;
    for (const part of instruction.name.split("/").filter(Boolean).slice(0, 3)) {
      let last = level.at(-1);
      if (!last || last.name !== part || last.instruction >= 0) level.push((last = { name: part, start: at, end, children: [], instruction: -1 }));
      last.end = end;
      level = last.children;
    }
    level.push({ name: instruction.op, start: at, end, children: [], instruction: i });
    at = end;
  });
  return top;
}

export interface TreeNode {
  key: string;
  label: string;
  kind: string;
  detail: string;
  seconds: number;
  count: number;
  children: (() => TreeNode[]) | null;
  stage: number;
  segment: number;
  instruction: number;
}

/** The programs of a stage as a tree: programs, supersteps, steps; of a run its segment by layers, down to instructions. */
export function programTree(stage: ProgramStage, times: InstructionTime[][]): TreeNode[] {
  const segmentSeconds = times.map((of) => of.reduce((sum, t) => sum + (t.measured || 0), 0));
  const node = (fields: Partial<TreeNode> & { key: string; label: string; kind: string }): TreeNode =>
    ({ detail: "", seconds: 0, count: 0, children: null, stage: stage.stage, segment: -1, instruction: -1, ...fields });
  const blocks = (key: string, segment: number, list: Block[]): TreeNode[] => list.map((block, i) => {
    const id = `${key}/${i}`;
    const instruction = stage.segments[segment].instructions[block.instruction];
    if (instruction) {
      const time = times[segment][block.instruction];
      return node({ key: id, label: instruction.op, kind: "instruction", detail: instruction.kernel || "copy", seconds: time.measured || 0, count: 1, segment, instruction: block.instruction });
    }
    return node({ key: id, label: block.name, kind: "group", seconds: block.end - block.start, count: countOf(block), children: () => blocks(id, segment, block.children), segment });
  });
  const run = (key: string, step: Step): TreeNode => {
    const segment = stage.segments[step.subject];
    return node({
      key, label: step.text, kind: segment?.kind ?? "run", seconds: segmentSeconds[step.subject] ?? 0, count: segment?.instructions.length ?? 0, segment: step.subject,
      children: segment ? () => blocks(key, step.subject, nested(segment, times[step.subject].map((t) => t.measured || 0))) : null,
    });
  };
  return Object.entries(stage.programs).map(([name, steps]) => {
    const supersteps = new Map<number, { step: Step; index: number }[]>();
    steps.forEach((step, index) => {
      const list = supersteps.get(step.superstep);
      if (list) list.push({ step, index }); else supersteps.set(step.superstep, [{ step, index }]);
    });
    const seconds = steps.reduce((sum, step) => sum + (step.kind === "run" ? segmentSeconds[step.subject] ?? 0 : 0), 0);
    return node({
      key: name, label: name, kind: "program", detail: `${supersteps.size} supersteps`, seconds, count: steps.length,
      children: () => [...supersteps].map(([superstep, list]) => node({
        key: `${name}/s${superstep}`, label: `superstep ${superstep}`, kind: "superstep", count: list.length,
        detail: list.filter(({ step }) => step.kind !== "wait").slice(0, 3).map(({ step }) => step.text).join("; "),
        seconds: list.reduce((sum, { step }) => sum + (step.kind === "run" ? segmentSeconds[step.subject] ?? 0 : 0), 0),
        children: () => list.map(({ step, index }) => {
          const key = `${name}/s${superstep}/${index}`;
          return step.kind === "run" ? run(key, step) : node({ key, label: step.text, kind: step.kind });
        }),
      })),
    });
  });
}

function countOf(block: Block): number {
  return block.instruction >= 0 ? 1 : block.children.reduce((sum, child) => sum + countOf(child), 0);
}

/** Bytes of a transfer: of the buffer of that name, one slot. */
export function transferBytes(live: LiveStage | undefined, name: string): number {
  const of = (list: { name: string; bytes: number }[] | undefined) => list?.find((b) => b.name === name)?.bytes;
  return of(live?.buffers.filter((b) => b.class === "exchange")) ?? of(live?.buffers) ?? of(live?.streaming) ?? NaN;
}

