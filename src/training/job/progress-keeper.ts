import { basename, dirname } from "node:path";
import type { MasterOptions } from "./master-options.js";
import { readProgress, writeProgress } from "./progress-record.js";
import type { TaskQueue } from "./task-queue.js";

/** Writing takes at most one part in so many of the time. */
const WRITE_SHARE = 20;

/** What was known of a training that goes on. */
export interface Recalled {
  /** How often servers have been started, as far as this run knows. */
  readonly generation: number;
  /** Whether the master of this run was started again: its servers go on. */
  readonly isRestarted: boolean;
  /** Whether the progress is of a run in which a batch was not a version. */
  readonly isUnaligned: boolean;
  readonly note?: string | undefined;
}

/** Keeps the progress of a queue of tasks beside the checkpoint directory, and finds it again. */
export class ProgressKeeper {
  /** Whether the progress has changed since it was kept. */
  isDirty = false;
  private readonly options: MasterOptions;
  private readonly queue: TaskQueue;
  private lastWrite = { atMs: 0, tookMs: 0 };

  /** Keeps the progress of `queue`; nothing without a checkpoint directory. */
  constructor(options: MasterOptions, queue: TaskQueue) {
    this.options = options;
    this.queue = queue;
  }

  /** Brings the queue to where a training was that this one goes on with. @throws CorruptionError (`invalid-json`) */
  async recall(): Promise<Recalled> {
    const { files, checkpointDir, initPath, jobId, schedule } = this.options;
    const anew = { generation: 0, isRestarted: false, isUnaligned: false };
    const own = checkpointDir === undefined ? undefined : await readProgress(files, checkpointDir);
    if (own?.jobId === jobId) {
      this.queue.restore(own);
      return { ...anew, generation: own.generation, isRestarted: true };
    }
    if (initPath === undefined) return anew;
    const root = dirname(initPath);
    const known = basename(root) === "" ? undefined : await readProgress(files, root);
    if (known?.fingerprint === schedule.fingerprint) {
      this.queue.restore(known);
      // Several workers, or pushes at any time: the versions don't tell how many batches were done.
      return { ...anew, isUnaligned: known.isExact !== true };
    }
    this.queue.baseVersion = Number(/(\d+)$/.exec(initPath)?.[1] ?? 0);
    const why = known === undefined ? "there is no record of it" : "they are dealt out otherwise now";
    return { ...anew, note: `the data begin anew: ${why}` };
  }

  /** Keeps the progress if it has changed, and unless it is urgent only now and then. */
  async save(isUrgent: boolean, generation: number): Promise<void> {
    const { files, checkpointDir, jobId, schedule, job, now } = this.options;
    if (checkpointDir === undefined || !this.isDirty) return;
    const startMs = now();
    if (!isUrgent && startMs - this.lastWrite.atMs < WRITE_SHARE * this.lastWrite.tookMs) return;
    this.isDirty = false;
    const { fingerprint } = schedule;
    const record = { fingerprint, jobId, generation, isExact: job.isExact, ...this.queue.state() };
    await writeProgress(files, checkpointDir, record);
    this.lastWrite = { atMs: now(), tookMs: now() - startMs };
  }
}
