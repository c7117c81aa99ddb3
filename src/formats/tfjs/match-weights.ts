import { ByteCursor } from "../../bytes/byte-cursor.js";
import { isCairnError } from "../../errors.js";
import { decodeObjectGraph, type ObjectGraph } from "../../proto/object-graph.js";
import type { TensorSource } from "../../tensor/tensor-source.js";
import type { ModelJson, WeightSpec } from "./model-json.js";
import { checkpointPaths, modelOf } from "./topology.js";

/** Which stored tensor is which weight of a model. */
export interface WeightMatch {
  /** The key of the tensor for each weight, by what TF.js calls the weight. */
  readonly keys: ReadonlyMap<string, string>;
  /** Weights without a tensor. */
  readonly missing: readonly WeightSpec[];
  /** Keys of tensors that are no weight. */
  readonly extra: readonly string[];
}

/** Tensors that may be weights. */
export interface Candidates {
  /** The key of each tensor, by its name. */
  readonly keys: ReadonlyMap<string, string>;
  /** How the tensors hang together, where that is known. */
  readonly graph?: ObjectGraph | undefined;
}

/**
 * Finds the tensor of each weight of a model: one of its name; else, for a layers model, the one that stands where Keras
 * keeps the weight, anywhere below an object that looks like the model.
 */
export function matchWeights(model: Pick<ModelJson, "fields" | "groups">, candidates: Candidates): WeightMatch {
  const specs = model.groups.flatMap(({ weights }) => weights);
  const keys = new Map<string, string>();
  for (const { name } of specs) {
    const key = candidates.keys.get(name);
    if (key !== undefined) keys.set(name, key);
  }
  const open = specs.filter(({ name, group }) => !keys.has(name) && group !== "optimizer").map(({ name }) => name);
  const topology = open.length === 0 ? undefined : modelOf(model.fields.modelTopology);
  if (topology !== undefined) {
    // Layers are numbered by all weights that they have.
    const all = specs.filter(({ group }) => group !== "optimizer").map(({ name }) => name);
    const paths = checkpointPaths(topology, all);
    const wanted = new Map(open.map((name) => [name, paths.get(name) ?? []]));
    for (const [name, key] of byPath(wanted, candidates)) keys.set(name, key);
  }
  const used = new Set(keys.values());
  return {
    keys,
    missing: specs.filter(({ name }) => !keys.has(name)),
    extra: [...candidates.keys.values()].filter((key) => !used.has(key)),
  };
}

type Paths = ReadonlyMap<string, readonly string[]>;

/** Looks from each place where the model may be, and takes the one that gives the most weights. */
function byPath(wanted: Paths, { keys, graph }: Candidates): ReadonlyMap<string, string> {
  let best: ReadonlyMap<string, string> = new Map();
  const lookups = [...namePlaces(keys), ...(graph === undefined ? [] : graphPlaces(graph, new Set(keys.values())))];
  for (const find of lookups) {
    const found = new Map<string, string>();
    for (const [name, paths] of wanted) {
      for (const path of paths) {
        const key = find(path);
        if (key === undefined) continue;
        found.set(name, key);
        break;
      }
    }
    if (found.size > best.size) best = found;
  }
  return best;
}

type Find = (path: string) => string | undefined;

/** What the first step of a path to a layer looks like. */
const LAYER_STEP = /(?:^|\/)(?:layer_with_weights-\d+|layer-\d+|(?:_functional\/)?_operations\/\d+)\//;

/** A look at names, for each prefix before the first step to a layer. */
function namePlaces(keys: ReadonlyMap<string, string>): Find[] {
  const prefixes = new Set<string>();
  for (const name of keys.keys()) {
    const step = LAYER_STEP.exec(name);
    if (step !== null) prefixes.add(name.slice(0, step.index + (step[0].startsWith("/") ? 1 : 0)));
  }
  return Array.from(prefixes, (prefix) => (path: string) => keys.get(prefix + path));
}

/** A walk along the object graph, from each object that has layers. */
function graphPlaces(graph: ObjectGraph, keys: ReadonlySet<string>): Find[] {
  const children = new Map<number, ReadonlyMap<string, number>>();
  const childrenOf = (id: number): ReadonlyMap<string, number> => {
    let byName = children.get(id);
    if (byName === undefined) {
      byName = new Map(graph[id]?.children.map(({ name, nodeId }) => [name, nodeId]));
      children.set(id, byName);
    }
    return byName;
  };
  const isModel = (id: number) =>
    graph[id]?.children.some(({ name }) => /^(layer_with_weights-0|layer-0|_functional|_operations)$/.test(name));
  // Objects are numbered breadth first, so that the nearest to the root come first.
  const places = [...graph.keys()].filter(isModel);
  return places.map((id) => (path: string) => {
    let at: number | undefined = id;
    for (const step of path.split("/")) at = at === undefined ? undefined : childrenOf(at).get(step);
    const key = at === undefined ? undefined : graph[at]?.attributes.find(isValue)?.checkpointKey;
    return key !== undefined && keys.has(key) ? key : undefined;
  });
}

/** Source: tensorflow/python/trackable/base.py, VARIABLE_VALUE_KEY. */
function isValue({ name }: { readonly name: string }): boolean {
  return name === "VARIABLE_VALUE";
}

/** Under this the object graph of a checkpoint stands. Source: tensorflow/python/trackable/base.py, OBJECT_GRAPH_PROTO_KEY. */
const OBJECT_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH";

/**
 * How the tensors of a checkpoint hang together; undefined where nothing tells.
 * @throws CorruptionError (`object-graph`)
 */
export async function readObjectGraph(source: TensorSource): Promise<ObjectGraph | undefined> {
  try {
    const data = await source.data(OBJECT_GRAPH_KEY);
    const cursor = new ByteCursor(await data.read(0, data.size), data.name);
    return decodeObjectGraph(cursor.readBytes(Number(cursor.readUint64())), data.name);
  } catch (error) {
    if (isCairnError(error, "no-such-key")) return undefined;
    throw error;
  }
}
