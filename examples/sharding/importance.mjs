// Gives each important tensor a shard of its own, so that it can be read first.
import { addSlice, ShardingCallback } from "cairn/checkpoint";

export default class ImportancePolicy extends ShardingCallback {
  description = "Separates important tensors into their own shards.";

  constructor({ importantNames }) {
    super();
    this.importantNames = new Set(importantNames);
  }

  call(tensors) {
    const important = [];
    const rest = new Map();
    for (const { checkpointKey, name, sliceSpec, tensor } of tensors) {
      const shard = this.importantNames.has(name) ? new Map() : rest;
      if (shard !== rest) important.push(shard);
      addSlice(shard, checkpointKey, sliceSpec, tensor);
    }
    return [...important, rest].filter((shard) => shard.size > 0);
  }
}
