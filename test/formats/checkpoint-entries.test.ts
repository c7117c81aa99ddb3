import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isCairnError } from "../../src/errors.js";
import { checkStoredSize } from "../../src/formats/checkpoint/stored-entry.js";
import { checkOverlap } from "../../src/formats/checkpoint/tensor-slices.js";
import type { Region } from "../../src/tensor/region.js";

const place = { file: "x.index", key: "x", offset: 0 };

/** Whether a check finds fault. */
function refuses(check: () => void): boolean {
  try {
    check();
    return false;
  } catch (error) {
    if (!isCairnError(error)) throw error;
    return true;
  }
}

describe("an entry of a checkpoint", () => {
  it("has the size of its dtype and shape, no more and no less", () => {
    for (const [size, isRight] of [
      [40, true],
      [39, false],
      [41, false],
      [0, false],
      [80, false],
    ] as const) {
      const entry = { dtype: 1, shape: [2, 5], shardId: 0, offset: 0, size, crc32c: 0, slices: [] };
      expect(refuses(() => checkStoredSize({ rawKey: "x" as never, entry, place }, "float32"))).toBe(!isRight);
    }
  });

  it("has slices of which no two share an element", () => {
    const range = fc
      .tuple(fc.nat(6), fc.integer({ min: 1, max: 4 }))
      .map(([start, length]) => ({ start, end: start + length }));
    const boxes = fc
      .integer({ min: 1, max: 3 })
      .chain((rank) => fc.array(fc.array(range, { minLength: rank, maxLength: rank }), { maxLength: 5 }));
    const share = (a: Region, b: Region) => a.every(({ start, end }, i) => start < b[i]!.end && b[i]!.start < end);
    fc.assert(
      fc.property(boxes, (regions) => {
        const isShared = regions.some((a, i) => regions.some((b, j) => i < j && share(a, b)));
        expect(refuses(() => checkOverlap(regions, place))).toBe(isShared);
      }),
      { numRuns: 1000 },
    );
    expect(refuses(() => checkOverlap([[{ start: 0, end: 3 }], [{ start: 2, end: 5 }]], place))).toBe(true);
    expect(refuses(() => checkOverlap([[{ start: 0, end: 3 }], [{ start: 3, end: 5 }]], place))).toBe(false);
  });
});
