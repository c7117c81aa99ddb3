import { fillSink } from "./byte-sink.js";
import type { CreateOptions, FileStore } from "./file-store.js";

/**
 * Writes a file that fits in memory: bytes, or text as UTF-8.
 * @throws UsageError (`exists`), StorageError (`write-failed`)
 */
export async function writeFile(
  files: FileStore,
  path: string,
  content: Uint8Array | string,
  options?: CreateOptions,
): Promise<void> {
  const sink = await files.create(path, options);
  await fillSink(sink, () => sink.write(typeof content === "string" ? new TextEncoder().encode(content) : content));
}
