import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import zlib from "node:zlib";
import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { concatBytes } from "../../src/bytes/byte-sink.js";
import type { ByteStream, Codec } from "../../src/codecs/compression.js";
import { useBrotliWasm } from "../../src/platform/browser/brotli-wasm.js";
import { loadPlatformCodec as loadBrowserCodec } from "../../src/platform/browser/compression.js";
import { loadPlatformCodec as loadNodeCodec } from "../../src/platform/node/compression.js";
import { expectBytes } from "../support/bytes.js";

const TYPES = ["brotli", "zstd", "snappy"] as const;
const WASM = createRequire(import.meta.url).resolve("brotli-dec-wasm/web/bg.wasm");

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
  return concatBytes(pieces);
}

describe("the codecs for browsers", () => {
  it("say what is missing when the WebAssembly of Brotli does not load, and load it when it is there", async () => {
    useBrotliWasm(Uint8Array.of(1, 2, 3));
    await expect(loadBrowserCodec("brotli")).rejects.toMatchObject({ code: "unsupported-compression" });
    useBrotliWasm(readFileSync(WASM));
    expect(await loadBrowserCodec("brotli")).toBeDefined();
  });
});

describe.each(TYPES)("%s for browsers", (type) => {
  let browser: Codec;
  let node: Codec;
  beforeAll(async () => {
    useBrotliWasm(readFileSync(WASM));
    [browser, node] = await Promise.all([loadBrowserCodec(type), loadNodeCodec(type)]);
  });

  it("reads what Node writes, whole and in pieces of any size", async () => {
    await fc.assert(
      fc.asyncProperty(payload, fc.integer({ min: 1, max: 5000 }), async (bytes, size) => {
        const compressed = await node.compress(bytes);
        expectBytes(await browser.decompress(compressed, bytes.length), bytes);
        expectBytes(await collect(browser.decompressStream(inPieces(compressed, size))), bytes);
      }),
      { numRuns: 60 },
    );
  });

  it("reads what does not compress, and what grows to many times its size", async () => {
    for (const bytes of [new Uint8Array(randomBytes(700_000)), new Uint8Array(5_000_000).fill(7)]) {
      const compressed = await node.compress(bytes);
      expectBytes(await browser.decompress(compressed, bytes.length), bytes);
      expectBytes(await collect(browser.decompressStream(inPieces(compressed, 100_000))), bytes);
    }
  });

  it("is written so that Node reads it, or not at all", async () => {
    const bytes = Uint8Array.from({ length: 70_000 }, (_, i) => (i * i) >> 7);
    if (type !== "snappy") {
      await expect(browser.compress(bytes)).rejects.toMatchObject({ code: "unsupported-compression" });
      expect(browser.compressStream).toBeUndefined();
      return;
    }
    expectBytes(await node.decompress(await browser.compress(bytes), bytes.length), bytes);
    const streamed = await collect(browser.compressStream?.(inPieces(bytes, 65_536), bytes.length) as ByteStream);
    expectBytes(await node.decompress(streamed, bytes.length), bytes);
  });

  it("refuses more bytes than announced", async () => {
    const compressed = await node.compress(new Uint8Array(1_000_000).fill(5));
    await expect(browser.decompress(compressed, 999_999)).rejects.toThrow();
  });

  it("refuses a buffer that is cut or has bytes behind its end, whole and as a stream", async () => {
    const bytes = Uint8Array.from({ length: 1000 }, (_, i) => (i * i) & 0xff);
    const compressed = await node.compress(bytes);
    const broken = [
      new Uint8Array(0),
      compressed.subarray(0, -1),
      compressed.subarray(0, 5),
      concatBytes([compressed, compressed.subarray(0, 3)]),
      concatBytes([compressed, await node.compress(new Uint8Array(0))]),
    ];
    for (const one of broken) {
      const whole = browser.decompress(one, bytes.length).then((got) => expectBytes(got, bytes));
      await expect(whole).rejects.toThrow();
      for (const size of [1, 7, 2000]) {
        const streamed = collect(browser.decompressStream(inPieces(one, size)));
        await expect(streamed.then((got) => expectBytes(got, bytes))).rejects.toThrow();
      }
    }
  });

  it("gives an error or other bytes, and nothing worse, for any flipped byte", async () => {
    const compressed = await node.compress(Uint8Array.from({ length: 400 }, (_, i) => (i * i) >> 5));
    for (let i = 0; i < compressed.length; i++) {
      const flipped = compressed.slice();
      flipped[i] = (flipped[i] as number) ^ 0x10;
      const outcome = await browser.decompress(flipped, 400).catch((error: unknown) => error);
      expect(outcome instanceof Uint8Array || outcome instanceof Error).toBe(true);
    }
  });
});

describe("brotli for browsers", () => {
  it("reads windows of every size, the large ones of Riegeli too", async () => {
    const bytes = Uint8Array.from({ length: 300_000 }, (_, i) => (i * i) >> 7);
    const browser = await loadBrowserCodec("brotli");
    for (const window of [10, 16, 24, 25, 30]) {
      const params = {
        [zlib.constants.BROTLI_PARAM_LGWIN]: window,
        [zlib.constants.BROTLI_PARAM_LARGE_WINDOW]: window > 24 ? 1 : 0,
        [zlib.constants.BROTLI_PARAM_QUALITY]: 5,
      };
      const compressed = zlib.brotliCompressSync(bytes, { params });
      expectBytes(await browser.decompress(compressed, bytes.length), bytes);
    }
  });
});
