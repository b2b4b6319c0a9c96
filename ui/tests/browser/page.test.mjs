// The page in a browser, on runs that were trained for it (mock/fixture.sh).
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { axe, fixture, go, openPage, root, settle, shot, startBrowser, startServer } from "./tools.mjs";

const P = "2026-01-01-pipeline-aaaaa1", S = "2026-01-01-shards-aaaaa2", L = "2026-01-01-plain-aaaaa3", K = "2026-01-01-planned-aaaaa4";
const sweep = Array.from({ length: 9 }, (_, i) => `2026-01-02-sweep-bbbbb${i + 1}`);
let folder, server, browser;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), "ramet-page-"));
  cpSync(fixture, folder, { recursive: true });
  [server, browser] = [await startServer(folder), await startBrowser()];
  console.log(`server: ${server.real ? "ramet serve" : "mock"}`);
});
after(async () => {
  await browser?.close();
  server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** A test of one page, which must report no error, break no policy and ask no other host. */
function pageTest(name, run, options) {
  test(name, async () => {
    const page = await openPage(browser, server, options);
    try {
      await run(page);
      assert.deepEqual(page.problems, []);
    } catch (error) {
      await shot(page, `failed-${name.replace(/\W+/g, "-")}`).catch(() => {});
      throw error;
    } finally {
      await page.context().close();
    }
  });
}

const views = {
  runs: `#/runs?runs=${P}`, groups: "#/runs?group=group", charts: `#/charts?runs=${P},${L}`, band: `#/charts?runs=${sweep.join(",")}&groupby=config.train.schedule.learning_rate`, compare: `#/compare?runs=${P},${S},${L}`,
  parameters: "#/parameters?metric=loss", run: `#/run?id=${P}`, metrics: `#/run?id=${P}&tab=metrics`, memory: `#/run?id=${P}&tab=memory&other=${L}`, time: `#/run?id=${P}&tab=time`, flame: `#/run?id=${P}&tab=time&trace=flame`, supersteps: `#/run?id=${S}&tab=time&trace=supersteps`,
  unprofiled: `#/run?id=${L}&tab=time`, planned: `#/run?id=${K}&tab=time&other=${P}`, numerics: `#/run?id=${P}&tab=numerics`, media: `#/run?id=${P}&tab=media`, system: `#/run?id=${P}&tab=system`, config: `#/run?id=${P}&tab=config`, events: `#/run?id=${P}&tab=events`,
  sweeps: "#/sweeps", reports: "#/reports", views: "#/views", query: "#/query?q=select%201",
};
for (const scheme of ["light", "dark"])
  pageTest(`every view opens without a fault and is accessible, ${scheme}`, async (page) => {
    const found = [];
    for (const [name, hash] of Object.entries(views)) {
      await go(page, hash);
      await settle(page);
      await shot(page, `${name}-${scheme}`);
      for (const breach of await axe(page)) found.push(`${name}: ${breach}`);
    }
    assert.deepEqual(found, []);
  }, { colorScheme: scheme });

pageTest("on a phone nothing is wider than the screen, and all views can be reached", async (page) => {
  for (const [name, hash] of Object.entries(views)) {
    await go(page, hash);
    await shot(page, `${name}-phone`);
    const [width, inner] = await page.evaluate(() => { const main = document.querySelector("main"); return [Math.max(document.documentElement.scrollWidth, main.scrollWidth - main.clientWidth + innerWidth), innerWidth]; });
    assert.ok(width <= inner + 1, `${name}: ${width} > ${inner}`);
  }
  await page.click('nav[aria-label="Views"] a:has-text("Charts")');
  await page.waitForSelector("h1:has-text('Charts')");
}, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });

pageTest("the page is small, and paints soon", async (page) => {
  await page.waitForSelector("[role=row][data-index]");
  const facts = await page.evaluate(() => ({
    bytes: performance.getEntriesByType("resource").filter((r) => /assets|favicon/.test(r.name)).reduce((sum, r) => sum + r.encodedBodySize, 0) + performance.getEntriesByType("navigation")[0].encodedBodySize,
    paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
  }));
  console.log(`page: ${facts.bytes} bytes compressed, first contentful paint after ${Math.round(facts.paint)} ms`);
  assert.ok(facts.bytes > 1000 && facts.bytes <= 300 * 1024, `${facts.bytes}`);
});

pageTest("runs: search, filter, a faulty filter, sort, choose by keyboard", async (page) => {
  const rows = () => page.locator("[role=row][data-index]");
  await page.waitForSelector("[role=row][data-index]");
  assert.equal(await rows().count(), 13);
  const filter = page.getByRole("combobox", { name: "Filter" });
  await filter.fill('group = "rates" and config.train.seed = 1');
  await filter.press("Enter");
  await page.waitForFunction(() => document.querySelectorAll("[role=row][data-index]").length === 3);
  assert.match(page.url(), /filter=/);
  await filter.fill("loss < (");
  await filter.press("Enter");
  await page.waitForSelector("#filter-problem");
  await filter.fill("sweep");
  await filter.press("Enter");
  await page.waitForFunction(() => document.querySelectorAll("[role=row][data-index]").length === 9);
  await page.getByRole("button", { name: "Clear the filter" }).click();
  await page.waitForFunction(() => document.querySelectorAll("[role=row][data-index]").length === 13);
  await page.getByRole("columnheader", { name: "loss", exact: true }).getByRole("button").click();
  await page.waitForSelector('[role=columnheader][aria-sort="descending"]:has-text("loss")');
  await settle(page);
  const losses = await page.locator("[role=row][data-index] [role=gridcell]:nth-child(11)").allTextContents();
  assert.deepEqual(losses.map(Number), losses.map(Number).toSorted((a, b) => b - a));
  await page.locator('[data-index="0"]').focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Space");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("x");
  assert.equal(await page.locator('[role=row][aria-selected="true"]').count(), 2);
  await page.getByRole("toolbar", { name: "Chosen runs" }).getByRole("link", { name: "Compare" }).click();
  await page.waitForSelector("h2:has-text('Configuration')");
});

pageTest("keys are completed in the filter", async (page) => {
  const filter = page.getByRole("combobox", { name: "Filter" });
  await page.waitForSelector("[role=row][data-index]");
  await filter.pressSequentially("config.train.sched");
  await page.waitForSelector("[role=option]");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  assert.match(await filter.inputValue(), /^config\.train\.schedule\.\w+ $/);
});

pageTest("annotations are edited in place, and a note's HTML stays text", async (page) => {
  await page.waitForSelector("[role=row][data-index]");
  const row = page.locator("[role=row][data-index]").filter({ hasText: "aaaaa3" });
  await row.focus();
  await page.keyboard.press("t");
  await page.getByRole("textbox", { name: "Tags" }).fill("baseline, good");
  await page.keyboard.press("Enter");
  await row.locator(".tag", { hasText: "baseline" }).waitFor();
  await row.focus();
  await page.keyboard.press("n");
  await page.getByRole("textbox", { name: /Note/ }).fill('**Strong** <img src=x onerror="document.title=1"> [x](javascript:alert(1))');
  await page.waitForSelector("dialog strong");
  assert.equal(await page.locator("dialog .markdown img, dialog .markdown a").count(), 0);
  await page.getByRole("button", { name: "Save" }).click();
  await row.locator(".note", { hasText: "Strong" }).waitFor();
  await page.reload();
  await row.locator(".tag", { hasText: "good" }).waitFor();
  const kept = JSON.parse(readFileSync(join(folder, L, "annotations.json"), "utf8"));
  assert.deepEqual([kept.tags, kept.note.startsWith("**Strong**")], [["baseline", "good"], true]);
});

pageTest("ten thousand runs scroll with few rows in the page", async (page) => {
  const asked = [];
  await page.route("**/api/v1/runs?*", async (route) => {
    const url = new URL(route.request().url()), offset = Number(url.searchParams.get("offset") ?? 0), limit = Number(url.searchParams.get("limit"));
    asked.push(offset);
    const runs = Array.from({ length: Math.max(0, Math.min(limit, 10000 - offset)) }, (_, i) => ({ id: `2026-01-01-run-${offset + i}`, name: `run-${offset + i}`, status: "done", started: 1.76e9 - offset - i, ended: 1.76e9, steps: i, group: "", tags: [], pinned: false, colour: "", archived: false, note: "", units: "tokens", samples_per_step: 1, units_per_step: 1, alerts: 0, parent: "", columns: {} }));
    await route.fulfill({ json: { total: 10000, runs } });
  });
  await page.reload();
  await page.waitForSelector("[role=row][data-index]");
  const most = [];
  for (const part of [0.3, 0.71, 1]) {
    await page.locator("[role=grid]").evaluate((grid, p) => { grid.scrollTop = p * (grid.scrollHeight - grid.clientHeight); }, part);
    await page.waitForTimeout(200);
    most.push(await page.locator("[role=row]").count());
  }
  await page.locator('[data-index="9999"]').getByText("run-9999").waitFor();
  assert.ok(Math.max(...most) < 80, `${most}`);
  assert.ok(asked.length < 12, `${asked}`);
  assert.equal(await page.locator("[role=grid]").getAttribute("aria-rowcount"), "10001");
});

pageTest("charts: a zoom asks the server for that range, and the address is the view", async (page) => {
  await go(page, `#/charts?runs=${sweep.slice(0, 3).join(",")}&metrics=loss,step_seconds&smooth=0.5`);
  await page.waitForSelector(".uplot");
  assert.equal(await page.locator(".uplot").count(), 2);
  const zoomed = page.waitForRequest((r) => r.url().endsWith("/series") && JSON.parse(r.postData()).from !== null);
  const box = await page.locator(".u-over").first().boundingBox();
  await page.mouse.move(box.x + box.width * 0.4, box.y + 50);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.7, box.y + 60, { steps: 4 });
  await page.mouse.up();
  const body = JSON.parse((await zoomed).postData());
  assert.ok(body.from > 10 && body.to < 32 && body.to - body.from > 8, JSON.stringify(body));
  assert.match(page.url(), /from=\d.*to=\d/);
  await page.reload();
  await page.waitForSelector(".uplot");
  assert.match(page.url(), /from=\d.*smooth=0.5.*to=\d/);
  await page.locator(".u-over").first().hover({ position: { x: 100, y: 60 } });
  await page.waitForSelector(".tip");
  assert.match(await page.locator(".tip").textContent(), /step.*bert-mini.*raw/s);
  await page.locator(".chart").first().focus();
  await page.keyboard.press("0");
  await page.waitForFunction(() => !location.hash.includes("from="));
  for (const [kind, pattern] of [["CSV", /^line,step,loss,min,max,points\n/], ["SVG", /^<svg /], ["PNG", /^.PNG/]]) {
    await page.locator("summary[aria-label='Save loss']").click();
    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: kind, exact: true }).first().click();
    assert.match(readFileSync(await (await download).path(), "latin1"), pattern);
    await page.locator("summary[aria-label='Save loss']").click();
  }
});

pageTest("charts: groups are drawn as mean and band, hidden runs are left out", async (page) => {
  await go(page, views.band);
  await page.waitForSelector(".uplot");
  assert.match(await page.getByRole("region", { name: "loss", exact: true }).textContent(), /3 lines, 360 points/);
  await go(page, `#/charts?runs=${P},${L}&metrics=loss`);
  await page.waitForSelector(".uplot");
  await page.getByRole("button", { name: `Show bert-mini ${L}` }).click();
  await page.getByText("1 line, 60 points").waitFor();
});

pageTest("memory: an instant taken apart, by pointer and by keyboard", async (page) => {
  await go(page, `#/run?id=${P}&tab=memory`);
  const slider = page.getByRole("slider", { name: /Live memory/ });
  await slider.waitFor();
  await page.getByRole("heading", { name: /Instant .*the peak/ }).waitFor();
  const plan = JSON.parse(readFileSync(join(folder, P, "plan.json"), "utf8"));
  assert.match(await page.locator("section", { hasText: "Devices at their peak" }).first().textContent(), new RegExp(`instant ${plan.stages[0].peak_instant}`));
  const box = await slider.boundingBox();
  await page.mouse.click(box.x + box.width * 0.8, box.y + 100);
  await page.waitForFunction(() => /[?&]at=\d+/.test(location.hash));
  const at = Number(/[?&]at=(\d+)/.exec(page.url())[1]);
  await slider.focus();
  await page.keyboard.press("ArrowLeft");
  await page.getByRole("heading", { name: new RegExp(`Instant ${at - 1}:`) }).waitFor();
  await page.keyboard.press("p");
  await page.getByRole("heading", { name: /the peak/ }).waitFor();
  await page.getByRole("searchbox", { name: "Search tensors" }).fill("word_embeddings");
  await page.waitForFunction(() => [...document.querySelectorAll("td.name")].length > 0 && [...document.querySelectorAll("td.name")].every((td) => td.textContent.includes("word_embeddings")));
  await page.getByRole("button", { name: /Device 1 / }).click();
  await page.getByRole("heading", { name: "Live memory of stage 1" }).waitFor();
});

pageTest("time: the tables' sum is the profile's, and all traces are drawn", async (page) => {
  await go(page, `#/run?id=${P}&tab=time`);
  await page.getByRole("heading", { name: "Execution trace" }).waitFor();
  const times = JSON.parse(readFileSync(join(folder, P, "times.json"), "utf8"));
  const trained = new Set(JSON.parse(readFileSync(join(folder, P, "program.json"), "utf8")).stages[0].programs.train.filter((s) => s.kind === "run").map((s) => s.subject));
  const names = JSON.parse(readFileSync(join(folder, P, "program.json"), "utf8")).stages[0].segments.filter((_, i) => trained.has(i)).map((s) => s.name);
  const expected = times.devices[0].kernels.filter((k) => names.includes(k.segment)).reduce((sum, k) => sum + k.seconds, 0) / times.steps;
  const shown = await page.locator("tr.sum td").nth(2).textContent();
  const value = Number.parseFloat(shown) * (shown.includes("ms") ? 1e-3 : shown.includes("µs") ? 1e-6 : 1);
  assert.ok(Math.abs(value / expected - 1) < 0.02, `${shown} for ${expected}`);
  for (const name of ["Flame by layer", "Supersteps", "Flat"]) {
    await page.getByRole("button", { name }).click();
    const painted = await page.getByRole("application").evaluate((canvas) => { const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data; const seen = new Set(); for (let i = 0; i < pixels.length; i += 4) seen.add(`${pixels[i]},${pixels[i + 1]},${pixels[i + 2]}`); return seen.size; });
    assert.ok(painted > 8, `${name}: ${painted} colours`);
  }
  await page.getByRole("application").focus();
  await page.keyboard.press("+");
  await page.waitForFunction(() => location.hash.includes("t0="));
  await page.getByRole("treeitem", { name: /train/ }).click();
  await page.getByRole("treeitem", { name: /superstep 0/ }).focus();
  await page.keyboard.press("ArrowRight");
  await page.locator('[role=treeitem][aria-level="3"]', { hasText: "run 'forward0'" }).first().click();
  await page.getByRole("link", { name: "Memory at this instant" }).click();
  await page.getByRole("heading", { name: /Live memory/ }).waitFor();
  await go(page, `#/run?id=${L}&tab=time`);
  await page.getByText("ramet train --profile").waitFor();
});

pageTest("a plan stands beside a run: its lanes, its operations, its tensors", async (page) => {
  await go(page, `#/run?id=${P}&tab=time&other=${K}`);
  await page.getByRole("application", { name: /Execution trace of 6 lanes/ }).waitFor();
  await page.getByText("Of the other one there are predictions alone.").waitFor();
  await go(page, `#/run?id=${K}&tab=time&other=${P}`);
  await page.getByText("A step, predicted").waitFor();
  assert.equal(await page.getByText("A step, measured").count(), 0);
  await page.getByRole("application", { name: /Execution trace of 4 lanes/ }).waitFor();
  await go(page, `#/run?id=${K}&tab=memory&other=${L}`);
  await page.getByRole("heading", { name: /Live memory/ }).first().waitFor();
  await shot(page, "plan-and-run");
  await go(page, `#/compare?runs=${K},${P}`);
  await page.waitForSelector("h2:has-text('Configuration')");
});

pageTest("parameters: a brush keeps a range, and lives in the address", async (page) => {
  await go(page, "#/parameters?filter=group%20%3D%20%22rates%22&metric=loss");
  const plot = page.getByRole("img", { name: /Parallel coordinates of 9 runs/ });
  await plot.waitFor();
  await page.getByText("9 of 9 runs").waitFor();
  const box = await plot.boundingBox();
  await page.mouse.move(box.x + 57, box.y + 45);
  await page.mouse.down();
  await page.mouse.move(box.x + 57, box.y + 120, { steps: 4 });
  await page.mouse.up();
  await page.getByText("3 of 9 runs").waitFor();
  await page.reload();
  await page.getByText("3 of 9 runs").waitFor();
});

pageTest("reports: written, with live charts, kept, deleted", async (page) => {
  await go(page, "#/reports");
  await page.getByRole("textbox", { name: "Title of a new report" }).fill("Rates and seeds");
  await page.getByRole("button", { name: "New report" }).click();
  const editor = page.getByRole("textbox", { name: "Report in Markdown" });
  await editor.waitFor();
  await editor.fill(`# Rates\n\n<script>document.title = "no"</script>\n\n\`\`\`chart\nmetric: loss\nruns: ${sweep.slice(0, 3).join(", ")}\n\`\`\`\n\n\`\`\`runs\nruns: ${sweep[0]}\ncolumns: loss, config.train.seed\n\`\`\`\n`);
  await page.locator("article", { hasText: "<script>document.title" }).waitFor();
  await page.waitForSelector("article .uplot");
  await page.waitForSelector("article table");
  assert.equal(await page.locator("article script").count(), 0);
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("The report was saved").waitFor();
  await page.reload();
  await page.waitForSelector("article .uplot");
  await shot(page, "report");
  await go(page, "#/reports");
  page.on("dialog", (dialog) => dialog.accept());
  await page.getByRole("row", { name: /rates-and-seeds/ }).getByRole("button", { name: "Delete" }).click();
  await page.getByText("No reports yet").waitFor();
});

pageTest("saved views: the state comes back", async (page) => {
  await go(page, `#/charts?runs=${P}&metrics=loss&logy=1`);
  await page.getByRole("button", { name: "Save view" }).click();
  await page.getByRole("textbox", { name: "Title" }).fill("Loss of the pipeline");
  await page.locator("dialog").getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved as").waitFor();
  await go(page, "#/views");
  await page.getByRole("link", { name: "Loss of the pipeline" }).click();
  await page.waitForFunction(() => location.hash.includes("logy=1"));
  assert.equal(await page.getByRole("checkbox", { name: "log y" }).isChecked(), true);
});

pageTest("an exported page shows the run without any server", async (page) => {
  await go(page, `#/run?id=${P}&tab=memory`);
  await page.getByRole("heading", { name: /Live memory/ }).waitFor();
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export HTML" }).click();
  const path = join(folder, "export.html");
  await (await download).saveAs(path);
  const alone = await browser.newContext({ offline: true });
  const other = await alone.newPage(), faults = [], requests = [];
  other.on("pageerror", (error) => faults.push(error.message));
  other.on("request", (request) => { if (!/^(file|data|blob):/.test(request.url())) requests.push(request.url()); });
  await other.goto(`file://${path}`);
  await other.getByRole("heading", { name: /Live memory/ }).waitFor();
  await other.evaluate((id) => { location.hash = `#/charts?runs=${id}&metrics=loss`; }, P);
  await other.waitForSelector(".uplot");
  await other.evaluate((ids) => { location.hash = `#/compare?runs=${ids}`; }, `${P},${L}`);
  await other.getByText("does not hold").waitFor();
  await other.evaluate(() => { location.hash = "#/runs"; });
  await other.waitForSelector("[role=row][data-index]");
  await shot(other, "exported");
  assert.deepEqual([faults, requests], [[], []]);
  await alone.close();
});

pageTest("hints of the server bring news without a reload", async (page) => {
  await page.waitForSelector(".state.on");
  await page.waitForSelector("[role=row][data-index]");
  const answer = await page.evaluate((id) => fetch(`api/v1/runs/${id}`, { method: "PATCH", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ group: "from-elsewhere" }) }).then((a) => a.status), S);
  assert.equal(answer, 200);
  await page.getByRole("gridcell", { name: "from-elsewhere" }).waitFor({ timeout: 10000 });
});

test("a run that trains appears and grows on an open page", async (context) => {
  const ramet = process.env.RAMET ?? join(root, "build/ramet");
  if (!server.real) return context.skip("the mock reads runs once");
  const page = await openPage(browser, server);
  await page.waitForSelector(".state.on");
  const trained = spawn(ramet, ["train", "examples/bert-mini.toml", "--run", join(folder, "2026-01-03-live-ccccc1"), "--json", "--set", "train.steps=1000000", "--set", "model.layers=2", "--set", "model.hidden=64", "--set", "model.intermediate=128", "--set", "model.heads=2", "--set", "model.vocabulary_size=500", "--set", "train.micro_batch=4", "--set", "data.sequence_length=32"], { cwd: root, stdio: "ignore" });
  try {
    await page.getByRole("row", { name: /ccccc1/ }).waitFor({ timeout: 60000 });
    await go(page, "#/charts?runs=2026-01-03-live-ccccc1&metrics=loss");
    const points = async () => Number(/([\d,.]+) points/.exec(await page.getByRole("region", { name: "loss" }).textContent())?.[1].replace(/,/g, "") ?? 0);
    const first = await points();
    for (let i = 0; i < 100 && (await points()) <= first; ++i) await page.waitForTimeout(200);
    assert.ok((await points()) > first, `${first} points stayed`);
    assert.deepEqual(page.problems, []);
  } finally {
    trained.kill("SIGINT");
    await new Promise((done) => { if (trained.exitCode !== null) done(); else trained.on("exit", done); });
    await page.context().close();
  }
});
