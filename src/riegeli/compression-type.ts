import type { CompressionType } from "../codecs/compression.js";
import { UnsupportedError } from "../errors.js";

// Source: google/riegeli, doc/riegeli_records_file_format.md, "Compression types".
const CODES: Record<CompressionType, number> = { none: 0, brotli: 0x62, zstd: 0x7a, snappy: 0x73 };

/** The byte that stands for a compression type in a chunk. */
export function encodeCompressionType(type: CompressionType): number {
  return CODES[type];
}

/**
 * The compression type that a byte of a chunk stands for.
 * @throws {@link UnsupportedError} (`unsupported-compression`)
 */
export function decodeCompressionType(code: number, file: string, offset: number): CompressionType {
  for (const [type, value] of Object.entries(CODES)) if (value === code) return type as CompressionType;
  throw new UnsupportedError("unsupported-compression", "unknown compression type", {
    file,
    offset,
    actual: `0x${code.toString(16)}`,
  });
}
