import { describe, expect, it } from "vitest";
import { planShards } from "../../src/sharding/plan-shards.js";
import { ShardableTensor } from "../../src/sharding/shardable-tensor.js";
import type { ShardingCallback } from "../../src/sharding/sharding-callback.js";
import { numberTensor, stringTensor } from "../../src/tensor/memory-tensor.js";
import { decodeElements } from "../../src/tensor/values.js";
import { testPolicy } from "../conformance/policy.js";

/** The policy of an example, which imports the package as a user's program does. */
async function load(name: string): Promise<new (options?: object) => ShardingCallback> {
  const url = new URL(`../../examples/sharding/${name}.mjs`, import.meta.url);
  return (await import(url.href)).default;
}

const AllInOnePolicy = await load("all-in-one");
const ModelSeparationPolicy = await load("model-separation");
const ImportancePolicy = await load("importance");
const NormalizePolicy = await load("normalize");
const ModelSeparationWithMaxSizePolicy = await load("composition");

class OneModel {}
class TwoModel {}
const models = [OneModel, TwoModel];

testPolicy("all in one", () => new AllInOnePolicy());
testPolicy("model separation", () => new ModelSeparationPolicy({ models: [...models, Object] }));
testPolicy("importance", () => new ImportancePolicy({ importantNames: ["tensor/1", "tensor/3"] }));
testPolicy("normalize", () => new NormalizePolicy({ min: -1, max: 4 }), { changesValues: true });
testPolicy("composition", (maxShardSize) => new ModelSeparationWithMaxSizePolicy({ models: [Object], maxShardSize }));

const tensors = [
  new ShardableTensor({
    checkpointKey: "one/x",
    tensor: numberTensor(Float32Array.of(1, 4)),
    trackable: new OneModel(),
  }),
  new ShardableTensor({
    checkpointKey: "two/x",
    tensor: numberTensor(Float32Array.of(7, 10)),
    trackable: new TwoModel(),
  }),
  new ShardableTensor({ checkpointKey: "one/y", tensor: numberTensor(Int32Array.of(5)), trackable: new OneModel() }),
  new ShardableTensor({ checkpointKey: "_CHECKPOINTABLE_OBJECT_GRAPH", tensor: stringTensor(["graph"], []) }),
];

const shardsOf = async (policy: ShardingCallback) =>
  (await planShards(tensors, policy)).shards.map(({ slices }) =>
    slices.map(({ key, sliceSpec }) => `${key} ${sliceSpec}`),
  );
const graph = "_CHECKPOINTABLE_OBJECT_GRAPH ";

describe("the examples of sharding", () => {
  it("put all tensors into one shard", async () => {
    expect(await shardsOf(new AllInOnePolicy())).toEqual([["one/x ", "two/x ", "one/y ", graph]]);
  });

  it("give each model a shard, and one to what is of no model", async () => {
    expect(await shardsOf(new ModelSeparationPolicy({ models }))).toEqual([["one/x ", "one/y "], ["two/x "], [graph]]);
  });

  it("give important tensors shards of their own", async () => {
    expect(await shardsOf(new ImportancePolicy({ importantNames: ["two/x"] }))).toEqual([
      ["two/x "],
      ["one/x ", "one/y ", graph],
    ]);
  });

  it("change numbers as they are written", async () => {
    const { shards } = await planShards(tensors, new NormalizePolicy({ min: 1, max: 10 }));
    const values = shards[0].slices.slice(0, 3).map(async ({ tensor }) => {
      const data = await tensor.data();
      return [...decodeElements(tensor.dtype, await data.read(0, data.size))];
    });
    expect(await Promise.all(values)).toEqual([[0, Math.fround(1 / 3)], [Math.fround(2 / 3), 1], [5]]);
  });

  it("work one after the other", async () => {
    expect(await shardsOf(new ModelSeparationWithMaxSizePolicy({ models, maxShardSize: 8 }))).toEqual([
      ["one/x 2 0,2"],
      ["one/y 1 0,1"],
      ["two/x 2 0,2"],
      [graph],
    ]);
  });
});
