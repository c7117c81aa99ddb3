import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { concatBytes } from "../../src/bytes/byte-sink.js";
import { loadCodec } from "../../src/codecs/compression.js";
import { ZstdFrameEnd } from "../../src/codecs/zstd-frame.js";

const MAGIC = Uint8Array.of(0x28, 0xb5, 0x2f, 0xfd);

/** A block header: 3 bytes with the last-block bit, the type and the size. Source: RFC 8878, section 3.1.1.2. */
function block(isLast: boolean, type: number, size: number, stored: number): Uint8Array {
  const header = (size << 3) | (type << 1) | (isLast ? 1 : 0);
  return concatBytes([Uint8Array.of(header, header >> 8, header >> 16), new Uint8Array(stored)]);
}

function follow(bytes: Uint8Array, pieceSize = bytes.length): void {
  const frame = new ZstdFrameEnd();
  for (let at = 0; at < bytes.length; at += pieceSize) frame.take(bytes.subarray(at, at + pieceSize));
  frame.finish();
}

const decompression = expect.objectContaining({ code: "decompression" });

// Frame header descriptor, RFC 8878 section 3.1.1.1.1: content size flag (bits 7-6), single segment (5), checksum (2),
// dictionary id flag (1-0); then window descriptor, dictionary id, content size.
const FRAMES: [string, Uint8Array][] = [
  ["a raw block", concatBytes([MAGIC, Uint8Array.of(0x20, 5), block(true, 0, 5, 5)])],
  ["a repeated byte", concatBytes([MAGIC, Uint8Array.of(0x20, 200), block(true, 1, 200, 1)])],
  ["two blocks", concatBytes([MAGIC, Uint8Array.of(0x20, 9), block(false, 0, 4, 4), block(true, 0, 5, 5)])],
  ["a checksum", concatBytes([MAGIC, Uint8Array.of(0x24, 5), block(true, 0, 5, 5), new Uint8Array(4)])],
  ["a window", concatBytes([MAGIC, Uint8Array.of(0x00, 0x50), block(true, 0, 5, 5)])],
  ["a dictionary id of 1 byte", concatBytes([MAGIC, Uint8Array.of(0x01, 0x50, 7), block(true, 0, 1, 1)])],
  ["a dictionary id of 2 bytes", concatBytes([MAGIC, Uint8Array.of(0x02, 0x50, 7, 7), block(true, 0, 1, 1)])],
  ["a dictionary id of 4 bytes", concatBytes([MAGIC, Uint8Array.of(0x03, 0x50, 7, 7, 7, 7), block(true, 0, 1, 1)])],
  ["a content size of 2 bytes", concatBytes([MAGIC, Uint8Array.of(0x60, 0, 0), block(true, 1, 256, 1)])],
  ["a content size of 4 bytes", concatBytes([MAGIC, Uint8Array.of(0xa0, 5, 0, 0, 0), block(true, 0, 5, 5)])],
  ["a content size of 8 bytes", concatBytes([MAGIC, Uint8Array.of(0xe0), new Uint8Array(8), block(true, 0, 0, 0)])],
  ["an empty last block", concatBytes([MAGIC, Uint8Array.of(0x20, 5), block(false, 0, 5, 5), block(true, 0, 0, 0)])],
];

describe("ZstdFrameEnd", () => {
  it.each(FRAMES)("finds the end of a frame with %s, and refuses any other end", (_, frame) => {
    for (const pieceSize of [1, 2, 3, 7, frame.length]) {
      follow(frame, pieceSize);
      for (let length = 0; length < frame.length; length++) {
        expect(() => follow(frame.subarray(0, length), pieceSize)).toThrow(decompression);
      }
      expect(() => follow(concatBytes([frame, Uint8Array.of(0)]), pieceSize)).toThrow(/behind its end/);
    }
  });

  it("finds the end of what a compressor writes", async () => {
    const codec = await loadCodec("zstd");
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), fc.nat(3000), fc.nat(40), async (unit, times, piece) => {
        const bytes = concatBytes([new Uint8Array(0), ...Array.from({ length: times }, () => unit)]);
        const frame = await codec.compress(bytes);
        follow(frame, piece + 1);
        expect(() => follow(concatBytes([frame, frame]), piece + 1)).toThrow(decompression);
      }),
      { numRuns: 30 },
    );
  });

  it("refuses another magic number and blocks of the reserved type", () => {
    for (let i = 0; i < 4; i++) {
      const other = FRAMES[0]![1].slice();
      other[i]! ^= 1;
      expect(() => follow(other)).toThrow(/another magic number/);
    }
    const reserved = concatBytes([MAGIC, Uint8Array.of(0x20, 5), block(true, 3, 5, 5)]);
    expect(() => follow(reserved)).toThrow(/reserved type/);
  });
});
