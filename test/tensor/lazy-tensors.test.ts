import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { isCairnError, NotFoundError } from "../../src/errors.js";
import { elementRuns, isContiguous } from "../../src/tensor/element-runs.js";
import type { LazyTensor } from "../../src/tensor/lazy-tensor.js";
import { mapTensor } from "../../src/tensor/mapped-tensor.js";
import { memoryTensor, numberTensor, stringTensor } from "../../src/tensor/memory-tensor.js";
import type { Region } from "../../src/tensor/region.js";
import { elementCount, type Shape } from "../../src/tensor/shape.js";
import { sliceTensor } from "../../src/tensor/sliced-tensor.js";
import { tensorFrom } from "../../src/tensor/stored-tensor.js";
import { readStringLengths } from "../../src/tensor/strings.js";
import { decodeElements } from "../../src/tensor/values.js";

async function valuesOf(tensor: LazyTensor, region?: Region): Promise<unknown[]> {
  const data = await tensor.data(region);
  const bytes = await data.read(0, data.size);
  const values = [...decodeElements(tensor.dtype, bytes)];
  return values.map((value) => (value instanceof Uint8Array ? new TextDecoder().decode(value) : value));
}

/** The row-major positions of a region, the plain way. */
function positions(shape: Shape, region: Region): number[] {
  const all = Array.from({ length: elementCount(shape) }, (_, i) => i);
  return all.filter((position) => {
    let rest = position;
    for (let i = shape.length - 1; i >= 0; i--) {
      const index = rest % shape[i];
      if (index < region[i].start || index >= region[i].end) return false;
      rest = (rest - index) / shape[i];
    }
    return true;
  });
}

const range = fc.tuple(fc.nat(3), fc.nat(3), fc.nat(2));
const box = fc.array(range, { maxLength: 4 }).map((ranges) => ({
  shape: ranges.map(([start, length, rest]) => start + length + rest),
  region: ranges.map(([start, length]) => ({ start, end: start + length })),
}));

describe("element runs", () => {
  it("are the elements of a region, in order", () => {
    fc.assert(
      fc.property(box, ({ shape, region }) => {
        const runs = [...elementRuns(shape, region)];
        const taken = runs.flatMap(({ first, count }) => Array.from({ length: count }, (_, i) => first + i));
        expect(taken).toEqual(positions(shape, region));
        if (taken.length > 0) expect(isContiguous(shape, region)).toBe(taken.at(-1)! - taken[0] + 1 === taken.length);
      }),
      { numRuns: 500 },
    );
  });
});

describe("a slice of a tensor", () => {
  it.each([
    [
      "numbers",
      (shape: Shape) =>
        numberTensor(
          Float32Array.from({ length: elementCount(shape) }, (_, i) => i),
          shape,
        ),
    ],
    [
      "strings",
      (shape: Shape) =>
        stringTensor(
          Array.from({ length: elementCount(shape) }, (_, i) => "x".repeat(i % 5) + i),
          shape,
        ),
    ],
  ])("has the elements of its region: %s", async (_, make) => {
    await fc.assert(
      fc.asyncProperty(box, async ({ shape, region }) => {
        const tensor = make(shape);
        const all = await valuesOf(tensor);
        const slice = sliceTensor(tensor, region);
        const expected = positions(shape, region).map((i) => all[i]);
        expect(await valuesOf(slice)).toEqual(expected);
        expect(await valuesOf(tensor, region)).toEqual(expected);
        expect((await slice.data()).size).toBe(slice.byteLength);
        if (slice.byteLengths !== undefined)
          expect(slice.byteLengths).toEqual(expected.map((text) => String(text).length));
      }),
    );
  });

  it("can be cut again", async () => {
    const tensor = numberTensor(
      Int32Array.from({ length: 24 }, (_, i) => i),
      [4, 6],
    );
    const rows = sliceTensor(tensor, [
      { start: 1, end: 4 },
      { start: 0, end: 6 },
    ]);
    const part = sliceTensor(rows, [
      { start: 1, end: 3 },
      { start: 2, end: 4 },
    ]);
    expect(await valuesOf(part)).toEqual([14, 15, 20, 21]);
    expect(
      await valuesOf(part, [
        { start: 1, end: 2 },
        { start: 1, end: 2 },
      ]),
    ).toEqual([21]);
  });

  it("is the tensor itself when it is the whole", () => {
    const tensor = numberTensor(new Uint8Array(6), [2, 3]);
    expect(
      sliceTensor(tensor, [
        { start: 0, end: 2 },
        { start: 0, end: 3 },
      ]),
    ).toBe(tensor);
  });

  it.each([
    ["passes the shape", [{ start: 0, end: 7 }]],
    ["ends before it starts", [{ start: 3, end: 2 }]],
    ["starts before the first", [{ start: -1, end: 2 }]],
    ["is between elements", [{ start: 0.5, end: 2 }]],
    ["has another rank", []],
  ])("is refused when it %s", (_, region) => {
    expect(thrown(() => sliceTensor(numberTensor(new Uint8Array(6)), region))).toBe("usage");
  });

  it("is refused of elements whose lengths are not known", () => {
    const { byteLengths: _, ...unknown } = stringTensor(["a", "b"]);
    expect(thrown(() => sliceTensor(unknown, [{ start: 0, end: 1 }]))).toBe("usage");
    expect(thrown(() => sliceTensor({ ...unknown, dtype: "variant" }, [{ start: 0, end: 1 }]))).toBe("usage");
  });
});

describe("a tensor in memory", () => {
  it("has the dtype of its array", () => {
    const arrays = [
      new Float64Array(2),
      new BigInt64Array(2),
      new Uint16Array(2),
      new Int8Array(2),
      new BigUint64Array(2),
    ];
    expect(arrays.map((array) => numberTensor(array).dtype)).toEqual(["float64", "int64", "uint16", "int8", "uint64"]);
  });

  it("has text as UTF-8 and bytes as they are", async () => {
    expect(await valuesOf(stringTensor(["ä", Uint8Array.of(65)]))).toEqual(["ä", "A"]);
    expect(stringTensor(["ä", Uint8Array.of(65)]).byteLengths).toEqual([2, 1]);
  });

  it.each([
    ["fewer bytes than its shape", () => memoryTensor("float32", [3], new Uint8Array(8))],
    ["a part of an element", () => memoryTensor("float32", [1], new Uint8Array(5))],
    ["more strings than its shape", () => stringTensor(["a", "b"], [])],
    ["a negative shape", () => memoryTensor("uint8", [-1, -1], new Uint8Array(1))],
    ["bytes as strings", () => memoryTensor("string", [1], new Uint8Array(9))],
    ["an array without type", () => numberTensor([1, 2] as unknown as Float32Array)],
  ])("is refused with %s", (_, make) => {
    expect(thrown(make)).toBe("usage");
  });
});

describe("a changed tensor", () => {
  it.each([
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "int8",
    "int16",
    "int32",
    "uint8",
    "uint16",
    "uint32",
  ] as const)("has the changed numbers of %s, wherever it is read", async (dtype) => {
    const start = numberTensor(Uint8Array.from({ length: 12 }, (_, i) => i));
    const width = { 4: 4, 8: 8, 2: 2, 1: 1 }[
      Number(/float16/.test(dtype) ? 2 : Number(/\d+/.exec(dtype)![0]) / 8) as 1
    ]!;
    const zeros = memoryTensor(dtype, [3, 4], new Uint8Array(12 * width));
    let next = 0;
    const tensor = mapTensor(zeros, () => next++ % 12);
    expect(await valuesOf(tensor)).toEqual(await valuesOf(start));
    const doubled = mapTensor(tensor, (value) => value * 2);
    const source = await doubled.data();
    next = 0;
    const whole = await source.read(0, source.size);
    for (let from = 0; from < source.size; from += 5) {
      next = Math.floor(from / width);
      const length = Math.min(7, source.size - from);
      expect(await source.read(from, length)).toEqual(whole.slice(from, from + length));
    }
  });

  it("can be cut, before and after", async () => {
    const tensor = numberTensor(Float32Array.of(1, 2, 3, 4), [2, 2]);
    const column = [
      { start: 0, end: 2 },
      { start: 1, end: 2 },
    ];
    const half = (value: number) => value / 2;
    expect(await valuesOf(sliceTensor(mapTensor(tensor, half), column))).toEqual([1, 2]);
    expect(await valuesOf(mapTensor(sliceTensor(tensor, column), half))).toEqual([1, 2]);
  });

  it("reads large tensors in parts", async () => {
    const numbers = Float32Array.from({ length: 70_000 }, (_, i) => i);
    const values = await valuesOf(mapTensor(numberTensor(numbers), (value) => -value));
    expect(values[69_999]).toBe(-69_999);
    expect(values.length).toBe(70_000);
  });

  it("is refused for dtypes that are no numbers of JavaScript", () => {
    expect(thrown(() => mapTensor(stringTensor(["a"]), (value) => value))).toBe("unsupported-dtype");
    expect(thrown(() => mapTensor(numberTensor(new BigInt64Array(1)), (value) => value))).toBe("unsupported-dtype");
  });
});

describe("a tensor of a source", () => {
  const stored = { numbers: numberTensor(Float32Array.of(1, 2, 3)), words: stringTensor(["one", "", "three"]) };
  const source = {
    async *tensors() {},
    async info(key: string) {
      const tensor = stored[key as "numbers"];
      if (tensor === undefined) throw new NotFoundError("no-such-key", key);
      const { dtype, shape, byteLength } = tensor;
      return { key, dtype, shape, byteLength };
    },
    data: (key: string, region?: Region) => stored[key as "numbers"].data(region),
    verify: async () => {},
    close: async () => {},
  };

  it("can be cut, strings as well", async () => {
    const words = await tensorFrom(source, "words");
    expect(words.byteLengths).toEqual([3, 0, 5]);
    expect(await valuesOf(sliceTensor(words, [{ start: 1, end: 3 }]))).toEqual(["", "three"]);
    const numbers = await tensorFrom(source, "numbers");
    expect(await valuesOf(sliceTensor(numbers, [{ start: 1, end: 2 }]))).toEqual([2]);
  });

  it("is not there for another key", async () => {
    await expect(tensorFrom(source, "other")).rejects.toSatisfy((error) => isCairnError(error, "no-such-key"));
  });

  it.each([
    ["end early", Uint8Array.of(5, 0, 0, 0, 0, 0, 0, 0, 1), 1],
    ["are cut within a length", Uint8Array.of(1, 0, 0, 0, 0, 0, 0), 1],
    ["are more than the shape says", new Uint8Array(16), 1],
    ["are fewer than the shape says", new Uint8Array(16), 2 ** 40],
    ["have a huge length", new Uint8Array(16).fill(255), 2],
  ])("is refused when its strings %s", async (_, bytes, count) => {
    await expect(readStringLengths(new MemorySource(bytes), count)).rejects.toSatisfy((error) =>
      isCairnError(error, "tensor-data"),
    );
  });
});

function thrown(run: () => unknown): string | undefined {
  try {
    run();
    return undefined;
  } catch (error) {
    return isCairnError(error) ? error.code : String(error);
  }
}
