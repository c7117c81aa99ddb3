import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { concatBytes, MemorySink, totalLength } from "../../src/bytes/byte-sink.js";
import { expectBytes } from "../support/bytes.js";
import { randomBytes } from "../support/odd-sources.js";

describe("concatBytes", () => {
  it("joins pieces in order, and gives a single one back as it is", () => {
    const one = Uint8Array.of(1, 2);
    expect(concatBytes([one])).toBe(one);
    expectBytes(concatBytes([one, new Uint8Array(0), Uint8Array.of(3)]), Uint8Array.of(1, 2, 3));
    expectBytes(concatBytes([]), new Uint8Array(0));
    expect(totalLength([one, one])).toBe(4);
  });
});

describe("MemorySink", () => {
  it("keeps what is written, in order, however much", async () => {
    const lists = fc.array(fc.array(fc.nat(3000), { maxLength: 4 }), { maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(lists, async (sizes) => {
        const sink = new MemorySink();
        const all: Uint8Array[] = [];
        for (const [i, list] of sizes.entries()) {
          const pieces = list.map((size, j) => randomBytes(size, i * 10 + j));
          all.push(...pieces);
          // Two calls may be under way at once; the order is that of the calls.
          void sink.write(pieces.length === 1 ? pieces[0]! : pieces);
          expect(sink.position).toBe(totalLength(all));
        }
        expectBytes(sink.bytes, concatBytes([new Uint8Array(0), ...all]));
      }),
      { numRuns: 40 },
    );
  });

  it("replaces bytes that are written already, and nothing else", async () => {
    const sink = new MemorySink();
    await sink.write(randomBytes(3000));
    await sink.patch(1500, Uint8Array.of(1, 2, 3));
    const expected = randomBytes(3000);
    expected.set([1, 2, 3], 1500);
    expectBytes(sink.bytes, expected);
  });
});
