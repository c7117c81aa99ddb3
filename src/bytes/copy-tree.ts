import { fillSink } from "./byte-sink.js";
import { type CopyOptions, copySource } from "./copy-source.js";
import type { FileInfo, FileStore } from "./file-store.js";
import { baseName, joinPath } from "./path.js";

/** Copies a file, or a directory with all in it, to a path of another store or the same. */
export async function copyTree(
  from: FileStore,
  info: FileInfo,
  to: FileStore,
  path: string,
  options: CopyOptions = {},
): Promise<void> {
  if (info.kind === "directory") {
    for (const child of await from.list(info.path)) {
      await copyTree(from, child, to, joinPath(path, baseName(child.path)), options);
    }
    return;
  }
  const source = await from.open(info.path);
  try {
    const sink = await to.create(path, { expectedBytes: source.size });
    await fillSink(sink, () => copySource(source, sink, options));
  } finally {
    await source.close();
  }
}
