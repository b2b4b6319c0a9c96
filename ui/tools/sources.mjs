// The hash of all that the page is built from; tests/ui/dist_test.py computes the same without Node.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";

const kFiles = ["index.html", "package.json", "package-lock.json", "svelte.config.js", "tsconfig.json", "vite.config.ts"];
const kFolders = ["public", "src", "tools"];

function filesBelow(root, folder) {
  return readdirSync(join(root, folder)).flatMap((name) => {
    const path = `${folder}/${name}`;
    return statSync(join(root, path)).isDirectory() ? filesBelow(root, path) : [path];
  });
}

/** SHA-256 over the name, the length and the bytes of every source, in the order of the names' bytes. */
export function hashOfSources(root) {
  const names = [...kFiles, ...kFolders.flatMap((folder) => filesBelow(root, folder))];
  names.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  const hash = createHash("sha256");
  for (const name of names) {
    const contents = readFileSync(join(root, name));
    hash.update(`${name}\0${contents.length}\0`);
    hash.update(contents);
  }
  return hash.digest("hex");
}
