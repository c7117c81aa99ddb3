import type { OpenedSource } from "../bytes/byte-source.js";
import type { FileStore } from "../bytes/file-store.js";
import { joinPath, parentPath } from "../bytes/path.js";
import { CorruptionError } from "../errors.js";

/** Opens the files that a `.cpb` names, by what stands in its metadata. */
export function openRelatedTo(files: FileStore, cpbPath: string): (name: string) => Promise<OpenedSource> {
  const folder = parentPath(cpbPath);
  return async (name) => files.open(relatedPath(folder, name, cpbPath));
}

/** The path of a file that a `.cpb` names: a URL, or a relative path that stays in the folder. */
function relatedPath(folder: string, name: string, file: string): string {
  if (/^(https?|s3):\/\//.test(name)) return name;
  const escapes = name.startsWith("/") || name.includes("\\") || name.split("/").includes("..") || name.includes("\0");
  if (!escapes) return joinPath(folder, name);
  throw new CorruptionError("chunk-metadata", "path of another file leaves the folder", { file, actual: name });
}

/** Whether a file name is that of chunks that were written for a prefix: `PREFIX.ID.00001.cpb`. */
export function isPartName(prefixName: string, name: string): boolean {
  const start = `${prefixName}.`;
  return name.startsWith(start) && /^[0-9a-z]+\.\d{5,}\.cpb$/.test(name.slice(start.length));
}
