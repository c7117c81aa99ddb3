import { NotFoundError } from "../errors.js";
import type { FileInfo } from "./file-store.js";
import { joinPath } from "./path.js";

/** What a path is kept under by a store without directories: its steps without empty ones and those that stay where they are. */
export function pathKey(path: string): string {
  return path
    .split("/")
    .filter((step) => step !== "" && step !== ".")
    .join("/");
}

/** Whether something lies below a directory. The empty key is that of all there is, and always a directory. */
export function isDirectoryKey(keys: Iterable<string>, key: string): boolean {
  if (key === "") return true;
  for (const one of keys) if (one.startsWith(`${key}/`)) return true;
  return false;
}

/**
 * The entries of a directory, by name, of a store that knows files by their keys only.
 * @throws {@link NotFoundError} (`not-found`)
 */
export function listKeys(files: Iterable<readonly [key: string, size: number]>, path: string): readonly FileInfo[] {
  const entries = new Map<string, FileInfo>();
  const key = pathKey(path);
  const start = key === "" ? "" : `${key}/`;
  for (const [name, size] of files) {
    if (!name.startsWith(start)) continue;
    const [entry = "", ...below] = name.slice(start.length).split("/");
    const isFile = below.length === 0;
    entries.set(entry, { path: joinPath(path, entry), kind: isFile ? "file" : "directory", size: isFile ? size : 0 });
  }
  if (entries.size === 0 && key !== "") throw new NotFoundError("not-found", "no such directory", { file: path });
  return [...entries].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, info]) => info);
}
