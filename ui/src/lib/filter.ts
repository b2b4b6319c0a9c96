/** The filter language of runs, as the page writes it: `config.train.seed = 3 and loss < 2.5 and tag = "baseline"`. */

export const kOperators = ["=", "!=", "<", "<=", ">", ">=", "~"] as const;
export type Operator = (typeof kOperators)[number];

export interface Condition {
  key: string;
  operator: Operator;
  value: string | number | boolean;
}

/** A text as the language quotes it. */
export function quoted(text: string): string {
  return `"${text.replace(/\\/g, "\\\\").replace(/"/g, '\\"')}"`;
}

/** A name as a left side: plain where it can be, else quoted. */
export function leftSide(key: string): string {
  return /^[A-Za-z_][\w./-]*$/.test(key) && !/^(and|or|not)$/i.test(key) ? key : quoted(key);
}

/** What a person typed as a value: a number, true or false, or text. */
export function typed(text: string): string | number | boolean {
  const trimmed = text.trim();
  if (trimmed === "true" || trimmed === "false") return trimmed === "true";
  if (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(trimmed)) return Number(trimmed);
  return trimmed;
}

export function conditionText(condition: Condition): string {
  const value = condition.value;
  return `${leftSide(condition.key)} ${condition.operator} ${typeof value === "string" ? quoted(value) : String(value)}`;
}

/** A filter with one more condition. */
export function withCondition(filter: string, condition: Condition): string {
  const text = conditionText(condition);
  const old = filter.trim();
  if (old === "") return text;
  if (old.includes(text)) return old;
  return hasTopLevelOr(old) ? `(${old}) and ${text}` : `${old} and ${text}`;
}

interface Token {
  text: string;
  at: number;
  kind: "word" | "text" | "operator" | "bracket";
}

/** Words, texts, operators and brackets; a text that does not end takes the rest. */
export function tokens(filter: string): Token[] {
  const pattern = /\s*(?:("(?:\\.|[^"\\])*"?)|(!=|<=|>=|[=<>~])|([()])|([^\s()"=<>~!]+|!))/gy;
  const found: Token[] = [];
  for (let match = pattern.exec(filter); match; match = pattern.exec(filter)) {
    const text = match[1] ?? match[2] ?? match[3] ?? match[4];
    const kind = match[1] !== undefined ? "text" : match[2] !== undefined ? "operator" : match[3] !== undefined ? "bracket" : "word";
    found.push({ text, at: pattern.lastIndex - text.length, kind });
  }
  return found;
}

function hasTopLevelOr(filter: string): boolean {
  let depth = 0;
  for (const token of tokens(filter)) {
    if (token.kind === "bracket") depth += token.text === "(" ? 1 : -1;
    else if (token.kind === "word" && depth === 0 && token.text.toLowerCase() === "or") return true;
  }
  return false;
}

/** Words without any operator are a search in names, ids, groups and tags; all else is sent as it is. */
export function asFilter(typedText: string): string {
  const text = typedText.trim();
  if (text === "" || tokens(text).some((token) => token.kind === "operator")) return text;
  return text.split(/\s+/).map((word) => {
    const value = quoted(word.replace(/"/g, ""));
    return `(name ~ ${value} or id ~ ${value} or group ~ ${value} or tag ~ ${value})`;
  }).join(" and ");
}

/** The word before the cursor that a key may complete, or null inside a value. */
export function wordAt(filter: string, cursor: number): { from: number; word: string } | null {
  const before = filter.slice(0, cursor);
  const all = tokens(before);
  const last = all.at(-1);
  if (last && last.kind === "text" && !/[^\\]"$/.test(last.text)) return null;
  if (!last || last.kind !== "word" || last.at + last.text.length < cursor) {
    return last && (last.kind === "operator") ? null : { from: cursor, word: "" };
  }
  const previous = all.at(-2);
  return previous?.kind === "operator" ? null : { from: last.at, word: last.text };
}

/** The filter that gives exactly these runs. */
export function idsFilter(ids: readonly string[]): string {
  return ids.map((id) => `id = ${quoted(id)}`).join(" or ");
}
