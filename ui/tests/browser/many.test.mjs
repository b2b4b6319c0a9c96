// Ten thousand real runs, and charts of a hundred long ones. The times are printed; with RAMET_TIMED=1, on a machine that
// does nothing else, they must keep to the bars: a second for the list, 300 ms for the chart, a second for the first paint.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { go, openPage, root, shot, startBrowser, startServer } from "./tools.mjs";

const maker = join(root, "build/bench/catalogue");
const long = Array.from({ length: 100 }, (_, i) => `2026-01-01-made-${String(i).padStart(6, "0")}`);
const slack = process.env.RAMET_TIMED ? 1 : 20;
let folder, server, browser;

before(async () => {
  if (!existsSync(maker)) return;
  folder = mkdtempSync(join(tmpdir(), "ramet-many-"));
  const short = join(folder, "short");
  execFileSync(maker, ["make", short, "9900", "20", "4"]);
  for (const name of readdirSync(short)) renameSync(join(short, name), join(folder, name.replace("made", "short")));
  rmSync(short, { recursive: true });
  execFileSync(maker, ["make", folder, "100", "10000", "1"]);
  execFileSync(join(root, "build/ramet"), ["runs", "reindex", "--run-dir", folder]);
  [server, browser] = [await startServer(folder), await startBrowser()];
});
after(async () => {
  await browser?.close();
  await server?.stop();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

const skip = existsSync(maker) ? false : "needs build/bench/catalogue";

test("ten thousand runs are listed, sorted and filtered", { skip }, async () => {
  const page = await openPage(browser, server);
  await page.waitForSelector("[role=row][data-index]");
  const times = await page.evaluate(async () => {
    const paint = performance.getEntriesByName("first-contentful-paint")[0].startTime;
    return { paint, listed: performance.getEntriesByType("resource").filter((r) => /api\/v1\/runs/.test(r.name)).map((r) => r.responseEnd)[0] };
  });
  assert.equal(await page.locator("[role=grid]").getAttribute("aria-rowcount"), "10001");
  const filter = page.getByRole("combobox", { name: "Filter" });
  const start = Date.now();
  await filter.fill('name = "made" and loss < 0.5 and config.train.seed = 3');
  await filter.press("Enter");
  await page.waitForFunction(() => document.querySelector("[role=grid]").getAttribute("aria-rowcount") !== "10001");
  const filtered = Date.now() - start;
  console.log(JSON.stringify({ runs: 10000, first_paint_ms: Math.round(times.paint), listed_ms: Math.round(times.listed), filtered_ms: filtered, load: loadavg()[0] }));
  assert.ok(times.paint < 1000 * slack && times.listed < 1000 * slack && filtered < 1000 * slack);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a chart of a hundred runs of ten thousand points", { skip }, async () => {
  const page = await openPage(browser, server);
  await page.waitForSelector("[role=row][data-index]");
  const measured = [];
  for (const smooth of ["", "&smooth=0.6", ""]) {
    await go(page, "#/views");
    // From the click to the frame in which the chart stands: the request, the answer and the drawing.
    measured.push(await page.evaluate(async (hash) => {
      const start = performance.now();
      location.hash = hash;
      for (;;) {
        await new Promise(requestAnimationFrame);
        if (document.querySelector(".uplot canvas") && /100 lines/.test(document.querySelector("main").textContent)) break;
        if (performance.now() - start > 60000) throw new Error(document.querySelector("main").textContent.slice(0, 300));
      }
      await new Promise(requestAnimationFrame);
      return performance.now() - start;
    }, `#/charts?runs=${long.join(",")}&metrics=loss${smooth}`));
  }
  await shot(page, "hundred-runs");
  const best = Math.min(...measured);
  console.log(JSON.stringify({ runs: 100, points: 1000000, chart_ms: measured.map(Math.round), load: loadavg()[0] }));
  assert.ok(best < 300 * slack, `${measured}`);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
