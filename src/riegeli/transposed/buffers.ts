import { ByteCursor } from "../../bytes/byte-cursor.js";
import {
  type BufferPlace,
  type ByteStream,
  type CompressionType,
  checkAnnouncedSize,
  decompressExactly,
  loadCodec,
} from "../../codecs/compression.js";
import { CorruptionError, LimitError } from "../../errors.js";
import { MAX_IN_MEMORY_BYTES, MAX_TRANSPOSED_BYTES } from "../../limits.js";
import { invalidTransposed, readCount } from "./format.js";

/** The lengths at the head of a transposed chunk's header. */
export interface BufferLengths {
  /** Bytes of each bucket as stored. */
  readonly buckets: Float64Array;
  /** Bytes of each buffer when decompressed. */
  readonly buffers: Float64Array;
}

/** All buffers of a chunk, decompressed, one behind the other. */
export interface Buffers {
  readonly bytes: Uint8Array;
  readonly count: number;
  /** Where each buffer begins in `bytes`; the last entry is the end of the last one. */
  readonly starts: Uint32Array;
}

/** Reads the lengths of buckets and buffers. @throws {@link CorruptionError} (`chunk-contents`) */
export function readBufferLengths(cursor: ByteCursor, place: BufferPlace): BufferLengths {
  const bucketCount = readCount(cursor, place);
  const bufferCount = readCount(cursor, place);
  if (bucketCount + bufferCount > cursor.left) {
    throw invalidTransposed(place, "buckets and buffers", {
      expected: `at most ${cursor.left}`,
      actual: bucketCount + bufferCount,
    });
  }
  return { buckets: readLengths(cursor, bucketCount, place), buffers: readLengths(cursor, bufferCount, place) };
}

function readLengths(cursor: ByteCursor, count: number, place: BufferPlace): Float64Array {
  const lengths = new Float64Array(count);
  for (let i = 0; i < count; i++) lengths[i] = readCount(cursor, place);
  return lengths;
}

/**
 * Takes the buckets from the chunk's data and decompresses them; moves `cursor` behind them.
 * @throws {@link CorruptionError} (`chunk-contents`, `decompression`), {@link LimitError} (`limit`)
 */
export async function readBuffers(
  cursor: ByteCursor,
  lengths: BufferLengths,
  compression: CompressionType,
  place: BufferPlace,
): Promise<Buffers> {
  const start = cursor.position;
  const buckets = takeBuckets(cursor, lengths.buckets, place);
  const decodedSizes = compression === "none" ? lengths.buckets : takeDecodedSizes(buckets, place);
  checkBufferLengths(lengths.buffers, decodedSizes, place);
  const count = lengths.buffers.length;
  const starts = new Uint32Array(count + 1);
  for (let i = 0; i < count; i++) starts[i + 1] = (starts[i] as number) + (lengths.buffers[i] as number);
  if (compression === "none") return { bytes: cursor.bytes.subarray(start, cursor.position), count, starts };
  const total = starts[count] as number;
  checkAnnouncedSize(total, cursor.position - start, place);
  const bytes = new Uint8Array(total);
  let at = 0;
  for (let i = 0; i < buckets.length; i++) {
    const target = bytes.subarray(at, at + (decodedSizes[i] as number));
    await decompressBucket(compression, buckets[i] as Uint8Array, target, place);
    at += target.length;
  }
  return { bytes, count, starts };
}

/** Decompresses a bucket to exactly `target`; a large one as a stream, since not every codec takes it as a whole. */
async function decompressBucket(
  compression: Exclude<CompressionType, "none">,
  stored: Uint8Array,
  target: Uint8Array,
  place: BufferPlace,
): Promise<void> {
  if (target.length <= MAX_IN_MEMORY_BYTES) {
    target.set(await decompressExactly(compression, stored, target.length, place));
    return;
  }
  const codec = await loadCodec(compression);
  let at = 0;
  try {
    for await (const piece of codec.decompressStream(inOnePiece(stored))) {
      if (piece.length > target.length - at) throw new RangeError("longer than announced");
      target.set(piece, at);
      at += piece.length;
    }
    if (at < target.length) throw new RangeError("shorter than announced");
  } catch (cause) {
    throw new CorruptionError("decompression", `${compression} buffer does not decompress`, { ...place, cause });
  }
}

async function* inOnePiece(bytes: Uint8Array): ByteStream {
  yield bytes;
}

function takeBuckets(cursor: ByteCursor, lengths: Float64Array, place: BufferPlace): Uint8Array[] {
  const buckets: Uint8Array[] = [];
  for (const length of lengths) {
    if (length > cursor.left) {
      throw invalidTransposed(place, "bucket", { expected: `at most ${cursor.left} bytes`, actual: `${length} bytes` });
    }
    buckets.push(cursor.readBytes(length));
  }
  return buckets;
}

/** Reads the decompressed size in front of each bucket, and leaves the compressed bytes. */
function takeDecodedSizes(buckets: Uint8Array[], place: BufferPlace): Float64Array {
  return Float64Array.from(buckets, (bucket, i) => {
    const cursor = new ByteCursor(bucket, place.file, place.offset);
    const decodedSize = readCount(cursor, place);
    buckets[i] = bucket.subarray(cursor.position);
    return decodedSize;
  });
}

/** Checks that the buffers fill the buckets exactly and that none spans two, before anything is decompressed. */
function checkBufferLengths(buffers: Float64Array, buckets: Float64Array, place: BufferPlace): void {
  let total = 0;
  let bucket = 0;
  let left = buckets[0] ?? 0;
  for (const length of buffers) {
    while (left === 0 && bucket + 1 < buckets.length) left = buckets[++bucket] as number;
    if (length > left) throw invalidTransposed(place, "buffer beyond its bucket", { expected: left, actual: length });
    left -= length;
    total += length;
  }
  while (left === 0 && bucket + 1 < buckets.length) left = buckets[++bucket] as number;
  if (left > 0) throw invalidTransposed(place, "bytes of a bucket in no buffer", { expected: 0, actual: left });
  if (buckets.length === 0 && buffers.length > 0) throw invalidTransposed(place, "buffers without buckets");
  if (total <= MAX_TRANSPOSED_BYTES) return;
  throw new LimitError("limit", "buffers of a transposed chunk", {
    ...place,
    expected: `at most ${MAX_TRANSPOSED_BYTES} bytes`,
    actual: total,
  });
}
