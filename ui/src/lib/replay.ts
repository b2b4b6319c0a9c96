/**
 * A training step of all devices, replayed from its program: each run takes the time of its segment, a wait ends when the
 * message that it waits for was sent. So the order, the waits and the bubble are those of the program; what a profile does not
 * tell (seconds of each single run, of links and of host work) is not in it.
 */
import type { LiveStage } from "./liveness.ts";
import { transferBytes, type DeviceTimes, type ProgramStage } from "./program.ts";

export interface Span {
  start: number;
  end: number;
  kind: string; // of the segment, or "wait", "send", "receive", "load", "store"
  label: string;
  segment: number;
  micro: number;
  superstep: number;
  step: number;
}
export interface DeviceLine {
  device: number;
  stage: number;
  spans: Span[];
  end: number;
  busy: number;
  waiting: number;
}
export interface Link { from: number; to: number; name: string; messages: number; bytes: number }
export interface Replay {
  devices: DeviceLine[];
  links: Link[];
  seconds: number;
  /** Part of devices x seconds in which no segment runs. */
  bubble: number;
  /** A wait whose message is never sent: the files do not belong together. */
  stuck: boolean;
}

export interface ReplayDevice {
  device: number;
  stage: ProgramStage;
  live: LiveStage | undefined;
  /** Position within its stage: messages go to the device at the same position of another stage. */
  position: number;
  /** Seconds of one run of each segment. */
  durations: readonly number[];
}

const kTransfer = /^(?:send|receive|load|store) '(.*)'(?:, micro-batch \d+)?(?: (?:to|from) stage (-?\d+))?$/;

export function replay(devices: readonly ReplayDevice[], program = "train"): Replay {
  const sent = new Map<string, number>();
  const links = new Map<string, Link>();
  const states = devices.map((d) => ({
    of: d, at: 0, time: 0, steps: d.stage.programs[program] ?? [], ends: new Map<number, number | string>(),
    line: { device: d.device, stage: d.stage.stage, spans: [], end: 0, busy: 0, waiting: 0 } as DeviceLine,
  }));
  const advance = (state: (typeof states)[number]): boolean => {
    let moved = false;
    for (; state.at < state.steps.length; ++state.at) {
      const step = state.steps[state.at];
      const { line, of } = state;
      const push = (start: number, end: number, kind: string, label: string) =>
        line.spans.push({ start, end, kind, label, segment: step.kind === "run" ? step.subject : -1, micro: step.micro, superstep: step.superstep, step: state.at });
      if (step.kind === "run") {
        const seconds = of.durations[step.subject] || 0;
        push(state.time, state.time + seconds, of.stage.segments[step.subject]?.kind ?? "run", step.text);
        state.time += seconds;
        line.busy += seconds;
      } else if (step.kind === "send" || step.kind === "receive") {
        const match = kTransfer.exec(step.text);
        const name = match?.[1] ?? step.text, peer = Number(match?.[2] ?? -1);
        const [from, to] = step.kind === "send" ? [of.stage.stage, peer] : [peer, of.stage.stage];
        const key = `${from}>${to}@${of.position}:${name}#${step.micro}`;
        if (step.kind === "send") {
          sent.set(key, state.time);
          push(state.time, state.time, "send", step.text);
          const link = links.get(`${from}>${to}:${name}`) ?? { from, to, name, messages: 0, bytes: transferBytes(of.live, name) };
          ++link.messages;
          links.set(`${from}>${to}:${name}`, link);
        } else {
          state.ends.set(state.at, key);
          push(state.time, state.time, "receive", step.text);
        }
      } else if (step.kind === "load" || step.kind === "store") {
        push(state.time, state.time, step.kind, step.text);
      } else if (step.kind === "wait") {
        const key = state.ends.get(step.subject);
        if (typeof key === "string") {
          const arrival = sent.get(key);
          if (arrival === undefined) return moved;
          if (arrival > state.time) {
            push(state.time, arrival, "wait", `${step.text}: ${state.steps[step.subject]?.text ?? ""}`);
            line.waiting += arrival - state.time;
            state.time = arrival;
          }
        }
      }
      moved = true;
    }
    return moved;
  };
  for (let moved = true; moved; ) {
    moved = false;
    for (const state of states) if (state.at < state.steps.length && advance(state)) moved = true;
  }
  for (const state of states) state.line.end = state.time;
  const seconds = Math.max(0, ...states.map((s) => s.time));
  const busy = states.reduce((sum, s) => sum + s.line.busy, 0);
  return {
    devices: states.map((s) => s.line), links: [...links.values()], seconds,
    bubble: seconds > 0 && states.length > 0 ? 1 - busy / (seconds * states.length) : 0,
    stuck: states.some((s) => s.at < s.steps.length),
  };
}

/** The step as it was measured: the replay's order with the times of the last step; null where a device has none. */
export function measuredStep(played: Replay, devices: readonly ReplayDevice[], times: readonly DeviceTimes[], program = "train"): Replay | null {
  const lines: DeviceLine[] = [];
  for (const line of played.devices) {
    const of = devices.find((d) => d.device === line.device), own = times.find((t) => t.device === line.device);
    if (!of || !own?.last_step?.length) return null;
    const steps = of.stage.programs[program] ?? [];
    const measured: DeviceLine = { ...line, spans: [], end: 0, busy: 0, waiting: 0 };
    for (const [at, start, stop] of own.last_step) {
      const step = steps[at];
      if (!step) return null;
      const run = step.kind === "run", wait = step.kind === "wait";
      const end = run || wait ? stop : start; // what only starts a transfer is an instant
      measured.spans.push({
        start, end, kind: run ? of.stage.segments[step.subject]?.kind ?? "run" : step.kind, micro: step.micro, superstep: step.superstep, step: at,
        label: wait ? `${step.text}: ${steps[step.subject]?.text ?? ""}` : step.text, segment: run ? step.subject : -1,
      });
      if (run) measured.busy += stop - start;
      if (wait) measured.waiting += stop - start;
      measured.end = Math.max(measured.end, stop);
    }
    lines.push(measured);
  }
  const seconds = Math.max(0, ...lines.map((l) => l.end));
  const busy = lines.reduce((sum, l) => sum + l.busy, 0);
  return { ...played, devices: lines, seconds, bubble: seconds > 0 ? 1 - busy / (seconds * lines.length) : 0, stuck: false };
}

/** The first span that ends after `time`; spans are in order. */
export function firstVisible(spans: readonly Span[], time: number): number {
  let low = 0, high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle].end < time) low = middle + 1; else high = middle;
  }
  return low;
}
