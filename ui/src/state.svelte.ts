/** What all views share: the address, the theme, notices, live hints. */
import { hashOf, parseHash, type Address } from "./lib/hash.ts";

class Route {
  address = $state<Address>(parseHash(location.hash || (window.__RAMET_EXPORT__?.hash ?? "")));
  get view(): string { return this.address.view; }
  get params(): Record<string, string> { return this.address.params; }
  param(key: string, fallback = ""): string { return this.address.params[key] ?? fallback; }

  listen(): void {
    window.addEventListener("hashchange", () => { this.address = parseHash(location.hash); });
  }
  /** Another view. */
  go(view: string, params: Record<string, string> = {}): void {
    location.hash = hashOf({ view, params });
  }
  /** Other values of some keys of this view; "" removes a key. `replace` adds no entry to the history. */
  set(changes: Record<string, string>, replace = true): void {
    const next = hashOf({ view: this.view, params: { ...this.params, ...changes } });
    if (next === hashOf(this.address)) return;
    if (replace) {
      history.replaceState(null, "", next);
      this.address = parseHash(next);
    } else {
      location.hash = next;
    }
  }
}
export const route = new Route();
export const link = (view: string, params: Record<string, string> = {}): string => hashOf({ view, params });

export type Theme = "auto" | "light" | "dark";
class Appearance {
  theme = $state<Theme>(readTheme());
  /** Counts up when colours change, so that canvases draw again. */
  turn = $state(0);
  constructor() {
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => ++this.turn);
    this.apply();
  }
  next(): void {
    this.theme = this.theme === "auto" ? (this.dark ? "light" : "dark") : this.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("ramet.theme", this.theme); } catch { /* private mode */ }
    this.apply();
  }
  get dark(): boolean {
    return this.theme === "dark" || (this.theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  }
  private apply(): void {
    if (this.theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = this.theme;
    ++this.turn;
  }
}
function readTheme(): Theme {
  try {
    const stored = localStorage.getItem("ramet.theme");
    return stored === "light" || stored === "dark" ? stored : "auto";
  } catch {
    return "auto";
  }
}
export const appearance = new Appearance();

/** A colour of the design, as the style sheet has it now. */
export function token(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

class Notices {
  all = $state<{ id: number; text: string; level: "info" | "error" }[]>([]);
  private last = 0;
  say(text: string, level: "info" | "error" = "info"): void {
    const id = ++this.last;
    this.all.push({ id, text, level });
    setTimeout(() => this.drop(id), level === "error" ? 12000 : 4000);
  }
  drop(id: number): void { this.all = this.all.filter((n) => n.id !== id); }
}
export const notices = new Notices();
/** Shows an error that an action of the person caused. */
export function report(error: unknown): void {
  notices.say(error instanceof Error ? error.message : String(error), "error");
}

class Live {
  connected = $state(false);
  /** Counts up when the list of runs changed. */
  runs = $state(0);
  /** Counts of hints by run. */
  steps = $state<Record<string, number>>({});
  private source: EventSource | null = null;

  connect(): void {
    if (window.__RAMET_EXPORT__ || this.source) return;
    const source = new EventSource("api/v1/events");
    this.source = source;
    let opened = false;
    source.onopen = () => {
      if (opened) ++this.runs; // hints were missed meanwhile
      opened = true;
      this.connected = true;
    };
    source.onerror = () => {
      this.connected = false;
      if (source.readyState === EventSource.CLOSED) {
        this.source = null;
        setTimeout(() => this.connect(), 3000);
      }
    };
    source.addEventListener("runs", () => { ++this.runs; });
    source.addEventListener("run", (event) => {
      try {
        const { id } = JSON.parse((event as MessageEvent<string>).data) as { id: string };
        this.steps[id] = (this.steps[id] ?? 0) + 1;
      } catch { /* a hint that cannot be read is no hint */ }
    });
  }
}
export const live = new Live();
