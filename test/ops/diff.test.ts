import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type DiffOptions, diff } from "../../src/ops/diff.js";
import { encodeFloats } from "../../src/tensor/numbers.js";
import { floats, type MemoryTensor, MemoryTensors, strings, tensorOf } from "../support/memory-tensors.js";

type Tensors = Readonly<Record<string, MemoryTensor>>;

function diffOf(left: Tensors, right: Tensors, options?: DiffOptions) {
  return diff(new MemoryTensors(left), new MemoryTensors(right), options);
}

async function changeOf(left: MemoryTensor, right: MemoryTensor, options?: DiffOptions) {
  const { changed } = await diffOf({ t: left }, { t: right }, options);
  expect(changed.length).toBeLessThan(2);
  return changed[0];
}

function int64(...values: bigint[]): MemoryTensor {
  return tensorOf("int64", [values.length], new Uint8Array(BigInt64Array.from(values).buffer));
}

describe("diff", () => {
  it("finds nothing between a source and itself", async () => {
    const tensors = { a: floats([2], [1, Number.NaN]), b: strings([2], ["x", ""]), c: floats([0, 3], []) };
    expect(await diffOf(tensors, tensors)).toEqual({ added: [], removed: [], changed: [], sameCount: 3 });
  });

  it("tells what is only on one side, in the order of the names' bytes", async () => {
    const [a, b] = [floats([], [1]), floats([], [2])];
    const { added, removed, sameCount } = await diffOf({ same: a, "\u{1f600}": a, "\uffff": a }, { same: a, z: b, b });
    expect(removed).toEqual(["\uffff", "\u{1f600}"]);
    expect(added).toEqual(["b", "z"]);
    expect(sameCount).toBe(1);
  });

  it("says by how much values differ and where first", async () => {
    const change = await changeOf(floats([2, 3], [0, 1, 2, 3, 4, 5]), floats([2, 3], [0, 1, 2, 3, 5, 4.5]));
    expect(change).toEqual({
      key: "t",
      reason: "values",
      detail: "2 of 6 elements, first at [1, 1]",
      maxAbs: 1,
      maxRel: 1 / 5,
    });
  });

  it("puts a shape before anything else", async () => {
    const change = await changeOf(floats([2, 3], [0, 1, 2, 3, 4, 5]), floats([6], [0, 1, 2, 3, 4, 5]));
    expect(change).toMatchObject({ reason: "shape", detail: "[2, 3] → [6]", maxAbs: null });
  });

  it("says what a change of dtype costs", async () => {
    const values = [1, 1.0001, -300];
    const half = tensorOf("bfloat16", [3], encodeFloats("bfloat16", values));
    const change = await changeOf(floats([3], values), half);
    expect(change).toMatchObject({ reason: "dtype" });
    expect(change?.detail).toMatch(/^float32 → bfloat16, 1 of 3 elements, first at \[1\]$/);
    expect(change?.maxAbs).toBeCloseTo(0.0001, 6);
    expect(await changeOf(floats([1], [2]), tensorOf("bfloat16", [1], encodeFloats("bfloat16", [2])))).toEqual({
      key: "t",
      reason: "dtype",
      detail: "float32 → bfloat16",
      maxAbs: 0,
      maxRel: 0,
    });
  });

  it("compares the ids of embedding tables, which stand beside them in formats without tables", async () => {
    const rows = floats([2, 1], [1, 2]);
    const table = (...ids: bigint[]) => ({ ...rows, ids, embedding: { dim: 1, rows: 2, initializer: "zeros" } });
    expect(await changeOf(table(3n, 4n), table(3n, 4n))).toBeUndefined();
    const detail = "1 of 2 rows have other ids, first 4 → 5";
    expect(await changeOf(table(3n, 4n), table(3n, 5n))).toMatchObject({ reason: "ids", detail });
    const nothing = { added: [], removed: [], changed: [] };
    const beside = { t: rows, "t.ids": int64(3n, 5n) };
    expect(await diffOf({ t: table(3n, 5n) }, beside)).toEqual({ ...nothing, sameCount: 1 });
    expect(await diffOf(beside, { t: table(3n, 5n) })).toEqual({ ...nothing, sameCount: 1 });
    expect((await diffOf({ t: table(3n, 4n) }, beside)).changed).toMatchObject([{ key: "t", reason: "ids", detail }]);
    expect((await diffOf({ t: rows }, beside)).added).toEqual(["t.ids"]);
  });

  it("leaves constants out of account where the other side has variables alone", async () => {
    const constant = { ...floats([], [1]), role: "constant" as const };
    const variable = floats([], [2]);
    expect(await diffOf({ c: constant, v: variable }, { v: variable })).toMatchObject({ removed: [], sameCount: 1 });
    expect(await diffOf({ c: constant, d: constant }, { d: constant })).toMatchObject({ removed: ["c"] });
  });

  it("sees a difference of one in integers beyond 2^53", async () => {
    const change = await changeOf(int64(2n ** 60n, 5n), int64(2n ** 60n + 1n, 5n));
    expect(change).toMatchObject({ reason: "values", maxAbs: 1 });
    const large = tensorOf("uint64", [1], new Uint8Array(8).fill(255));
    const small = tensorOf("uint64", [1], new Uint8Array(8));
    expect((await changeOf(large, small))?.maxAbs).toBe(2 ** 64);
  });

  it("has no number for a NaN beside a number", async () => {
    const change = await changeOf(floats([2], [1, Number.NaN]), floats([2], [1, 2]));
    expect(change).toMatchObject({ reason: "values", maxAbs: null, maxRel: null });
  });

  it("takes 0 and -0 for equal", async () => {
    expect(await changeOf(floats([1], [0]), floats([1], [-0]))).toBeUndefined();
  });

  it("lets small differences pass when it is told to", async () => {
    const [a, b] = [floats([2], [100, 1]), floats([2], [101, 1.005])];
    expect(await changeOf(a, b, { tolerance: 1 })).toBeUndefined();
    expect((await changeOf(a, b, { tolerance: 0.5 }))?.detail).toBe("1 of 2 elements, first at [0]");
    expect(await changeOf(a, b, { relativeTolerance: 0.01 })).toBeUndefined();
    expect((await changeOf(a, b, { relativeTolerance: 0.008 }))?.detail).toBe("1 of 2 elements, first at [0]");
  });

  it("compares strings one by one", async () => {
    const change = await changeOf(strings([3], ["a", "bb", "c"]), strings([3], ["a", "b", "c"]));
    expect(change).toEqual({
      key: "t",
      reason: "values",
      detail: "1 of 3 elements, first at [1]",
      maxAbs: null,
      maxRel: null,
    });
    expect((await changeOf(strings([1], ["1"]), floats([1], [1])))?.reason).toBe("dtype");
  });

  it("matches tensors by name where formats write keys in their own way", async () => {
    const left = { "w/.ATTRIBUTES/VARIABLE_VALUE": { ...floats([1], [1]), name: "w" } };
    const structure = { ...strings([], ["graph"]), role: "structure" as const };
    expect(await diffOf({ ...left, graph: structure }, { w: floats([1], [1]) })).toMatchObject({
      added: [],
      removed: [],
      sameCount: 1,
    });
  });

  it("looks only at what a filter names", async () => {
    const { removed } = await diffOf({ "a/x": floats([], [1]), "b/x": floats([], [1]) }, {}, { filter: "a/*" });
    expect(removed).toEqual(["a/x"]);
  });

  it("finds the same as a plain loop, at any size", async () => {
    const lengths = fc.integer({ min: 0, max: 150_000 });
    await fc.assert(
      fc.asyncProperty(
        lengths,
        fc.array(fc.tuple(fc.nat(), fc.integer({ min: -9, max: 9 }))),
        async (length, edits) => {
          const a = new Array<number>(length).fill(1);
          const b = [...a];
          for (const [at, by] of edits) if (length > 0) b[at % length] = 1 + by;
          const count = b.filter((value) => value !== 1).length;
          const change = await changeOf(floats([length], a), floats([length], b));
          expect(change?.maxAbs ?? 0).toBe(
            Math.max(0, ...edits.map((_, i) => Math.abs((b[(edits[i]?.[0] ?? 0) % length] ?? 1) - 1))),
          );
          const text = `${count.toLocaleString("en-US")} of ${length.toLocaleString("en-US")} elements, first at [${b.findIndex((value) => value !== 1)}]`;
          expect(change?.detail).toBe(count === 0 ? undefined : text);
        },
      ),
      { numRuns: 30 },
    );
  });
});
