import { isCairnError } from "../../errors.js";
import { decodeObjectGraph, type ObjectGraph, type ObjectNode, shortestPaths } from "../../proto/object-graph.js";
import { STRING_LENGTH_BYTES } from "../../tensor/strings.js";
import type { TensorSource } from "../../tensor/tensor-source.js";
import { OBJECT_GRAPH_KEY } from "./checkpoint-key.js";

/** The object that a tensor belongs to, as the object graph of its checkpoint has it. */
export interface StoredObject extends ObjectNode {
  readonly id: number;
  /** The local names that lead to it from the root. */
  readonly path: readonly string[];
}

/** The objects of a checkpoint by the keys of their tensors; none where it has no object graph that can be read. */
export async function readOwners(
  source: Pick<TensorSource, "info" | "data">,
): Promise<ReadonlyMap<string, StoredObject>> {
  const graph = await readGraph(source);
  const pathOf = shortestPaths(graph);
  const owners = new Map<string, StoredObject>();
  for (const [id, node] of graph.entries()) {
    const object: StoredObject = {
      ...node,
      id,
      get path() {
        return pathOf(id);
      },
    };
    for (const { checkpointKey } of node.attributes) owners.set(checkpointKey, object);
  }
  return owners;
}

async function readGraph(source: Pick<TensorSource, "info" | "data">): Promise<ObjectGraph> {
  try {
    const { dtype, shape } = await source.info(OBJECT_GRAPH_KEY);
    if (dtype !== "string" || shape.length > 0) return [];
    const data = await source.data(OBJECT_GRAPH_KEY);
    const bytes = await data.read(0, data.size);
    return decodeObjectGraph(bytes.subarray(STRING_LENGTH_BYTES), data.name);
  } catch (error) {
    if (isCairnError(error, "no-such-key") || isCairnError(error, "object-graph")) return [];
    throw error;
  }
}
