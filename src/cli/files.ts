import type { FileStore } from "../bytes/file-store.js";
import { UnsupportedError } from "../errors.js";
import { HttpFiles } from "../platform/http/http-files.js";
import { LocalFiles } from "../platform/node/local-files.js";
import { S3Files } from "../platform/node/s3-files.js";

const localFiles = new LocalFiles();
/** One for all addresses, so that what is known of a file is known to whoever opens it next. */
let httpFiles: HttpFiles | undefined;
let s3Files: S3Files | undefined;

/**
 * The store that a path belongs to: the local disk, or that of its scheme.
 * @throws {@link UnsupportedError} (`unsupported-operation`) for a URL of another kind
 */
export function filesFor(path: string): FileStore {
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(path)?.[1]?.toLowerCase();
  if (scheme === undefined) return localFiles;
  if (scheme === "http" || scheme === "https") {
    httpFiles ??= new HttpFiles({ scratch: (size) => localFiles.scratch(size) });
    return httpFiles;
  }
  if (scheme === "s3") {
    s3Files ??= new S3Files();
    return s3Files;
  }
  throw new UnsupportedError("unsupported-operation", `${scheme} URLs cannot be read`, {
    file: path,
    hint: "Give a local path, an http(s):// or an s3:// URL.",
  });
}
