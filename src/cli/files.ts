import type { FileStore } from "../bytes/file-store.js";
import { UnsupportedError } from "../errors.js";
import { LocalFiles } from "../platform/node/local-files.js";

/**
 * The store that a path belongs to.
 * @throws {@link UnsupportedError} (`unsupported-operation`) for a URL of a kind that cannot be read yet
 */
export function filesFor(path: string): FileStore {
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(path)?.[1];
  if (scheme === undefined) return new LocalFiles();
  throw new UnsupportedError("unsupported-operation", `${scheme} URLs cannot be read yet`, { file: path });
}
