// Screenshots of all views, for people: node tests/browser/look.mjs [NAME...]
import { go, openPage, settle, shot, startBrowser, startServer } from "./tools.mjs";
const P = "2026-01-01-pipeline-aaaaa1", A = "2026-01-01-shards-aaaaa2", L = "2026-01-01-plain-aaaaa3";
const sweep = Array.from({ length: 9 }, (_, i) => `2026-01-02-sweep-bbbbb${i + 1}`).join(",");
export const views = {
  runs: "#/runs", "runs-chosen": `#/runs?runs=${P},${A}`, "runs-group": "#/runs?group=config.train.schedule.learning_rate&filter=group%20%3D%20%22rates%22", charts: `#/charts?runs=${sweep}&smooth=0.6`, "charts-group": `#/charts?runs=${sweep}&groupby=config.train.schedule.learning_rate`,
  compare: `#/compare?runs=${P},${A},${L}`, parameters: "#/parameters?filter=group%20%3D%20%22rates%22&metric=loss", run: `#/run?id=${P}`, memory: `#/run?id=${P}&tab=memory`, "memory-other": `#/run?id=${P}&tab=memory&other=${L}`, time: `#/run?id=${P}&tab=time`,
  flame: `#/run?id=${P}&tab=time&trace=flame`, supersteps: `#/run?id=${A}&tab=time&trace=supersteps`, plain: `#/run?id=${L}&tab=time`, numerics: `#/run?id=${P}&tab=numerics`, media: `#/run?id=${P}&tab=media`, system: `#/run?id=${P}&tab=system`,
  config: `#/run?id=${P}&tab=config`, events: `#/run?id=${P}&tab=events`, sweeps: "#/sweeps", sweep: "#/sweeps?name=rates", reports: "#/reports", views: "#/views", query: "#/query?q=select%201",
};
const wanted = process.argv.slice(2);
const server = await startServer(), browser = await startBrowser();
try {
  for (const scheme of wanted.includes("dark") ? ["dark"] : ["light"]) {
    const page = await openPage(browser, server, { colorScheme: scheme, ...(wanted.includes("phone") ? { viewport: { width: 390, height: 844 } } : wanted.includes("tall") ? { viewport: { width: 1360, height: 2200 } } : {}) });
    for (const [name, hash] of Object.entries(views)) {
      if (wanted.some((w) => w in views) && !wanted.includes(name)) continue;
      await go(page, hash);
      await settle(page);
      await shot(page, `look-${name}${scheme === "dark" ? "-dark" : ""}${wanted.includes("phone") ? "-phone" : ""}`);
    }
    console.log(page.problems.join("\n"));
  }
} finally { await browser.close(); server.stop(); }
