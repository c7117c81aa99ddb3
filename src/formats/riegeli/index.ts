import type { ByteSource } from "../../bytes/byte-source.js";
import type { FileStore } from "../../bytes/file-store.js";
import { CairnError } from "../../errors.js";
import { compressionOf } from "../../riegeli/chunk-facts.js";
import { type ChunkLocation, chunkTypeName } from "../../riegeli/chunk-header.js";
import { RecordReader } from "../../riegeli/record-reader.js";
import type { Detection, Format, Outline, OutlineNode, VerifyEvent, VerifyOptions } from "../format.js";
import { verifyRiegeli } from "../riegeli-check.js";
import { formatBytes, formatCount } from "../text.js";

/** Riegeli/records files of any contents. A `.cpb` is one too, and is known by what it holds. */
export const riegeliFormat: Format = {
  id: "riegeli",

  async detect(files: FileStore, path: string): Promise<Detection | undefined> {
    if ((await files.stat(path))?.kind !== "file" || path.endsWith(".cpb")) return undefined;
    const source = await files.open(path);
    try {
      await RecordReader.open(source);
    } catch (error) {
      // A name that promises the format keeps it: what is wrong is told when the file is looked into.
      if (error instanceof CairnError && !path.endsWith(".riegeli")) return undefined;
      if (!(error instanceof CairnError)) throw error;
    } finally {
      await source.close();
    }
    return { format: "riegeli", files, path, description: "Riegeli/records file", notes: [] };
  },

  async outline({ files, path }: Detection): Promise<Outline> {
    const source = await files.open(path);
    try {
      return { root: await outlineFile(source, path), close: () => source.close() };
    } catch (error) {
      await source.close();
      throw error;
    }
  },

  async *verify({ files, path }: Detection, options: VerifyOptions = {}): AsyncGenerator<VerifyEvent> {
    const source = await files.open(path);
    try {
      yield* verifyRiegeli(files, source, options);
    } finally {
      await source.close();
    }
  },
};

async function outlineFile(source: ByteSource, path: string): Promise<OutlineNode> {
  const reader = await RecordReader.open(source);
  const chunks: ChunkLocation[] = [];
  for await (const chunk of reader.chunks()) chunks.push(chunk);
  const records = chunks.reduce((sum, { recordCount }) => sum + recordCount, 0);
  return {
    label: path,
    kind: "riegeli",
    detail: `Riegeli/records, ${formatCount(records, "record")} in ${formatCount(chunks.length, "chunk")}, ${formatBytes(source.size)}`,
    facts: { recordCount: records, chunkCount: chunks.length, byteLength: source.size },
    children: () => Promise.all(chunks.map((chunk) => outlineChunk(source, chunk))),
  };
}

async function outlineChunk(source: ByteSource, chunk: ChunkLocation): Promise<OutlineNode> {
  const compression = await compressionOf(source, chunk);
  const records =
    chunk.recordCount === 0
      ? ""
      : `, ${formatCount(chunk.recordCount, "record")}, ${formatBytes(chunk.decodedDataSize)}`;
  const stored =
    compression === undefined || compression === "none" ? "" : `, ${compression} ${formatBytes(chunk.dataSize)}`;
  return {
    label: String(chunk.begin),
    kind: "chunk",
    detail: `${chunkTypeName(chunk.type)}${records}${stored}`,
    facts: {
      chunkType: chunkTypeName(chunk.type),
      recordCount: chunk.recordCount,
      decodedDataSize: chunk.decodedDataSize,
      dataSize: chunk.dataSize,
      compression: compression ?? null,
    },
    range: { file: source.name, start: chunk.begin, end: chunk.end },
  };
}
