import { UsageError } from "../errors.js";
import type { FileStore } from "./file-store.js";
import { baseName, parentPath } from "./path.js";

/**
 * Looks, before any work is done, whether a file may be written at a path.
 * @throws {@link UsageError} (`exists`) when there is one and `overwrite` is not set, (`usage`) for a directory or no name
 */
export async function checkOutputFile(files: FileStore, path: string, overwrite = false): Promise<void> {
  if (baseName(path) === "" || path.endsWith("/")) {
    throw new UsageError("usage", `no file name: "${path}"`, { hint: "Name the file to write." });
  }
  const info = await files.stat(path);
  if (info?.kind === "directory") {
    throw new UsageError("usage", "the output is a directory", { file: path, hint: "Name a file in it." });
  }
  if (info !== undefined && !overwrite) throw outputExists(path);
}

/**
 * Looks whether a directory may be written at a path: one that exists is replaced as a whole, so `isReplaceable` says
 * whether it is of the kind that is written.
 * @throws {@link UsageError} (`exists`, `usage`)
 */
export async function checkOutputDirectory(
  files: FileStore,
  path: string,
  overwrite: boolean,
  isReplaceable: (names: readonly string[]) => boolean,
): Promise<void> {
  const info = await files.stat(path);
  if (info === undefined) return;
  if (!overwrite) throw outputExists(path);
  const names = info.kind === "file" ? undefined : (await files.list(path)).map((entry) => baseName(entry.path));
  if (names !== undefined && isReplaceable(names)) return;
  const what = names === undefined ? "the output is a file" : "the output is a directory that holds other things";
  throw new UsageError("usage", what, { file: path, hint: "Remove it yourself, or choose another output." });
}

function outputExists(path: string): UsageError {
  return new UsageError("exists", "the output exists already", {
    file: path,
    hint: "Pass --force to replace it, or choose another name.",
  });
}

/** Steps from a path to the root at most. */
const MAX_STEPS_UP = 256;

/** Whether a path, which need not exist yet, is a directory itself or lies anywhere below it, by whatever names. */
export async function liesIn(files: FileStore, path: string, directory: string): Promise<boolean> {
  let at = path.replace(/\/+$/, "");
  for (let i = 0; i < MAX_STEPS_UP && (await files.stat(at)) === undefined; i++) {
    if (parentPath(at) === at) return false;
    at = parentPath(at);
  }
  for (let i = 0; i < MAX_STEPS_UP; i++) {
    if (await files.isSame(at, directory)) return true;
    const up = (await files.stat(at))?.kind === "file" ? parentPath(at) : `${at}/..`;
    if (await files.isSame(at, up)) return false;
    at = up;
  }
  return false;
}
