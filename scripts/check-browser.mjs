// Checks that every subpath of the package but Node's own can be bundled for browsers without anything of Node, and says
// how large that is.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { browserSubpaths, bundleForBrowser, root } from "./browser-bundle.mjs";

const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const folder = mkdtempSync(join(root, "dist/.browser-"));
const gzipBytes = (path) => gzipSync(readFileSync(path)).length;
try {
  const subpaths = browserSubpaths(exports);
  const entry = join(folder, "all.mjs");
  writeFileSync(
    entry,
    subpaths.map(([, target], i) => `export * as s${i} from ${JSON.stringify(join(root, target))};`).join("\n"),
  );
  const { nodeImports } = await bundleForBrowser({ entryPoints: [entry], outdir: join(folder, "out") });
  for (const line of nodeImports) console.error(line);
  if (nodeImports.length > 0) {
    console.error(`${nodeImports.length} imports of Node in what browsers load`);
    process.exitCode = 1;
  }
  const sizes = readdirSync(join(folder, "out")).map((name) => gzipBytes(join(folder, "out", name)));
  const rootOut = join(folder, "root");
  const { metafile } = await bundleForBrowser({
    entryPoints: { cairn: join(root, exports["."]) },
    outdir: rootOut,
  });
  const first = loadedFirst(metafile).map((path) => gzipBytes(join(root, path)));
  const kB = (list) => `${Math.round(list.reduce((sum, size) => sum + size, 0) / 1000)} kB`;
  console.log(`browsers: ${subpaths.length} subpaths, ${kB(sizes)} gzipped in all; "cairn" alone loads ${kB(first)}`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** The outputs that the entry needs before anything is called. */
function loadedFirst({ outputs }) {
  const entry = Object.keys(outputs).find((path) => outputs[path].entryPoint !== undefined);
  const found = new Set([entry]);
  for (const path of found) {
    for (const { path: imported, kind } of outputs[path].imports) if (kind === "import-statement") found.add(imported);
  }
  return [...found];
}
