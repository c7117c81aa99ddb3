// Two policies one after the other: first by model, then each model's tensors in shards of a maximum size.
import { MaxShardSizePolicy, ShardableTensor, ShardingCallback } from "cairn/checkpoint";
import ModelSeparationPolicy from "./model-separation.mjs";

export default class ModelSeparationWithMaxSizePolicy extends ShardingCallback {
  description = "Separates tensors into shards based on the model they belong to, each shard of a maximum size.";

  constructor({ models, maxShardSize }) {
    super();
    this.separation = new ModelSeparationPolicy({ models });
    this.maxSize = new MaxShardSizePolicy({ maxShardSize });
  }

  call(tensors, context) {
    return this.separation
      .call(tensors, context)
      .flatMap((shard) => this.maxSize.call([...shard].flatMap(shardableSlices), context));
  }
}

/** The slices of one key in a shard, as tensors that another policy can place. */
function shardableSlices([checkpointKey, slices]) {
  return Array.from(slices, ([sliceSpec, tensor]) => new ShardableTensor({ checkpointKey, sliceSpec, tensor }));
}
