/** Histograms over steps as a heat map, and tables that users log. */

export interface Histogram { step: number; edges: number[]; counts: number[] }
export interface HeatMap { steps: number[]; edges: number[]; cells: Float64Array[]; most: number }

/** Histograms of several steps on common edges: counts are spread over new bins by overlap. */
export function heatMap(histograms: readonly Histogram[], bins = 48): HeatMap {
  const valid = histograms.filter((h) => h.edges.length === h.counts.length + 1 && h.counts.length > 0).sort((a, b) => a.step - b.step);
  if (valid.length === 0) return { steps: [], edges: [], cells: [], most: 0 };
  const same = valid.every((h) => h.edges.length === valid[0].edges.length && h.edges.every((e, i) => e === valid[0].edges[i]));
  const low = Math.min(...valid.map((h) => h.edges[0])), high = Math.max(...valid.map((h) => h.edges[h.edges.length - 1]));
  const edges = same ? valid[0].edges : Array.from({ length: bins + 1 }, (_, i) => low + ((high - low) * i) / bins);
  let most = 0;
  const cells = valid.map((h) => {
    const row = new Float64Array(edges.length - 1);
    if (same) row.set(h.counts);
    else
      h.counts.forEach((count, i) => {
        const [a, b] = [h.edges[i], h.edges[i + 1]];
        for (let j = 0; j < row.length; ++j) {
          const overlap = Math.min(b, edges[j + 1]) - Math.max(a, edges[j]);
          if (overlap > 0) row[j] += (count * overlap) / (b - a);
        }
      });
    for (const v of row) most = Math.max(most, v);
    return row;
  });
  return { steps: valid.map((h) => h.step), edges, cells, most };
}

export interface MediaTable { columns: string[]; rows: unknown[][] }
/** A logged table, or null when the JSON is not one. */
export function mediaTable(json: unknown): MediaTable | null {
  if (typeof json !== "object" || json === null) return null;
  const { columns, rows } = json as { columns?: unknown; rows?: unknown };
  if (!Array.isArray(columns) || !Array.isArray(rows) || !rows.every(Array.isArray)) return null;
  return { columns: columns.map(String), rows: rows as unknown[][] };
}
