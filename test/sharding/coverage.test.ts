import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LimitError } from "../../src/errors.js";
import { coverSame, findOverlap } from "../../src/sharding/coverage.js";
import type { Region } from "../../src/tensor/region.js";

const range = fc
  .tuple(fc.nat(4), fc.integer({ min: 1, max: 3 }))
  .map(([start, length]) => ({ start, end: start + length }));
const regions = (rank: number, maxLength: number) =>
  fc.array(fc.array(range, { minLength: rank, maxLength: rank }), { minLength: 1, maxLength });

/** How often each element is covered, the plain way. */
function counts(list: readonly Region[]): Map<string, number> {
  const result = new Map<string, number>();
  const visit = (region: Region, index: number[]): void => {
    if (index.length === region.length) {
      const key = index.join();
      result.set(key, (result.get(key) ?? 0) + 1);
      return;
    }
    const { start, end } = region[index.length];
    for (let i = start; i < end; i++) visit(region, [...index, i]);
  };
  for (const region of list) visit(region, []);
  return result;
}

const sorted = (map: Map<string, number>) => [...map].sort(([a], [b]) => (a < b ? -1 : 1));

describe("covers", () => {
  it("are the same when each element is in as many regions", () => {
    const pair = fc.integer({ min: 1, max: 3 }).chain((rank) => fc.tuple(regions(rank, 4), regions(rank, 4)));
    fc.assert(
      fc.property(pair, ([a, b]) => {
        expect(coverSame(a, b)).toBe(JSON.stringify(sorted(counts(a))) === JSON.stringify(sorted(counts(b))));
      }),
      { numRuns: 400 },
    );
  });

  it("stay the same when regions are cut", () => {
    fc.assert(
      fc.property(regions(3, 4), fc.array(fc.tuple(fc.nat(20), fc.nat(2)), { maxLength: 6 }), (list, cuts) => {
        const pieces = [...list];
        for (const [which, dimension] of cuts) {
          const [region] = pieces.splice(which % pieces.length, 1);
          const { start, end } = region[dimension];
          const middle = start + Math.ceil((end - start) / 2);
          const put = (part: Region[number]) => region.map((whole, i) => (i === dimension ? part : whole));
          if (middle === end) pieces.push(region);
          else pieces.push(put({ start, end: middle }), put({ start: middle, end }));
        }
        expect(coverSame(pieces, list)).toBe(true);
        expect(coverSame(pieces.slice(1), list)).toBe(false);
      }),
      { numRuns: 200 },
    );
  });

  it("are told apart in many dimensions and at large places", () => {
    const box = (end: number): Region =>
      Array.from({ length: 254 }, (_, i) => ({ start: 0, end: i === 250 ? end : 2 }));
    expect(coverSame([box(2 ** 52)], [box(2 ** 52)])).toBe(true);
    expect(coverSame([box(2 ** 52)], [box(2 ** 52 - 1)])).toBe(false);
    const halves = (end: number): Region[] => [[{ start: 0, end }], [{ start: end, end: 2 ** 53 - 1 }]];
    expect(coverSame(halves(5), halves(2 ** 40))).toBe(true);
  });

  it("of scalars are counted", () => {
    expect([coverSame([[]], [[]]), coverSame([[], []], [[]]), coverSame([], [[]]), coverSame([], [])]).toEqual([
      true,
      false,
      false,
      true,
    ]);
  });
});

describe("an overlap", () => {
  it("is found when there is one, and only then", () => {
    const list = fc.integer({ min: 0, max: 3 }).chain((rank) => regions(rank, 5));
    fc.assert(
      fc.property(list, (all) => {
        const pair = findOverlap(all);
        const overlaps = [...counts(all).values()].some((count) => count > 1);
        expect(pair !== undefined).toBe(overlaps);
        if (pair !== undefined) expect([...counts(pair.map((i) => all[i])).values()]).toContain(2);
      }),
      { numRuns: 300 },
    );
  });

  it("is found among many regions that lie side by side", () => {
    const rows = Array.from(
      { length: 50_000 },
      (_, i): Region => [
        { start: 0, end: 9 },
        { start: i, end: i + 1 },
      ],
    );
    expect(findOverlap(rows)).toBeUndefined();
    expect(
      findOverlap([
        ...rows,
        [
          { start: 8, end: 9 },
          { start: 777, end: 778 },
        ],
      ]),
    ).toEqual([777, 50_000]);
  });

  it("is not looked for forever", () => {
    const crossing = Array.from(
      { length: 4000 },
      (_, i): Region => [
        { start: i, end: 10_000 },
        { start: i, end: i + 1 },
      ],
    );
    expect(() => findOverlap(crossing)).toThrow(LimitError);
  });
});
