import type { ByteSource } from "../bytes/byte-source.js";
import { type CompressionType, loadCodec } from "./compression.js";

/** A way to compress, or `auto`: Brotli for what compresses, nothing for what does not. */
export type CompressionChoice = CompressionType | "auto";

/** Level of Brotli under `auto`: within 1.08 times of level 6 on every kind of data tried, at 1 to 2.5 times the speed. */
export const AUTO_BROTLI_LEVEL = 5;

/** What a sample has to shrink to, for compression to be worth it. Random float32 shrinks to 0.91. */
const WORTHWHILE_RATIO = 0.85;
const SAMPLES = 8;
const SAMPLE_BYTES = 8 * 1024;
/** Below this a chunk is written as it is: the two compressed streams cost more than they save. */
const TINY_BYTES = 64;

/** Tries a few samples, spread over the bytes, and tells whether all of it is worth compressing. */
export async function chooseCompression(bytes: ByteSource): Promise<"none" | "brotli"> {
  if (bytes.size < TINY_BYTES) return "none";
  const codec = await loadCodec("brotli");
  let before = 0;
  let after = 0;
  for (let i = 0; i < SAMPLES; i++) {
    const length = Math.min(bytes.size, bytes.size <= SAMPLES * SAMPLE_BYTES ? bytes.size : SAMPLE_BYTES);
    const offset = Math.floor(((bytes.size - length) * i) / (SAMPLES - 1));
    before += length;
    after += (await codec.compress(await bytes.read(offset, length), 1)).length;
    if (length === bytes.size) break;
  }
  return after <= before * WORTHWHILE_RATIO ? "brotli" : "none";
}
