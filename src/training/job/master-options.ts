import type { FileStore } from "../../bytes/file-store.js";
import type { EvaluationOptions, Evaluator } from "./evaluator.js";
import type { Job, ServersOfTask } from "./master-link.js";
import type { TaskSchedule } from "./task-schedule.js";

/** Where a training is: before it, in it, before the last evaluation, behind it, or broken off. */
export type Phase = "waiting" | "training" | "trained" | "finished" | "failed";

/** The parameter servers that there are, or what workers begin with that keep the model themselves. */
export interface Servers extends ServersOfTask {
  /** The version that they began with. */
  readonly modelVersion: number;
}

/** Options of {@link Master.start}. */
export interface MasterOptions {
  readonly job: Job;
  readonly schedule: TaskSchedule;
  /** Tells the runs of a training apart. */
  readonly jobId: string;
  readonly files: FileStore;
  /** Where versions are saved; nothing is kept of the progress when absent. */
  readonly checkpointDir?: string | undefined;
  /** Workers that train together where they keep the model themselves. */
  readonly numWorkers?: number | undefined;
  /** The version directory that training begins with. */
  readonly initPath?: string | undefined;
  readonly evaluation?: EvaluationOptions | undefined;
  /** The time, in milliseconds. */
  readonly now: () => number;
  /** A worker that says nothing for so long has lost its task. */
  readonly workerTimeoutMs: number;
  /** Servers that cannot be reached for so long end the training. */
  readonly serverTimeoutMs: number;
}

/** How a training is. */
export interface MasterStatus {
  readonly phase: Phase;
  readonly modelVersion: number;
  readonly loss: number;
  readonly epoch: number;
  readonly tasksDone: number;
  readonly taskCount: number;
  readonly evaluated: Evaluator["last"];
  /** Why training ended, or failed. */
  readonly reason: string;
  readonly code: string;
  readonly needsRollback: boolean;
  readonly generation: number;
  /** Workers that have lost their task since nothing was heard of them. */
  readonly silentWorkers: readonly number[];
  /** What somebody should know; each is given once. */
  readonly notes: readonly string[];
}
