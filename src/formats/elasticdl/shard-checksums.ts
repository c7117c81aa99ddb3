import { fromBinary } from "@bufbuild/protobuf";
import { ByteCursor } from "../../bytes/byte-cursor.js";
import type { ByteSource } from "../../bytes/byte-source.js";
import { crc32c } from "../../codecs/crc32c.js";
import { CorruptionError, TruncatedError } from "../../errors.js";
import { ShardChecksumsSchema } from "../../proto/gen/cairn/elasticdl_checkpoint_pb.js";
import { placeOf } from "../../proto/wire-head.js";

// Fields of cairn.elasticdl.ShardModel. Source: proto/cairn/elasticdl_checkpoint.proto.
/** The field that begins every shard that cairn wrote. */
export const SHARD_HEADER = 10001;
/** Slots of optimizers. */
export const SLOTS = 10002;
/** The training state. */
export const STATE = 10003;
/** The field that ends every shard that cairn wrote. */
export const CHECKSUMS = 10004;

/** The tag of the header, a length-delimited field: the first bytes of every shard that cairn wrote. */
export const HEADER_TAG: readonly number[] = [0x8a, 0xf1, 0x04];
const CHECKSUMS_TAG = [0xa2, 0xf1, 0x04];

/*
 * The end of the last field. Source: proto/cairn/elasticdl_checkpoint.proto, ShardChecksums.
 *
 * | from the end | size | what                        |
 * | ------------ | ---- | --------------------------- |
 * | 19           | 1    | tag of byte_length, 0x11    |
 * | 18           | 8    | byte_length                 |
 * | 10           | 1    | tag of heads, 0x1d          |
 * | 9            | 4    | heads                       |
 * | 5            | 1    | tag of own, 0x25            |
 * | 4            | 4    | own                         |
 */
/** Bytes of the end of the last field that are always the same. */
export const CHECKSUMS_END_BYTES = 19;

/** The checksums of a shard. */
export interface ShardChecksums {
  /** Where the field of the checksums begins. */
  readonly byteLength: number;
  /** CRC-32C of each field before it. */
  readonly fields: Uint32Array;
  /** CRC-32C of all but elements and ids. */
  readonly heads: number;
}

/** Bytes that one checksum covers piece by piece. */
export interface CheckedRange {
  readonly start: number;
  readonly end: number;
}

/**
 * Finds the checksums of a shard; undefined for a shard of another writer. Either end of the file tells that cairn wrote
 * it, so a shard that was cut, or in which one end is damaged, is never taken for one without checksums.
 * @throws {@link TruncatedError} (`truncated`), {@link CorruptionError} (`shard-checksum`)
 */
export async function findChecksums(source: ByteSource): Promise<ShardChecksums | undefined> {
  const { size } = source;
  const first = await source.read(0, Math.min(size, HEADER_TAG.length));
  const hasHeader = HEADER_TAG.every((byte, i) => first[i] === byte);
  const end = await source.read(Math.max(0, size - CHECKSUMS_END_BYTES), Math.min(size, CHECKSUMS_END_BYTES));
  const byteLength = parseEnd(end);
  const tail =
    byteLength === undefined || byteLength >= size ? undefined : await source.read(byteLength, size - byteLength);
  const isWhole = tail !== undefined && CHECKSUMS_TAG.every((byte, i) => tail[i] === byte);
  if (!isWhole || tail === undefined || byteLength === undefined) {
    if (!hasHeader) return undefined;
    throw new TruncatedError("truncated", "the checksums at the end of the shard are missing", {
      file: source.name,
      offset: size,
    });
  }
  if (!hasHeader) throw mismatch(source, 0, "the shard does not begin as its end says");
  return parseChecksums(source, tail, byteLength);
}

/** Where the checksums begin, if these 19 bytes are the end of them. */
function parseEnd(end: Uint8Array): number | undefined {
  if (end.length < CHECKSUMS_END_BYTES || end[0] !== 0x11 || end[9] !== 0x1d || end[14] !== 0x25) return undefined;
  return Number(new DataView(end.buffer, end.byteOffset).getBigUint64(1, true));
}

function parseChecksums(source: ByteSource, tail: Uint8Array, byteLength: number): ShardChecksums {
  const own = new DataView(tail.buffer, tail.byteOffset, tail.byteLength).getUint32(tail.length - 4, true);
  const actual = crc32c(tail.subarray(0, tail.length - 5));
  if (actual !== own) throw mismatch(source, byteLength, "checksum of the checksums", own, actual);
  const cursor = new ByteCursor(tail, source.name, byteLength);
  cursor.readBytes(CHECKSUMS_TAG.length);
  const { fields, heads } = fromBinary(ShardChecksumsSchema, cursor.readBytes(cursor.readVarint()));
  return { byteLength, fields: Uint32Array.from(fields), heads };
}

/** The error for a checksum that is not that of the bytes. */
export function mismatch(
  source: ByteSource,
  offset: number,
  what: string,
  expected?: number,
  actual?: number,
): CorruptionError {
  const hex = (crc: number | undefined) => (crc === undefined ? undefined : `0x${crc.toString(16).padStart(8, "0")}`);
  return new CorruptionError("shard-checksum", what, {
    ...placeOf(source, offset),
    expected: hex(expected),
    actual: hex(actual),
  });
}

/** The CRC-32C of a range of a source, on top of `previous`. */
export async function crcOfRange(source: ByteSource, { start, end }: CheckedRange, previous = 0): Promise<number> {
  const scratch = new Uint8Array(Math.min(end - start, 256 * 1024));
  let crc = previous;
  for (let at = start; at < end; ) {
    for (const piece of await source.readPieces(at, end - at, scratch)) {
      crc = crc32c(piece, crc);
      at += piece.length;
    }
  }
  return crc;
}
