// Maps the numbers of float32 tensors from a range to 0…1 as they are written. Nothing is held in memory.
import { addSlice, mapTensor, ShardingCallback } from "cairn/checkpoint";

export default class NormalizePolicy extends ShardingCallback {
  description = "Normalizes float32 tensor values.";

  constructor({ min, max }) {
    super();
    this.min = min;
    this.max = max;
  }

  call(tensors) {
    const shard = new Map();
    const normalize = (value) => (value - this.min) / (this.max - this.min);
    for (const { checkpointKey, dtype, sliceSpec, tensor } of tensors) {
      addSlice(shard, checkpointKey, sliceSpec, dtype === "float32" ? mapTensor(tensor, normalize) : tensor);
    }
    return [shard];
  }
}
