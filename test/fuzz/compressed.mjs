// Compressed streams: Snappy whole and in pieces, Zstd frames, and each codec with a size that is announced wrongly.
import { decompressExactly } from "../../dist/codecs/compression.js";
import { decompressSnappy, decompressSnappyStream } from "../../dist/codecs/snappy.js";
import { ZstdFrameEnd } from "../../dist/codecs/zstd-frame.js";
import { allowed } from "./read-everything.mjs";

export const seeds = ["riegeli"];
export const only = /simple_(snappy|zstd|brotli).*\.riegeli$/;
const MAX_BYTES = 1 << 20;

/** A codec may throw a RangeError of its own; whoever calls it says what that means. */
async function decoding(work) {
  try {
    await allowed(work);
  } catch (error) {
    if (!(error instanceof RangeError) && error?.code === undefined) throw error;
  }
}

export async function fuzz(data) {
  const bytes = new Uint8Array(data);
  await decoding(() => decompressSnappy(bytes, MAX_BYTES));
  await decoding(async () => {
    let total = 0;
    async function* pieces() {
      for (let at = 0; at < bytes.length; at += 7) yield bytes.subarray(at, at + 7);
    }
    for await (const piece of decompressSnappyStream(pieces())) {
      total += piece.length;
      if (total > MAX_BYTES) break;
    }
  });
  await decoding(() => {
    const frame = new ZstdFrameEnd();
    frame.take(bytes);
    frame.finish();
  });
  const announced = bytes.length < 2 ? 0 : bytes[0] | (bytes[1] << 8);
  for (const type of ["brotli", "zstd", "snappy"]) {
    await allowed(() => decompressExactly(type, bytes.subarray(2), announced, { file: "x", offset: 0, what: "part" }));
  }
}
