import type { DType } from "../tensor/dtype.js";
import type { LazyTensor } from "../tensor/lazy-tensor.js";
import type { Shape } from "../tensor/shape.js";
import type { TfLayersModel, TfOptimizer, TfVariable } from "./tfjs/types.js";

/** A value for a tensor: row-major, little-endian; a string element is its length as uint64 and its bytes. */
export interface TensorValue {
  readonly dtype: DType;
  readonly shape: Shape;
  readonly bytes: Uint8Array;
}

/** The value that a tensor had when {@link TrackedTensor.snapshot} was called. */
export interface TensorSnapshot extends LazyTensor {
  /** Gives back what holds the value. */
  dispose(): void;
}

/** A tensor that an object keeps in a checkpoint. */
export interface TrackedTensor {
  /** What it is to its object; `VARIABLE_VALUE` for the one of a variable. */
  readonly name: string;
  /** The name that it has in the program, for people. */
  readonly fullName?: string | undefined;
  readonly dtype: DType;
  readonly shape: Shape;
  /** The device that it is on; that of the checkpoint when absent. */
  readonly device?: string | undefined;
  /** Whether it is written without being named in the object graph, so that TensorFlow does not look for its owner. */
  readonly isUnlisted?: boolean | undefined;
  /**
   * Takes hold of the value as it is at the time of the call, so that training can go on while it is written.
   * What has to happen at once happens before the promise is returned.
   */
  snapshot(): Promise<TensorSnapshot>;
  /** Whether a stored tensor of another dtype or shape can be taken as well. */
  accepts?(stored: { readonly dtype: DType; readonly shape: Shape }): boolean;
  /** Makes ready to take a value that has been checked to fit; what is returned takes it, at once. */
  prepare(value: TensorValue): Promise<() => void>;
}

/** What an optimizer keeps for variables beside the variables themselves. */
export interface SlotOwner {
  /** The names of its slots, sorted as TensorFlow's optimizers sort them. */
  slotNames(): readonly string[];
  /** What it keeps for a variable under a name, or undefined when it keeps nothing. */
  slot(variable: Trackable, slotName: string): Trackable | undefined;
  /**
   * A slot to restore into where {@link SlotOwner.slot} has none: it takes the value and gives it to the optimizer when
   * this makes the slot. Undefined when the optimizer has no such slot.
   */
  futureSlot(variable: Trackable, slotName: string): Trackable | undefined;
}

/** An object that takes part in checkpoints. Every part is optional; an object with one of the first two is one. */
export interface Trackable {
  /** The objects below it by local name, in the order in which they are numbered. */
  checkpointChildren?(): Iterable<readonly [name: string, child: TrackableValue]>;
  /** Its own tensors. */
  checkpointTensors?(): Iterable<TrackedTensor>;
  /** Set by an optimizer. */
  readonly checkpointSlots?: SlotOwner | undefined;
}

/** What can be tracked: TF.js variables, models and optimizers, lists, maps, numbers, strings, and own {@link Trackable}s. */
export type TrackableValue =
  | Trackable
  | TfVariable
  | TfLayersModel
  | TfOptimizer
  | number
  | string
  | readonly TrackableValue[]
  | ReadonlyMap<string, TrackableValue>
  | { readonly [name: string]: TrackableValue };

/** Tells whether a value is a {@link Trackable} itself and needs no adapter. */
export function isTrackable(value: object): value is Trackable {
  const { checkpointChildren, checkpointTensors } = value as Partial<Record<keyof Trackable, unknown>>;
  return typeof checkpointChildren === "function" || typeof checkpointTensors === "function";
}
