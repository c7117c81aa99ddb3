import type { FileStore } from "../bytes/file-store.js";
import { baseName, joinPath } from "../bytes/path.js";
import { CorruptionError, TruncatedError, UsageError } from "../errors.js";
import { CheckpointDirectory } from "../formats/checkpoint/checkpoint-directory.js";
import { type KeptState, readKeptState, removeCheckpoint, writeKeptState } from "../formats/checkpoint/kept-state.js";
import type { LatestVersion, PassedOver } from "../formats/versioned-directory.js";
import type { Checkpoint, CheckpointOptions } from "./checkpoint.js";
import { planSweep, type Retention, recordCheckpoint, resumeRetention } from "./retention.js";

/** Options of {@link CheckpointManager.open}. */
export interface CheckpointManagerOptions {
  readonly files: FileStore;
  /** The directory of the checkpoints and of their state file. */
  readonly directory: string;
  /** How many checkpoints are kept; all when undefined. */
  readonly maxToKeep: number | undefined;
  /** Keeps one for good each time so many hours have gone by. */
  readonly keepCheckpointEveryNHours?: number | undefined;
  /** What prefixes begin with; `ckpt` when absent. */
  readonly checkpointName?: string | undefined;
  /** The step of training, for `checkpointInterval`. */
  readonly stepCounter?: (() => number) | undefined;
  /** How many steps have to lie between two checkpoints. Needs `stepCounter`. */
  readonly checkpointInterval?: number | undefined;
  /** Called by {@link CheckpointManager.restoreOrInitialize} when there is no checkpoint. */
  readonly initialize?: (() => void | Promise<void>) | undefined;
  /** The time in seconds since 1970; that of the system when absent. */
  readonly now?: (() => number) | undefined;
}

/** Options of {@link CheckpointManager.save}. */
export interface ManagedSaveOptions extends CheckpointOptions {
  /** The number of the checkpoint, instead of the counter of saves. */
  readonly checkpointNumber?: number | undefined;
  /** Set to false to save whatever `checkpointInterval` says, unless this very step has been saved. */
  readonly checkInterval?: boolean | undefined;
}

/** What {@link CheckpointManager.restoreOrInitialize} did. */
export interface RestoredOrInitialized {
  /** The prefix that was restored, or undefined when there was none. */
  readonly restored: string | undefined;
  /** Newer checkpoints that were passed over, and why. */
  readonly skipped: readonly PassedOver[];
}

/** Keeps some checkpoints of a directory and removes older ones, as TensorFlow's manager does and in its state file. */
export class CheckpointManager {
  readonly checkpoint: Checkpoint;
  private readonly options: CheckpointManagerOptions;
  private readonly now: () => number;
  private retention: Retention;
  private latest: string | undefined;
  private lastStep: number | undefined;

  private constructor(checkpoint: Checkpoint, options: CheckpointManagerOptions, state: KeptState | undefined) {
    this.checkpoint = checkpoint;
    this.options = options;
    this.now = options.now ?? (() => Date.now() / 1000);
    this.retention = resumeRetention(state, this.now());
    this.latest = state?.latest;
  }

  /**
   * A manager that goes on where the last one of the directory ended.
   * @throws {@link UsageError} (`usage`) for options that contradict one another
   */
  static async open(checkpoint: Checkpoint, options: CheckpointManagerOptions): Promise<CheckpointManager> {
    const { maxToKeep, checkpointInterval, stepCounter, checkpointName = "ckpt" } = options;
    if (maxToKeep !== undefined && !(Number.isInteger(maxToKeep) && maxToKeep > 0)) {
      throw new UsageError("usage", "maxToKeep is no number of checkpoints", {
        expected: "1 or more",
        actual: maxToKeep,
      });
    }
    if (checkpointInterval !== undefined && stepCounter === undefined) {
      throw new UsageError("usage", "checkpointInterval needs a stepCounter");
    }
    if (checkpointName === "" || checkpointName.includes("/")) {
      throw new UsageError("usage", "checkpointName is no file name", { actual: checkpointName });
    }
    return new CheckpointManager(checkpoint, options, await readKeptState(options.files, options.directory));
  }

  /** The prefixes that are managed, oldest first. Those kept for good are not among them. */
  get checkpoints(): readonly string[] {
    return this.retention.kept.map(({ path }) => path);
  }

  /** The prefix of the checkpoint saved last, as the state file has it, whether or not it is whole. */
  get latestCheckpoint(): string | undefined {
    return this.latest;
  }

  /**
   * Saves, unless the interval says otherwise, and removes what is no longer kept. Gives the prefix, or undefined when
   * nothing was saved. A checkpoint is removed only after the new one stands in the state file.
   * @throws As `Checkpoint.write` does
   */
  async save(options: ManagedSaveOptions = {}): Promise<string | undefined> {
    const { checkpointInterval, stepCounter, directory, checkpointName = "ckpt" } = this.options;
    const step = checkpointInterval === undefined ? undefined : stepCounter?.();
    if (step !== undefined && this.isTooSoon(step, options.checkInterval ?? true)) return undefined;
    const prefix = joinPath(directory, checkpointName);
    // One that the state file does not name was left by a program that ended before it could write that.
    const next = `${prefix}-${options.checkpointNumber ?? this.checkpoint.saveCounter + 1}`;
    const overwrite = next !== this.latest && !this.checkpoints.includes(next);
    const written = await this.checkpoint.writeNumbered(() => next, { overwrite, ...options });
    this.lastStep = step;
    this.latest = written;
    this.retention = recordCheckpoint(this.retention, { path: written, time: this.now() });
    await this.record();
    const { maxToKeep, keepCheckpointEveryNHours: everyHours } = this.options;
    const { removed, ...retention } = planSweep(this.retention, { maxToKeep, everyHours });
    // The files go before their names do: after a crash in between the next manager still knows them.
    for (const path of removed) await this.remove(path);
    this.retention = retention;
    await this.record();
    return written;
  }

  /**
   * Restores the newest checkpoint that is whole; without one, calls `initialize`.
   * @throws As `Checkpoint.restore` does, but for damage: a damaged checkpoint is passed over as an incomplete one
   */
  async restoreOrInitialize(): Promise<RestoredOrInitialized> {
    const { files, directory, initialize } = this.options;
    const skipped: PassedOver[] = [];
    for await (const { path, isComplete, reason = "" } of new CheckpointDirectory(files, directory).newestFirst({
      quick: true,
    })) {
      const problem = isComplete ? await this.tryRestore(path) : reason;
      if (problem === undefined) return { restored: path, skipped };
      skipped.push({ path, reason: problem });
    }
    await initialize?.();
    return { restored: undefined, skipped };
  }

  /** The newest checkpoint that is whole as far as can be told without reading it, and those that were passed over. */
  async findLatest(): Promise<LatestVersion> {
    return new CheckpointDirectory(this.options.files, this.options.directory).latest({ quick: true });
  }

  /** Restores a checkpoint; gives what is damaged in it, if anything is. */
  private async tryRestore(path: string): Promise<string | undefined> {
    try {
      await this.checkpoint.restore(path);
      return undefined;
    } catch (error) {
      if (error instanceof CorruptionError || error instanceof TruncatedError) return error.message;
      throw error;
    }
  }

  private isTooSoon(step: number, checkInterval: boolean): boolean {
    if (this.lastStep === undefined) return false;
    return step === this.lastStep || (checkInterval && step < this.lastStep + (this.options.checkpointInterval ?? 0));
  }

  private async record(): Promise<void> {
    const { kept, lastPreserved } = this.retention;
    const { files, directory } = this.options;
    await writeKeptState(files, directory, { latest: this.latest, kept, lastPreserved });
  }

  /** Removes a checkpoint of this manager: never one of another directory or name, whatever the state file says. */
  private async remove(path: string): Promise<void> {
    const { files, directory, checkpointName = "ckpt" } = this.options;
    const name = baseName(path);
    if (joinPath(directory, name) !== path || !name.startsWith(`${checkpointName}-`)) return;
    await removeCheckpoint(files, path);
  }
}
