import { ByteCursor } from "../bytes/byte-cursor.js";
import { concatBytes } from "../bytes/byte-sink.js";
import { type BufferPlace, type CompressionType, decompressExactly, loadCodec } from "../codecs/compression.js";
import { encodeVarint, writeVarint } from "../codecs/varint.js";
import { CorruptionError } from "../errors.js";
import type { ChunkHeader } from "./chunk-header.js";
import { decodeCompressionType, encodeCompressionType } from "./compression-type.js";

/*
 * Data of a simple chunk
 * size    name
 *    1    compression_type
 * varint  sizes_size        length of the next part as it is stored
 *         sizes             the record sizes as varints, perhaps compressed
 *         values            the records, perhaps compressed; all that is left
 * A compressed part begins with its decompressed size as a varint.
 * Source: google/riegeli, doc/riegeli_records_file_format.md, "Simple chunk with records".
 */

/** The longest prelude before the sizes: the type and a varint. */
export const SIMPLE_PRELUDE_BYTES = 11;

/** What stands before the sizes and values of a simple chunk. */
export interface SimplePrelude {
  readonly compression: CompressionType;
  /** Where the sizes begin in the data. */
  readonly sizesStart: number;
  /** Where the values begin in the data. */
  readonly valuesStart: number;
}

/**
 * Reads the prelude from the first bytes of the data.
 * @throws {@link CorruptionError} (`chunk-contents`), {@link UnsupportedError} (`unsupported-compression`)
 */
export function decodeSimplePrelude(start: Uint8Array, dataSize: number, place: BufferPlace): SimplePrelude {
  const cursor = new ByteCursor(start, place.file, place.offset);
  if (cursor.left < 2) throw invalid("simple chunk without data", place);
  const compression = decodeCompressionType(cursor.readByte(), place.file, place.offset);
  const sizesSize = readVarint(cursor, place);
  const sizesStart = cursor.position;
  if (sizesSize > dataSize - sizesStart) {
    throw invalid("sizes of a simple chunk", place, `at most ${dataSize - sizesStart} bytes`, `${sizesSize} bytes`);
  }
  return { compression, sizesStart, valuesStart: sizesStart + sizesSize };
}

/**
 * Decodes the sizes part to the ends of the records in the values.
 * @throws {@link CorruptionError} (`chunk-contents`, `decompression`), {@link LimitError} (`limit`)
 */
export async function decodeRecordEnds(
  stored: Uint8Array,
  compression: CompressionType,
  header: ChunkHeader,
  place: BufferPlace,
): Promise<Float64Array> {
  const { recordCount, decodedDataSize } = header;
  const sizes = await decompressPart(stored, compression, place);
  if (recordCount > sizes.length) {
    throw invalid("sizes of a simple chunk end early", place, `${recordCount} sizes`, `${sizes.length} bytes`);
  }
  const cursor = new ByteCursor(sizes, place.file, place.offset);
  const ends = new Float64Array(recordCount);
  let end = 0;
  for (let i = 0; i < recordCount; i++) {
    end += readVarint(cursor, place);
    if (end > decodedDataSize) {
      throw invalid("record sizes of a simple chunk", place, `a sum of ${decodedDataSize}`, `at least ${end}`);
    }
    ends[i] = end;
  }
  if (cursor.left > 0) throw invalid("bytes behind the sizes of a simple chunk", place, 0, cursor.left);
  if (end !== decodedDataSize) {
    throw invalid("record sizes of a simple chunk", place, `a sum of ${decodedDataSize}`, end);
  }
  return ends;
}

/** Decompresses a part that begins with its decompressed size. */
export async function decompressPart(
  stored: Uint8Array,
  compression: CompressionType,
  place: BufferPlace,
): Promise<Uint8Array> {
  if (compression === "none") return stored;
  const cursor = new ByteCursor(stored, place.file, place.offset);
  const decodedSize = readVarint(cursor, place);
  return decompressExactly(compression, stored.subarray(cursor.position), decodedSize, place);
}

/** Reads the decompressed size in front of a compressed part and says how many bytes it takes. */
export function decodePartSize(start: Uint8Array, place: BufferPlace): { decodedSize: number; length: number } {
  const cursor = new ByteCursor(start, place.file, place.offset);
  const decodedSize = readVarint(cursor, place);
  return { decodedSize, length: cursor.position };
}

/** Checks that the values are as long as the header says. */
export function checkValuesSize(actual: number, header: ChunkHeader, place: BufferPlace): void {
  if (actual === header.decodedDataSize) return;
  throw invalid("values of a simple chunk", place, `${header.decodedDataSize} bytes`, `${actual} bytes`);
}

/** The data of a simple chunk with these records, as pieces. */
export async function encodeSimpleChunk(
  records: readonly Uint8Array[],
  compression: CompressionType,
  level?: number,
): Promise<Uint8Array[]> {
  const sizes = await compressPart(encodeSizes(records), compression, level);
  const values = await compressPart(records, compression, level);
  const sizesSize = encodeVarint(sizes.reduce((sum, piece) => sum + piece.length, 0));
  return [Uint8Array.of(encodeCompressionType(compression)), sizesSize, ...sizes, ...values];
}

/** The record sizes as varints. */
function encodeSizes(records: readonly Uint8Array[]): Uint8Array[] {
  const bytes = new Uint8Array(records.length * 8);
  let at = 0;
  for (const record of records) at = writeVarint(bytes, at, record.length);
  return [bytes.subarray(0, at)];
}

async function compressPart(
  pieces: readonly Uint8Array[],
  compression: CompressionType,
  level: number | undefined,
): Promise<readonly Uint8Array[]> {
  if (compression === "none") return pieces;
  const codec = await loadCodec(compression);
  const bytes = concatBytes(pieces);
  return [encodeVarint(bytes.length), await codec.compress(bytes, level)];
}

function readVarint(cursor: ByteCursor, place: BufferPlace): number {
  try {
    return cursor.readVarint("chunk-contents");
  } catch (cause) {
    throw new CorruptionError("chunk-contents", "a number in the chunk", { ...place, cause });
  }
}

function invalid(
  what: string,
  place: BufferPlace,
  expected?: string | number,
  actual?: string | number,
): CorruptionError {
  return new CorruptionError("chunk-contents", what, { ...place, expected, actual });
}
