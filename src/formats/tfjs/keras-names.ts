/** How the objects of a Keras model are called in a checkpoint, by both generations of Keras. */

/** The layers that a layer holds, by TF.js's property and by the name that Keras gives the edge. */
export const INNER_LAYERS = [
  ["cell", "cell"],
  ["layer", "layer"],
  ["forwardLayer", "forward_layer"],
  ["backwardLayer", "backward_layer"],
] as const;

/**
 * Names of weights that Keras 3 keeps under another name than Keras 2 and TF.js, by class of layer. Source: what
 * `tf.train.Checkpoint` of TensorFlow 2.18 with Keras 3 writes.
 */
export const KERAS_3_NAMES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  Dense: { kernel: "_kernel" },
  Conv1D: { kernel: "_kernel" },
  Conv2D: { kernel: "_kernel" },
  Conv3D: { kernel: "_kernel" },
  Embedding: { embeddings: "_embeddings" },
  DepthwiseConv2D: { depthwise_kernel: "kernel" },
};

/** What is asked of a layer to name it in its model. */
export interface NamedLayer {
  readonly className: string;
  readonly hasWeights: boolean;
}

/**
 * The edges of Keras 2 to the layers of a model, each with the layer's place. Source: keras/src/engine/functional.py of
 * Keras 2.15, _layer_checkpoint_dependencies.
 */
export function* layerEdges(layers: readonly NamedLayer[]): Iterable<readonly [name: string, index: number]> {
  let withWeights = 0;
  for (const [i, { hasWeights }] of layers.entries()) {
    if (hasWeights) yield [`layer_with_weights-${withWeights++}`, i];
    yield [`layer-${i}`, i];
  }
}

/** Whether Keras 3 counts an input before the layers of a model, which TF.js does not have among them. */
export function hasHiddenInput(isSequential: boolean, layers: readonly NamedLayer[]): boolean {
  return isSequential && layers[0]?.className !== "InputLayer";
}

/** The names of a layer's weights, from the last step of what TF.js calls them: one that comes again is numbered. */
export function weightNames(names: readonly string[]): string[] {
  const taken = new Map<string, number>();
  return names.map((name) => {
    const base = name.slice(name.lastIndexOf("/") + 1);
    const count = taken.get(base) ?? 0;
    taken.set(base, count + 1);
    return count === 0 ? base : `${base}_${count}`;
  });
}
