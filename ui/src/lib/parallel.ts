/** Axes of parallel coordinates and of a scatter plot: numbers on a line, texts at equal distances. */
import { logTicks, ticks } from "./stats.ts";

export interface ParallelAxis {
  key: string;
  numeric: boolean;
  log: boolean;
  min: number;
  max: number;
  /** Texts of an axis that is not numeric, in order. */
  texts: string[];
}
export type Cell = string | number | boolean | null | undefined;

/** An axis for the values of a key; logarithmic when they are positive and span a factor of 50 or more, or when `asLog` says so. */
export function axisOf(key: string, values: readonly Cell[], asLog = false): ParallelAxis {
  const present = values.filter((v) => v !== null && v !== undefined);
  const numbers = present.filter((v): v is number => typeof v === "number" && Number.isFinite(v));
  if (numbers.length > 0 && numbers.length === present.filter((v) => !(typeof v === "number" && !Number.isFinite(v))).length) {
    let min = Infinity, max = -Infinity;
    for (const v of numbers) (min = Math.min(min, v)), (max = Math.max(max, v));
    const log = min > 0 && max > min && (asLog || max / min >= 50);
    if (min === max) (min -= Math.abs(min) * 0.1 || 1), (max += Math.abs(max) * 0.1 || 1);
    return { key, numeric: true, log, min, max, texts: [] };
  }
  return { key, numeric: false, log: false, min: 0, max: 1, texts: [...new Set(present.map(String))].sort((a, b) => a.localeCompare(b, "en", { numeric: true })) };
}

/** Where a value stands on its axis, from 0 to 1; NaN when it has no place. */
export function placeOf(axis: ParallelAxis, value: Cell): number {
  if (value === null || value === undefined) return NaN;
  if (!axis.numeric) {
    const at = axis.texts.indexOf(String(value));
    return at < 0 ? NaN : axis.texts.length === 1 ? 0.5 : at / (axis.texts.length - 1);
  }
  if (typeof value !== "number" || !Number.isFinite(value)) return NaN;
  return axis.log ? Math.log(value / axis.min) / Math.log(axis.max / axis.min) : (value - axis.min) / (axis.max - axis.min);
}
/** The number at a place of a numeric axis. */
export function valueOf(axis: ParallelAxis, place: number): number {
  return axis.log ? axis.min * (axis.max / axis.min) ** place : axis.min + place * (axis.max - axis.min);
}

/** Places of an axis that get a label, with their values. */
export function labelsOf(axis: ParallelAxis, wanted = 5): { place: number; value: number | string }[] {
  if (!axis.numeric) return axis.texts.slice(0, 24).map((text) => ({ place: placeOf(axis, text), value: text }));
  const round = axis.log ? logTicks(axis.min, axis.max) : ticks(axis.min, axis.max, wanted);
  const values = round.length >= 2 ? round : [axis.min, axis.max];
  return values.filter((v) => v >= axis.min && v <= axis.max).map((value) => ({ place: placeOf(axis, value), value }));
}

export type Brushes = Record<string, [number, number]>;

/** Whether a row lies in all brushed ranges (places from 0 to 1). */
export function inBrushes(axes: readonly ParallelAxis[], row: (key: string) => Cell, brushes: Brushes): boolean {
  for (const axis of axes) {
    const brush = brushes[axis.key];
    if (!brush) continue;
    const place = placeOf(axis, row(axis.key));
    if (!(place >= brush[0] - 1e-9 && place <= brush[1] + 1e-9)) return false;
  }
  return true;
}

export function brushesText(brushes: Brushes): string {
  return Object.entries(brushes).map(([key, [a, b]]) => `${encodeURIComponent(key)}:${a.toFixed(3)}:${b.toFixed(3)}`).join(";");
}
export function parseBrushes(text: string): Brushes {
  const found: Brushes = {};
  for (const part of text.split(";")) {
    const [key, a, b] = part.split(":");
    if (key && Number.isFinite(Number(a)) && Number.isFinite(Number(b)) && b !== undefined) found[decodeURIComponent(key)] = [Number(a), Number(b)];
  }
  return found;
}
