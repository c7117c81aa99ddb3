import type { FileStore } from "../bytes/file-store.js";
import { parentPath } from "../bytes/path.js";
import { writeKeptState } from "../formats/checkpoint/kept-state.js";
import { addMetrics, type ShardingCallback, type ShardingMetrics } from "../sharding/index.js";
import { LOCAL_DEVICE } from "./devices.js";
import { LoadStatus } from "./load-status.js";
import { Restoration } from "./restoration.js";
import { CheckpointRoot } from "./root.js";
import { openTensors, readGraph, withShardingNote, writeTensors } from "./storage.js";
import type { Trackable, TrackableValue } from "./trackable.js";

/** Options of {@link Checkpoint}. */
export interface CheckpointSetup {
  /** Where checkpoints are: `new LocalFiles()` of `cairn/node`, or a `MemoryStore`. */
  readonly files: FileStore;
  /** The device of what was not placed on one with `placeOn`; that of TensorFlow's own process when absent. */
  readonly device?: string | undefined;
}

/** Options of a save. */
export interface CheckpointOptions {
  /** Decides which tensors go to which shard; one shard for each task when absent. */
  readonly shardingCallback?: ShardingCallback | undefined;
  /** Replaces a checkpoint of the same prefix. */
  readonly overwrite?: boolean | undefined;
  /**
   * Writes the shards of this task alone, `/job:worker/replica:0/task:1`; the object graph is among those of the
   * checkpoint's own device. Each process of a job writes its part so, and `mergeCheckpoints` makes them one.
   */
  readonly task?: string | undefined;
  /** Called with the number of bytes just written. */
  readonly onBytes?: ((count: number) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** What a checkpoint is of: objects by name, in their order, or one object. */
export type CheckpointTarget = Trackable | TrackableValue | { readonly [name: string]: TrackableValue };

/**
 * The state of a program, saved and restored by the structure of its objects, in TensorFlow's own form:
 * `tf.train.Checkpoint` of the same structure restores what this writes, and this what that writes.
 */
export class Checkpoint {
  private readonly files: FileStore;
  private readonly device: string;
  private readonly root: CheckpointRoot;
  private restoration: Restoration | undefined;
  private measured: ShardingMetrics | undefined;

  /** A checkpoint of these objects. Nothing is read or written yet. */
  constructor(target: CheckpointTarget & object, setup: CheckpointSetup) {
    this.files = setup.files;
    this.device = setup.device ?? LOCAL_DEVICE;
    this.root = new CheckpointRoot(target);
  }

  /** How often this checkpoint has been saved; restored with it. */
  get saveCounter(): number {
    return this.root.counter.value;
  }

  /** How sharding went in all saves so far; undefined before the first. */
  get metrics(): ShardingMetrics | undefined {
    return this.measured;
  }

  /**
   * Saves as `PREFIX-N`, where N is the counter of saves, which this raises, and names it in the state file `checkpoint`
   * of the directory. Gives the prefix written.
   * @throws UsageError (`exists`), PlanError (`invalid-plan`), StorageError (`write-failed`)
   */
  async save(prefix: string, options: CheckpointOptions = {}): Promise<string> {
    const written = await this.writeNumbered((counter) => `${prefix}-${counter}`, options);
    await writeKeptState(this.files, parentPath(written), { latest: written, kept: [{ path: written }] });
    return written;
  }

  /**
   * Raises the counter and writes under the prefix that follows from it; the counter is as before when this fails.
   * @throws As {@link Checkpoint.write} does
   */
  async writeNumbered(prefixOf: (counter: number) => string, options: CheckpointOptions = {}): Promise<string> {
    const { counter } = this.root;
    counter.value++;
    try {
      return await this.write(prefixOf(counter.value), options);
    } catch (error) {
      counter.value--;
      throw error;
    }
  }

  /**
   * Writes under a prefix as it is, with neither counter nor state file. The values are those of the moment of the call.
   * @throws UsageError (`exists`), PlanError (`invalid-plan`), StorageError (`write-failed`)
   */
  async write(prefix: string, options: CheckpointOptions = {}): Promise<string> {
    const metrics = await writeTensors(this.files, prefix, { root: this.root, device: this.device }, options);
    this.measured = this.measured === undefined ? metrics : addMetrics(this.measured, metrics);
    return prefix;
  }

  /**
   * Restores values into the objects, matched by the names that lead to them: all that are matched, or none when one
   * does not fit. What is not matched is kept for objects that come later, see {@link Checkpoint.sync}.
   * @throws NotFoundError (`not-found`), CorruptionError, UsageError (`tensor-mismatch`)
   */
  async restore(prefix: string): Promise<LoadStatus> {
    const status = await this.read(prefix);
    // As TensorFlow does: from now on the counter is one of the objects.
    this.root.counter;
    await this.sync();
    return status;
  }

  /** As {@link Checkpoint.restore}, but does not add the counter of saves to the objects. */
  async read(prefix: string): Promise<LoadStatus> {
    const tensors = await openTensors(this.files, prefix);
    try {
      const restoration = new Restoration(await readGraph(tensors), tensors);
      await restoration.update(this.root);
      await this.forget();
      this.restoration = restoration;
      const status = new LoadStatus(restoration, this.root);
      // Without anything left for later, nothing will be read any more.
      if (status.unmatchedKeys.length === 0) await tensors.close();
      return status;
    } catch (error) {
      await tensors.close();
      throw await withShardingNote(this.files, prefix, error);
    }
  }

  /**
   * Looks at the objects anew and gives those that came since the last restore their values. Call it after objects were
   * added, or variables made. Does nothing without a restore.
   * @throws CorruptionError, UsageError (`tensor-mismatch`)
   */
  async sync(): Promise<void> {
    const { restoration } = this;
    if (restoration === undefined) return;
    try {
      await restoration.update(this.root);
    } catch (error) {
      throw await withShardingNote(this.files, restoration.tensors.path, error);
    }
  }

  /** Gives back the files of the last restore: objects that come later get nothing from it any more. */
  async forget(): Promise<void> {
    await this.restoration?.tensors.close();
    this.restoration = undefined;
  }
}
