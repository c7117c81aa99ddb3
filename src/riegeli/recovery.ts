import type { ByteSource } from "../bytes/byte-source.js";
import { CairnError, CorruptionError, isCairnError } from "../errors.js";
import { BLOCK_BYTES, BLOCK_HEADER_BYTES, decodeBlockHeader, isChunkBoundary } from "./blocks.js";
import { CHUNK_TYPES, type ChunkLocation, readChunkHeader } from "./chunk-header.js";
import { RecordReader, type RecordReaderOptions, type RiegeliRecord } from "./record-reader.js";

/** A part of the file that cannot be read, and why. Offsets are in bytes, `end` is exclusive. */
export interface SkippedRegion {
  readonly begin: number;
  readonly end: number;
  readonly reason: CairnError;
}

/** What {@link recoverRecords} finds: a good record, or a region that it had to skip. */
export type Recovered =
  | { readonly kind: "record"; readonly record: RiegeliRecord }
  | { readonly kind: "skipped"; readonly region: SkippedRegion };

/**
 * Reads all records that are still good, in order, and tells of each region that it skips; nothing is dropped in
 * silence. Damage in the data of a chunk loses that chunk; damage in a header loses what lies before the next chunk
 * that a block header points to.
 */
export async function* recoverRecords(
  source: ByteSource,
  options: RecordReaderOptions = {},
): AsyncGenerator<Recovered> {
  const reader = RecordReader.unchecked(source, options);
  try {
    for await (const found of recoverChunks(source)) {
      if (found.kind === "skipped") yield found;
      else yield* recordsOf(reader, found.chunk);
    }
  } finally {
    await reader.close();
  }
}

/** What {@link recoverChunks} finds. */
export type RecoveredChunk =
  | { readonly kind: "chunk"; readonly chunk: ChunkLocation }
  | { readonly kind: "skipped"; readonly region: SkippedRegion };

/** All chunks whose headers are still good, and the regions between them. The data of the chunks is not read. */
export async function* recoverChunks(source: ByteSource): AsyncGenerator<RecoveredChunk> {
  let at = 0;
  if (source.size === 0) yield skipped(0, 0, missingSignature(source, "empty file"));
  while (at < source.size) {
    let chunk: ChunkLocation;
    try {
      chunk = await readChunkHeader(source, at);
    } catch (error) {
      if (!(error instanceof CairnError)) throw error;
      const end = error.code === "truncated" ? source.size : await nextChunkBegin(source, at);
      yield skipped(at, end, error);
      at = end;
      continue;
    }
    if (at === 0 && chunk.type !== CHUNK_TYPES.signature) {
      yield skipped(0, 0, missingSignature(source, "first chunk is not the file signature"));
    }
    yield { kind: "chunk", chunk };
    at = chunk.end;
  }
}

async function* recordsOf(reader: RecordReader, chunk: ChunkLocation): AsyncGenerator<Recovered> {
  try {
    for await (const record of reader.recordsIn(chunk)) yield { kind: "record", record };
  } catch (error) {
    if (!isCairnError(error)) throw error;
    yield skipped(chunk.begin, chunk.end, error);
  }
}

/**
 * Where reading can go on after a fault at `at`: at the next block whose header is good, either at its begin, when a
 * chunk begins there, or at the end of the chunk that it interrupts.
 */
async function nextChunkBegin(source: ByteSource, at: number): Promise<number> {
  let blockBegin = (Math.floor(at / BLOCK_BYTES) + 1) * BLOCK_BYTES;
  for (; blockBegin + BLOCK_HEADER_BYTES <= source.size; blockBegin += BLOCK_BYTES) {
    const bytes = await source.read(blockBegin, BLOCK_HEADER_BYTES);
    try {
      const header = decodeBlockHeader(bytes, source.name, blockBegin);
      const begin = header.previousChunk === 0 ? blockBegin : blockBegin + header.nextChunk;
      if (isChunkBoundary(begin)) return Math.min(begin, source.size);
    } catch (error) {
      if (!isCairnError(error, "block-header")) throw error;
    }
  }
  return source.size;
}

function skipped(begin: number, end: number, reason: CairnError): { kind: "skipped"; region: SkippedRegion } {
  return { kind: "skipped", region: { begin, end, reason } };
}

function missingSignature(source: ByteSource, what: string): CorruptionError {
  return new CorruptionError("missing-signature", `${what}, not Riegeli/records`, { file: source.name, offset: 0 });
}
