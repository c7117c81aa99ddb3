import { describe, expect, it } from "vitest";
import { concatBytes } from "../../src/bytes/byte-sink.js";
import { chooseCompression } from "../../src/codecs/auto-compression.js";
import { loadCodec } from "../../src/codecs/compression.js";
import { CountingSource } from "../support/counting-source.js";
import { PlainSource, randomBytes, randomNumbers } from "../support/odd-sources.js";

const choose = (bytes: Uint8Array) => chooseCompression(new PlainSource(bytes));

/** Bytes of which about `share` in a hundred are random and the others 0. */
function halfRandom(length: number, share: number): Uint8Array {
  const next = randomNumbers(5);
  return Uint8Array.from({ length }, () => (next(100) < share ? 1 + next(255) : 0));
}

describe("chooseCompression", () => {
  it("leaves random bytes and random floats as they are, of any size", async () => {
    const next = randomNumbers(9);
    const floats = new Uint8Array(Float32Array.from({ length: 100_000 }, () => next(2 ** 30) / 2 ** 29 - 1).buffer);
    expect(await choose(floats)).toBe("none");
    for (const size of [0, 1, 64, 100, 8192, 65_536, 65_537, 500_000]) {
      expect(await choose(randomBytes(size))).toBe("none");
    }
  });

  it("compresses what repeats itself, except when there is hardly anything of it", async () => {
    for (const size of [64, 100, 8192, 65_536, 65_537, 500_000])
      expect(await choose(new Uint8Array(size))).toBe("brotli");
    for (const size of [0, 1, 63]) expect(await choose(new Uint8Array(size))).toBe("none");
  });

  it("weighs what the samples shrink to: 85 in a hundred and less is worth it", async () => {
    for (const share of [50, 70, 95, 100]) {
      const bytes = halfRandom(60_000, share);
      const ratio = (await (await loadCodec("brotli")).compress(bytes, 1)).length / bytes.length;
      expect(await choose(bytes)).toBe(ratio <= 0.85 ? "brotli" : "none");
    }
  });

  it("looks at the whole of the bytes, not at their start", async () => {
    const zeros = new Uint8Array(1_000_000);
    expect(await choose(concatBytes([randomBytes(30_000), zeros]))).toBe("brotli");
    expect(await choose(concatBytes([zeros.subarray(0, 30_000), randomBytes(1_000_000)]))).toBe("none");
  });

  it("reads 64 KiB of a large value", async () => {
    const counting = new CountingSource(new PlainSource(new Uint8Array(3_000_000)));
    await chooseCompression(counting);
    expect([counting.reads, counting.bytes]).toEqual([8, 65_536]);
  });
});
