import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { isCairnError, LimitError } from "../../src/errors.js";
import { MaxShardSizePolicy } from "../../src/sharding/max-shard-size.js";
import { planShards } from "../../src/sharding/plan-shards.js";
import { ShardableTensor } from "../../src/sharding/shardable-tensor.js";
import { type DType, elementBytes } from "../../src/tensor/dtype.js";
import type { LazyTensor } from "../../src/tensor/lazy-tensor.js";
import { stringTensor } from "../../src/tensor/memory-tensor.js";
import { elementCount, type Shape } from "../../src/tensor/shape.js";
import { formatSliceSpec } from "../../src/tensor/slice-spec.js";

const fixture = (path: string) => JSON.parse(readFileSync(new URL(`../fixtures/${path}`, import.meta.url), "utf8"));

interface RecordedTensor {
  key: string;
  dtype: DType;
  shape: number[];
  slice_spec?: string;
  values?: string[];
}

interface RecordedCase {
  name: string;
  max_shard_size: number;
  tensors: RecordedTensor[];
  result: { shards?: { key: string; slice_spec: string; shape: number[] }[][]; hang?: true; error?: string };
  warnings: [key: string, kind: string][];
}

/** A tensor without data: a policy reads none. */
function outline(dtype: DType, shape: Shape): LazyTensor {
  const data = () => Promise.reject(new Error("read"));
  return { dtype, shape, byteLength: elementCount(shape) * elementBytes(dtype), data };
}

function inputOf({ key, dtype, shape, slice_spec, values }: RecordedTensor): ShardableTensor {
  const tensor = values === undefined ? outline(dtype, shape) : stringTensor(values, shape);
  return new ShardableTensor({ checkpointKey: key, sliceSpec: slice_spec, tensor });
}

const numbers = (key: string, dtype: DType, shape: Shape) =>
  new ShardableTensor({ checkpointKey: key, tensor: outline(dtype, shape) });
const strings = (key: string, values: string[], shape: Shape = [values.length]) =>
  new ShardableTensor({ checkpointKey: key, tensor: stringTensor(values, shape) });

/** The shards of a policy as `key:spec`. */
async function shardsOf(tensors: ShardableTensor[], maxShardSize: number, tensorflowIdentical = false) {
  const plan = await planShards(tensors, new MaxShardSizePolicy({ maxShardSize, tensorflowIdentical }));
  return {
    shards: plan.shards.map(({ slices }) => slices.map(({ key, sliceSpec }) => `${key}:${sliceSpec}`)),
    warnings: plan.warnings,
    bytes: plan.shards.map(({ slices }) => slices.reduce((sum, { tensor }) => sum + weightOf(tensor), 0)),
  };
}

const weightOf = ({ byteLength, byteLengths }: LazyTensor) =>
  byteLengths?.reduce((sum, length) => sum + length, 0) ?? byteLength;

const cases: RecordedCase[] = fixture("sharding/max-shard-size-cases.json");
const ended = cases.filter(({ result }) => result.shards !== undefined);
const isEmpty = ({ shape }: RecordedTensor) => elementCount(shape) === 0;

describe("MaxShardSizePolicy beside TensorFlow's", () => {
  it("has all recorded cases", () => {
    expect([cases.length, ended.length]).toEqual([40, 35]);
  });

  it.each(ended)("cuts as TensorFlow does: $name", async ({ tensors, max_shard_size, result, warnings }) => {
    const made = await shardsOf(tensors.map(inputOf), max_shard_size, true);
    // TensorFlow loses empty tensors.
    const empty = tensors.filter(isEmpty).map(({ key }) => `${key}:`);
    const compared = made.shards.map((shard) => shard.filter((slice) => !empty.includes(slice)));
    const expected = result.shards!.map((shard) => shard.map(({ key, slice_spec }) => `${key}:${slice_spec}`));
    expect(compared.filter((shard) => shard.length > 0)).toEqual(expected);
    expect(made.shards.flat().filter((slice) => empty.includes(slice))).toEqual(empty);
    expect(made.warnings.map((warning) => /^"(.*?)"/.exec(warning)?.[1])).toEqual(warnings.map(([key]) => key));
  });

  it.each(ended)("cuts the same by default where TensorFlow can read it: $name", async (recorded) => {
    const tensors = recorded.tensors.map(inputOf);
    const cut = new Set(recorded.result.shards!.flat().map(({ key }) => key));
    const hasSlicedStrings = recorded.tensors.some(
      ({ key, dtype, shape }) => dtype === "string" && shape.length > 0 && cut.has(key),
    );
    const [byDefault, identical] = await Promise.all(
      [false, true].map((mode) => shardsOf(tensors, recorded.max_shard_size, mode)),
    );
    if (!hasSlicedStrings) expect(byDefault).toEqual(identical);
    else for (const slice of byDefault.shards.flat()) expect(slice).toMatch(/:(|(\d+) 0,\2)$/);
  });

  it.each(cases.filter(({ result }) => result.hang))("ends where TensorFlow does not: $name", async (recorded) => {
    const tensors = recorded.tensors.map(inputOf);
    for (const mode of [true, false]) {
      const made = await shardsOf(tensors, recorded.max_shard_size, mode);
      expect(made.shards.length).toBeGreaterThan(1 - Number(tensors[0].dtype === "string"));
    }
  });

  it.each(cases.filter(({ result }) => result.error))("takes what TensorFlow refuses: $name", async (recorded) => {
    const made = await shardsOf(recorded.tensors.map(inputOf), recorded.max_shard_size, true);
    expect(made.shards.length).toBe(1);
    expect(made.warnings).toEqual([]);
  });
});

describe("MaxShardSizePolicy beside checkpoints that TensorFlow wrote", () => {
  interface WrittenTensor {
    key: string;
    dtype: DType;
    shape: number[];
    shard?: number;
    offset: number;
    size: number;
    slices?: [number, number][][];
  }
  const expected: Record<string, { tensors: WrittenTensor[]; slice_entries: WrittenSlice[] }> =
    fixture("checkpoints/expected.json");
  interface WrittenSlice {
    of: string;
    extents: [number, number][];
    shard: number;
  }

  it.each([24, 40, 56, 100, 1000])("puts the same slices into the same shards of %i bytes", async (maxShardSize) => {
    const inOrder = [...expected["max_shard_size/max1000"].tensors].sort((a, b) => a.offset - b.offset);
    // On the disk a short string has a byte of length and a checksum of 4 bytes before it.
    const inputs = inOrder.map(({ key, dtype, shape, size }) =>
      dtype === "string" ? strings(key, ["g".repeat(size - 5)], shape) : numbers(key, dtype, shape),
    );
    const { tensors, slice_entries } = expected[`max_shard_size/max${maxShardSize}`];
    const written = tensors
      .filter(({ slices }) => slices === undefined)
      .map(
        ({ key, shape, shard }) =>
          `${shard} ${key}:${formatSliceSpec(
            shape,
            shape.map((end) => ({ start: 0, end })),
          )}`,
      )
      .concat(
        slice_entries.map(({ of, extents, shard }) => {
          const { shape } = tensors.find(({ key }) => key === of)!;
          const region = extents.map(([start, length], i) => ({
            start,
            end: start + (length < 0 ? shape[i] : length),
          }));
          return `${shard} ${of}:${formatSliceSpec(shape, region)}`;
        }),
      );
    const { shards } = await shardsOf(inputs, maxShardSize);
    expect(shards.flatMap((shard, i) => shard.map((slice) => `${i} ${slice}`)).sort()).toEqual(written.sort());
  });
});

describe("MaxShardSizePolicy on its own", () => {
  it("cuts along a second dimension when a slab is too large", async () => {
    const made = await shardsOf([numbers("a", "float32", [10, 10])], 12);
    expect(Math.max(...made.bytes)).toBeLessThanOrEqual(12);
    expect(made.bytes.reduce((a, b) => a + b)).toBe(400);
    expect(made.warnings).toEqual([]);
    expect(made.shards.length).toBe(34);
  });

  it("gives each element that is larger than a shard one of its own, and says so once", async () => {
    const made = await shardsOf([numbers("a", "float64", [2, 2]), numbers("b", "uint8", [3])], 4);
    expect(made.shards).toEqual([
      ["b:3 0,3"],
      ["a:2 2 0,1:0,1"],
      ["a:2 2 0,1:1,1"],
      ["a:2 2 1,1:0,1"],
      ["a:2 2 1,1:1,1"],
    ]);
    expect(made.warnings).toEqual(['"a" has elements of more than 4 bytes; 4 have a shard each']);
  });

  it("counts a string by its own length when it is alone", async () => {
    const made = await shardsOf([strings("a", ["x", "a long text", "yz"])], 4, true);
    expect(made.shards).toEqual([["a:3 0,1", "a:3 2,1"], ["a:3 1,1"]]);
    expect(made.warnings).toEqual(['"a" has elements of more than 4 bytes; 1 have a shard each']);
  });

  it.each([
    ["float16", 2],
    ["uint16", 2],
    ["uint32", 4],
    ["uint64", 8],
    ["float8_e5m2", 1],
    ["float8_e4m3fn", 1],
    ["qint16", 2],
    ["quint16", 2],
  ] as const)("keeps %s whole, which TensorFlow cannot put together again", async (dtype, width) => {
    const tensors = [
      numbers("a", "uint8", [5]),
      numbers("b", dtype, [8]),
      numbers("c", dtype, [9]),
      numbers("d", "uint8", [2]),
    ];
    const made = await shardsOf(tensors, 8 * width);
    expect(made.shards).toEqual([["a:5 0,5"], ["b:8 0,8"], ["d:2 0,2"], ["c:9 0,9"]].slice(0));
    expect(made.warnings).toEqual([
      `"c" has ${9 * width} bytes, more than the ${8 * width} of a shard: it has one of its own, since TensorFlow cannot read slices of ${dtype}`,
    ]);
    expect((await shardsOf(tensors, 8 * width, true)).warnings).toEqual([]);
  });

  it("keeps empty tensors, whole", async () => {
    const made = await shardsOf(
      [numbers("a", "float32", [0, 3]), strings("b", []), numbers("c", "float16", [2, 0])],
      8,
    );
    expect(made.shards).toEqual([["a:", "b:", "c:"]]);
  });

  it("keeps strings whole whose lengths it does not know", async () => {
    const { byteLengths: _, ...unknown } = stringTensor(["abc", "def"]);
    const tensor = new ShardableTensor({ checkpointKey: "a", tensor: unknown });
    expect((await shardsOf([tensor], 10, true)).shards).toEqual([["a:2 0,2"]]);
  });

  it("fills 40 GB into shards of 500 MiB without reading them", async () => {
    const made = await shardsOf([numbers("x", "float32", [10_000_000_000])], 500 * 2 ** 20);
    expect(made.shards.length).toBe(77);
    expect(Math.max(...made.bytes)).toBeLessThanOrEqual(500 * 2 ** 20);
  });

  it("takes 100,000 tensors", async () => {
    const count = 100_000;
    const tensors = Array.from({ length: count }, (_, i) => numbers(`t${i}`, "float32", [3, 5]));
    const made = await shardsOf(tensors, 1000);
    expect(made.shards.length).toBe(Math.ceil((count * 60) / 1000));
  });

  it("stops at more slices than a checkpoint can have", async () => {
    await expect(shardsOf([numbers("a", "float32", [2 ** 24])], 4)).rejects.toSatisfy((e) => e instanceof LimitError);
  });

  it.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, "500MB", undefined, 2 ** 53])(
    "refuses a size of %s",
    (size) => {
      expect.assertions(1);
      try {
        new MaxShardSizePolicy({ maxShardSize: size as number });
      } catch (error) {
        expect(isCairnError(error, "usage")).toBe(true);
      }
    },
  );
});
