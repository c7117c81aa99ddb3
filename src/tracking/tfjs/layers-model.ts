import {
  hasHiddenInput,
  INNER_LAYERS,
  KERAS_3_NAMES,
  layerEdges,
  weightNames,
} from "../../formats/tfjs/keras-names.js";
import type { Trackable, TrackableValue } from "../trackable.js";
import type { TfLayer, TfLayersModel, TfLayerVariable, TfOptimizer, TfVariable } from "./types.js";
import { isTfLayer, isTfLayersModel, isTfOptimizer } from "./types.js";

type Child = readonly [name: string, child: TrackableValue];

/** Children made from a function when they are asked for: a list or another grouping that Keras has and TF.js has not. */
class Group implements Trackable {
  readonly checkpointChildren: () => Iterable<Child>;

  constructor(children: () => Iterable<Child>) {
    this.checkpointChildren = children;
  }
}

/**
 * A model of `@tensorflow/tfjs-layers` in a checkpoint. Its layers have the names of both generations of Keras, as
 * several edges to one object: `layer_with_weights-0/kernel` of Keras 2, and `_operations/1/_kernel` of Keras 3, below
 * `_functional` in a sequential model. Either finds what it looks for; keys are those of the shorter, older path.
 */
export class TrackedLayersModel implements Trackable {
  readonly model: TfLayersModel;
  /** The inputs, which Keras counts among the layers of a sequential model and TF.js does not. */
  private readonly input = new Group(() => []);
  private readonly operations = new Group(() => this.numberedLayers());
  private readonly functional = new Group(() => [["_operations", this.operations]]);

  /** Made by `trackableOf`. */
  constructor(model: TfLayersModel) {
    this.model = model;
  }

  /** See {@link Trackable.checkpointChildren}. */
  *checkpointChildren(): Iterable<Child> {
    const { layers } = this.model;
    for (const [name, i] of layerEdges(layers.map(namedLayer))) yield [name, layers[i] as TrackableValue];
    if (this.isSequential) yield ["_functional", this.functional];
    else yield ["_operations", this.operations];
    const { optimizer } = this.model as { optimizer?: object | undefined };
    if (optimizer != null && isTfOptimizer(optimizer)) yield ["optimizer", optimizer as TfOptimizer];
  }

  private get isSequential(): boolean {
    return this.model.getClassName() === "Sequential";
  }

  private *numberedLayers(): Iterable<Child> {
    const { layers } = this.model;
    const inputs = hasHiddenInput(this.isSequential, layers.map(namedLayer)) ? [this.input] : [];
    for (const [i, layer] of [...inputs, ...layers].entries()) yield [String(i), layer as TrackableValue];
  }
}

/** A layer of TF.js in a checkpoint. */
export class TrackedLayer implements Trackable {
  readonly layer: TfLayer;
  private readonly cells = new Group(() => (this.inner.cells ?? []).map((cell, i) => [String(i), cell]));

  /** Made by `trackableOf`. */
  constructor(layer: TfLayer) {
    this.layer = layer;
  }

  /** See {@link Trackable.checkpointChildren}. */
  *checkpointChildren(): Iterable<Child> {
    const { inner } = this;
    let hasInner = false;
    for (const [property, name] of INNER_LAYERS) {
      const layer = inner[property];
      if (typeof layer !== "object" || layer === null) continue;
      if (!isTfLayer(layer) && !isTfLayersModel(layer)) continue;
      hasInner = true;
      yield [name, layer as TrackableValue];
    }
    if (Array.isArray(inner.cells)) {
      hasInner = true;
      yield ["cells", this.cells];
    }
    // A layer that holds others gives their weights as its own.
    if (!hasInner) yield* this.ownWeights();
  }

  private get inner(): Record<string, object | undefined> & { cells?: TrackableValue[] } {
    return this.layer as never;
  }

  private *ownWeights(): Iterable<Child> {
    const aliases = KERAS_3_NAMES[this.layer.getClassName()] ?? {};
    const names = weightNames(this.layer.weights.map(({ originalName }) => originalName));
    for (const [i, weight] of this.layer.weights.entries()) {
      const name = names[i] as string;
      const variable = variableOf(weight);
      yield [name, variable];
      const alias = aliases[name];
      if (alias !== undefined) yield [alias, variable];
    }
  }
}

function namedLayer(layer: TfLayer) {
  return { className: layer.getClassName(), hasWeights: layer.weights.length > 0 };
}

function variableOf(weight: TfLayerVariable): TfVariable {
  return (weight as unknown as { val: TfVariable }).val;
}

/** The variables that a model trains, in its order. */
export function trainableVariables(model: TfLayersModel): readonly TfVariable[] {
  const { trainableWeights } = model as unknown as { trainableWeights: readonly TfLayerVariable[] };
  return trainableWeights.map(variableOf);
}
