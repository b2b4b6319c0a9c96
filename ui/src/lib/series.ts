/** Series of metrics: the binary answer of the server, levels of detail, smoothing, means of groups. */

export type Axis = "step" | "time" | "relative_time" | "samples" | "units";
export const kAxes: readonly Axis[] = ["step", "relative_time", "time", "samples", "units"];

/** A line. Of buckets, `min` and `max` are the extremes of each and `last` its last value; of raw points all three are the same array. */
export interface Series {
  raw: boolean;
  x: Float64Array;
  min: Float64Array;
  max: Float64Array;
  last: Float64Array;
  count: Uint32Array;
  /** x is time although another axis was asked for: a metric of the system has no steps. */
  byTime: boolean;
}

export function emptySeries(): Series {
  return rawSeries(new Float64Array(0), new Float64Array(0));
}

export function rawSeries(x: Float64Array, y: Float64Array, byTime = false): Series {
  return { raw: true, x, min: y, max: y, last: y, count: new Uint32Array(x.length).fill(1), byTime };
}

/** Points behind a line. */
export function pointsOf(series: Series): number {
  if (series.raw) return series.x.length;
  let sum = 0;
  for (const n of series.count) sum += n;
  return sum;
}

const kRaw = 1;
const kByTime = 2;

/** Reads the answer of POST /series. Throws when the bytes do not hold `expected` series exactly. */
export function decodeSeries(buffer: ArrayBuffer, expected: number): Series[] {
  const view = new DataView(buffer);
  let at = 0;
  const need = (bytes: number) => {
    if (at + bytes > buffer.byteLength) throw new Error(`the series end at byte ${buffer.byteLength}; ${bytes} more are needed at byte ${at}`);
  };
  const doubles = (n: number) => {
    need(8 * n);
    const values = new Float64Array(n);
    for (let i = 0; i < n; ++i) values[i] = view.getFloat64(at + 8 * i, true);
    at += 8 * n;
    return values;
  };
  const all: Series[] = [];
  while (all.length < expected) {
    need(8);
    const n = view.getUint32(at, true);
    const flags = view.getUint32(at + 4, true);
    at += 8;
    need(16 * n);
    const x = doubles(n);
    const byTime = (flags & kByTime) !== 0;
    if (flags & kRaw) {
      all.push(rawSeries(x, doubles(n), byTime));
      continue;
    }
    const min = doubles(n), max = doubles(n), last = doubles(n);
    need(4 * n);
    const count = new Uint32Array(n);
    for (let i = 0; i < n; ++i) count[i] = view.getUint32(at + 4 * i, true);
    at += 4 * n + (n % 2 ? 4 : 0);
    all.push({ raw: false, x, min, max, last, count, byTime });
  }
  if (at !== buffer.byteLength) throw new Error(`${buffer.byteLength - at} bytes are left after ${expected} series`);
  return all;
}

/** At most `buckets` buckets of equal width over the range of x; the extremes of each are kept, so a spike never vanishes. */
export function bucketed(x: ArrayLike<number>, y: ArrayLike<number>, buckets: number, from?: number | null, to?: number | null): Series {
  let begin = 0, end = x.length;
  if (from !== null && from !== undefined) while (begin < end && x[begin] < from) ++begin;
  if (to !== null && to !== undefined) while (end > begin && x[end - 1] > to) --end;
  const n = end - begin;
  if (n <= 2 * buckets) return rawSeries(Float64Array.from({ length: n }, (_, i) => x[begin + i]), Float64Array.from({ length: n }, (_, i) => y[begin + i]));
  const low = x[begin], width = (x[end - 1] - low) / buckets || 1;
  const out: { x: number[]; min: number[]; max: number[]; last: number[]; count: number[] } = { x: [], min: [], max: [], last: [], count: [] };
  for (let i = begin; i < end; ) {
    const bucket = Math.min(buckets - 1, Math.floor((x[i] - low) / width));
    let min = Infinity, max = -Infinity, last = NaN, lastX = x[i], points = 0;
    for (; i < end && Math.min(buckets - 1, Math.floor((x[i] - low) / width)) === bucket; ++i) {
      ++points;
      lastX = x[i];
      const v = y[i];
      if (Number.isNaN(v)) continue;
      if (v < min) min = v;
      if (v > max) max = v;
      last = v;
    }
    out.x.push(lastX), out.min.push(min === Infinity ? NaN : min), out.max.push(max === -Infinity ? NaN : max), out.last.push(last), out.count.push(points);
  }
  return {
    raw: false, byTime: false, x: Float64Array.from(out.x), min: Float64Array.from(out.min), max: Float64Array.from(out.max),
    last: Float64Array.from(out.last), count: Uint32Array.from(out.count),
  };
}

/**
 * Exponential moving average without the bias of its beginning. `weight` is what each point keeps of the average so far
 * (0: none). A bucket of n points weighs as n points, so a zoom does not change how smooth a line looks. Values that are not
 * finite stay as they are and do not enter the average.
 */
export function smoothed(values: ArrayLike<number>, weight: number, counts?: ArrayLike<number>): Float64Array {
  const out = new Float64Array(values.length);
  let average = 0, bias = 1;
  for (let i = 0; i < values.length; ++i) {
    const v = values[i];
    if (!Number.isFinite(v) || weight <= 0) { out[i] = v; continue; }
    const keep = weight ** (counts ? Math.max(1, counts[i]) : 1);
    average = keep * average + (1 - keep) * v;
    bias *= keep;
    out[i] = bias === 1 ? v : average / (1 - bias);
  }
  return out;
}

/** The value of a line at x between its points; NaN outside of them. */
export function valueAt(x: ArrayLike<number>, y: ArrayLike<number>, at: number): number {
  const n = x.length;
  if (n === 0 || at < x[0] || at > x[n - 1]) return NaN;
  let low = 0, high = n - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (x[middle] <= at) low = middle; else high = middle;
  }
  if (x[high] === at) return y[high];
  const width = x[high] - x[low];
  return width === 0 ? y[low] : y[low] + ((y[high] - y[low]) * (at - x[low])) / width;
}

export type Band = "range" | "deviation" | "error";

/** Mean of several runs at common places, with a band: the extremes, the standard deviation or the standard error. */
export function groupedSeries(lines: readonly Series[], band: Band, places = 600): Series {
  const used = lines.filter((line) => line.x.length > 0);
  if (used.length === 0) return emptySeries();
  const all = new Set<number>();
  for (const line of used) for (const x of line.x) all.add(x);
  let grid = [...all].sort((a, b) => a - b);
  if (grid.length > places) {
    const first = grid[0], step = (grid[grid.length - 1] - first) / (places - 1);
    grid = Array.from({ length: places }, (_, i) => first + i * step);
  }
  const n = grid.length;
  const mean = new Float64Array(n), low = new Float64Array(n), high = new Float64Array(n), count = new Uint32Array(n);
  for (let i = 0; i < n; ++i) {
    let sum = 0, squares = 0, least = Infinity, most = -Infinity, k = 0;
    for (const line of used) {
      const v = valueAt(line.x, line.last, grid[i]);
      if (!Number.isFinite(v)) continue;
      ++k, (sum += v), (squares += v * v);
      least = Math.min(least, v), most = Math.max(most, v);
    }
    count[i] = k;
    const average = k ? sum / k : NaN;
    mean[i] = average;
    const deviation = k > 1 ? Math.sqrt(Math.max(0, (squares - k * average * average) / (k - 1))) : 0;
    const half = band === "error" && k ? deviation / Math.sqrt(k) : deviation;
    low[i] = band === "range" ? (k ? least : NaN) : average - half;
    high[i] = band === "range" ? (k ? most : NaN) : average + half;
  }
  return { raw: false, byTime: used[0].byTime, x: Float64Array.from(grid), min: low, max: high, last: mean, count };
}

/** Table of lines for one common x: uPlot's join without its rules for null. Missing places are undefined, NaN is null. */
export function joined(tables: readonly { x: ArrayLike<number>; columns: readonly ArrayLike<number>[] }[]): (number | null | undefined)[][] {
  const places = new Set<number>();
  for (const table of tables) for (let i = 0; i < table.x.length; ++i) places.add(table.x[i]);
  const x = [...places].sort((a, b) => a - b);
  const index = new Map(x.map((value, i) => [value, i]));
  const result: (number | null | undefined)[][] = [x];
  for (const table of tables)
    for (const column of table.columns) {
      const values: (number | null | undefined)[] = new Array(x.length).fill(undefined);
      for (let i = 0; i < table.x.length; ++i) {
        const v = column[i];
        values[index.get(table.x[i])!] = Number.isFinite(v) ? v : null;
      }
      result.push(values);
    }
  return result;
}

/** Comma-separated values with a header; texts are quoted where they must be. */
export function csv(header: readonly string[], rows: readonly (readonly unknown[])[]): string {
  const cell = (v: unknown) => {
    if (v === null || v === undefined) return "";
    let text = String(v);
    if (typeof v === "string" && /^[=+\-@\t]/.test(text)) text = `'${text}`; // a spreadsheet would run it
    return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  return [header, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}
