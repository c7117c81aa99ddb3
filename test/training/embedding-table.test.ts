import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LiveEmbeddingTable } from "../../src/training/embedding-table.js";
import { idWords, toIds } from "../../src/training/ids.js";
import { PageNumbers } from "../../src/training/parameter-block.js";
import { combineRows } from "../../src/training/row-gradients.js";
import { NO_GUARD } from "../../src/training/write-guard.js";

const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const id = fc.oneof(fc.bigInt({ min: -4n, max: 4n }), int64, fc.constantFrom(2n ** 32n, 2n ** 63n - 1n, -(2n ** 63n)));

function table(
  dim: number,
  initializer: string,
  { seed = 0, name = "t", slotValues = [] as number[] } = {},
): LiveEmbeddingTable {
  return new LiveEmbeddingTable(
    { name, dim, initializer },
    { pages: new PageNumbers(), guard: NO_GUARD, slotValues, seed },
  );
}

function values(initializer: string, { dim = 16, rows = 2000, seed = 0 } = {}): number[] {
  const made = table(dim, initializer, { seed });
  return Array.from({ length: rows }, (_, row) => [...made.row(row)]).flat();
}

const mean = (list: number[]): number => list.reduce((a, b) => a + b, 0) / list.length;
const deviation = (list: number[]): number => Math.sqrt(mean(list.map((value) => value * value)) - mean(list) ** 2);

describe("LiveEmbeddingTable", () => {
  it("is a map from ids to rows, in the order in which the rows were made", () => {
    const operation = fc.record({ id, value: fc.option(fc.float({ noNaN: true })) });
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 60 }), fc.integer({ min: 1, max: 5 }), (operations, dim) => {
        const rows = table(dim, "ones", { slotValues: [0, 0.5] });
        const expected = new Map<bigint, number[]>();
        for (const one of operations) {
          const [low, high] = idWords(toIds([one.id])) as unknown as [number, number];
          expect(rows.findRow(low, high) >= 0).toBe(expected.has(one.id));
          if (one.value === null) {
            rows.ensureRow(low, high);
            if (!expected.has(one.id)) expected.set(one.id, new Array(dim).fill(1));
          } else {
            rows.setRow(low, high, new Float32Array(dim).fill(one.value), 0);
            expected.set(one.id, new Array(dim).fill(one.value));
          }
        }
        expect(rows.rowCount).toBe(expected.size);
        [...expected].forEach(([key, row], number) => {
          const [low, high] = idWords(toIds([key])) as unknown as [number, number];
          expect(rows.findRow(low, high)).toBe(number);
          expect([...rows.row(key)]).toEqual(row);
          expect(
            rows
              .arraysOf(number)
              .slice(1)
              .map((slot) => slot[rows.offsetOf(number)]),
          ).toEqual([0, 0.5]);
        });
      }),
    );
  });

  it("finds every one of many rows across blocks", () => {
    const rows = table(3, "zeros");
    const ids = Array.from({ length: 20_000 }, (_, i) => BigInt(i) * 0x1_0000_0001n - 5_000n);
    const numbers = new Int32Array(ids.length);
    rows.ensureRows(toIds(ids), numbers);
    expect([...numbers]).toEqual(Array.from(ids.keys()));
    rows.ensureRows(toIds(ids), numbers);
    expect(rows.rowCount).toBe(20_000);
    expect(rows.blocks.length).toBe(5);
    expect(new BigInt64Array(rows.blocks[4]?.ids.buffer as SharedArrayBuffer)[100]).toBe(ids[4 * 4096 + 100]);
  });

  it("makes a row from seed, table and id, whatever came before it", () => {
    fc.assert(
      fc.property(fc.uniqueArray(id, { minLength: 1, maxLength: 20 }), (ids) => {
        const [one, other] = [table(4, "normal"), table(4, "normal")];
        ids.forEach((key) => void one.row(key));
        [...ids].reverse().forEach((key) => void other.row(key));
        for (const key of ids) expect(one.row(key)).toEqual(other.row(key));
      }),
    );
    const row = table(8, "uniform").row(5);
    expect(table(8, "uniform", { seed: 1 }).row(5)).not.toEqual(row);
    expect(table(8, "uniform", { name: "u" }).row(5)).not.toEqual(row);
    expect(table(8, "uniform").row(6)).not.toEqual(row);
    expect(table(8, "uniform").row(5n + 2n ** 32n)).not.toEqual(row);
  });

  it("makes rows as their initializer says", () => {
    for (const name of ["uniform", "RandomUniform", "random_uniform"]) {
      const list = values(name);
      expect(Math.max(...list.map(Math.abs))).toBeLessThanOrEqual(Math.fround(0.05));
      expect(Math.abs(mean(list))).toBeLessThan(0.001);
      expect(deviation(list)).toBeCloseTo(0.1 / Math.sqrt(12), 3);
    }
    for (const name of ["normal", "RandomNormal"]) {
      const list = values(name);
      expect(Math.abs(mean(list))).toBeLessThan(0.002);
      expect(deviation(list)).toBeCloseTo(0.05, 2);
      expect(list.some((value) => Math.abs(value) > 0.1)).toBe(true);
    }
    const truncated = values("TruncatedNormal");
    expect(Math.max(...truncated.map(Math.abs))).toBeLessThanOrEqual(Math.fround(0.1));
    expect(deviation(truncated)).toBeCloseTo(0.05 * 0.8796, 2);
    expect(new Set(values("Zeros"))).toEqual(new Set([0]));
    expect(new Set(values("ones"))).toEqual(new Set([1]));
    expect(new Set(values("constant(0.25)"))).toEqual(new Set([0.25]));
    expect(mean(values("normal(3, 0.5)"))).toBeCloseTo(3, 1);
    // Keras takes both fans of a shape [dim] as dim.
    expect(Math.max(...values("GlorotUniform", { dim: 12 }).map(Math.abs))).toBeCloseTo(Math.sqrt(3 / 12), 2);
    expect(Math.max(...values("he_uniform", { dim: 12 }).map(Math.abs))).toBeCloseTo(Math.sqrt(6 / 12), 2);
    expect(deviation(values("glorot_normal", { dim: 16 }))).toBeCloseTo(0.25, 2);
    expect(deviation(values("HeNormal", { dim: 16 }))).toBeCloseTo(Math.sqrt(2 / 16), 2);
  });

  it("refuses initializers and widths that are none", () => {
    for (const name of ["lovely", "", "uniform(1,2,3)", "constant(x)", "zeros(1)", "__proto__", "constructor"]) {
      expect(() => table(2, name).row(1)).toThrow(expect.objectContaining({ code: "unknown-initializer" }));
    }
    for (const dim of [0, -1, 1.5, Number.NaN, 2 ** 21]) {
      expect(() => table(dim, "zeros")).toThrow(expect.objectContaining({ code: "usage" }));
    }
    expect(() => toIds([2 ** 53])).toThrow(expect.objectContaining({ code: "usage" }));
    expect(() => toIds([2n ** 63n])).toThrow(expect.objectContaining({ code: "usage" }));
    expect(() => toIds([0.5])).toThrow(expect.objectContaining({ code: "usage" }));
  });
});

describe("combineRows", () => {
  it("adds up what belongs to one row", () => {
    const list = fc.array(fc.tuple(fc.integer({ min: 0, max: 12 }), fc.integer({ min: -99, max: 99 })), {
      maxLength: 60,
    });
    fc.assert(
      fc.property(list, (pairs) => {
        const rows = Int32Array.from(pairs, ([row]) => row);
        const gradients = Float32Array.from(pairs.flatMap(([, value]) => [value, -value]));
        const expected = new Map<number, number>();
        for (const [row, value] of pairs) expected.set(row, (expected.get(row) ?? 0) + value);
        const count = combineRows(rows, gradients, 2);
        expect([...rows.subarray(0, count)]).toEqual([...expected.keys()]);
        expect([...gradients.subarray(0, 2 * count)].map((value) => value + 0)).toEqual(
          [...expected.values()].flatMap((value) => [value, 0 - value]),
        );
      }),
    );
  });
});
