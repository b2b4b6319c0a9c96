import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketed, csv, decodeSeries, groupedSeries, joined, pointsOf, rawSeries, smoothed, valueAt } from "../../src/lib/series.ts";

const f64 = (...values: number[]) => Float64Array.from(values);

/** As the server writes them. */
function encode(all: { raw: boolean; flags?: number; columns: number[][]; counts?: number[] }[]): ArrayBuffer {
  const parts: Uint8Array[] = [];
  for (const each of all) {
    const n = each.columns[0].length;
    parts.push(new Uint8Array(Uint32Array.of(n, (each.raw ? 1 : 0) | (each.flags ?? 0)).buffer));
    for (const column of each.columns) parts.push(new Uint8Array(f64(...column).buffer));
    if (each.counts) parts.push(new Uint8Array(Uint32Array.from(each.counts).buffer), new Uint8Array(n % 2 ? 4 : 0));
  }
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) bytes.set(part, at), (at += part.length);
  return bytes.buffer;
}

test("series of raw points and of buckets are read, padded or not", () => {
  const [a, b, c, d] = decodeSeries(encode([
    { raw: true, columns: [[1, 2], [5, NaN]] },
    { raw: false, columns: [[1, 2, 3], [0, 1, 2], [9, 8, 7], [4, 5, 6]], counts: [10, 20, 30] },
    { raw: true, columns: [[], []] },
    { raw: true, flags: 2, columns: [[7], [8]] },
  ]), 4);
  assert.deepEqual([...a.x], [1, 2]);
  assert.equal(a.raw, true);
  assert.ok(Number.isNaN(a.last[1]));
  assert.deepEqual([[...b.min], [...b.max], [...b.last], [...b.count]], [[0, 1, 2], [9, 8, 7], [4, 5, 6], [10, 20, 30]]);
  assert.equal(pointsOf(b), 60);
  assert.equal(c.x.length, 0);
  assert.deepEqual([d.byTime, d.last[0]], [true, 8]);
});

test("an answer that is too short or too long is refused", () => {
  const whole = encode([{ raw: true, columns: [[1, 2], [5, 6]] }]);
  for (let length = 0; length < whole.byteLength; ++length) assert.throws(() => decodeSeries(whole.slice(0, length), 1), /more are needed/, `${length}`);
  assert.throws(() => decodeSeries(whole, 0), /left after 0 series/);
  const huge = new Uint8Array(Uint32Array.of(0xffffffff, 1).buffer);
  assert.throws(() => decodeSeries(huge.buffer, 1), /more are needed/);
});

test("buckets keep every spike and every point's count", () => {
  const n = 10000, x = Float64Array.from({ length: n }, (_, i) => i), y = Float64Array.from({ length: n }, (_, i) => Math.sin(i / 50));
  y[4321] = 100, y[77] = -100, y[500] = NaN;
  const line = bucketed(x, y, 100);
  assert.equal(line.raw, false);
  assert.equal(line.x.length, 100);
  assert.equal(Math.max(...line.max), 100);
  assert.equal(Math.min(...line.min), -100);
  assert.equal(pointsOf(line), n);
  assert.equal(line.last[99], y[n - 1]);
  const zoomed = bucketed(x, y, 100, 4300, 4400);
  assert.equal(zoomed.raw, true);
  assert.equal(zoomed.x.length, 101);
  assert.equal(zoomed.last[21], 100);
});

test("a bucket without a finite value is a gap, and few points stay as they are", () => {
  const line = bucketed(Array.from({ length: 1000 }, (_, i) => i), Array.from({ length: 1000 }, (_, i) => (i < 500 ? NaN : i)), 10);
  assert.ok(Number.isNaN(line.last[0]) && Number.isNaN(line.min[0]) && line.last[9] === 999);
  assert.equal(bucketed([1, 2, 3], [4, 5, 6], 10).raw, true);
});

test("smoothing has no bias at its beginning and weighs buckets by their points", () => {
  assert.deepEqual([...smoothed([3, 3, 3], 0.9)].map((v) => Number(v.toFixed(12))), [3, 3, 3]);
  assert.deepEqual([...smoothed([1, 2, 3], 0)], [1, 2, 3]);
  // 0.5: (0.5 * 1 + 2 * ... ) / (1 - 0.25) of two values
  assert.ok(Math.abs(smoothed([1, 2], 0.5)[1] - (0.25 * 1 + 0.5 * 2) / 0.75) < 1e-12);
  const fine = smoothed([5, 5, 5, 5, 1], 0.9), coarse = smoothed([5, 1], 0.9, [4, 1]);
  assert.ok(Math.abs(fine[4] - coarse[1]) < 1e-9);
  const gap = smoothed([1, NaN, 1], 0.9);
  assert.ok(Number.isNaN(gap[1]) && Math.abs(gap[2] - 1) < 1e-12);
});

test("means of groups carry the extremes, the deviation and how many runs there are", () => {
  const lines = [rawSeries(f64(0, 10, 20), f64(0, 10, 20)), rawSeries(f64(0, 10), f64(2, 12))];
  const range = groupedSeries(lines, "range");
  assert.deepEqual([...range.x], [0, 10, 20]);
  assert.deepEqual([...range.last], [1, 11, 20]);
  assert.deepEqual([[...range.min], [...range.max], [...range.count]], [[0, 10, 20], [2, 12, 20], [2, 2, 1]]);
  const deviation = groupedSeries(lines, "deviation");
  assert.ok(Math.abs(deviation.max[0] - (1 + Math.SQRT2)) < 1e-12);
  const error = groupedSeries(lines, "error");
  assert.ok(Math.abs(error.max[0] - 2) < 1e-12);
  assert.equal(groupedSeries([], "range").x.length, 0);
});

test("values between points are interpolated, outside there are none", () => {
  assert.equal(valueAt([0, 10], [0, 100], 5), 50);
  assert.equal(valueAt([0, 10], [0, 100], 10), 100);
  assert.ok(Number.isNaN(valueAt([0, 10], [0, 100], 11)));
  assert.ok(Number.isNaN(valueAt([], [], 0)));
});

test("lines of different places share one table", () => {
  assert.deepEqual(joined([{ x: [1, 3], columns: [[10, NaN]] }, { x: [2, 3], columns: [[5, 6], [7, 8]] }]), [[1, 2, 3], [10, undefined, null], [undefined, 5, 6], [undefined, 7, 8]]);
});

test("CSV quotes what must be quoted, and no cell is a formula", () => {
  assert.equal(csv(["a", "b"], [["x,y", 'say "hi"'], ["=1+1", -5], [null, "line\nbreak"]]), 'a,b\n"x,y","say ""hi"""\n\'=1+1,-5\n,"line\nbreak"\n');
});
