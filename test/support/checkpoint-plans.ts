import type { CheckpointReader } from "../../src/formats/checkpoint/checkpoint-reader.js";
import type { PlannedShard, PlannedSlice, ShardPlan } from "../../src/sharding/shard-plan.js";
import { parseSliceSpec } from "../../src/tensor/slice-spec.js";
import { sliceTensor } from "../../src/tensor/sliced-tensor.js";

/** The plan that a checkpoint was written by: its tensors and slices in the order of their bytes. */
export async function planOf(reader: CheckpointReader, description = ""): Promise<ShardPlan> {
  const placed: { shard: number; offset: number; size: number; slice: PlannedSlice }[] = [];
  for await (const { key, shape, stored, slices } of reader.entries()) {
    const tensor = await reader.lazyTensor(key);
    const whole = shape.map((size) => ({ start: 0, end: size }));
    if (stored) {
      placed.push({ ...stored, slice: { key, sliceSpec: "", fullShape: shape, region: whole, tensor } });
    }
    // Slices in the order of the entry, so that those of no bytes stay in it.
    for (const { extents, stored: part } of slices) {
      const sliceSpec = `${shape.join(" ")} ${extents}`;
      const { region } = parseSliceSpec(sliceSpec)!;
      placed.push({
        ...part,
        slice: { key, sliceSpec, fullShape: shape, region, tensor: sliceTensor(tensor, region) },
      });
    }
  }
  const shards: PlannedShard[] = Array.from({ length: reader.header.shardCount }, (_, shard) => ({
    task: "/job:localhost/replica:0/task:0/device:CPU:0",
    slices: placed
      .filter((one) => one.shard === shard)
      .sort((a, b) => a.offset - b.offset || a.size - b.size)
      .map(({ slice }) => slice),
  }));
  return { description, shards, warnings: [] };
}
