// Gives each model a shard of its own, by the class of the object that owns a tensor.
import { addSlice, ShardingCallback } from "cairn/checkpoint";

export default class ModelSeparationPolicy extends ShardingCallback {
  description = "Separates tensors into shards based on the model they belong to.";

  constructor({ models }) {
    super();
    this.models = models;
  }

  call(tensors) {
    const shards = this.models.map(() => new Map());
    // What belongs to no model, as the object graph, must not be lost.
    const rest = new Map();
    for (const { checkpointKey, sliceSpec, tensor, trackable } of tensors) {
      const model = this.models.findIndex((Model) => trackable instanceof Model);
      addSlice(shards[model] ?? rest, checkpointKey, sliceSpec, tensor);
    }
    return [...shards, rest].filter((shard) => shard.size > 0);
  }
}
