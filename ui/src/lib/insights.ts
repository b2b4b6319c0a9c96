/** What stands out in a run's memory and time, with estimates of what would change it. */
import { bytes, percent, seconds } from "./format.ts";
import type { Insight, Plan } from "./liveness.ts";
import type { Times } from "./program.ts";

export interface InsightInput {
  plan: Plan | null;
  times: Times | null;
  config: Record<string, unknown>;
  machineMemory: number | null;
}

/** Facts first; estimates say that they are estimates and by what rule. */
export function insights({ plan, times, config, machineMemory }: InsightInput): Insight[] {
  const found: Insight[] = [];
  if (plan && plan.stages.length > 0) {
    const fullest = plan.stages.reduce((a, b) => (b.planned_bytes > a.planned_bytes ? b : a));
    const devices = plan.stages.reduce((n, s) => n + s.devices.length, 0);
    const all = plan.stages.reduce((n, s) => n + s.planned_bytes * s.devices.length, 0);
    found.push(machineMemory
      ? { level: all <= machineMemory * 0.9 ? "good" : "warn", title: all <= machineMemory ? `Fits: ${percent(all / machineMemory)} of the machine's memory` : "More than the machine's memory",
          text: `${devices} device${devices === 1 ? "" : "s"} plan ${bytes(all)} together; the machine has ${bytes(machineMemory)}.` }
      : { level: "good", title: "Fits", text: `${devices} device${devices === 1 ? "" : "s"} plan ${bytes(all)} together, all of it before the first step.` });
    const mean = all / devices;
    if (devices > 1) {
      const over = fullest.planned_bytes / mean - 1;
      found.push({ level: over > 0.25 ? "warn" : "info", title: `Fullest: device ${fullest.devices[0]} (stage ${fullest.stage}), ${bytes(fullest.planned_bytes)}`,
        text: over > 0.02 ? `${percent(over)} above the mean of ${bytes(mean)}.${over > 0.25 ? " `layers=` in the layout moves layers to other stages." : ""}` : "Devices are filled evenly." });
    }
    const classes = Object.entries(fullest.classes).filter(([, c]) => c.at_peak > 0).sort((a, b) => b[1].at_peak - a[1].at_peak);
    const live = classes.reduce((n, [, c]) => n + c.at_peak, 0);
    if (classes.length > 0)
      found.push({ level: "info", title: `Memory goes to ${classes.slice(0, 2).map(([name]) => name).join(" and ")}`,
        text: classes.slice(0, 4).map(([name, c]) => `${name} ${bytes(c.at_peak)} (${percent(c.at_peak / live)})`).join(", ") + ` at the peak, ${fullest.peak.replace(/ of \S+$/, "")}.` });
    const lost = fullest.planned_bytes - fullest.bound_bytes;
    if (fullest.bound_bytes > 0 && lost > 0)
      found.push({ level: lost / fullest.planned_bytes > 0.05 ? "warn" : "good", title: `Fragmentation: ${percent(lost / fullest.planned_bytes)}`,
        text: `The arena takes ${bytes(lost)} more than the bytes that are live at the peak.` });
    const of = (name: string) => fullest.classes[name]?.at_peak ?? 0;
    const recompute = String(config["train.recompute"] ?? "none");
    if (recompute === "none" && of("activations") + of("stash") > 0.25 * live)
      found.push({ level: "info", title: `Recomputation could save about ${bytes((of("activations") + of("stash")) * 0.6)}`,
        text: "Estimate: six tenths of activations and stash at the peak, for about a third more computation. `train.recompute = \"cheap\"`; `ramet plan` gives the exact bytes." });
    if (of("optimizer") > 0.25 * live && String(config["train.optimizer.state"] ?? "f32") === "f32")
      found.push({ level: "info", title: `16-bit moments would save ${bytes(of("optimizer") / 2)}`,
        text: "Half of the optimizer's states on the fullest device: `train.optimizer.state = \"bf16\"`. With replicas, `rts=optimizer` divides the states among replicas." });
    if (fullest.streaming_bytes === 0 && of("optimizer") > 0.3 * live)
      found.push({ level: "info", title: `Offload would free up to ${bytes(of("optimizer"))}`,
        text: "The layout option `offload=optimizer` keeps the states in host memory or in files, and loads them for the update alone." });
  }
  if (times && times.step_seconds !== null && times.step_seconds > 0) {
    const predicted = times.predicted_step_seconds;
    if (predicted)
      found.push({ level: Math.abs(predicted / times.step_seconds - 1) < 0.15 ? "good" : "warn",
        title: `Predicted ${seconds(predicted)} a step, measured ${seconds(times.step_seconds)}`, text: `The prediction is ${percent(Math.abs(predicted / times.step_seconds - 1))} ${predicted < times.step_seconds ? "too short" : "too long"}.` });
    if (times.devices.length > 1) {
      const busy = times.devices.map((d) => d.kernels.reduce((sum, k) => sum + (k.seconds ?? 0), 0) / Math.max(1, times.steps));
      const most = Math.max(...busy), mean = busy.reduce((a, b) => a + b, 0) / busy.length;
      found.push({ level: most / mean > 1.25 ? "warn" : "good", title: `Balance of devices: ${percent(mean / most)}`,
        text: `The busiest device computes ${seconds(most)} of a step, the mean is ${seconds(mean)}.` });
    }
    const rows = new Map<string, number>();
    let all = 0;
    for (const device of times.devices) for (const k of device.kernels) rows.set(k.op, (rows.get(k.op) ?? 0) + (k.seconds ?? 0)), (all += k.seconds ?? 0);
    const top = [...rows].sort((a, b) => b[1] - a[1]).slice(0, 3);
    if (all > 0) found.push({ level: "info", title: `Time goes to ${top[0][0]}`, text: top.map(([op, s]) => `${op} ${percent(s / all)}`).join(", ") + " of all kernels' time." });
  }
  return found;
}
