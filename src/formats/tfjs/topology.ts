import { LimitError } from "../../errors.js";
import { MAX_JSON_DEPTH } from "../../limits.js";
import { hasHiddenInput, KERAS_3_NAMES, layerEdges, weightNames } from "./keras-names.js";
import { isObject } from "./model-json.js";

/** A layer or model of a topology, as far as it matters for its weights. */
export interface TopologyLayer {
  readonly className: string;
  readonly name: string;
  /** Of a model. */
  readonly layers?: readonly TopologyLayer[] | undefined;
  /** Layers that it holds, by the name that Keras gives the edge. */
  readonly inner: readonly (readonly [edge: string, layer: TopologyLayer])[];
}

/** The model that a topology describes; undefined for the graph of a graph model and for what is none. */
export function modelOf(topology: unknown): TopologyLayer | undefined {
  const model = isObject(topology) && isObject(topology.model_config) ? topology.model_config : topology;
  const layer = layerOf(model, 0);
  return layer?.layers === undefined ? undefined : layer;
}

function layerOf(value: unknown, depth: number): TopologyLayer | undefined {
  if (depth > MAX_JSON_DEPTH) {
    throw new LimitError("limit", "nesting of a model's layers", { expected: `at most ${MAX_JSON_DEPTH}` });
  }
  if (!isObject(value) || typeof value.class_name !== "string") return undefined;
  const config = isObject(value.config) ? value.config : {};
  const className = value.class_name;
  const name = String(config.name ?? value.name ?? "");
  // The configuration of a sequential model was a bare list once.
  const list = Array.isArray(value.config) && className === "Sequential" ? value.config : config.layers;
  const layersIn = (values: unknown): TopologyLayer[] =>
    Array.isArray(values) ? values.flatMap((one: unknown) => layerOf(one, depth + 1) ?? []) : [];
  if (Array.isArray(list)) return { className, name, layers: layersIn(list), inner: [] };
  return { className, name, inner: innerLayers(className, config, (one) => layersIn([one])[0]) };
}

/** Layers that are made with others of their own, a cell. */
const WITH_CELL = /^(SimpleRNN|LSTM|GRU|ConvLSTM2D)$/;

function innerLayers(
  className: string,
  config: Readonly<Record<string, unknown>>,
  layer: (value: unknown) => TopologyLayer | undefined,
): (readonly [string, TopologyLayer])[] {
  const bare: TopologyLayer = { className: `${className}Cell`, name: "", inner: [] };
  if (WITH_CELL.test(className)) return [["cell", bare]];
  const held = layer(config.layer);
  if (className === "Bidirectional") {
    if (held === undefined) return [];
    return [
      ["forward_layer", { ...held, name: `forward_${held.name}` }],
      ["backward_layer", layer(config.backward_layer) ?? { ...held, name: `backward_${held.name}` }],
    ];
  }
  if (held !== undefined) return [["layer", held]];
  const cell = layer(config.cell);
  if (cell !== undefined) return [["cell", cell]];
  const cells = Array.isArray(config.cells) ? config.cells : [];
  return cells.map((one: unknown, i) => [`cells/${i}`, layer(one) ?? bare] as const);
}

/**
 * Where each weight of a model stands in a checkpoint: paths from the model, of Keras 2 and of Keras 3, by what TF.js
 * calls the weight. Weights that no layer claims have none.
 */
export function checkpointPaths(
  model: TopologyLayer,
  names: readonly string[],
): ReadonlyMap<string, readonly string[]> {
  const paths = new Map<string, string[]>();
  collect(model, names, [""], paths);
  return paths;
}

function collect(
  layer: TopologyLayer,
  names: readonly string[],
  prefixes: readonly string[],
  paths: Map<string, string[]>,
): void {
  const { layers, inner } = layer;
  if (layers !== undefined) {
    collectModel(layer, layers, names, { prefixes, paths });
    return;
  }
  if (inner.length > 0) {
    for (const [i, [edge, one]] of inner.entries()) {
      const own = inner.length === 1 ? names : names.filter((name) => isOf(name, one.name, i));
      collect(
        one,
        own,
        prefixes.map((prefix) => `${prefix}${edge}/`),
        paths,
      );
    }
    return;
  }
  const aliases = KERAS_3_NAMES[layer.className] ?? {};
  for (const [i, base] of weightNames(names).entries()) {
    const known = [base, ...(aliases[base] === undefined ? [] : [aliases[base]])];
    paths.set(
      names[i] as string,
      known.flatMap((one) => prefixes.map((prefix) => prefix + one)),
    );
  }
}

/** Whether a weight is that of the layer, or of the cell of that number, that another layer holds. */
function isOf(weight: string, name: string, index: number): boolean {
  const steps = weight.split("/").slice(0, -1);
  return steps.includes(`RNNCell_${index}`) || (name !== "" && steps.includes(name));
}

function collectModel(
  model: TopologyLayer,
  layers: readonly TopologyLayer[],
  names: readonly string[],
  { prefixes, paths }: { prefixes: readonly string[]; paths: Map<string, string[]> },
): void {
  const weights = layers.map((layer) => names.filter((name) => ownsWeight(layer, name)));
  const named = layers.map(({ className }, i) => ({ className, hasWeights: (weights[i] ?? []).length > 0 }));
  const isSequential = model.className === "Sequential";
  const shift = hasHiddenInput(isSequential, named) ? 1 : 0;
  const edges = layers.map((_, i) => [`${isSequential ? "_functional/" : ""}_operations/${i + shift}`]);
  for (const [edge, i] of [...layerEdges(named)].reverse()) edges[i]?.unshift(edge);
  for (const [i, layer] of layers.entries()) {
    const under = prefixes.flatMap((prefix) => (edges[i] ?? []).map((edge) => `${prefix}${edge}/`));
    collect(layer, weights[i] ?? [], under, paths);
  }
}

/** Whether a weight is that of a layer: its name begins with that of the layer, or of a layer of the model that it is. */
function ownsWeight({ name, layers }: TopologyLayer, weight: string): boolean {
  if (weight.startsWith(`${name}/`)) return true;
  return layers?.some((layer) => ownsWeight(layer, weight)) ?? false;
}

/** The nodes of the graph of a graph model, those of its functions not counted; undefined for what is none. */
export function graphNodes(topology: unknown): { readonly name: string; readonly op: string }[] | undefined {
  if (!isObject(topology) || !Array.isArray(topology.node)) return undefined;
  return topology.node.flatMap((node: unknown) =>
    isObject(node) ? [{ name: String(node.name ?? ""), op: String(node.op ?? "?") }] : [],
  );
}
