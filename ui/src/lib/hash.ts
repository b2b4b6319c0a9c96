/** The state of the page as its address: "#/charts?runs=a,b&x=step". */

export interface Address {
  view: string;
  params: Record<string, string>;
}

export function parseHash(hash: string): Address {
  const text = hash.replace(/^#\/?/, "");
  const question = text.indexOf("?");
  const view = (question < 0 ? text : text.slice(0, question)) || "runs";
  const params: Record<string, string> = {};
  if (question >= 0) for (const [key, value] of new URLSearchParams(text.slice(question + 1))) params[key] = value;
  return { view, params };
}

/** Keys in alphabetical order, empty ones left out, so that equal states have equal addresses. */
export function hashOf({ view, params }: Address): string {
  const query = Object.entries(params).filter(([, v]) => v !== "").sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([k, v]) => `${encodeURIComponent(k)}=${encodeURIComponent(v).replace(/%2C/g, ",").replace(/%2F/g, "/").replace(/%3A/g, ":")}`).join("&");
  return `#/${view}${query ? `?${query}` : ""}`;
}

export function list(text: string | undefined): string[] {
  return (text ?? "").split(",").filter(Boolean).map((part) => decode(part));
}
/** Items joined by commas; commas within items are escaped. */
export function joinList(items: readonly string[]): string {
  return items.map((item) => item.replace(/%/g, "%25").replace(/,/g, "%2C")).join(",");
}
function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
