import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MemorySink } from "../../src/bytes/byte-sink.js";
import { BlockCache } from "../../src/bytes/cached-source.js";
import { copySource } from "../../src/bytes/copy-source.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { testByteSource } from "../conformance/byte-source.js";
import { expectBytes } from "../support/bytes.js";
import { CountingSource } from "../support/counting-source.js";
import { randomBytes } from "../support/odd-sources.js";

const BYTES = randomBytes(5_000_000, 3);
const counting = (length = BYTES.length) => new CountingSource(new MemorySource(BYTES.subarray(0, length)));

testByteSource("CachedSource", () => {
  const bytes = randomBytes(100_000, 5);
  return { source: new BlockCache({ blockBytes: 1000 }).wrap(new MemorySource(bytes)), bytes };
});

describe("CachedSource", () => {
  it("gives what the plain source gives for any reads, within its budget", async () => {
    const read = fc.record({ offset: fc.nat(9_999), length: fc.nat(3_000), pieces: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(
        fc.array(read, { maxLength: 20 }),
        fc.integer({ min: 1, max: 2_000 }),
        async (reads, blockBytes) => {
          const cache = new BlockCache({ blockBytes, budgetBytes: 8_000 });
          const source = cache.wrap(new MemorySource(BYTES.subarray(0, 10_000)));
          await Promise.all(
            reads.map(async ({ offset, length, pieces }) => {
              const count = Math.min(length, 10_000 - offset);
              const expected = BYTES.subarray(offset, offset + count);
              if (!pieces) return expectBytes(await source.read(offset, count), expected);
              const got = Buffer.concat(await source.readPieces(offset, count, new Uint8Array(700)));
              expectBytes(new Uint8Array(got), expected.subarray(0, Math.min(count, 700)));
            }),
          );
        },
      ),
      { numRuns: 100 },
    );
  });

  it("reads neighbours together, the same once, and what is known not at all", async () => {
    const inner = counting();
    const source = new BlockCache({ blockBytes: 1000 }).wrap(inner);
    await Promise.all([source.read(100, 2_500), source.read(200, 100), source.read(2_999, 2)]);
    // Blocks 0 to 2 as one; block 3 for the last byte, and as it follows them the one behind it too.
    expect([inner.reads, inner.bytes]).toEqual([2, 5_000]);
    inner.reset();
    await source.read(0, 4_000);
    expect(inner.reads).toBe(0);
    await source.read(500_000, 10);
    expect([inner.reads, inner.bytes]).toEqual([1, 1000]);
  });

  it("reads further ahead while reading goes on in order, and no more than it was asked for before", async () => {
    const inner = counting(1_000_000);
    const source = new BlockCache({ blockBytes: 1000 }).wrap(inner);
    let asked = 0;
    for (let at = 0; at < 1_000_000; at += 500) {
      await source.read(at, 500);
      asked += 500;
      expect(inner.bytes).toBeLessThanOrEqual(2 * asked + 1000);
    }
    expect(inner.bytes).toBe(1_000_000);
    expect(inner.reads).toBeLessThan(15);
  });

  it("streams a long part in few requests, and reads nothing but that part", async () => {
    const inner = counting();
    const cache = new BlockCache({ requestBytes: 2_000_000 });
    const part = cache.wrap(inner).slice(123, 4_500_001);
    const sink = new MemorySink();
    await copySource(part, sink);
    expectBytes(new Uint8Array(sink.bytes), BYTES.subarray(123, 123 + 4_500_001));
    // Two of 2 MB, and the rest, which is short, in blocks.
    expect(inner.reads).toBeLessThanOrEqual(4);
    expect(inner.bytes).toBeLessThan(4_500_001 + 2 * 65_536);
  });

  it("lets several streams go on at once without reading anything twice", async () => {
    const inner = counting();
    const source = new BlockCache({ requestBytes: 1_100_000 }).wrap(inner);
    const sinks = await Promise.all(
      [0, 1, 2].map(async (i) => {
        const sink = new MemorySink();
        await copySource(source.slice(i * 1_600_000, 1_100_000), sink);
        return sink;
      }),
    );
    for (const [i, sink] of sinks.entries()) {
      expectBytes(new Uint8Array(sink.bytes), BYTES.subarray(i * 1_600_000, i * 1_600_000 + 1_100_000));
    }
    expect([inner.reads, inner.bytes]).toEqual([3, 3_300_000]);
  });

  it("drops what was not used for longest, from whatever source", async () => {
    const cache = new BlockCache({ blockBytes: 1000, budgetBytes: 4000, requestBytes: 250 });
    const [a, b] = [counting(), counting()];
    const [one, two] = [cache.wrap(a), cache.wrap(b)];
    for (const source of [one, two]) await source.read(0, 1);
    await one.read(5_000, 1);
    await one.read(0, 1);
    await two.read(9_000, 1);
    expect([a.reads, b.reads]).toEqual([2, 2]);
    await one.read(0, 1);
    expect([a.reads, b.reads]).toEqual([2, 2]);
    await two.read(0, 1);
    expect([a.reads, b.reads]).toEqual([2, 3]);
  });

  it("reads again what failed, and what it was told to forget", async () => {
    const inner = counting();
    let isDown = true;
    const read = inner.read.bind(inner);
    inner.read = (...args) => (isDown ? Promise.reject(new Error("down")) : read(...args));
    const source = new BlockCache().wrap(inner);
    await expect(source.read(0, 10)).rejects.toThrow("down");
    await expect(source.readPieces(0, 2_000_000, new Uint8Array(10))).rejects.toThrow("down");
    isDown = false;
    expectBytes(await source.read(0, 10), BYTES.subarray(0, 10));
    source.forget();
    inner.reset();
    await source.read(0, 10);
    expect(inner.reads).toBe(1);
  });

  it("reads for others what one reader aborts", async () => {
    const inner = counting();
    const read = inner.read.bind(inner);
    // Goes on when it is told to, unless it was aborted.
    let goOn: () => void = () => {};
    const turn = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    inner.read = async (offset, length, options) => {
      await turn;
      options?.signal?.throwIfAborted();
      return read(offset, length);
    };
    const source = new BlockCache().wrap(inner);
    const aborting = new AbortController();
    const [first, second, third, fourth] = [
      source.read(0, 10, { signal: aborting.signal }),
      source.read(5, 10),
      source.readPieces(1_000_000, 2_000_000, new Uint8Array(10), { signal: aborting.signal }),
      source.readPieces(1_000_000, 2_000_000, new Uint8Array(10)),
    ];
    aborting.abort(new Error("stop"));
    goOn();
    await expect(first).rejects.toThrow("stop");
    await expect(third).rejects.toThrow("stop");
    expectBytes(await second, BYTES.subarray(5, 15));
    expectBytes((await fourth)[0] ?? new Uint8Array(0), BYTES.subarray(1_000_000, 1_000_010));
  });

  it("takes bytes that are known already", async () => {
    const inner = counting(100_000);
    const source = new BlockCache().wrap(inner);
    source.seed(0, BYTES.subarray(0, 65_536));
    expectBytes(await source.read(10, 65_000), BYTES.subarray(10, 65_010));
    expect(inner.reads).toBe(0);
    source.seed(65_536, BYTES.subarray(65_536, 100_000));
    await source.read(90_000, 10_000);
    expect(inner.reads).toBe(0);
  });
});
