import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { MessageChannel, type MessagePort, Worker } from "node:worker_threads";
import { StorageError, UsageError } from "../errors.js";
import type { Layout } from "../formats/elasticdl/names.js";
import { sidePath } from "../formats/elasticdl/names.js";
import { ImagePool } from "./image-pool.js";
import type { Parameters } from "./parameters.js";
import { KnownBlocks, type SaveAnswer, type SaveJob, type SaveThreadData } from "./save-messages.js";
import type { ShardTarget, Snapshot, Snapshots } from "./snapshot.js";

/** The writing thread rests so long after each 256 KiB, 2 ms: requests stay as fast as without a save. */
const REST_MS = 2;

/** Options of {@link CheckpointSaver}. */
export interface CheckpointSaverOptions {
  readonly parameters: Parameters;
  /** What {@link Parameters} was given as its guard. */
  readonly snapshots: Snapshots;
  /** The checkpoint directory, `checkpoint_dir`. */
  readonly directory: string;
  readonly psId: number;
  readonly psNum: number;
  /** Save every so many versions; 0 saves on request alone. */
  readonly checkpointSteps?: number | undefined;
  /** Keep so many versions; 0, as unless said, keeps all. */
  readonly keepCheckpointMax?: number | undefined;
  readonly layout?: Layout | undefined;
  /** Told of every shard that was written. */
  readonly onSaved?: ((shard: SavedShard) => void) | undefined;
  /** Told of every save that failed or was left out; training goes on. */
  readonly onProblem?: ((modelVersion: number, problem: Error) => void) | undefined;
  /** Milliseconds of rest after each 256 KiB that is written. */
  readonly restMs?: number | undefined;
  /** Where the code of the writing thread is; found by itself unless said. */
  readonly threadUrl?: URL | undefined;
}

/** A shard that was written. */
export interface SavedShard {
  readonly modelVersion: number;
  readonly path: string;
  readonly byteLength: number;
  /** Versions that were removed after it. */
  readonly removed: readonly string[];
}

interface Save {
  readonly number: number;
  readonly snapshot: Snapshot;
  readonly resolve: (shard: SavedShard | undefined) => void;
}

/**
 * Saves a parameter server's shard while it goes on serving. What is saved is the state at the instant of the call; a
 * thread of its own writes it. A save that comes while one is being written waits with its own state; when yet another
 * comes, the one that waits is left out, since a newer one will be there.
 */
export class CheckpointSaver {
  private readonly options: CheckpointSaverOptions;
  private readonly target: ShardTarget;
  private readonly thread: Worker;
  private readonly poolPort: MessagePort;
  private readonly known = new KnownBlocks();
  private running: Save | undefined;
  private waiting: Save | undefined;
  private count = 0;
  private lastVersion: number | undefined;
  private readonly pending = new Set<Promise<unknown>>();
  private failure: Error | undefined;

  /** Starts the writing thread. @throws {@link UsageError} (`usage`) for numbers that are no counts, or a directory without a name */
  constructor(options: CheckpointSaverOptions) {
    const { directory, psId, psNum, layout = "design", checkpointSteps = 0, keepCheckpointMax = 0 } = options;
    for (const count of [checkpointSteps, keepCheckpointMax]) {
      if (!Number.isInteger(count) || count < 0) {
        throw new UsageError("usage", "steps between checkpoints and versions to keep", {
          expected: "0 or more",
          actual: count,
        });
      }
    }
    sidePath(directory);
    this.options = options;
    this.target = { directory, layout, psId, psNum };
    const { port1, port2 } = new MessageChannel();
    this.poolPort = port1;
    port1.unref();
    options.snapshots.usePool(new ImagePool((number, memory) => port1.postMessage({ number, memory })));
    const workerData: SaveThreadData = { poolPort: port2, restMs: options.restMs ?? REST_MS };
    this.thread = new Worker(options.threadUrl ?? threadUrl(), { workerData, transferList: [port2] });
    this.thread.on("message", (answer: SaveAnswer) => this.finish(answer));
    this.thread.on("error", (error) => this.fail(error));
    this.thread.on("exit", () =>
      this.fail(new StorageError("write-failed", "the thread that writes checkpoints has ended")),
    );
    this.thread.unref();
  }

  /** The version whose state was saved, or is being saved, last; undefined when there is none. */
  get latestVersion(): number | undefined {
    return this.lastVersion;
  }

  /** To be called after every update: saves when `checkpointSteps` says so. */
  saveIfDue(modelVersion: number): void {
    const { checkpointSteps = 0 } = this.options;
    if (checkpointSteps > 0 && modelVersion % checkpointSteps === 0) void this.save();
  }

  /**
   * Saves the state of this instant. Gives the shard when it has its name and is on the disk, or undefined when it failed
   * or was left out for a newer one; {@link CheckpointSaverOptions.onProblem} tells which.
   */
  save(): Promise<SavedShard | undefined> {
    const { parameters, snapshots } = this.options;
    const { modelVersion } = parameters;
    if (this.failure !== undefined) {
      this.options.onProblem?.(modelVersion, this.failure);
      return Promise.resolve(undefined);
    }
    this.leaveOut();
    this.lastVersion = modelVersion;
    const done = new Promise<SavedShard | undefined>((resolve) => {
      const save = { number: ++this.count, snapshot: snapshots.begin(parameters), resolve };
      if (this.running === undefined) this.start(save);
      else this.waiting = save;
    });
    this.pending.add(done);
    return done.finally(() => this.pending.delete(done));
  }

  /** Waits until nothing is being saved any more. */
  async idle(): Promise<void> {
    while (this.pending.size > 0) await Promise.all(this.pending);
  }

  /** Waits for what is being saved, and ends the thread. */
  async close(): Promise<void> {
    await this.idle();
    this.failure = new UsageError("usage", "the saver is closed");
    await this.thread.terminate();
    this.poolPort.close();
  }

  private start(save: Save): void {
    this.running = save;
    this.thread.ref();
    const { keepCheckpointMax = 0 } = this.options;
    const snapshot = this.known.leaveOut(save.snapshot);
    this.thread.postMessage({
      number: save.number,
      snapshot,
      target: this.target,
      keepCheckpointMax,
    } satisfies SaveJob);
  }

  /** Gives up the save that waits. */
  private leaveOut(): void {
    const save = this.waiting;
    if (save === undefined) return;
    this.waiting = undefined;
    this.options.snapshots.end(save.snapshot);
    const { modelVersion } = save.snapshot;
    this.options.onProblem?.(
      modelVersion,
      new StorageError("write-failed", `version ${modelVersion} is not saved: a newer one came first`),
    );
    save.resolve(undefined);
  }

  private finish({ saved, error, removed = [] }: SaveAnswer): void {
    const save = this.running;
    if (save === undefined) return;
    const { modelVersion } = save.snapshot;
    this.options.snapshots.end(save.snapshot);
    this.running = undefined;
    this.thread.unref();
    const next = this.waiting;
    this.waiting = undefined;
    if (next !== undefined) this.start(next);
    if (error !== undefined) {
      const { code, message, ...details } = error;
      this.options.onProblem?.(modelVersion, new StorageError(code, message, details));
    }
    const shard = saved && { modelVersion, ...saved, removed };
    if (shard !== undefined) this.options.onSaved?.(shard);
    save.resolve(shard);
  }

  /** The thread is gone: nothing can be saved any more. */
  private fail(error: Error): void {
    if (this.failure !== undefined) return;
    this.failure = error;
    this.leaveOut();
    this.finish({
      number: 0,
      error: { code: "write-failed", message: error.message, file: undefined, hint: undefined },
    });
  }
}

/** The thread's code, wherever this file was bundled to. */
function threadUrl(): URL {
  return pathToFileURL(createRequire(import.meta.url).resolve("#save-thread"));
}
