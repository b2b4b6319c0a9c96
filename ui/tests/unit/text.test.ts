import assert from "node:assert/strict";
import { test } from "node:test";
import * as format from "../../src/lib/format.ts";
import { asFilter, conditionText, idsFilter, leftSide, tokens, typed, withCondition, wordAt } from "../../src/lib/filter.ts";
import { hashOf, joinList, list, parseHash } from "../../src/lib/hash.ts";
import { blockOptions, firstLine, parseMarkdown, safeImage, safeLink, type Token } from "../../src/lib/markdown.ts";

test("numbers", () => {
  for (const [value, text] of [[0, "0"], [1234567, "1,234,567"], [0.00012346, "0.0001235"], [0.00001234, "1.234e-5"], [1.5e9, "1.5e9"], [3.14159, "3.142"], [99999.5, "100000"], [-2.5, "-2.5"], [NaN, "NaN"], [Infinity, "∞"], [null, "–"]] as const)
    assert.equal(format.number(value), text);
});
test("bytes and seconds", () => {
  for (const [value, text] of [[0, "0 B"], [1023, "1023 B"], [1024, "1.00 KiB"], [1536, "1.50 KiB"], [2426344320, "2.26 GiB"], [104857600, "100 MiB"], [1048575, "1.00 MiB"], [-2048, "−2.00 KiB"]] as const) assert.equal(format.bytes(value), text);
  for (const [value, text] of [[0, "0 s"], [1.5e-9, "1.5 ns"], [2.34e-5, "23.4 µs"], [0.0123, "12.3 ms"], [1.5, "1.5 s"], [59.96, "1 min 0 s"], [125, "2 min 5 s"], [3660, "1 h 1 min"], [90000, "1 d 1 h"], [-3, "−3 s"]] as const) assert.equal(format.seconds(value), text);
});
test("metrics are shown in the unit that their name tells", () => {
  assert.equal(format.metric("step_seconds", 0.0123), "12.3 ms");
  assert.equal(format.metric("system/h-0/memory_bytes", 1 << 30), "1.00 GiB");
  assert.equal(format.metric("system/h-0/disk_read_bytes_per_second", 2048), "2.00 KiB/s");
  assert.equal(format.metric("system/h-0/cpu_percent", 45.678), "45.7%");
  assert.equal(format.metric("loss", 2.345678), "2.3457");
  assert.equal(format.percent(0.0004), "< 0.1%");
});

test("conditions are written in the filter language", () => {
  assert.equal(conditionText({ key: "config.train.seed", operator: "=", value: 3 }), "config.train.seed = 3");
  assert.equal(conditionText({ key: "tag", operator: "=", value: 'a "b" \\' }), 'tag = "a \\"b\\" \\\\"');
  assert.equal(leftSide("held out/loss"), '"held out/loss"');
  assert.equal(leftSide("and"), '"and"');
  assert.equal(withCondition("", { key: "loss", operator: "<", value: 2 }), "loss < 2");
  assert.equal(withCondition("a = 1 or b = 2", { key: "c", operator: "=", value: true }), "(a = 1 or b = 2) and c = true");
  assert.equal(withCondition('name = "x or y"', { key: "c", operator: "=", value: 1 }), 'name = "x or y" and c = 1');
  assert.equal(withCondition("loss < 2", { key: "loss", operator: "<", value: 2 }), "loss < 2");
});
test("plain words search, operators filter", () => {
  assert.equal(asFilter(""), "");
  assert.equal(asFilter("bert"), '(name ~ "bert" or id ~ "bert" or group ~ "bert" or tag ~ "bert")');
  assert.match(asFilter("a b"), / and /);
  assert.equal(asFilter(" loss<2 "), "loss<2");
});
test("typed values and words to complete", () => {
  assert.deepEqual(["3", "1e-4", "true", "3a", ""].map(typed), [3, 1e-4, true, "3a", ""]);
  assert.deepEqual(wordAt("loss < 2 and con", 16), { from: 13, word: "con" });
  assert.equal(wordAt('name = "ber', 11), null);
  assert.equal(wordAt("loss < 2", 8), null);
  assert.deepEqual(wordAt("loss < 2 and ", 13), { from: 13, word: "" });
  assert.deepEqual(tokens('a>=1 and (b!="x y")').map((t) => t.text), ["a", ">=", "1", "and", "(", "b", "!=", '"x y"', ")"]);
  assert.equal(idsFilter(["a", "b"]), 'id = "a" or id = "b"');
});

test("the address holds the state, and equal states have equal addresses", () => {
  const address = { view: "charts", params: { runs: joinList(["a,b", "c%2C"]), filter: 'name = "x & y" and loss < 2', empty: "" } };
  const text = hashOf(address);
  const back = parseHash(text);
  assert.equal(back.view, "charts");
  assert.deepEqual(list(back.params.runs), ["a,b", "c%2C"]);
  assert.equal(back.params.filter, address.params.filter);
  assert.equal(hashOf(back), text);
  assert.deepEqual(parseHash(""), { view: "runs", params: {} });
  assert.deepEqual(list("a%zz"), ["a%zz"]);
});

const all = (tokens: Token[] | undefined): Token[] => (tokens ?? []).flatMap((t) => [t, ...all((t as { tokens?: Token[] }).tokens), ...((t as { items?: { tokens: Token[] }[] }).items ?? []).flatMap((i) => all(i.tokens))]);
test("no link of a note runs a script, whatever its spelling", () => {
  for (const bad of ["javascript:alert(1)", "JaVaScript:alert(1)", " javascript:alert(1)", "java\nscript:alert(1)", "java\tscript:x", "data:text/html,<script>", "vbscript:x", "file:///etc/passwd", "//evil.example", "\u0001javascript:x", "/other", "blob:x"])
    assert.equal(safeLink(bad), null, bad);
  assert.equal(safeLink("https://example.org/a"), "https://example.org/a");
  assert.equal(safeLink("#/runs"), "#/runs");
  for (const bad of ["https://example.org/a.png", "data:image/png;base64,x", "api/v1/runs/../x/artifacts/1", "javascript:x"]) assert.equal(safeImage(bad), null, bad);
  assert.equal(safeImage("/api/v1/runs/2026-run/artifacts/0123abc"), "api/v1/runs/2026-run/artifacts/0123abc");
});
test("HTML in Markdown stays one token of text, which the page never reads as HTML", () => {
  const kinds = all(parseMarkdown('a <img src=x onerror=alert(1)> b\n\n<script>alert(1)</script>\n\n[x](javascript:alert(1))\n\n- <b>c</b>'));
  assert.ok(kinds.some((t) => t.type === "html" && t.raw.includes("onerror")));
  assert.ok(kinds.some((t) => t.type === "html" && t.raw.includes("<script>")));
  assert.deepEqual(kinds.filter((t) => t.type === "link").map((t) => safeLink((t as unknown as { href: string }).href)), [null]);
});
test("options of a block, first line of a note", () => {
  assert.deepEqual(blockOptions("metric: loss\nruns: a, b\nlogy\nfilter: loss < 2 and tag: x\n# no"), { metric: "loss", runs: "a, b", logy: "true", filter: "loss < 2 and tag: x" });
  assert.equal(firstLine("\n## A **bold** start\nrest"), "A bold start");
});
