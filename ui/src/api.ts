/** The server's API (docs/ui.md), or in an exported page the data that it carries. */
import type { Liveness, Plan } from "./lib/liveness.ts";
import type { Program, Times } from "./lib/program.ts";
import { bucketed, decodeSeries, emptySeries, rawSeries, type Axis, type Series } from "./lib/series.ts";

export type Status = "running" | "done" | "interrupted" | "failed" | "killed" | "planned";
export interface RunRow {
  id: string; name: string; status: Status; started: number; ended: number | null; steps: number; group: string; tags: string[];
  pinned: boolean; colour: string; archived: boolean; note: string; units: string; samples_per_step: number; units_per_step: number;
  alerts: number; parent: string; columns: Record<string, number | string | boolean | null>;
}
export interface MetricFact { name: string; kind: "metric" | "system" | "rank"; points: number; first_step: number; last_step: number; min: number | null; max: number | null; last: number | null; not_finite: number }
export interface RunEvent { event: string; time: number; [key: string]: unknown }
export interface RunDetail extends RunRow {
  config: Record<string, number | string | boolean | null>; facts: Record<string, unknown>; machine: Record<string, unknown>;
  start: RunEvent | null; end: RunEvent | null; axis: { samples_per_step: number; units_per_step: number; units: string } | null;
  events: number; alert_events: RunEvent[]; lineage: RunEvent[]; children: string[];
  checkpoints: { name: string; step: number; bytes: number }[]; files: string[]; ranks: number;
}
export interface MediaItem { kind: string; name: string; step: number; time: number; artifact: string; type: string; bytes: number; caption?: string }
export interface Keys { config: { key: string; runs: number; type: string; values: (string | number | boolean)[] }[]; metrics: { key: string; runs: number }[]; groups: string[]; tags: string[] }
export interface Comparison { runs: string[]; config: { key: string; values: unknown[] }[]; same: number; metrics: { name: string; values: (number | null)[] }[]; memory: { class: string; bytes: (number | null)[] }[]; step_seconds: (number | null)[] }
export interface Importance { metric: string; runs: number; keys: { key: string; importance: number; correlation: number | null; runs: number }[] }
export interface SweepRow { name: string; method: string; metric: string; goal: string; status: string; runs: number; running: number; best: { run: string; value: number } | null; started: number }
export interface SweepDetail extends SweepRow { config: string; parameters: { key: string; values?: unknown[]; min?: number; max?: number; scale?: string }[]; trials: { run: string; status: string; values: Record<string, number | string | boolean>; metric: number | null; steps: number; stopped_early: boolean }[]; events: RunEvent[] }
export interface SavedView { version: 1; title: string; hash: string; description: string }
export interface SavedRow { name: string; modified: number; bytes: number; title: string }
export interface Numerics { step: number; precision: string; first_out_of_range: string | null; tensors: { name: string; kind: string; op: string; stage: number; type: string; elements: number; zeros: number; range: string; overflow: number; underflow: number; subnormal: number; infinities: number; nans: number; exponents: Record<string, number> }[] }
export interface Export {
  version: 1; title: string; hash: string; made: number; ramet: string; runs: RunRow[]; details: Record<string, RunDetail>; metrics: Record<string, MetricFact[]>;
  events: Record<string, RunEvent[]>; files: Record<string, Record<string, unknown>>; media: Record<string, MediaItem[]>; artifacts: Record<string, string>;
  series: Record<string, Record<string, { step: number[]; time: number[]; value: (number | null)[] }>>; reports: Record<string, string>;
}
export interface RunsQuery { filter?: string; sort?: string; limit?: number; offset?: number; columns?: string[]; archived?: boolean }

/** An answer of the server that is no success. */
export class ApiError extends Error {
  status: number;
  position: number | null;
  constructor(status: number, detail: string, position: number | null = null) {
    super(detail);
    this.status = status;
    this.position = position;
  }
}

export const exported = window.__RAMET_EXPORT__;
const kBase = "api/v1/";

async function call(path: string, init?: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(kBase + path, { credentials: "same-origin", ...init });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "The server does not answer. Is `ramet serve` still running?");
  }
  if (answer.ok) return answer;
  if (answer.status === 401) throw new ApiError(401, "This browser has no session: open the address that `ramet serve` printed.");
  let detail = `${answer.status} ${answer.statusText}`;
  let position: number | null = null;
  try {
    const problem = (await answer.json()) as { title?: string; detail?: string; position?: number };
    detail = problem.detail || problem.title || detail;
    position = problem.position ?? null;
  } catch { /* no problem document */ }
  throw new ApiError(answer.status, detail, position);
}
async function json<T>(path: string, init?: RequestInit): Promise<T> {
  return (await (await call(path, init)).json()) as T;
}
const id = encodeURIComponent;
const body = (method: string, value: unknown): RequestInit => ({ method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) });

export const version = () => exported ? Promise.resolve({ version: exported.ramet, api: 1, read_only: true, runs_folder: "", runs: exported.runs.length })
  : json<{ version: string; api: number; read_only: boolean; runs_folder: string; runs: number }>("version");

export async function runs(query: RunsQuery, signal?: AbortSignal): Promise<{ total: number; runs: RunRow[] }> {
  if (exported) return exportedRuns(exported, query);
  const text = new URLSearchParams();
  if (query.filter) text.set("filter", query.filter);
  if (query.sort) text.set("sort", query.sort);
  text.set("limit", String(query.limit ?? 200));
  if (query.offset) text.set("offset", String(query.offset));
  if (query.columns?.length) text.set("columns", query.columns.join(","));
  if (query.archived) text.set("archived", "1");
  return json(`runs?${text}`, { signal });
}
/** An exported page sorts its few runs itself. */
function exportedRuns(of: Export, { sort = "-started", offset = 0, limit = 200 }: RunsQuery): { total: number; runs: RunRow[] } {
  const key = sort.replace(/^-/, ""), sign = sort.startsWith("-") ? -1 : 1;
  const value = (row: RunRow) => (key in row.columns ? row.columns[key] : (row as unknown as Record<string, string | number>)[key]) ?? null;
  const order = (a: RunRow, b: RunRow) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return Number(x === null) - Number(y === null);
    return (x < y ? -1 : x > y ? 1 : 0) * sign;
  };
  return { total: of.runs.length, runs: of.runs.toSorted(order).slice(offset, offset + limit) };
}
/** Rows of these runs, in this order; unknown ones are left out. */
export async function rowsOf(ids: readonly string[], columns: string[] = []): Promise<RunRow[]> {
  if (ids.length === 0) return [];
  const found = new Map<string, RunRow>();
  for (let i = 0; i < ids.length; i += 60) {
    const part = ids.slice(i, i + 60);
    const page = await runs({ filter: part.map((each) => `id = "${each}"`).join(" or "), limit: part.length, columns, archived: true });
    for (const row of page.runs) found.set(row.id, row);
  }
  return ids.flatMap((each) => found.get(each) ?? []);
}
export async function run(of: string): Promise<RunDetail> {
  if (exported) return need(exported.details[of], of);
  return json(`runs/${id(of)}`);
}
function need<T>(value: T | undefined, what: string): T {
  if (value === undefined) throw new ApiError(404, `This exported page does not hold ${what}.`);
  return value;
}
export const annotate = (of: string, changes: Partial<Pick<RunRow, "tags" | "note" | "group" | "pinned" | "colour" | "archived" | "name">>) =>
  json<RunRow>(`runs/${id(of)}`, body("PATCH", changes));

export const metrics = async (of: string): Promise<MetricFact[]> => exported ? exported.metrics[of] ?? [] : json(`runs/${id(of)}/metrics`);
export const events = async (of: string, kind = ""): Promise<RunEvent[]> =>
  exported ? (exported.events[of] ?? []).filter((e) => !kind || e.event === kind) : json(`runs/${id(of)}/events${kind ? `?kind=${id(kind)}` : ""}`);
export const media = async (of: string): Promise<MediaItem[]> => exported ? exported.media[of] ?? [] : json(`runs/${id(of)}/media`);
export const keys = async (): Promise<Keys> => {
  if (!exported) return json("keys");
  const count = (all: string[][]) => [...new Set(all.flat())].sort().map((key) => ({ key, runs: all.filter((a) => a.includes(key)).length }));
  const details = Object.values(exported.details);
  return {
    config: count(details.map((d) => Object.keys(d.config))).map((k) => ({ ...k, type: "text", values: [] })),
    metrics: count(Object.values(exported.metrics).map((m) => m.map((x) => x.name))), groups: [], tags: [],
  };
};
export const importance = (metric: string, filter: string) => json<Importance>(`importance?metric=${id(metric)}${filter ? `&filter=${id(filter)}` : ""}`);
export const compare = async (ids: readonly string[]): Promise<Comparison> => exported ? exportedComparison(exported, ids) : json(`compare?runs=${ids.map(id).join(",")}`);
function exportedComparison(of: Export, ids: readonly string[]): Comparison {
  const details = ids.map((each) => need(of.details[each], each));
  const keysOf = [...new Set(details.flatMap((d) => Object.keys(d.config)))].sort();
  const rows = keysOf.map((key) => ({ key, values: details.map((d) => d.config[key] ?? null) }));
  const config = rows.filter((row) => new Set(row.values.map((v) => JSON.stringify(v))).size > 1);
  const names = [...new Set(ids.flatMap((each) => (of.metrics[each] ?? []).map((m) => m.name)))].sort();
  const stages = ids.map((each) => (of.files[each]?.plan as Plan | undefined)?.stages.reduce((a, b) => (b.planned_bytes > a.planned_bytes ? b : a)));
  const classes = [...new Set(stages.flatMap((s) => Object.keys(s?.classes ?? {})))];
  return {
    runs: [...ids], config, same: keysOf.length - config.length,
    metrics: names.map((name) => ({ name, values: ids.map((each) => of.metrics[each]?.find((m) => m.name === name)?.last ?? null) })),
    memory: [{ class: "planned", bytes: stages.map((s) => s?.planned_bytes ?? null) }, ...classes.map((c) => ({ class: c, bytes: stages.map((s) => s?.classes[c]?.at_peak ?? null) }))],
    step_seconds: ids.map((each) => (of.files[each]?.times as Times | undefined)?.step_seconds ?? null),
  };
}
export const sql = (q: string, limit = 1000) => json<{ columns: string[]; rows: unknown[][]; truncated: boolean }>(`sql?q=${id(q)}&limit=${limit}`);
export const sweeps = async (): Promise<SweepRow[]> => exported ? [] : json("sweeps");
export const sweep = (name: string) => json<SweepDetail>(`sweeps/${id(name)}`);

const files = new Map<string, Promise<unknown>>();
/** A file of a run, kept while the page lives; null when the run has none. */
export function file<T>(of: string, name: string): Promise<T | null> {
  if (exported) return Promise.resolve((exported.files[of]?.[name] as T | undefined) ?? null);
  const key = `${of}/${name}`;
  let found = files.get(key);
  if (!found) {
    found = call(`runs/${id(of)}/files/${name}`).then((a) => (name === "recipe" ? a.text() : a.json()), (error) => {
      files.delete(key);
      if (error instanceof ApiError && error.status === 404) return null;
      throw error;
    });
    files.set(key, found);
    if (files.size > 64) files.delete(files.keys().next().value!);
  }
  return found as Promise<T | null>;
}
/** Forgets what may have changed while a run goes on. */
export function forgetTimes(of: string): void {
  files.delete(`${of}/times`);
}
export const plan = (of: string) => file<Plan>(of, "plan");
export const liveness = (of: string) => file<Liveness>(of, "liveness");
export const program = (of: string) => file<Program>(of, "program");
export const times = (of: string) => file<Times>(of, "times");

export function artifactAddress(of: string, hash: string): string {
  return exported ? exported.artifacts[hash] ?? "" : `${kBase}runs/${id(of)}/artifacts/${id(hash)}`;
}
export async function artifact(of: string, hash: string): Promise<Response> {
  return exported ? fetch(need(exported.artifacts[hash], "this artifact")) : call(`runs/${id(of)}/artifacts/${id(hash)}`);
}
export const traceAddress = (of: string) => `${kBase}runs/${id(of)}/trace`;
export const csvAddress = (of: string) => `${kBase}export/${id(of)}.csv`;

export interface SeriesRequest { run: string; metric: string }
/** Lines of several runs and metrics, in the order asked for. */
export async function series(requests: readonly SeriesRequest[], x: Axis, from: number | null, to: number | null, buckets: number, signal?: AbortSignal): Promise<Series[]> {
  if (requests.length === 0) return [];
  if (exported) return requests.map((request) => exportedSeries(request, x, from, to, buckets));
  const all: Series[] = [];
  for (let i = 0; i < requests.length; i += 256) {
    const part = requests.slice(i, i + 256);
    const answer = await call("series", { ...body("POST", { requests: part, x, from, to, buckets }), signal });
    all.push(...decodeSeries(await answer.arrayBuffer(), part.length));
  }
  return all;
}
function exportedSeries({ run: of, metric }: SeriesRequest, axis: Axis, from: number | null, to: number | null, buckets: number): Series {
  const points = exported?.series[of]?.[metric];
  if (!points) return emptySeries();
  const detail = exported?.details[of];
  const factor = axis === "samples" ? detail?.axis?.samples_per_step ?? 1 : axis === "units" ? detail?.axis?.units_per_step ?? 1 : 1;
  const system = metric.startsWith("system/");
  const byTime = system && axis !== "time" && axis !== "relative_time";
  const x = axis === "time" || byTime ? points.time : axis === "relative_time" ? points.time.map((t) => t - (detail?.started ?? points.time[0])) : points.step.map((s) => s * factor);
  const y = points.value.map((v) => (v === null ? NaN : v));
  const line = bucketed(x, y, buckets, from, to);
  return line.raw ? rawSeries(line.x, line.last, byTime) : { ...line, byTime };
}

type Kept = "views" | "reports";
export const kept = async (kind: Kept): Promise<SavedRow[]> =>
  exported ? (kind === "reports" ? Object.keys(exported.reports).map((name) => ({ name, title: name, modified: exported!.made, bytes: exported!.reports[name].length })) : []) : json(kind);
export const readView = (name: string) => json<SavedView>(`views/${id(name)}`);
export const readReport = async (name: string): Promise<string> => exported ? need(exported.reports[name], name) : (await call(`reports/${id(name)}`)).text();
export const writeView = (name: string, view: SavedView) => call(`views/${id(name)}`, body("PUT", view));
export const writeReport = (name: string, text: string) => call(`reports/${id(name)}`, { method: "PUT", headers: { "Content-Type": "text/markdown" }, body: text });
export const remove = (kind: Kept, name: string) => call(`${kind}/${id(name)}`, { method: "DELETE" });
/** A name for a file out of a title. */
export function fileName(title: string): string {
  return title.toLowerCase().normalize("NFD").replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 80) || "untitled";
}
export async function exportHtml(ids: readonly string[], view: string, title: string): Promise<Blob> {
  return (await call("export/html", body("POST", { runs: ids, view, title }))).blob();
}

/** Hands a file to the browser to save. */
export function save(blob: Blob, name: string): void {
  const address = URL.createObjectURL(blob);
  const anchor = document.createElement("a");
  anchor.href = address;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
