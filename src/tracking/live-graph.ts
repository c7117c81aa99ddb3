import { LimitError, UsageError } from "../errors.js";
import { MAX_TRACKED_OBJECTS } from "../limits.js";
import { trackableOf } from "./adapters.js";
import { objectPath, slotPath } from "./object-path.js";
import type { Trackable, TrackableValue, TrackedTensor } from "./trackable.js";

/** An object of the program as a node of the object graph. Its id is its place in {@link LiveGraph.nodes}. */
export interface LiveNode {
  readonly object: Trackable;
  /** The path that its keys begin with. */
  readonly path: string;
  readonly children: readonly { readonly name: string; readonly nodeId: number }[];
  readonly slots: readonly { readonly variableId: number; readonly slotName: string; readonly nodeId: number }[];
  readonly tensors: readonly TrackedTensor[];
  /** Of a slot variable: the variable that it is kept for, on whose device it is. */
  readonly slotOf?: Trackable | undefined;
}

/** The objects that can be reached from a root, as they are now. */
export interface LiveGraph {
  readonly nodes: readonly LiveNode[];
  readonly ids: ReadonlyMap<Trackable, number>;
}

/** A node while the graph is being walked. */
interface Draft {
  readonly object: Trackable;
  readonly path: string;
  readonly children: { name: string; nodeId: number }[];
  readonly slots: { variableId: number; slotName: string; nodeId: number }[];
  readonly slotOf?: Trackable | undefined;
}

type AddNode = (object: Trackable, path: string, slotOf?: Trackable) => number;

/**
 * Walks the objects of a program in the order in which TensorFlow numbers them: breadth first, children in the order
 * in which their object has them, and after all others the slot variables, by optimizer, slot name and variable.
 * Source: tensorflow/python/checkpoint/graph_view.py, breadth_first_traversal; util.py, serialize_slot_variables.
 * @throws {@link UsageError} (`usage`), {@link LimitError} (`limit`)
 */
export function walkObjects(root: Trackable): LiveGraph {
  const drafts: Draft[] = [];
  const ids = new Map<Trackable, number>();
  const names: (readonly string[])[] = [];
  const add: AddNode = (object, path, slotOf) => {
    const nodeId = drafts.push({ object, path, children: [], slots: [], slotOf }) - 1;
    if (nodeId >= MAX_TRACKED_OBJECTS) {
      throw new LimitError("limit", "objects of a checkpoint", { expected: `at most ${MAX_TRACKED_OBJECTS}` });
    }
    ids.set(object, nodeId);
    return nodeId;
  };
  add(root, "");
  names.push([]);
  for (let id = 0; id < drafts.length; id++) {
    const draft = drafts[id] as Draft;
    const taken = new Set<string>();
    for (const [name, value] of draft.object.checkpointChildren?.() ?? []) {
      if (taken.has(name)) throw new UsageError("usage", `two children are called "${name}"`, { actual: draft.path });
      taken.add(name);
      const child = childOf(value, name);
      let nodeId = ids.get(child);
      if (nodeId === undefined) {
        const path = [...(names[id] as readonly string[]), name];
        nodeId = add(child, objectPath(path));
        names.push(path);
      }
      draft.children.push({ name, nodeId });
    }
  }
  addSlots(drafts, ids, add);
  const nodes = drafts.map((draft) => ({ ...draft, tensors: [...(draft.object.checkpointTensors?.() ?? [])] }));
  return { nodes, ids };
}

function childOf(value: TrackableValue, name: string): Trackable {
  if (typeof value === "object" && value !== null) return trackableOf(value);
  throw new UsageError("usage", `"${name}" is a ${typeof value}, which only a list, map or plain object can hold`, {
    hint: "Use a TrackedNumber, or keep it in an object that is tracked.",
  });
}

function addSlots(drafts: readonly Draft[], ids: ReadonlyMap<Trackable, number>, add: AddNode): void {
  const objects = drafts.slice();
  for (const optimizer of objects) {
    const owner = optimizer.object.checkpointSlots;
    if (owner === undefined) continue;
    for (const slotName of owner.slotNames()) {
      for (const [variableId, variable] of objects.entries()) {
        const slot = owner.slot(variable.object, slotName);
        if (slot === undefined) continue;
        if (ids.has(slot)) throw new UsageError("usage", `slot "${slotName}" of "${variable.path}" is a child as well`);
        const nodeId = add(slot, slotPath(variable.path, optimizer.path, slotName), variable.object);
        optimizer.slots.push({ variableId, slotName, nodeId });
      }
    }
  }
}
