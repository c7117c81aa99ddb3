import { encodeObjectGraph, type ObjectGraph } from "../proto/object-graph.js";
import type { LazyTensor } from "../tensor/lazy-tensor.js";
import { stringTensor } from "../tensor/memory-tensor.js";
import { sourceOf } from "./adapters.js";
import { placeOf } from "./devices.js";
import { walkObjects } from "./live-graph.js";
import { keyText, OBJECT_GRAPH_KEY, tensorKey } from "./object-path.js";

import type { TensorSnapshot, Trackable, TrackedTensor } from "./trackable.js";

/** A tensor to be saved. */
export interface GatheredTensor {
  readonly key: string;
  readonly device: string;
  readonly tensor: LazyTensor;
  /** The object whose it is; none of the object graph. */
  readonly owner: object | undefined;
}

/** All that a save writes, as it was at one moment. */
export interface Gathered {
  /** In the order of the object graph, which comes last itself. */
  readonly tensors: readonly GatheredTensor[];
  /** Gives back what holds the values. */
  dispose(): void;
}

/** Takes hold of the values of all objects below `root`, at once, and of the object graph. */
export async function gatherTensors(root: Trackable, device: string): Promise<Gathered> {
  const { nodes } = walkObjects(root);
  const wanted: { key: string; device: string; owner: object; tensor: TrackedTensor }[] = [];
  const graph: ObjectGraph = nodes.map(({ object, path, children, slots, tensors, slotOf }) => {
    const owner = sourceOf(object);
    const place = placeOf(owner) ?? (slotOf && placeOf(sourceOf(slotOf))) ?? device;
    const keyed = tensors.map((tensor) => ({ tensor, key: tensorKey(path, tensor.name) }));
    for (const { tensor, key } of keyed) {
      wanted.push({ key: keyText(key), device: tensor.device ?? place, owner, tensor });
    }
    const listed = keyed.filter(({ tensor }) => !tensor.isUnlisted);
    const attributes = listed.map(({ tensor, key }) => ({
      name: tensor.name,
      fullName: tensor.fullName ?? "",
      checkpointKey: key,
    }));
    return { children, slots, attributes };
  });
  // Begun in one go, so that all are of one moment.
  const begun = await Promise.allSettled(wanted.map(({ tensor }) => tensor.snapshot()));
  const snapshots = begun.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  const dispose = () => {
    for (const snapshot of snapshots.splice(0)) snapshot.dispose();
  };
  const failed = begun.find((one) => one.status === "rejected");
  if (failed !== undefined) {
    dispose();
    throw failed.reason;
  }
  const tensors = wanted.map(({ key, device: place, owner }, i) => {
    return { key, device: place, owner, tensor: snapshots[i] as TensorSnapshot };
  });
  const graphTensor = {
    key: OBJECT_GRAPH_KEY,
    device,
    owner: undefined,
    tensor: stringTensor([encodeObjectGraph(graph)], []),
  };
  return { tensors: [...tensors, graphTensor], dispose };
}
