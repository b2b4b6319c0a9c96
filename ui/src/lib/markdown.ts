/** Markdown as a tree that the page draws itself: no text of a note ever becomes HTML. */
import { lexer, type Token, type Tokens } from "marked";

export type { Token, Tokens };

/** Tokens of a text; HTML in it stays text. */
export function parseMarkdown(text: string): Token[] {
  return lexer(text, { gfm: true, breaks: false });
}

/** An address that a link may lead to, or null: http, https, mailto, and places of this page. */
export function safeLink(address: string): string | null {
  const plain = [...address].filter((c) => c > " " && c !== "\u007f").join("");
  if (/^(https?:\/\/|mailto:)/i.test(plain)) return plain;
  if (plain.startsWith("#")) return plain;
  return null;
}

/** The address of an image that this server has, or null: others would be fetched from elsewhere. */
export function safeImage(address: string): string | null {
  return /^(\.?\/)?api\/v1\/runs\/[\w.-]+\/artifacts\/[0-9a-f]+$/i.test(address) ? address.replace(/^\.?\//, "") : null;
}

/** Lines "key: value" of a fenced block. A key that stands alone is "true". */
export function blockOptions(text: string): Record<string, string> {
  const options: Record<string, string> = {};
  for (const line of text.split("\n")) {
    const match = /^\s*([a-z_]+)\s*(?::\s*(.*?))?\s*$/.exec(line);
    if (match) options[match[1]] = match[2] ?? "true";
  }
  return options;
}

/** First line of a note as plain text. */
export function firstLine(text: string): string {
  const line = text.split("\n").find((l) => l.trim() !== "") ?? "";
  return line.replace(/^[#>\-*\s]+/, "").replace(/[*_`]+/g, "").trim();
}
