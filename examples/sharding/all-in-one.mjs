// Places all tensors of a task in a single shard.
import { addSlice, ShardingCallback } from "cairn/checkpoint";

export default class AllInOnePolicy extends ShardingCallback {
  description = "Places all tensors in a single shard.";

  call(tensors) {
    const shard = new Map();
    for (const { checkpointKey, sliceSpec, tensor } of tensors) addSlice(shard, checkpointKey, sliceSpec, tensor);
    return [shard];
  }
}
