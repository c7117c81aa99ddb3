import type { ByteStream, Codec } from "./compression.js";
import { decompressSnappy, decompressSnappyStream } from "./snappy.js";
import { encodeVarint } from "./varint.js";

/** Loads Snappy, which is JavaScript on every platform. */
export async function loadSnappy(): Promise<Codec> {
  const { default: snappy } = await import("snappyjs");
  return {
    async compress(bytes) {
      return snappy.compress(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength));
    },
    async decompress(bytes, decodedSize) {
      return decompressSnappy(bytes, decodedSize);
    },
    compressStream: (chunks, size) => compressFragments(snappy.compress, chunks, size),
    decompressStream: decompressSnappyStream,
  };
}

/** A Snappy block is its length and then fragments that do not refer to each other, so it can be written in pieces. */
async function* compressFragments(
  compress: (bytes: Uint8Array) => Uint8Array,
  chunks: ByteStream,
  size: number,
): ByteStream {
  yield encodeVarint(size);
  for await (const chunk of chunks) {
    const preamble = encodeVarint(chunk.length).length;
    yield compress(new Uint8Array(chunk)).subarray(preamble);
  }
}
