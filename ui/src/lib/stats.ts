/** Figures over runs. */

export interface Spread {
  n: number;
  mean: number;
  deviation: number;
  min: number;
  max: number;
}

/** Mean, sample standard deviation and extremes of the finite values; null without any. */
export function spread(values: readonly unknown[]): Spread | null {
  const numbers = values.filter((v): v is number => typeof v === "number" && Number.isFinite(v));
  if (numbers.length === 0) return null;
  const mean = numbers.reduce((a, b) => a + b, 0) / numbers.length;
  const squares = numbers.reduce((a, b) => a + (b - mean) ** 2, 0);
  return {
    n: numbers.length, mean, deviation: numbers.length > 1 ? Math.sqrt(squares / (numbers.length - 1)) : 0,
    min: Math.min(...numbers), max: Math.max(...numbers),
  };
}

/** Rows by the value of a key, in the order of their first row. */
export function groupedBy<T>(rows: readonly T[], key: (row: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const row of rows) {
    const name = key(row);
    const group = groups.get(name);
    if (group) group.push(row); else groups.set(name, [row]);
  }
  return groups;
}

/** Round values that divide a range: at most about `wanted` of them. */
export function ticks(min: number, max: number, wanted = 5): number[] {
  if (!Number.isFinite(min) || !Number.isFinite(max)) return [];
  if (min === max) return [min];
  const rough = (max - min) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999) ?? 10 * power;
  const found: number[] = [];
  for (let i = Math.ceil(min / step - 1e-9); i * step <= max + step * 1e-9; ++i) found.push(Number((i * step).toPrecision(12)));
  return found;
}

/** Round numbers of bytes that divide the range from 0: multiples of 1, 2 or 5 of a binary unit. */
export function byteTicks(most: number, wanted = 5): number[] {
  const unit = 1024 ** Math.max(0, Math.min(5, Math.floor(Math.log(Math.max(1, most)) / Math.log(1024))));
  return ticks(0, most / unit, wanted).map((t) => t * unit);
}

/** Powers of ten in a range, with 2 and 5 where it is short. */
export function logTicks(min: number, max: number): number[] {
  if (!(min > 0) || !(max > 0)) return [];
  const found: number[] = [];
  const short = Math.log10(max / min) < 2;
  for (let e = Math.floor(Math.log10(min)); e <= Math.ceil(Math.log10(max)); ++e)
    for (const m of short ? [1, 2, 5] : [1]) {
      const v = Number((m * 10 ** e).toPrecision(12));
      if (v >= min * 0.999 && v <= max * 1.001) found.push(v);
    }
  return found;
}
