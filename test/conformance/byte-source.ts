import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import { concatBytes, MemorySink } from "../../src/bytes/byte-sink.js";
import type { ByteSource } from "../../src/bytes/byte-source.js";
import { copySource, readInOrder, streamSource } from "../../src/bytes/copy-source.js";
import { Window } from "../../src/bytes/window.js";
import { TruncatedError } from "../../src/errors.js";
import { expectBytes } from "../support/bytes.js";
import { TinyScratchSource } from "../support/odd-sources.js";

/** A source to test, and the bytes that it has to give. */
export interface MadeSource {
  readonly source: ByteSource;
  readonly bytes: Uint8Array;
  close?(): Promise<void>;
}

const joined = (pieces: readonly Uint8Array[]) => concatBytes([new Uint8Array(0), ...pieces]);

/** What every {@link ByteSource} has to do. Each test gets a new one from `make`; it has to have a few bytes at least. */
export function testByteSource(name: string, make: () => Promise<MadeSource> | MadeSource): void {
  const made: MadeSource[] = [];
  const open = async () => {
    const one = await make();
    made.push(one);
    return one;
  };
  afterEach(async () => {
    for (const one of made.splice(0)) await one.close?.();
  });

  /** A range of the source: short and long ones, and those that touch the ends. */
  const rangeIn = (size: number) =>
    fc
      .tuple(fc.integer({ min: 0, max: size }), fc.oneof(fc.nat(40), fc.nat(size)), fc.boolean())
      .map(([at, count, fromEnd]) => {
        const offset = fromEnd ? size - Math.min(at, count) : at;
        return { offset, length: Math.min(count, size - offset) };
      });

  describe(`${name} as a ByteSource`, () => {
    it("gives the bytes of any range", async () => {
      const { source, bytes } = await open();
      expect(source.size).toBe(bytes.length);
      expect(source.name).not.toBe("");
      await fc.assert(
        fc.asyncProperty(rangeIn(bytes.length), async ({ offset, length }) => {
          expectBytes(await source.read(offset, length), bytes.subarray(offset, offset + length));
        }),
        { numRuns: 60 },
      );
    });

    it("gives pieces that begin any range, with any scratch memory", async () => {
      const { source, bytes } = await open();
      const scratchBytes = fc.oneof(fc.integer({ min: 1, max: 64 }), fc.integer({ min: 1, max: 300_000 }));
      await fc.assert(
        fc.asyncProperty(rangeIn(bytes.length), scratchBytes, fc.nat(100), async (range, size, before) => {
          const { offset, length } = range;
          const whole = new Uint8Array(size + before + 9).fill(0xee);
          const got = joined(await source.readPieces(offset, length, whole.subarray(before, before + size)));
          expect(got.length).toBeLessThanOrEqual(length);
          expect(got.length).toBeGreaterThan(length === 0 ? -1 : 0);
          expectBytes(got, bytes.subarray(offset, offset + got.length));
          // The memory around what it was given is not its own.
          const around = concatBytes([whole.subarray(0, before), whole.subarray(before + size)]);
          expect(around.every((byte) => byte === 0xee)).toBe(true);
        }),
        { numRuns: 60 },
      );
    });

    it("keeps pieces good while others are read", async () => {
      const { source, bytes } = await open();
      await fc.assert(
        fc.asyncProperty(fc.array(rangeIn(bytes.length), { minLength: 2, maxLength: 6 }), async (ranges) => {
          const lists = [];
          for (const { offset, length } of ranges) {
            lists.push(await source.readPieces(offset, length, new Uint8Array(4096)));
          }
          for (const [i, { offset }] of ranges.entries()) {
            const got = joined(lists[i]!);
            expectBytes(got, bytes.subarray(offset, offset + got.length));
          }
        }),
        { numRuns: 20 },
      );
    });

    it("lets reads overlap in time", async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(rangeIn(1000), { minLength: 2, maxLength: 8 }), async (ranges) => {
          const { source, bytes } = await open();
          const parts = ranges.map(({ offset, length }) => {
            const at = Math.floor((offset * bytes.length) / 1000);
            return { at, count: Math.floor((length * (bytes.length - at)) / 1000) };
          });
          const all = await Promise.all(
            parts.map(({ at, count }, i) =>
              i % 2 === 0
                ? source.read(at, count)
                : source.readPieces(at, count, new Uint8Array(Math.max(1, count))).then(joined),
            ),
          );
          for (const [i, { at }] of parts.entries()) expectBytes(all[i]!, bytes.subarray(at, at + all[i]!.length));
          expectBytes(await source.read(0, bytes.length), bytes);
        }),
        { numRuns: 10 },
      );
    });

    it("gives the same to two readers that begin at once", async () => {
      const { source, bytes } = await open();
      const half = Math.ceil(bytes.length / 2);
      const first = await Promise.all([source.read(0, half), source.read(0, half)]);
      for (const one of first) expectBytes(one, bytes.subarray(0, half));
      expectBytes(await source.read(half, bytes.length - half), bytes.subarray(half));
    });

    it("gives slices of slices", async () => {
      const { source, bytes } = await open();
      const shares = fc.array(
        fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.double({ min: 0, max: 1, noNaN: true })),
        {
          minLength: 1,
          maxLength: 4,
        },
      );
      await fc.assert(
        fc.asyncProperty(shares, async (cuts) => {
          let part: ByteSource = source;
          let expected = bytes;
          for (const [from, share] of cuts) {
            const offset = Math.floor(from * expected.length);
            const length = Math.floor(share * (expected.length - offset));
            part = part.slice(offset, length);
            expected = expected.subarray(offset, offset + length);
            expect(part.size).toBe(length);
          }
          expectBytes(await part.read(0, part.size), expected);
          const got = joined(await part.readPieces(0, part.size, new Uint8Array(1000)));
          expectBytes(got, expected.subarray(0, got.length));
          expect(() => part.slice(1, part.size)).toThrow(TruncatedError);
          await expect(part.read(part.size, 1)).rejects.toBeInstanceOf(TruncatedError);
        }),
        { numRuns: 40 },
      );
    });

    it("gives no bytes for a range of none, wherever it is", async () => {
      const { source, bytes } = await open();
      for (const offset of [0, 1, Math.floor(bytes.length / 2), bytes.length]) {
        expectBytes(await source.read(offset, 0), new Uint8Array(0));
        expect(joined(await source.readPieces(offset, 0, new Uint8Array(5000))).length).toBe(0);
        const slice = source.slice(offset, 0);
        expect(slice.size).toBe(0);
        expectBytes(await slice.read(0, 0), new Uint8Array(0));
      }
    });

    it.each([
      { what: "one byte behind the end", of: (size: number) => [size, 1] },
      { what: "more than there is", of: (size: number) => [0, size + 1] },
      { what: "a last byte too many", of: (size: number) => [size - 1, 2] },
      { what: "an offset behind the end", of: (size: number) => [size + 1, 0] },
      { what: "an offset before the start", of: () => [-1, 1] },
      { what: "a negative length", of: () => [2, -1] },
      { what: "no number for an offset", of: () => [Number.NaN, 1] },
      { what: "a length of 2^53", of: () => [0, 2 ** 53] },
    ])("refuses $what", async ({ of }) => {
      const { source } = await open();
      const [offset, length] = of(source.size) as [number, number];
      const refusal = { code: "truncated", file: source.name };
      await expect(source.read(offset, length)).rejects.toMatchObject(refusal);
      await expect(source.readPieces(offset, length, new Uint8Array(64))).rejects.toMatchObject(refusal);
      expect(() => source.slice(offset, length)).toThrow(TruncatedError);
    });

    it("is copied, streamed and visited in order, with little scratch memory too", async () => {
      for (const scratchBytes of [997, 70_000, 2 ** 20]) {
        const { source, bytes } = await open();
        const tiny = new TinyScratchSource(source, scratchBytes);
        const sink = new MemorySink();
        await copySource(tiny, sink);
        expectBytes(sink.bytes, bytes);
        const streamed = new MemorySink();
        for await (const piece of streamSource(tiny)) await streamed.write(piece);
        expectBytes(streamed.bytes, bytes);
        const visited = new MemorySink();
        await readInOrder(tiny, async (pieces, offset) => {
          expect(offset).toBe(visited.position);
          await visited.write(pieces);
        });
        expectBytes(visited.bytes, bytes);
      }
    });

    it("shows the same through a moving window", async () => {
      const { source, bytes } = await open();
      const window = new Window(source);
      const moves = fc.array(rangeIn(bytes.length), { minLength: 1, maxLength: 10 });
      await fc.assert(
        fc.asyncProperty(moves, async (ranges) => {
          for (const { offset, length } of ranges) {
            if (!window.holds(offset, length)) await window.move(offset, length);
            expect(window.holds(offset, length)).toBe(true);
            expect(window.end).toBe(window.start + window.bytes.length);
            expectBytes(window.bytes, bytes.subarray(window.start, window.end));
          }
        }),
        { numRuns: 30 },
      );
      window.release();
    });
  });
}
