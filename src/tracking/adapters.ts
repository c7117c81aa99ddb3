import { UsageError } from "../errors.js";
import { bareNumberTensor, type ScalarPlace, scalarTensor } from "./scalars.js";
import { TrackedKerasOptimizer } from "./tfjs/keras-optimizer.js";
import { TrackedLayer, TrackedLayersModel, trainableVariables } from "./tfjs/layers-model.js";
import { TrackedOptimizer } from "./tfjs/optimizer.js";
import { OptimizerState } from "./tfjs/optimizer-state.js";
import {
  isTfLayer,
  isTfLayersModel,
  isTfOptimizer,
  isTfVariable,
  type TfLayersModel,
  type TfOptimizer,
  type TfVariable,
} from "./tfjs/types.js";
import { TrackedVariable } from "./tfjs/variable.js";
import { isTrackable, type Trackable, type TrackableValue, type TrackedTensor } from "./trackable.js";

/** An adapter for each object that is no {@link Trackable} itself. An object has one as long as it lives. */
const ADAPTERS = new WeakMap<object, Trackable>();
/** What an adapter stands for. */
const SOURCES = new WeakMap<Trackable, object>();

/** The {@link Trackable} of an object. @throws {@link UsageError} (`usage`) for what cannot be tracked */
export function trackableOf(value: object): Trackable {
  if (isTrackable(value)) return value;
  const known = ADAPTERS.get(value);
  if (known !== undefined) return known;
  const made = makeAdapter(value);
  ADAPTERS.set(value, made);
  SOURCES.set(made, value);
  return made;
}

/** What a {@link Trackable} stands for: the object of the program, which may be the trackable itself. */
export function sourceOf(trackable: Trackable): object {
  return SOURCES.get(trackable) ?? trackable;
}

/**
 * Lets an optimizer of TF.js be saved and restored in the layout of the optimizers of Keras 3, as that of a compiled
 * `tf.keras` model, for what it trains: a model, or variables in their order. It has to be said before the optimizer is
 * first tracked. Without it, the layout is that of the optimizers of `tf.compat.v1.train`.
 * @throws {@link UsageError} (`usage`), UnsupportedError (`unsupported-operation`) for TF.js's Momentum
 */
export function useKerasLayout(optimizer: TfOptimizer, trained: TfLayersModel | readonly TfVariable[]): void {
  if (ADAPTERS.has(optimizer)) throw new UsageError("usage", "the optimizer has been tracked already");
  const variables = (): readonly TfVariable[] =>
    isTfLayersModel(trained) ? trainableVariables(trained) : (trained as readonly TfVariable[]);
  const made = new TrackedKerasOptimizer(new OptimizerState(optimizer, ADAPTERS), variables);
  ADAPTERS.set(optimizer, made);
  SOURCES.set(made, optimizer);
}

function makeAdapter(value: object): Trackable {
  if (isTfVariable(value)) return new TrackedVariable(value);
  if (isTfLayersModel(value)) return new TrackedLayersModel(value);
  if (isTfOptimizer(value)) return new TrackedOptimizer(new OptimizerState(value, ADAPTERS));
  if (isTfLayer(value)) return new TrackedLayer(value);
  if (Array.isArray(value)) return new TrackedContainer(arrayEntries(value));
  if (value instanceof Map) return new TrackedContainer(mapEntries(value));
  if (isPlainObject(value)) return new TrackedContainer(objectEntries(value));
  throw new UsageError("usage", `an object of class ${value.constructor?.name ?? "?"} cannot be tracked`, {
    hint: "Give it checkpointChildren() or checkpointTensors(); see Trackable.",
  });
}

/** Entries of a list, map or object: read anew each time, so that what is added later is found. */
interface Entries {
  keys(): Iterable<string>;
  get(key: string): unknown;
  set(key: string, value: number | string): void;
}

/** A list, a map or an object in a checkpoint. Its numbers and strings are replaced in it when they are restored. */
class TrackedContainer implements Trackable {
  private readonly entries: Entries;
  private readonly scalars = new Map<string, TrackedScalar>();

  constructor(entries: Entries) {
    this.entries = entries;
  }

  *checkpointChildren(): Iterable<readonly [string, TrackableValue]> {
    for (const key of this.entries.keys()) {
      const value = this.entries.get(key);
      if (value === undefined || value === null) continue;
      yield [key, typeof value === "object" ? (value as TrackableValue) : this.scalar(key, value)];
    }
  }

  private scalar(key: string, value: unknown): TrackedScalar {
    if (typeof value !== "number" && typeof value !== "string") {
      throw new UsageError("usage", `a ${typeof value} cannot be tracked`, { actual: key });
    }
    const known = this.scalars.get(key);
    if (known?.type === typeof value) return known;
    const place = {
      get: () => this.entries.get(key) as number | string,
      set: (next: number | string) => this.entries.set(key, next),
    };
    const made = new TrackedScalar(place, typeof value === "number" ? "number" : "string");
    this.scalars.set(key, made);
    return made;
  }
}

/** A number or a string of a container. */
class TrackedScalar implements Trackable {
  readonly type: "number" | "string";
  private readonly place: ScalarPlace;

  constructor(place: ScalarPlace, type: "number" | "string") {
    this.place = place;
    this.type = type;
  }

  checkpointTensors(): Iterable<TrackedTensor> {
    return [this.type === "number" ? bareNumberTensor(this.place) : scalarTensor(this.place, "string")];
  }
}

function arrayEntries(list: unknown[]): Entries {
  return {
    keys: () => Array.from(list.keys(), String),
    get: (key) => list[Number(key)],
    set: (key, value) => {
      list[Number(key)] = value;
    },
  };
}

function mapEntries(map: Map<unknown, unknown>): Entries {
  return {
    keys: () => Array.from(map.keys(), String),
    get: (key) => map.get(key),
    set: (key, value) => {
      map.set(key, value);
    },
  };
}

function objectEntries(object: object): Entries {
  const fields = object as Record<string, unknown>;
  return {
    keys: () => Object.keys(fields),
    get: (key) => fields[key],
    set: (key, value) => {
      fields[key] = value;
    },
  };
}

function isPlainObject(value: object): boolean {
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}
