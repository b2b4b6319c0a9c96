// What the browser tests share: a server on a fixture, a browser, screenshots, checks of accessibility.
import { spawn, execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

export const root = join(dirname(fileURLToPath(import.meta.url)), "../../..");
export const fixture = process.env.RAMET_FIXTURE ?? join(root, "build/fixture");
const shots = join(root, "build/screenshots");
const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** The first line that a program prints which has an address. */
function addressOf(child) {
  return new Promise((resolve, reject) => {
    let text = "";
    const timer = setTimeout(() => reject(new Error(`no address within a minute: ${text}`)), 60000);
    const read = (chunk) => {
      text += chunk;
      const match = /http:\/\/[^\s"]+/.exec(text);
      if (match) clearTimeout(timer), resolve(match[0]);
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.on("exit", (code) => { clearTimeout(timer); reject(new Error(`the server ended with ${code}: ${text}`)); });
  });
}

/** The server of the page: build/ramet serve where it is (or RAMET_UI_SERVER=mock is not set), else the mock. The mock
 *  has neither tokens nor a choice of ports. `stop(signal)` waits for the server's end. */
export async function startServer(folder = fixture, { port = 0, token = false, state = undefined } = {}) {
  const ramet = process.env.RAMET ?? join(root, "build/ramet");
  const real = process.env.RAMET_UI_SERVER !== "mock" && existsSync(ramet) && canServe(ramet);
  const words = ["serve", "--run-dir", folder, "--port", `${port}`, "--ui-dir", join(root, "ui/dist"), ...(token ? [] : ["--no-token"])];
  const child = real
    ? spawn(ramet, words, { cwd: root, env: { ...process.env, ...(state ? { XDG_STATE_HOME: state } : {}) } })
    : spawn("python3", [join(root, "ui/mock/server.py"), folder], { cwd: root });
  const ended = new Promise((done) => child.on("exit", done));
  const address = await addressOf(child);
  return { real, address, stop: (signal = "SIGINT") => { child.kill(signal); return ended; } };
}
function canServe(ramet) {
  try {
    return execFileSync(ramet, ["serve", "--help"], { stdio: "pipe" }).includes("serve");
  } catch {
    return false;
  }
}

export async function startBrowser() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
}

/** A page that fails the test when it reports an error, breaks the policy of contents or asks another host for anything. */
export async function openPage(browser, server, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1360, height: 860 }, ...options });
  const page = await context.newPage();
  const problems = [];
  page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
  page.on("console", (message) => { if (message.type() === "error" && !/status of 4\d\d/.test(message.text())) problems.push(`console: ${message.text()}`); });
  page.on("request", (request) => { const url = request.url(); if (!url.startsWith(new URL(server.address).origin) && !/^(data|blob|file):/.test(url)) problems.push(`request: ${url}`); });
  page.problems = problems;
  await page.goto(server.address);
  return page;
}
/** Another state of the page by its address. */
export async function go(page, hash) {
  await page.evaluate((h) => { location.hash = h; }, hash);
  await settle(page);
}
export async function settle(page) {
  await page.waitForLoadState("load");
  let quiet = 0, last = -1;
  for (let i = 0; i < 80 && quiet < 3; ++i) {
    await page.waitForTimeout(100);
    const now = await page.evaluate(() => performance.getEntriesByType("resource").length);
    quiet = now === last ? quiet + 1 : 0;
    last = now;
  }
}
export async function shot(page, name) {
  mkdirSync(shots, { recursive: true });
  await page.screenshot({ path: join(shots, `${name}.png`) });
}
/** Breaches of WCAG 2 A and AA that axe finds, as texts. */
export async function axe(page) {
  await page.evaluate(`(() => { const module = undefined, exports = undefined, define = undefined; ${axeSource} })()`).catch(() => {});
  if (!(await page.evaluate(() => "axe" in window))) await page.addScriptTag({ content: axeSource });
  const result = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] }));
  return result.violations.map((v) => `${v.id} (${v.impact}): ${v.nodes.slice(0, 4).map((n) => `${n.target.join(" ")} ${n.failureSummary?.split("\n")[1]?.trim() ?? ""}`).join(" | ")}`);
}
