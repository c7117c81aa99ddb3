import type { PlannedShard, PlannedSlice, ShardPlan } from "../../sharding/shard-plan.js";
import type { LazyTensor } from "../../tensor/lazy-tensor.js";
import { wholeRegion } from "../../tensor/region.js";

/** How large a file may become, 5 GB. Source: huggingface_hub/serialization/_base.py, MAX_SHARD_SIZE. */
export const DEFAULT_MAX_SHARD_SIZE = 5_000_000_000;

/**
 * Plans which tensors go to which file as huggingface_hub does, so that the files come out the same: in the order given,
 * into one file until the next would pass the limit; a tensor over the limit has a file of its own. No tensor is cut.
 * Source: huggingface_hub/serialization/_base.py, split_state_dict_into_shards_factory.
 */
export function planSafetensors(
  tensors: Iterable<readonly [key: string, tensor: LazyTensor]>,
  maxShardSize: number = DEFAULT_MAX_SHARD_SIZE,
): ShardPlan {
  const shards: PlannedSlice[][] = [];
  const warnings: string[] = [];
  let current: PlannedSlice[] = [];
  let currentSize = 0;
  for (const [key, tensor] of tensors) {
    const slice: PlannedSlice = {
      key,
      sliceSpec: "",
      fullShape: tensor.shape,
      region: wholeRegion(tensor.shape),
      tensor,
    };
    if (tensor.byteLength > maxShardSize) {
      shards.push([slice]);
      warnings.push(`"${key}" has ${tensor.byteLength} bytes, more than a file should have, and gets one of its own`);
      continue;
    }
    if (currentSize + tensor.byteLength > maxShardSize) {
      shards.push(current);
      current = [];
      currentSize = 0;
    }
    current.push(slice);
    currentSize += tensor.byteLength;
  }
  if (current.length > 0) shards.push(current);
  const planned = shards.map((slices): PlannedShard => ({ task: "", slices }));
  const description = Number.isFinite(maxShardSize)
    ? `safetensors files of up to ${maxShardSize} bytes`
    : "one safetensors file";
  return { description, shards: planned, warnings };
}
