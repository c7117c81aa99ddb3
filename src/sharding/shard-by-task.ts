import type { ShardableTensor } from "./shardable-tensor.js";
import { addSlice, ShardingCallback, type TensorSliceDict } from "./sharding-callback.js";

/** One shard for each task, with its tensors in their order: what is done when there is no other callback. */
export class ShardByTaskPolicy extends ShardingCallback {
  // Source: tensorflow/python/checkpoint/sharding/sharding_policies.py, ShardByTaskPolicy.
  readonly description = "Split tensors into shards based on their device spec task.";

  /** All tensors in one shard. */
  call(tensors: readonly ShardableTensor[]): TensorSliceDict[] {
    const shard: TensorSliceDict = new Map();
    for (const { checkpointKey, sliceSpec, tensor } of tensors) addSlice(shard, checkpointKey, sliceSpec, tensor);
    return [shard];
  }
}
