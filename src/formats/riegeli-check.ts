import type { ByteSource } from "../bytes/byte-source.js";
import type { FileStore } from "../bytes/file-store.js";
import { chunkTypeName } from "../riegeli/chunk-header.js";
import { RecordReader } from "../riegeli/record-reader.js";
import { recoverChunks } from "../riegeli/recovery.js";
import { findingOf } from "./finding.js";
import type { VerifyEvent, VerifyOptions } from "./format.js";

/** Says what the records between two positions are, for findings and for what is good; undefined when nobody knows. */
export type DescribeRecords = (begin: number, end: number) => string | undefined;

/** Checks every Riegeli chunk and block header. */
export async function* verifyRiegeli(
  files: FileStore,
  source: ByteSource,
  options: VerifyOptions,
  describe: DescribeRecords = () => undefined,
): AsyncGenerator<VerifyEvent> {
  const { signal, onBytes } = options;
  const reader = RecordReader.unchecked(source, { scratch: (size) => files.scratch(size), signal });
  try {
    for await (const found of recoverChunks(source)) {
      signal?.throwIfAborted();
      if (found.kind === "skipped") {
        const { begin, end, reason } = found.region;
        const skipped = end > begin ? `bytes ${begin} to ${end} are skipped` : undefined;
        yield findingOf(reason, source.name, skipped, describe(begin, end));
        continue;
      }
      const { chunk } = found;
      let counted = 0;
      const count = (bytes: number) => {
        counted += bytes;
        onBytes?.(bytes);
      };
      try {
        await (await reader.decoded(chunk, { streaming: true })).verify({ signal, onBytes: count });
        count(chunk.end - chunk.begin - counted);
        if (chunk.recordCount > 0) {
          const form = `${chunkTypeName(chunk.type)} chunk at ${chunk.begin}`;
          const what = describe(chunk.begin, chunk.end) ?? `${form} with ${chunk.recordCount} records`;
          yield { kind: "good", what, byteLength: chunk.end - chunk.begin };
        }
      } catch (error) {
        signal?.throwIfAborted();
        yield findingOf(error, source.name, undefined, describe(chunk.begin, chunk.end));
      }
    }
  } finally {
    await reader.close();
  }
}
