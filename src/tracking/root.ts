import { trackableOf } from "./adapters.js";
import { TrackedNumber } from "./scalars.js";
import type { Trackable, TrackableValue } from "./trackable.js";

/** The name of the edge to what a checkpoint is of, when it is of one object. Source: tensorflow/python/checkpoint/checkpoint.py. */
const ROOT = "root";
/** The name of the counter that `save` keeps. Source: same file. */
const SAVE_COUNTER = "save_counter";

/** The root of the objects of a checkpoint: what it is of, and the counter of saves. */
export class CheckpointRoot implements Trackable {
  /** What the checkpoint is of. */
  readonly target: Trackable;
  /** Whether `target` is an object with children and not a list of names. */
  private readonly isObject: boolean;
  private saveCounter: TrackedNumber | undefined;

  /** A root over named objects, or over one object. */
  constructor(target: object) {
    this.target = trackableOf(target);
    const prototype = Object.getPrototypeOf(target);
    this.isObject = prototype !== Object.prototype && prototype !== null;
  }

  /** The counter of saves, made when it is first asked for. */
  get counter(): TrackedNumber {
    this.saveCounter ??= new TrackedNumber(0, "int64", SAVE_COUNTER);
    return this.saveCounter;
  }

  /** See {@link Trackable.checkpointChildren}. */
  *checkpointChildren(): Iterable<readonly [string, TrackableValue]> {
    let hasRoot = false;
    for (const child of this.target.checkpointChildren?.() ?? []) {
      yield child;
      hasRoot ||= child[0] === ROOT;
    }
    if (this.isObject && !hasRoot) yield [ROOT, this];
    if (this.saveCounter !== undefined) yield [SAVE_COUNTER, this.saveCounter];
  }

  /** See {@link Trackable.checkpointTensors}. */
  *checkpointTensors() {
    yield* this.target.checkpointTensors?.() ?? [];
  }
}
