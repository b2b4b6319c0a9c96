/** Numbers, bytes, seconds and dates as people read them. */

const kMissing = "–";

/** At most `digits` significant digits, without trailing zeros; exponents below 1e-4 and from 1e6 on. */
export function number(value: number | null | undefined, digits = 4): string {
  if (value === null || value === undefined) return kMissing;
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e7) return value.toLocaleString("en-US");
  if (size < 1e-4 || size >= 1e7) {
    const [mantissa, exponent] = value.toExponential(Math.max(0, digits - 1)).split("e");
    return `${trim(mantissa)}e${Number(exponent)}`;
  }
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return trim(value.toFixed(Math.min(decimals, 20)));
}

function trim(text: string): string {
  return text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text;
}

/** "1.5 GiB"; binary units. */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return kMissing;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let size = Math.abs(value);
  let unit = 0;
  while (size >= 1023.995 && unit < units.length - 1) (size /= 1024), ++unit;
  const text = unit === 0 ? String(Math.round(size)) : size >= 100 ? size.toFixed(0) : size >= 10 ? size.toFixed(1) : size.toFixed(2);
  return `${value < 0 ? "−" : ""}${text} ${units[unit]}`;
}

/** "12.3 ms", "4 min 5 s", "3 h 20 min". */
export function seconds(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return kMissing;
  if (value === 0) return "0 s";
  const sign = value < 0 ? "−" : "";
  const size = Math.abs(value);
  if (size < 0.9995e-6) return `${sign}${number(size * 1e9, 3)} ns`;
  if (size < 0.9995e-3) return `${sign}${number(size * 1e6, 3)} µs`;
  if (size < 0.9995) return `${sign}${number(size * 1e3, 3)} ms`;
  if (size < 59.95) return `${sign}${number(size, 3)} s`;
  const whole = Math.round(size);
  if (whole < 3600) return `${sign}${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86400) return `${sign}${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${sign}${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

/** "1.2 M": decimal units for counts. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return kMissing;
  const size = Math.abs(value);
  for (const [unit, factor] of [["P", 1e15], ["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e4]] as const)
    if (size >= factor) return `${number(value / (unit === "k" ? 1e3 : factor), 3)} ${unit}`;
  return number(value, 4);
}

export function percent(part: number): string {
  if (!Number.isFinite(part)) return kMissing;
  const value = part * 100;
  if (value !== 0 && Math.abs(value) < 0.05) return value < 0 ? "> −0.1%" : "< 0.1%";
  return `${value !== 0 && Math.abs(value) < 9.95 ? value.toFixed(1) : Math.round(value)}%`;
}

/** Local date and time of seconds since 1970. */
export function date(time: number | null | undefined): string {
  if (!time) return kMissing;
  const d = new Date(time * 1000);
  const two = (n: number) => String(n).padStart(2, "0");
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}`;
}

/** "3 min ago". */
export function ago(time: number | null | undefined, now = Date.now() / 1000): string {
  if (!time) return kMissing;
  const passed = Math.max(0, now - time);
  if (passed < 45) return "just now";
  if (passed < 3600) return `${Math.max(1, Math.round(passed / 60))} min ago`;
  if (passed < 86400) return `${Math.round(passed / 3600)} h ago`;
  if (passed < 86400 * 30) return `${Math.round(passed / 86400)} d ago`;
  return date(time).slice(0, 10);
}

/** A value of a configuration or a metric. */
export function value(v: unknown): string {
  if (v === null || v === undefined) return kMissing;
  if (typeof v === "number") return Number.isSafeInteger(v) ? String(v) : number(v, 5);
  if (typeof v === "boolean") return v ? "true" : "false";
  if (typeof v === "string") return v === "" ? "\u201c\u201d" : v;
  return JSON.stringify(v);
}

/** The unit that a metric's name tells. */
export function metric(name: string, v: number | null | undefined): string {
  if (v === null || v === undefined || !Number.isFinite(v)) return number(v);
  const last = name.slice(name.lastIndexOf("/") + 1);
  if (last.endsWith("_bytes_per_second")) return `${bytes(v)}/s`;
  if (last.endsWith("_bytes") || last.endsWith("_memory") || last.startsWith("memory_") && last.endsWith("bytes")) return bytes(v);
  if (last.endsWith("_seconds")) return seconds(v);
  if (last.endsWith("_percent")) return `${number(v, 3)}%`;
  return number(v, 5);
}
