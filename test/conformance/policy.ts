import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { planShards } from "../../src/sharding/plan-shards.js";
import type { ShardPlan } from "../../src/sharding/shard-plan.js";
import { ShardableTensor } from "../../src/sharding/shardable-tensor.js";
import type { ShardingCallback } from "../../src/sharding/sharding-callback.js";
import { type DType, elementBytes } from "../../src/tensor/dtype.js";
import { elementRuns } from "../../src/tensor/element-runs.js";
import type { LazyTensor } from "../../src/tensor/lazy-tensor.js";
import { memoryTensor, stringTensor } from "../../src/tensor/memory-tensor.js";
import { elementCount, type Shape } from "../../src/tensor/shape.js";
import { formatSliceSpec } from "../../src/tensor/slice-spec.js";
import { sliceTensor } from "../../src/tensor/sliced-tensor.js";
import { decodeElements } from "../../src/tensor/values.js";

const DTYPES: readonly DType[] = ["float32", "float16", "int64", "bool", "complex128", "bfloat16", "string", "uint32"];
const DEVICES = [
  "",
  "/device:CPU:0",
  "/job:worker/task:0/device:GPU:1",
  "/job:worker/task:0/cpu:0",
  "/job:worker/task:1",
];

/** A tensor to save, and where it is cut before the policy sees it. */
interface Sample {
  readonly dtype: DType;
  readonly shape: Shape;
  readonly device: string;
  /** The dimension and place of a cut that is there already. */
  readonly cut: readonly [number, number] | undefined;
}

const sample: fc.Arbitrary<Sample> = fc.record({
  dtype: fc.constantFrom(...DTYPES),
  shape: fc.array(fc.oneof({ weight: 9, arbitrary: fc.integer({ min: 1, max: 7 }) }, fc.constant(0)), { maxLength: 4 }),
  device: fc.constantFrom(...DEVICES),
  cut: fc.option(fc.tuple(fc.nat(3), fc.integer({ min: 1, max: 6 })), { nil: undefined }),
});

/** A tensor whose elements are all different, as far as the dtype allows. */
function makeTensor(dtype: DType, shape: Shape, seed: number): LazyTensor {
  const count = elementCount(shape);
  if (dtype === "string") {
    return stringTensor(
      Array.from({ length: count }, (_, i) => `${seed}-${i}`.repeat((i * 7 + seed) % 4)),
      shape,
    );
  }
  const bytes = new Uint8Array(count * elementBytes(dtype));
  for (let i = 0; i < bytes.length; i++) bytes[i] = (i * 31 + seed * 7) % (dtype === "bool" ? 2 : 251);
  return memoryTensor(dtype, shape, bytes);
}

function makeInputs(samples: readonly Sample[]): { tensors: ShardableTensor[]; whole: Map<string, LazyTensor> } {
  const whole = new Map<string, LazyTensor>();
  const tensors: ShardableTensor[] = [];
  for (const [i, { dtype, shape, device, cut }] of samples.entries()) {
    const checkpointKey = `tensor/${i}`;
    const tensor = makeTensor(dtype, shape, i);
    whole.set(checkpointKey, tensor);
    const parts = elementCount(shape) > 0 && cut !== undefined ? cutInTwo(shape, ...cut) : [];
    if (parts.length === 0) tensors.push(new ShardableTensor({ checkpointKey, device, tensor, trackable: samples[i] }));
    for (const region of parts) {
      const sliceSpec = formatSliceSpec(shape, region);
      tensors.push(new ShardableTensor({ checkpointKey, device, sliceSpec, tensor: sliceTensor(tensor, region) }));
    }
  }
  return { tensors, whole };
}

function cutInTwo(shape: Shape, dimension: number, place: number) {
  if (dimension >= shape.length || place >= shape[dimension]) return [];
  const cut = (start: number, end: number) =>
    shape.map((size, i) => (i === dimension ? { start, end } : { start: 0, end: size }));
  return [cut(0, place), cut(place, shape[dimension])];
}

async function elementsOf(tensor: LazyTensor): Promise<string[]> {
  const data = await tensor.data();
  return Array.from(decodeElements(tensor.dtype, await data.read(0, data.size)), (value) => String(value));
}

/** By key the elements that a plan saves, put together the plain way; an element that is saved twice is an error. */
async function restore(plan: ShardPlan): Promise<Map<string, string[]>> {
  const restored = new Map<string, string[]>();
  for (const { key, fullShape, region, tensor } of plan.shards.flatMap(({ slices }) => slices)) {
    const elements = restored.get(key) ?? Array.from({ length: elementCount(fullShape) }, () => "nothing");
    restored.set(key, elements);
    const values = await elementsOf(tensor);
    for (const { first, count } of elementRuns(fullShape, region)) {
      for (let i = first; i < first + count; i++) {
        if (elements[i] !== "nothing") throw new Error(`element ${i} of ${key} is saved twice`);
        elements[i] = values.shift() ?? "missing";
      }
    }
    expect(values).toEqual([]);
  }
  return restored;
}

/** What every {@link ShardingCallback} has to do. `make` gives a new one; `size` is any size that a user may ask for. */
export function testPolicy(
  name: string,
  make: (size: number) => ShardingCallback,
  options: { changesValues?: boolean } = {},
): void {
  describe(`the policy "${name}"`, () => {
    const size = fc.oneof(fc.integer({ min: 1, max: 64 }), fc.integer({ min: 1, max: 5000 }));

    it("saves each element of any tensors once, in a shard of their task", async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(sample, { minLength: 1, maxLength: 8 }), size, async (samples, maxSize) => {
          const { tensors, whole } = makeInputs(samples);
          const plan = await planShards(tensors, make(maxSize));
          const restored = await restore(plan);
          expect([...restored.keys()].sort()).toEqual([...whole.keys()].sort());
          for (const [key, tensor] of whole) {
            if (options.changesValues) expect(restored.get(key)).not.toContain("nothing");
            else expect(restored.get(key)).toEqual(await elementsOf(tensor));
          }
        }),
        { numRuns: 150 },
      );
    });

    it("decides the same of the same tensors", async () => {
      const samples = fc.sample(sample, { numRuns: 8, seed: 1 });
      const [first, second] = await Promise.all(
        [0, 1].map(async () => {
          const { shards } = await planShards(makeInputs(samples).tensors, make(20));
          return shards.map(({ task, slices }) => [task, slices.map(({ key, sliceSpec }) => [key, sliceSpec])]);
        }),
      );
      expect(first).toEqual(second);
    });

    it("reads nothing", async () => {
      const data = () => Promise.reject(new Error("read"));
      const tensors = makeInputs(fc.sample(sample, { numRuns: 12, seed: 2 })).tensors.map(
        (one) => new ShardableTensor({ ...one, tensor: { ...fieldsOf(one.tensor), data } }),
      );
      expect((await planShards(tensors, make(20))).shards.length).toBeGreaterThan(0);
    });

    it("says in a sentence what it does", () => {
      expect(make(10).description).toMatch(/^[A-Z].*\.$/);
    });
  });
}

function fieldsOf({ dtype, shape, byteLength, byteLengths }: LazyTensor) {
  return { dtype, shape, byteLength, byteLengths };
}
