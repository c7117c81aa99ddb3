import { loadPlatformCodec } from "#compression";
import { CorruptionError, LimitError } from "../errors.js";
import { MAX_COMPRESSION_RATIO, MAX_IN_MEMORY_BYTES } from "../limits.js";

/** The ways that the formats compress a buffer. */
export type CompressionType = "none" | "brotli" | "zstd" | "snappy";

/** A piece list that is produced and consumed step by step. */
export type ByteStream = AsyncIterable<Uint8Array>;

/**
 * One way to compress. Whole buffers are for what fits in memory; streams hold a window of a few MiB at most.
 * Every method that decompresses throws a `CorruptionError` (`decompression`) for a stream that is damaged, ends early
 * or has bytes behind its end; the caller compares the length with the one that was announced.
 */
export interface Codec {
  /** Compresses a whole buffer. `level` is the codec's own scale. */
  compress(bytes: Uint8Array, level?: number): Promise<Uint8Array>;
  /** Decompresses a whole buffer to at most `decodedSize` bytes. */
  decompress(bytes: Uint8Array, decodedSize: number): Promise<Uint8Array>;
  /** Compresses a stream of `size` bytes; undefined where this platform cannot. */
  compressStream?(chunks: ByteStream, size: number, level?: number): ByteStream;
  /** Decompresses a stream. */
  decompressStream(chunks: ByteStream): ByteStream;
}

const loaded = new Map<CompressionType, Promise<Codec>>();

/**
 * Loads the codec of a compression type; the second call gives the first one's.
 * @throws {@link UnsupportedError} (`unsupported-compression`) where this platform has none
 */
export function loadCodec(type: Exclude<CompressionType, "none">): Promise<Codec> {
  let codec = loaded.get(type);
  if (codec === undefined) {
    codec = loadPlatformCodec(type);
    loaded.set(type, codec);
    codec.catch(() => loaded.delete(type)); // what failed to load may load when it is tried again
  }
  return codec;
}

/** Where a compressed buffer lies, for errors. */
export interface BufferPlace {
  readonly file: string;
  readonly offset: number;
}

/**
 * Holds an announced size against the bytes it is to come from.
 * @throws {@link LimitError} (`limit`) when no honest stream could be so long
 */
export function checkAnnouncedSize(decodedSize: number, compressedSize: number, place: BufferPlace): void {
  if (decodedSize <= MAX_IN_MEMORY_BYTES || decodedSize <= compressedSize * MAX_COMPRESSION_RATIO) return;
  throw new LimitError("limit", "announced size of a compressed buffer", {
    ...place,
    expected: `at most ${MAX_COMPRESSION_RATIO} bytes for each of ${compressedSize} compressed`,
    actual: decodedSize,
  });
}

/**
 * Decompresses a buffer to exactly `decodedSize` bytes.
 * @throws {@link CorruptionError} (`decompression`) when it is damaged, shorter or longer
 */
export async function decompressExactly(
  type: CompressionType,
  bytes: Uint8Array,
  decodedSize: number,
  place: BufferPlace,
): Promise<Uint8Array> {
  checkAnnouncedSize(decodedSize, bytes.length, place);
  let decoded = bytes;
  if (type !== "none") {
    const codec = await loadCodec(type);
    try {
      decoded = await codec.decompress(bytes, decodedSize);
    } catch (cause) {
      throw new CorruptionError("decompression", `${type} buffer does not decompress`, { ...place, cause });
    }
  }
  if (decoded.length === decodedSize) return decoded;
  throw new CorruptionError("decompression", `${type} buffer`, {
    ...place,
    expected: `${decodedSize} bytes`,
    actual: `${decoded.length} bytes`,
  });
}
