import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("../..", import.meta.url));
let made: Promise<URL> | undefined;

/** The code of the thread that writes checkpoints, made from the sources: a thread cannot run TypeScript. */
export function saveThreadUrl(): Promise<URL> {
  made ??= bundle();
  return made;
}

async function bundle(): Promise<URL> {
  // Inside the project, so that the thread finds its packages.
  const folder = mkdtempSync(join(root, "node_modules/.cairn-test-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  const outfile = join(folder, "save-thread.mjs");
  await build({
    entryPoints: [join(root, "src/training/save-thread.ts")],
    outfile,
    bundle: true,
    platform: "node",
    format: "esm",
    packages: "external",
    alias: {
      "#compression": join(root, "src/platform/node/compression.ts"),
      "#hashing": join(root, "src/platform/node/hashing.ts"),
    },
    logLevel: "error",
  });
  return pathToFileURL(outfile);
}
