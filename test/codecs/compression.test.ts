import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { concatBytes } from "../../src/bytes/byte-sink.js";
import { type ByteStream, type CompressionType, decompressExactly, loadCodec } from "../../src/codecs/compression.js";
import { decompressSnappy } from "../../src/codecs/snappy.js";
import { encodeVarint } from "../../src/codecs/varint.js";
import { expectBytes } from "../support/bytes.js";

const TYPES: Exclude<CompressionType, "none">[] = ["brotli", "zstd", "snappy"];
const PLACE = { file: "test", offset: 0 };

const payload = fc.oneof(
  fc.uint8Array({ maxLength: 200 }),
  fc.tuple(fc.uint8Array({ minLength: 1, maxLength: 20 }), fc.integer({ min: 1, max: 20_000 })).map(([unit, times]) => {
    const bytes = new Uint8Array(unit.length * times);
    for (let i = 0; i < times; i++) bytes.set(unit, i * unit.length);
    return bytes;
  }),
);

async function* inPieces(bytes: Uint8Array, size: number): ByteStream {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function collect(stream: ByteStream): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  for await (const piece of stream) pieces.push(new Uint8Array(piece));
  return concatBytes(pieces.length === 0 ? [new Uint8Array(0)] : pieces);
}

describe.each(TYPES)("%s", (type) => {
  it("gives back what it compressed, whole and as a stream", async () => {
    const codec = await loadCodec(type);
    await fc.assert(
      fc.asyncProperty(payload, fc.integer({ min: 1, max: 5000 }), async (bytes, size) => {
        const compressed = await codec.compress(bytes);
        expectBytes(await decompressExactly(type, compressed, bytes.length, PLACE), bytes);
        expectBytes(await collect(codec.decompressStream(inPieces(compressed, size))), bytes);
      }),
      { numRuns: 60 },
    );
  });

  it("gives back what it compressed as a stream", async () => {
    const codec = await loadCodec(type);
    if (codec.compressStream === undefined) return;
    const bytes = concatBytes([new Uint8Array(300_000), randomBytes(200_000), new Uint8Array(70_000).fill(7)]);
    const compressed = await collect(codec.compressStream(inPieces(bytes, 65_536), bytes.length));
    expect(compressed.length).toBeLessThan(bytes.length / 2);
    expectBytes(await decompressExactly(type, compressed, bytes.length, PLACE), bytes);
  });

  it("refuses a buffer that holds more or fewer bytes than announced", async () => {
    const compressed = await (await loadCodec(type)).compress(new Uint8Array(1000).fill(5));
    await expect(decompressExactly(type, compressed, 999, PLACE)).rejects.toMatchObject({ code: "decompression" });
    await expect(decompressExactly(type, compressed, 1001, PLACE)).rejects.toMatchObject({ code: "decompression" });
  });

  it("refuses a buffer that is cut or has bytes behind its end, whole and as a stream", async () => {
    const codec = await loadCodec(type);
    const bytes = Uint8Array.from({ length: 1000 }, (_, i) => (i * i) & 0xff);
    const compressed = await codec.compress(bytes);
    const broken = [
      compressed.subarray(0, -1),
      compressed.subarray(0, 5),
      concatBytes([compressed, compressed.subarray(0, 3)]),
      concatBytes([compressed, await codec.compress(new Uint8Array(0))]),
    ];
    for (const one of broken) {
      await expect(decompressExactly(type, one, 1000, PLACE)).rejects.toMatchObject({ code: "decompression" });
      const streamed = collect(codec.decompressStream(inPieces(one, 7)));
      await expect(streamed.then((got) => expectBytes(got, bytes))).rejects.toThrow();
    }
  });
});

describe("decompressExactly", () => {
  it("refuses an announced size that no stream of that length could give, before allocating", async () => {
    const announced = 2 ** 40;
    await expect(decompressExactly("zstd", new Uint8Array(100), announced, PLACE)).rejects.toMatchObject({
      code: "limit",
    });
  });
});

describe("snappy", () => {
  it("refuses a copy from before the start", () => {
    expect(() => decompressSnappy(Uint8Array.of(8, 0x01, 1, 0, 0), 8)).toThrow(/before the start/);
  });

  it("refuses to write less than announced", () => {
    expect(() => decompressSnappy(Uint8Array.of(9, 0, 65), 9)).toThrow(/ends after 1 of 9/);
  });

  it("refuses to make room for more than it is asked for", () => {
    expect(() => decompressSnappy(Uint8Array.of(0xff, 0xff, 0xff, 0xff, 0x0f), 1000)).toThrow(/announces 4294967295/);
  });

  it("finds what a copy refers to 64 KiB back, wherever in a stream", async () => {
    const offset = 65_535;
    const literal = randomBytes(50_000 + offset);
    // Literals of 50,000 bytes, whose length minus one takes 2 bytes, and copies of 64 bytes with an offset of 2.
    // Source: google/snappy, format_description.txt, sections 2.1 and 2.2.
    const head = (length: number) =>
      Uint8Array.of((62 << 2) | 0, (length - 1) & 255, ((length - 1) >> 8) & 255, (length - 1) >> 16);
    const copy = Uint8Array.of((63 << 2) | 2, offset & 255, offset >> 8);
    const parts = [head(literal.length), literal];
    let expected: Uint8Array = literal;
    for (let i = 0; i < 20; i++) {
      const more = randomBytes(50_000);
      parts.push(copy, head(more.length), more);
      const start = expected.length - offset;
      expected = concatBytes([expected, expected.slice(start, start + 64), more]);
    }
    const block = concatBytes([encodeVarint(expected.length), ...parts]);
    expectBytes(decompressSnappy(block, expected.length), expected);
    const codec = await loadCodec("snappy");
    for (const size of [10_000, 100_000, 262_144, 2_000_000]) {
      expectBytes(await collect(codec.decompressStream(inPieces(block, size))), expected);
    }
  });
});
