/** A chart of lines as SVG text, and its scales. */
import { logTicks, ticks } from "./stats.ts";

export interface SvgLine {
  label: string;
  colour: string;
  x: ArrayLike<number>;
  y: ArrayLike<number>;
  low?: ArrayLike<number>;
  high?: ArrayLike<number>;
  width?: number;
  opacity?: number;
}
export interface SvgOptions {
  title: string;
  xLabel: string;
  yLabel: string;
  width: number;
  height: number;
  logX: boolean;
  logY: boolean;
  xText: (v: number) => string;
  yText: (v: number) => string;
}

export function escapeXml(text: string): string {
  return text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

/** Finite extremes of lines; positive ones only for a logarithmic axis. */
export function extent(arrays: readonly ArrayLike<number>[], positive: boolean): [number, number] | null {
  let low = Infinity, high = -Infinity;
  for (const values of arrays)
    for (let i = 0; i < values.length; ++i) {
      const v = values[i];
      if (!Number.isFinite(v) || (positive && v <= 0)) continue;
      if (v < low) low = v;
      if (v > high) high = v;
    }
  return low > high ? null : [low, high];
}

export function lineChartSvg(lines: readonly SvgLine[], options: SvgOptions): string {
  const { width, height, logX, logY } = options;
  const left = 68, right = 16, top = 40, bottom = 44 + 18 * Math.ceil(lines.length / 3);
  const xs = extent(lines.map((l) => l.x), logX) ?? [0, 1];
  const ys = extent(lines.flatMap((l) => [l.y, l.low ?? [], l.high ?? []]), logY) ?? [0, 1];
  if (ys[0] === ys[1]) ys[0] -= Math.abs(ys[0]) * 0.05 || 1, (ys[1] += Math.abs(ys[1]) * 0.05 || 1);
  const scale = (v: number, [a, b]: readonly [number, number], log: boolean) => (log ? Math.log(v / a) / Math.log(b / a || 2) : (v - a) / (b - a || 1));
  const px = (v: number) => left + scale(v, xs, logX) * (width - left - right);
  const py = (v: number) => height - bottom - scale(v, ys, logY) * (height - top - bottom);
  const drawn = (x: number, y: number) => Number.isFinite(y) && (!logY || y > 0) && (!logX || x > 0);
  const at = (x: number, y: number) => `${px(x).toFixed(1)},${py(y).toFixed(1)}`;
  const parts: string[] = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="12" fill="#1c2126">`,
    `<rect width="${width}" height="${height}" fill="#ffffff"/>`, `<text x="${left}" y="22" font-size="15" font-weight="600">${escapeXml(options.title)}</text>`,
  ];
  for (const t of logY ? logTicks(...ys) : ticks(...ys))
    parts.push(`<path d="M${left} ${py(t).toFixed(1)}H${width - right}" stroke="#e3e6e9"/><text x="${left - 8}" y="${(py(t) + 4).toFixed(1)}" text-anchor="end" fill="#4c5660">${escapeXml(options.yText(t))}</text>`);
  for (const t of logX ? logTicks(...xs) : ticks(...xs, 7))
    parts.push(`<text x="${px(t).toFixed(1)}" y="${height - bottom + 18}" text-anchor="middle" fill="#4c5660">${escapeXml(options.xText(t))}</text>`);
  parts.push(`<path d="M${left} ${top}V${height - bottom}H${width - right}" fill="none" stroke="#868f98"/>`);
  parts.push(`<text x="${(left + width - right) / 2}" y="${height - bottom + 36}" text-anchor="middle" fill="#4c5660">${escapeXml(options.xLabel)}</text>`);
  for (const line of lines) {
    if (line.low && line.high) {
      const up: string[] = [], down: string[] = [];
      for (let i = 0; i < line.x.length; ++i)
        if (drawn(line.x[i], line.low[i]) && drawn(line.x[i], line.high[i])) up.push(at(line.x[i], line.high[i])), down.unshift(at(line.x[i], line.low[i]));
      if (up.length > 1) parts.push(`<polygon points="${up.join(" ")} ${down.join(" ")}" fill="${line.colour}" opacity="0.18"/>`);
    }
    let path = "", pen = false;
    for (let i = 0; i < line.x.length; ++i) {
      if (!drawn(line.x[i], line.y[i])) { pen = false; continue; }
      path += `${pen ? "L" : "M"}${at(line.x[i], line.y[i])}`;
      pen = true;
    }
    if (path) parts.push(`<path d="${path}" fill="none" stroke="${line.colour}" stroke-width="${line.width ?? 1.6}" opacity="${line.opacity ?? 1}" stroke-linejoin="round"/>`);
  }
  lines.filter((l) => l.label).forEach((line, i) => {
    const x = left + (i % 3) * ((width - left - right) / 3), y = height - bottom + 56 + 18 * Math.floor(i / 3);
    parts.push(`<rect x="${x}" y="${y - 9}" width="10" height="10" rx="2" fill="${line.colour}"/><text x="${x + 15}" y="${y}">${escapeXml(line.label)}</text>`);
  });
  return parts.join("") + "</svg>\n";
}
