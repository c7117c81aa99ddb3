import type { ByteSource } from "../bytes/byte-source.js";
import { hash64 } from "../codecs/hasher.js";
import { CorruptionError, formatHash, LimitError, TruncatedError } from "../errors.js";
import { MAX_OFFSET } from "../limits.js";
import {
  BLOCK_BYTES,
  BLOCK_HEADER_BYTES,
  checkBlockHeader,
  chunkEndOf,
  decodeBlockHeader,
  positionAfter,
  RIEGELI_HASH_KEY,
} from "./blocks.js";

/**
 * The header in front of each Riegeli chunk.
 * Source: google/riegeli, doc/riegeli_records_file_format.md, "Chunk".
 */

/** Bytes of a chunk header. */
export const CHUNK_HEADER_BYTES = 40;

/** The chunk types of the format. */
export const CHUNK_TYPES = {
  signature: 0x73,
  metadata: 0x6d,
  padding: 0x70,
  simple: 0x72,
  transposed: 0x74,
} as const;

/** What a chunk header says. */
export interface ChunkHeader {
  /** One of {@link CHUNK_TYPES}, or another number in a file of the future. */
  readonly type: number;
  /** Bytes of data, block headers and padding not counted. */
  readonly dataSize: number;
  /** HighwayHash-64 of the data. */
  readonly dataHash: bigint;
  readonly recordCount: number;
  /** Sum of the record sizes, in bytes. */
  readonly decodedDataSize: number;
}

/** A chunk and where it lies in its file. */
export interface ChunkLocation extends ChunkHeader {
  readonly begin: number;
  /** Where the next chunk begins. */
  readonly end: number;
}

/*
 * Chunk header
 * offset size name
 *      0    8 header_hash        of the 32 bytes that follow
 *      8    8 data_size
 *     16    8 data_hash
 *     24    1 chunk_type
 *     25    7 num_records
 *     32    8 decoded_data_size
 */

/** The 40 bytes of a chunk header. */
export function encodeChunkHeader(header: ChunkHeader): Uint8Array {
  const bytes = new Uint8Array(CHUNK_HEADER_BYTES);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(8, BigInt(header.dataSize), true);
  view.setBigUint64(16, header.dataHash, true);
  view.setBigUint64(24, BigInt(header.type) | (BigInt(header.recordCount) << 8n), true);
  view.setBigUint64(32, BigInt(header.decodedDataSize), true);
  view.setBigUint64(0, hash64(RIEGELI_HASH_KEY, bytes.subarray(8)), true);
  return bytes;
}

/**
 * Decodes a chunk header and checks its hash.
 * @throws {@link CorruptionError} (`chunk-header`), {@link LimitError} (`limit`) for sizes over 2^53
 */
export function decodeChunkHeader(bytes: Uint8Array, file: string, begin: number): ChunkHeader {
  const view = new DataView(bytes.buffer, bytes.byteOffset, CHUNK_HEADER_BYTES);
  const stored = view.getBigUint64(0, true);
  const computed = hash64(RIEGELI_HASH_KEY, bytes.subarray(8, CHUNK_HEADER_BYTES));
  if (stored !== computed) {
    throw new CorruptionError("chunk-header", "chunk header hash", {
      file,
      offset: begin,
      expected: formatHash(computed),
      actual: formatHash(stored),
    });
  }
  const typeAndCount = view.getBigUint64(24, true);
  return {
    dataSize: readSize(view, 8, "data_size", file, begin),
    dataHash: view.getBigUint64(16, true),
    type: Number(typeAndCount & 0xffn),
    recordCount: checkSize(typeAndCount >> 8n, "num_records", file, begin),
    decodedDataSize: readSize(view, 32, "decoded_data_size", file, begin),
  };
}

function readSize(view: DataView, at: number, field: string, file: string, begin: number): number {
  return checkSize(view.getBigUint64(at, true), field, file, begin);
}

function checkSize(value: bigint, field: string, file: string, begin: number): number {
  if (value <= BigInt(MAX_OFFSET)) return Number(value);
  throw new LimitError("limit", `${field} of a chunk header`, {
    file,
    offset: begin,
    expected: "at most 2^53 - 1",
    actual: value,
  });
}

/**
 * Reads the chunk header at `begin`, which a block header may interrupt, and finds the chunk's end. One read.
 * @throws {@link TruncatedError} (`truncated`) when the file ends inside the chunk,
 * {@link CorruptionError} (`block-header`, `chunk-header`)
 */
export async function readChunkHeader(source: ByteSource, begin: number): Promise<ChunkLocation> {
  const end = positionAfter(begin, CHUNK_HEADER_BYTES);
  if (end > source.size) throw truncated(source, begin, end);
  const raw = await source.read(begin, end - begin);
  const blockBegin = Math.ceil(begin / BLOCK_BYTES) * BLOCK_BYTES;
  const interrupted = blockBegin < end;
  let bytes = raw;
  if (interrupted) {
    const at = blockBegin - begin;
    decodeBlockHeader(raw.subarray(at, at + BLOCK_HEADER_BYTES), source.name, blockBegin);
    bytes = new Uint8Array(CHUNK_HEADER_BYTES);
    bytes.set(raw.subarray(0, at));
    bytes.set(raw.subarray(at + BLOCK_HEADER_BYTES), at);
  }
  const header = decodeChunkHeader(bytes, source.name, begin);
  const chunkEnd = chunkEndOf(begin, CHUNK_HEADER_BYTES + header.dataSize, header.recordCount);
  if (interrupted) {
    const at = blockBegin - begin;
    const chunk = { file: source.name, begin, end: chunkEnd };
    checkBlockHeader(raw.subarray(at, at + BLOCK_HEADER_BYTES), blockBegin, chunk);
  }
  if (chunkEnd > source.size) throw truncated(source, begin, chunkEnd);
  return { ...header, begin, end: chunkEnd };
}

function truncated(source: ByteSource, begin: number, end: number): TruncatedError {
  return new TruncatedError("truncated", "file ends inside a chunk", {
    file: source.name,
    offset: begin,
    expected: `${end} bytes`,
    actual: `${source.size} bytes`,
  });
}

/** The name of a chunk type for people: `simple`, `transposed`…, or its number. */
export function chunkTypeName(type: number): string {
  for (const [name, value] of Object.entries(CHUNK_TYPES)) if (value === type) return name;
  return `unknown (0x${type.toString(16)})`;
}
