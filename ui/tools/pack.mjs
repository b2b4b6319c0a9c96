// Compresses what Vite built (build/) into dist/: one .gz a file, and manifest.json with names, types, sizes and the hash of the sources.
import { mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { createHash } from "node:crypto";
import { hashOfSources } from "./sources.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const built = join(root, "build");
const dist = process.argv[2] ?? join(root, "dist");
const kTypes = { ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml" };
const kMostBytes = 300 * 1024;

function filesBelow(folder) {
  return readdirSync(folder).sort().flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? filesBelow(path) : [path];
  });
}

rmSync(dist, { recursive: true, force: true });
const files = [];
for (const path of filesBelow(built)) {
  const name = path.slice(built.length + 1);
  const type = kTypes[extname(name)];
  if (!type) throw new Error(`pack: no content type for ${name}`);
  const contents = readFileSync(path);
  const packed = gzipSync(contents, { level: 9 });
  packed[9] = 255; // the byte that names the system which compressed
  mkdirSync(dirname(join(dist, name)), { recursive: true });
  writeFileSync(join(dist, `${name}.gz`), packed);
  files.push({ name, type, bytes: contents.length, compressed: packed.length, sha256: createHash("sha256").update(contents).digest("hex") });
}
const total = files.reduce((sum, file) => sum + file.compressed, 0);
if (total > kMostBytes) throw new Error(`pack: ${total} bytes compressed; the page has at most ${kMostBytes}`);
const manifest = { version: 1, sources: hashOfSources(root), files };
writeFileSync(join(dist, "manifest.json"), JSON.stringify(manifest, null, 1) + "\n");
for (const file of files) console.log(`${String(file.compressed).padStart(8)}  ${file.name}`);
console.log(`${String(total).padStart(8)}  bytes compressed`);
