import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { isCairnError } from "../../src/errors.js";
import { canCast, castTensor, isLossy } from "../../src/tensor/cast.js";
import { type DType, elementBytes } from "../../src/tensor/dtype.js";
import type { LazyTensor } from "../../src/tensor/lazy-tensor.js";
import { decodeNumbers, encodeFloats, type FloatDType } from "../../src/tensor/numbers.js";

const floatTypes: FloatDType[] = ["float64", "float32", "float16", "bfloat16"];

function lazy(dtype: FloatDType, values: readonly number[]): LazyTensor {
  const bytes = encodeFloats(dtype, values);
  return { dtype, shape: [values.length], byteLength: bytes.length, data: async () => new MemorySource(bytes) };
}

async function valuesOf(tensor: LazyTensor): Promise<number[]> {
  const data = await tensor.data();
  return Array.from(decodeNumbers(tensor.dtype, await data.read(0, data.size)) ?? []);
}

describe("castTensor", () => {
  it("rounds each number to the nearest of the other size", async () => {
    expect(await valuesOf(castTensor(lazy("float32", [1, 1.0001, -3.5, 70000]), "float16"))).toEqual([
      1,
      1,
      -3.5,
      Number.POSITIVE_INFINITY,
    ]);
    expect(await valuesOf(castTensor(lazy("bfloat16", [1, -2.5, 2 ** 100]), "float32"))).toEqual([1, -2.5, 2 ** 100]);
  });

  it("knows its size before anything is read", () => {
    const tensor = castTensor(lazy("float64", [1, 2, 3]), "bfloat16");
    expect(tensor).toMatchObject({ dtype: "bfloat16", shape: [3], byteLength: 6 });
  });

  it("gives any range of bytes as part of the whole", async () => {
    const values = Array.from({ length: 70_000 }, (_, i) => Math.sin(i));
    const source = await castTensor(lazy("float32", values), "float16").data();
    const whole = encodeFloats("float16", Float32Array.from(values));
    await fc.assert(
      fc.asyncProperty(fc.nat(whole.length), fc.nat(whole.length), async (a, b) => {
        const [start, end] = [Math.min(a, b), Math.max(a, b)];
        const part = await source.read(start, end - start);
        expect(Buffer.compare(part, whole.subarray(start, end))).toBe(0);
      }),
      { numRuns: 50 },
    );
  });

  it("counts the numbers that became infinite", async () => {
    const loss = { overflowCount: 0 };
    await valuesOf(castTensor(lazy("float32", [1e9, 1, Number.POSITIVE_INFINITY, -1e30]), "float16", loss));
    expect(loss.overflowCount).toBe(2);
  });

  it("leaves a tensor of that dtype as it is", () => {
    const tensor = lazy("float32", [1]);
    expect(castTensor(tensor, "float32")).toBe(tensor);
  });

  it("refuses what is no float", () => {
    const integers = { ...lazy("float32", [1]), dtype: "int32" as const };
    let error: unknown;
    try {
      castTensor(integers, "float16");
    } catch (caught) {
      error = caught;
    }
    expect(isCairnError(error, "invalid-plan")).toBe(true);
    expect(canCast("string", "float32")).toBe(false);
    expect(canCast("float32", "int8")).toBe(false);
  });
});

describe("isLossy", () => {
  it("is false exactly where every number of the one is one of the other", () => {
    const all = (dtype: DType) => {
      const bits =
        elementBytes(dtype) === 1
          ? Uint8Array.from({ length: 256 }, (_, i) => i)
          : Uint16Array.from({ length: 65536 }, (_, i) => i);
      return Array.from(decodeNumbers(dtype, new Uint8Array(bits.buffer)) ?? []).filter(Number.isFinite);
    };
    for (const from of ["float16", "bfloat16", "float8_e5m2", "float8_e4m3fn"] as const) {
      for (const to of floatTypes) {
        const values = all(from);
        const back = decodeNumbers(to, encodeFloats(to, values)) ?? [];
        expect({ from, to, lossy: isLossy(from, to) }).toEqual({
          from,
          to,
          lossy: values.some((value, i) => back[i] !== value),
        });
      }
    }
    expect(isLossy("float32", "float64")).toBe(false);
    expect(isLossy("float64", "float32")).toBe(true);
    expect(isLossy("float32", "bfloat16")).toBe(true);
  });
});
