/** Colours of runs, of memory classes and of scales. All lines have a contrast of 3:1 or more on both grounds. */

/** For runs without a colour of their own, in the order in which they are drawn. */
export const kRunColours = [
  "#2f7ed8", "#d1622b", "#2f9e62", "#9a5fd0", "#c94f6d", "#1b9aaa", "#a8801a", "#6b7fe3",
  "#5f8f2f", "#c258a8", "#7d7063", "#3f8fa8", "#b5543a", "#5a6fb0", "#8a8d2b", "#9c4f8c",
];

function hashOf(text: string): number {
  let hash = 2166136261;
  for (let i = 0; i < text.length; ++i) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
  return hash >>> 0;
}

/** The same colour for the same text. */
export function colourOf(text: string): string {
  return kRunColours[hashOf(text) % kRunColours.length];
}

/** Colours of runs drawn together: their own where they have one, else all different as long as there are enough. */
export function assignColours(ids: readonly string[], own: (id: string) => string): Map<string, string> {
  const colours = new Map<string, string>();
  const taken = new Set<string>();
  for (const id of ids) if (/^#[0-9a-f]{6}$/i.test(own(id))) colours.set(id, own(id)), taken.add(own(id).toLowerCase());
  for (const id of ids) {
    if (colours.has(id)) continue;
    const start = hashOf(id) % kRunColours.length;
    let chosen = kRunColours[start];
    for (let i = 0; i < kRunColours.length; ++i) {
      const colour = kRunColours[(start + i) % kRunColours.length];
      if (!taken.has(colour)) { chosen = colour; break; }
    }
    colours.set(id, chosen);
    taken.add(chosen);
  }
  return colours;
}

/** Colours of groups drawn together, all different as long as there are enough. */
export function groupColours(names: Iterable<string>): Map<string, string> {
  return assignColours([...new Set(names)], () => "");
}

/** Memory classes of the compiler, in the order in which they are stacked. */
export const kClasses = ["weights", "optimizer", "states", "derived", "gradients", "activations", "stash", "exchange", "scratch", "host"] as const;

export const kClassColours: Record<string, string> = {
  weights: "#3b6fb6", optimizer: "#7a5fb5", states: "#8b8f98", derived: "#3f93b8", gradients: "#bd7f22",
  activations: "#3f9d6d", stash: "#6f9b30", exchange: "#c9577a", scratch: "#b0583a", host: "#6d7785", planned: "#6a7686",
};
export function classColour(name: string): string {
  return kClassColours[name] ?? colourOf(name);
}

/** Kinds of work on a timeline. */
export const kWorkColours: Record<string, string> = {
  forward: "#3b82c4", backward: "#c9803a", recompute: "#948e2c", update: "#7a5fb5", prepare: "#7d8794", program: "#4a9d8e",
  exchange: "#c9577a", wait: "#86909b", send: "#c9577a", receive: "#c9577a", load: "#b0583a", store: "#b0583a",
};

type Rgb = readonly [number, number, number];
// Five stops of Viridis, darkest first.
const kStops: readonly Rgb[] = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];

/** A colour of the sequential scale; `at` from 0 to 1. */
export function scaleColour(at: number): string {
  const t = Math.min(1, Math.max(0, Number.isFinite(at) ? at : 0)) * (kStops.length - 1);
  const i = Math.min(kStops.length - 2, Math.floor(t));
  const mix = kStops[i].map((low, c) => Math.round(low + (kStops[i + 1][c] - low) * (t - i)));
  return `rgb(${mix[0]},${mix[1]},${mix[2]})`;
}

function channel(value: number): number {
  const c = value / 255;
  return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
}
export function luminance(colour: string): number {
  const match = /^rgb\((\d+),(\d+),(\d+)\)$/.exec(colour);
  const rgb = match ? [Number(match[1]), Number(match[2]), Number(match[3])]
    : [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  return 0.2126 * channel(rgb[0]) + 0.7152 * channel(rgb[1]) + 0.0722 * channel(rgb[2]);
}
/** Black or white, whichever stands out more on a colour. */
export function inkOn(colour: string): string {
  const l = luminance(colour);
  return (l + 0.05) / 0.05 > 1.05 / (l + 0.05) ? "#000000" : "#ffffff";
}

/** Contrast ratio of WCAG 2. */
export function contrast(a: string, b: string): number {
  const [x, y] = [luminance(a), luminance(b)];
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
}
