import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { CorruptionError, LimitError } from "../errors.js";
import { MAX_OBJECT_GRAPH_BYTES } from "../limits.js";
import {
  type TrackableObjectGraph_TrackableObject,
  TrackableObjectGraphSchema,
} from "./gen/tensorflow/core/protobuf/trackable_object_graph_pb.js";

/** An edge of the object graph. */
export interface ObjectReference {
  readonly name: string;
  readonly nodeId: number;
}

/** A tensor of an object. */
export interface ObjectAttribute {
  /** `VARIABLE_VALUE` for that of a variable. */
  readonly name: string;
  /** The name that the variable has in the program, for people. */
  readonly fullName: string;
  /** The key of the tensor. */
  readonly checkpointKey: string;
}

/** A slot variable of an optimizer: what it keeps for a variable under a name. */
export interface SlotReference {
  readonly variableId: number;
  readonly slotName: string;
  readonly nodeId: number;
}

/** An object of a checkpoint. Its id is its place in {@link ObjectGraph}. */
export interface ObjectNode {
  readonly children: readonly ObjectReference[];
  readonly attributes: readonly ObjectAttribute[];
  readonly slots: readonly SlotReference[];
  /** Set when the object's tensors were written by a saver of its own, in a layout that only this one knows. */
  readonly registeredSaver?: { readonly name: string; readonly objectName: string } | undefined;
}

/** The objects of a checkpoint; the first is the root. */
export type ObjectGraph = readonly ObjectNode[];

/**
 * Encodes an object graph as TensorFlow does (tensorflow/core/protobuf/trackable_object_graph.proto), with
 * `has_checkpoint_values` for every object that has values or leads to some by child edges.
 */
export function encodeObjectGraph(graph: ObjectGraph): Uint8Array {
  const withValues = nodesWithValues(graph);
  const nodes = graph.map((node, id) => ({
    children: node.children.map(({ name, nodeId }) => ({ localName: name, nodeId })),
    attributes: node.attributes.map((attribute) => ({ ...attribute })),
    slotVariables: node.slots.map(({ variableId, slotName, nodeId }) => ({
      originalVariableNodeId: variableId,
      slotName,
      slotVariableNodeId: nodeId,
    })),
    ...(node.registeredSaver && { registeredSaver: { ...node.registeredSaver } }),
    hasCheckpointValues: withValues.has(id),
  }));
  return toBinary(TrackableObjectGraphSchema, create(TrackableObjectGraphSchema, { nodes }));
}

/** Source: tensorflow/python/checkpoint/util.py, add_checkpoint_values_check. */
function nodesWithValues(graph: ObjectGraph): Set<number> {
  const parents = graph.map((): number[] => []);
  for (const [id, { children }] of graph.entries()) {
    for (const { nodeId } of children) parents[nodeId]?.push(id);
  }
  const found = new Set<number>();
  const open: number[] = [];
  for (const [id, node] of graph.entries()) {
    if (node.attributes.length + node.slots.length > 0 || node.registeredSaver !== undefined) open.push(id);
  }
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    if (found.has(id)) continue;
    found.add(id);
    open.push(...(parents[id] ?? []));
  }
  return found;
}

/**
 * Decodes the object graph of a checkpoint.
 * @throws {@link CorruptionError} (`object-graph`) when it is none, or names an object that is not there;
 * {@link LimitError} (`limit`)
 */
export function decodeObjectGraph(bytes: Uint8Array, file: string): ObjectGraph {
  if (bytes.length > MAX_OBJECT_GRAPH_BYTES) {
    const expected = `at most ${MAX_OBJECT_GRAPH_BYTES} bytes`;
    throw new LimitError("limit", "the object graph", { file, expected, actual: bytes.length });
  }
  let nodes: readonly TrackableObjectGraph_TrackableObject[];
  try {
    ({ nodes } = fromBinary(TrackableObjectGraphSchema, bytes));
  } catch (cause) {
    throw new CorruptionError("object-graph", "the object graph is no message", { file, cause });
  }
  if (nodes.length === 0) throw new CorruptionError("object-graph", "the object graph has no objects", { file });
  const check = (nodeId: number): number => {
    if (nodeId >= 0 && nodeId < nodes.length) return nodeId;
    const expected = `an id below ${nodes.length}`;
    throw new CorruptionError("object-graph", "the object graph names an object", { file, expected, actual: nodeId });
  };
  return nodes.map((node) => ({
    children: node.children.map(({ localName, nodeId }) => ({ name: localName, nodeId: check(nodeId) })),
    attributes: node.attributes.map(({ name, fullName, checkpointKey }) => ({ name, fullName, checkpointKey })),
    slots: node.slotVariables.map(({ originalVariableNodeId, slotName, slotVariableNodeId }) => ({
      variableId: check(originalVariableNodeId),
      slotName,
      nodeId: check(slotVariableNodeId),
    })),
    registeredSaver: node.registeredSaver && {
      name: node.registeredSaver.name,
      objectName: node.registeredSaver.objectName,
    },
  }));
}

/**
 * A function that gives the local names that lead to an object from the root by the fewest edges; none for one that no
 * edge leads to. Paths are put together when they are asked for: those of a long chain of objects would fill the memory.
 */
export function shortestPaths(graph: ObjectGraph): (id: number) => readonly string[] {
  const parents = new Map<number, { readonly id: number; readonly name: string }>();
  const queue = [0];
  for (const id of queue) {
    for (const { name, nodeId } of graph[id]?.children ?? []) {
      if (nodeId === 0 || parents.has(nodeId)) continue;
      parents.set(nodeId, { id, name });
      queue.push(nodeId);
    }
  }
  return (id) => {
    const names: string[] = [];
    for (let edge = parents.get(id); edge !== undefined; edge = parents.get(edge.id)) names.push(edge.name);
    return names.reverse();
  };
}
