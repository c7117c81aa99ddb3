import { decodeKey, isHexKey } from "../tensor/key.js";

/** What stands between the path of an object and the name of one of its tensors. Source: tensorflow/python/trackable/trackable_utils.py. */
const ATTRIBUTES = ".ATTRIBUTES";
/** What stands between the path of a variable and that of the optimizer whose slot is meant. Same source. */
const OPTIMIZER_SLOT = ".OPTIMIZER_SLOT";
/** The name of the one tensor of a variable. Source: tensorflow/python/trackable/base.py, VARIABLE_VALUE_KEY. */
export const VARIABLE_VALUE = "VARIABLE_VALUE";
/** The key under which a checkpoint keeps its object graph. Source: same file, OBJECT_GRAPH_PROTO_KEY. */
export const OBJECT_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH";

/** A local name as it stands in a key: `.` is doubled, then `/` is `.S`. */
export function escapeLocalName(name: string): string {
  return name.replaceAll(".", "..").replaceAll("/", ".S");
}

/** The local name that {@link escapeLocalName} was given. */
export function unescapeLocalName(escaped: string): string {
  return escaped.replace(/\.(.)/g, (_, next: string) => (next === "S" ? "/" : next));
}

/** The path of an object, from the local names of the edges that lead to it from the root. */
export function objectPath(names: readonly string[]): string {
  return names.map(escapeLocalName).join("/");
}

/** The key of a tensor of the object at `path`; that of the root is empty, and its keys begin with `/`. */
export function tensorKey(path: string, name: string): string {
  return `${path}/${ATTRIBUTES}/${escapeLocalName(name)}`;
}

/** The path of the slot variable that an optimizer keeps for a variable. */
export function slotPath(variablePath: string, optimizerPath: string, slotName: string): string {
  return `${variablePath}/${OPTIMIZER_SLOT}/${optimizerPath}/${escapeLocalName(slotName)}`;
}

/** A key as readers and writers of checkpoints are given it: one that would look like hex stands in hex. */
export function keyText(key: string): string {
  return isHexKey(key) ? decodeKey(new TextEncoder().encode(key)) : key;
}
