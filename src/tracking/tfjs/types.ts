/**
 * What cairn uses of the objects of TF.js. TF.js is an optional peer: its types are not needed to use this package, and
 * its code is loaded when a value is first restored into one of its variables.
 */

/** A tensor of TF.js, as far as it is used here. */
export interface TfTensor {
  readonly dtype: string;
  readonly shape: readonly number[];
  /** The same data under another handle. */
  clone(): TfTensor;
  /** The elements, as a typed array or strings. */
  data(): Promise<unknown>;
  /** The bytes of the elements; of strings, one array each. */
  bytes(): Promise<Uint8Array | Uint8Array[]>;
  /** Gives the memory back. */
  dispose(): void;
}

/** A variable of TF.js (`tf.variable`). */
export interface TfVariable extends TfTensor {
  readonly name: string;
  readonly trainable: boolean;
  /** Puts the elements of a tensor of its shape and dtype into it. */
  assign(value: TfTensor): void;
}

/** A weight of a layer; `val` is its variable, which TF.js does not declare as public. */
export interface TfLayerVariable {
  readonly originalName: string;
}

/** A layer of TF.js. */
export interface TfLayer {
  readonly name: string;
  /** `Dense`, `Adam`. */
  getClassName(): string;
  readonly weights: readonly TfLayerVariable[];
}

/** A model of `@tensorflow/tfjs-layers`, sequential or functional. */
export interface TfLayersModel extends TfLayer {
  readonly layers: readonly TfLayer[];
}

/** An optimizer of `@tensorflow/tfjs-core` (`tf.train.adam` and the others). */
export interface TfOptimizer {
  /** `Dense`, `Adam`. */
  getClassName(): string;
  readonly iterations: number;
  /** One step. */
  applyGradients(gradients: never): void;
}

/** Tells whether a value is a variable of TF.js. */
export function isTfVariable(value: object): value is TfVariable {
  const { assign, dataId, trainable } = value as Record<string, unknown>;
  return typeof assign === "function" && dataId !== undefined && typeof trainable === "boolean";
}

/** Tells whether a value is a model of `@tensorflow/tfjs-layers`. */
export function isTfLayersModel(value: object): value is TfLayersModel {
  const { layers, getClassName } = value as Record<string, unknown>;
  return Array.isArray(layers) && typeof getClassName === "function" && "weights" in value;
}

/** Tells whether a value is a layer of TF.js. */
export function isTfLayer(value: object): value is TfLayer {
  const { getClassName, addWeight, apply } = value as Record<string, unknown>;
  return typeof getClassName === "function" && typeof addWeight === "function" && typeof apply === "function";
}

/** Tells whether a value is an optimizer of TF.js. */
export function isTfOptimizer(value: object): value is TfOptimizer {
  const { applyGradients, minimize, getClassName } = value as Record<string, unknown>;
  return typeof applyGradients === "function" && typeof minimize === "function" && typeof getClassName === "function";
}
