import { createHash, randomUUID } from "node:crypto";
import { existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
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
  const { outputFiles } = await build({
    entryPoints: [join(root, "src/training/save-thread.ts")],
    write: false,
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
  const code = outputFiles[0]?.contents ?? new Uint8Array(0);
  // Inside the project, so that the thread finds its packages; named by its content, so that test files can share it.
  const folder = join(root, ".cache/test");
  const path = join(folder, `save-thread-${createHash("sha256").update(code).digest("hex").slice(0, 16)}.mjs`);
  if (!existsSync(path)) {
    mkdirSync(folder, { recursive: true });
    const temporary = `${path}.${randomUUID()}`;
    writeFileSync(temporary, code);
    renameSync(temporary, path);
  }
  return pathToFileURL(path);
}
