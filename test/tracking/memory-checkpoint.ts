import { MemorySource } from "../../src/bytes/memory-source.js";
import { NotFoundError } from "../../src/errors.js";
import { decodeObjectGraph, type ObjectGraph } from "../../src/proto/object-graph.js";
import type { TensorInfo } from "../../src/tensor/tensor-source.js";
import { LOCAL_DEVICE } from "../../src/tracking/devices.js";
import { gatherTensors } from "../../src/tracking/gather.js";
import { LoadStatus } from "../../src/tracking/load-status.js";
import { OBJECT_GRAPH_KEY } from "../../src/tracking/object-path.js";
import { type CheckpointTensors, Restoration } from "../../src/tracking/restoration.js";
import { CheckpointRoot } from "../../src/tracking/root.js";
import { decodeStrings } from "../../src/tracking/snapshot.js";
import type { TensorValue } from "../../src/tracking/trackable.js";

/** A checkpoint that is only in memory: what a save gathers, and what a restore reads. */
export class MemoryCheckpoint implements CheckpointTensors {
  readonly path = "memory/ckpt";
  readonly values = new Map<string, TensorValue>();

  static async of(objects: object): Promise<MemoryCheckpoint> {
    const made = new MemoryCheckpoint();
    const gathered = await gatherTensors(new CheckpointRoot(objects), LOCAL_DEVICE);
    for (const { key, tensor } of gathered.tensors) {
      const data = await tensor.data();
      const bytes = (await data.read(0, data.size)).slice();
      made.values.set(key, { dtype: tensor.dtype, shape: tensor.shape, bytes });
    }
    gathered.dispose();
    return made;
  }

  get graph(): ObjectGraph {
    return decodeObjectGraph(decodeStrings(this.values.get(OBJECT_GRAPH_KEY)!.bytes, "")[0]!, this.path);
  }

  async restoreInto(objects: object): Promise<LoadStatus & { again(): Promise<void> }> {
    const root = new CheckpointRoot(objects);
    const restoration = new Restoration(this.graph, this);
    await restoration.update(root);
    return Object.assign(new LoadStatus(restoration, root), { again: () => restoration.update(root) });
  }

  async *tensors(): AsyncIterable<TensorInfo> {
    for (const key of [...this.values.keys()].sort()) yield await this.info(key);
  }

  async info(key: string): Promise<TensorInfo> {
    const value = this.values.get(key);
    if (value === undefined) throw new NotFoundError("no-such-key", `no tensor "${key}"`, { file: this.path });
    return { key, dtype: value.dtype, shape: value.shape, byteLength: value.bytes.length };
  }

  async data(key: string) {
    await this.info(key);
    return new MemorySource(this.values.get(key)!.bytes, this.path);
  }

  async verify(): Promise<void> {}
  async close(): Promise<void> {}
}
