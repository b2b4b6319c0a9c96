// The page's door and its company: links that open one session, two tabs, servers that are killed and come back.
import assert from "node:assert/strict";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fixture, openPage, shot, startBrowser, startServer } from "./tools.mjs";

const plain = "2026-01-01-plain-aaaaa3";
let folder, state, browser, server;
function freePort() {
  return new Promise((done) => {
    const socket = createServer().listen(0, "127.0.0.1", () => { const { port } = socket.address(); socket.close(() => done(port)); });
  });
}
before(async () => {
  folder = mkdtempSync(join(tmpdir(), "ramet-doors-"));
  state = mkdtempSync(join(tmpdir(), "ramet-state-"));
  cpSync(fixture, folder, { recursive: true });
  browser = await startBrowser();
  // Sessions are kept for a port that was asked for.
  server = await startServer(folder, { port: await freePort(), token: true, state });
});
after(async () => {
  await browser?.close();
  await server?.stop();
  for (const made of [folder, state]) rmSync(made, { recursive: true, force: true });
});

const rows = (page) => page.waitForSelector("[role=row][data-index]");

test("a link opens one session, two tabs share it, and it outlives the server", async (context) => {
  if (!server.real) return context.skip("the mock has no tokens");
  const link = server.address, bare = new URL(link).origin;
  const stranger = await browser.newContext();
  const closed = await stranger.newPage();
  assert.equal((await closed.goto(bare)).status(), 401);
  await shot(closed, "without-a-session");

  const first = await openPage(browser, server);
  await rows(first);
  assert.ok(!first.url().includes("token"), first.url());
  assert.equal((await closed.goto(link)).status(), 401, "the link opened a second session");

  // A second tab of the same browser: what one changes, the other shows without a reload.
  const second = await first.context().newPage();
  await second.goto(bare);
  await rows(second);
  await second.waitForSelector(".state.on");
  const row = first.locator("[role=row][data-index]").filter({ hasText: "aaaaa3" });
  await row.focus();
  await first.keyboard.press("t");
  await first.getByRole("textbox", { name: "Tags" }).fill("from-the-first-tab");
  await first.keyboard.press("Enter");
  await second.locator(".tag", { hasText: "from-the-first-tab" }).waitFor({ timeout: 15000 });

  // Killed, and started again on its port: both tabs find their way back, with the session they had.
  const port = Number(new URL(bare).port);
  await server.stop("SIGKILL");
  await first.waitForSelector(".state:not(.on)", { timeout: 15000 });
  server = await startServer(folder, { port, token: true, state });
  for (const page of [first, second]) await page.waitForSelector(".state.on", { timeout: 30000 });
  const answer = await second.evaluate((id) => fetch(`api/v1/runs/${id}`, { method: "PATCH", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ group: "after-the-restart" }) }).then((a) => a.status), plain);
  assert.equal(answer, 200);
  await first.getByRole("gridcell", { name: "after-the-restart" }).waitFor({ timeout: 15000 });
  // While the server was away, browsers write a line of their own about each request that failed.
  assert.deepEqual(first.problems.filter((text) => !/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE/.test(text)), []);
  await first.context().close();
  await stranger.close();
});
