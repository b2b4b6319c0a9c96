/** Durations of segments on each device, from measured means, from the prediction, or, where there is neither, from bytes. */
import type { Liveness, Plan } from "./liveness.ts";
import { instructionTimes, operandBytes, type InstructionTime, type Program, type Times } from "./program.ts";
import type { ReplayDevice } from "./replay.ts";

export type Source = "measured" | "predicted" | "bytes";

/** Whether a source of durations is there. */
export function hasSource(times: Times | null, source: Source): boolean {
  if (source === "bytes") return true;
  if (!times || times.devices.length === 0) return false;
  return times.devices.some((d) => d.kernels.some((k) => (source === "measured" ? k.seconds : k.predicted_seconds) !== null));
}

/** Duration of every instruction of a device's stage in one run of its segment. */
export function widthsOf(program: Program, liveness: Liveness | null, times: Times | null, stageIndex: number, device: number, source: Source): number[][] {
  const stage = program.stages[stageIndex];
  const live = liveness?.stages[stageIndex];
  if (source === "bytes") return stage.segments.map((s) => s.instructions.map((i) => operandBytes(i, live) || 1));
  return deviceTimes(program, liveness, times, stageIndex, device).map((s) => s.map((t) => (source === "measured" ? t.measured : t.predicted) || 0));
}
export function deviceTimes(program: Program, liveness: Liveness | null, times: Times | null, stageIndex: number, device: number): InstructionTime[][] {
  const stage = program.stages[stageIndex];
  const own = times?.devices.find((d) => d.device === device) ?? times?.devices.find((d) => d.stage === stage.stage);
  return instructionTimes(stage, liveness?.stages[stageIndex], own, times?.steps ?? 0);
}

/** All devices as the replay takes them. */
export function durationsOf(plan: Plan, program: Program, liveness: Liveness | null, times: Times | null, source: Source): ReplayDevice[] {
  return plan.stages.flatMap((planned, s) => {
    const stage = program.stages[s];
    if (!stage) return [];
    return planned.devices.map((device, position) => ({
      device, stage, live: liveness?.stages[s], position,
      durations: widthsOf(program, liveness, times, s, device, source).map((of) => of.reduce((a, b) => a + b, 0)),
    }));
  }).sort((a, b) => a.device - b.device);
}

