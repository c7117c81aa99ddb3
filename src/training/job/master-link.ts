import type { TensorMessage } from "../messages.js";
import type { BatchOutputs } from "../model/trainable-model.js";

/** How the parameters are kept: on servers, by every worker, or by one process. */
export type Strategy = "parameter-server" | "allreduce" | "local";

/** How a worker is to train. */
export interface Job {
  readonly strategy: Strategy;
  readonly seed: number;
  readonly minibatchSize: number;
  readonly shuffle: boolean;
  /** Whether a version tells exactly which batches are in it: one worker whose pushes are all applied at once. */
  readonly isExact: boolean;
  /** Training ends at this version; 0 for no such end. */
  readonly maxStep: number;
}

/** A range of records to train with. */
export interface TrainingTask {
  readonly kind: "training";
  readonly taskId: number;
  readonly epoch: number;
  readonly start: number;
  readonly end: number;
  /** The version at which the task began, where the job is exact. */
  readonly startVersion: number;
  /** Counts how often the servers have been started. */
  readonly generation: number;
  readonly addresses: readonly string[];
  /** Whether the servers were restored, so that none of them may be without variables. */
  readonly isRestored: boolean;
}

/** A range of records to evaluate a saved version with. */
export interface EvaluationTask {
  readonly kind: "evaluation";
  readonly taskId: number;
  readonly start: number;
  readonly end: number;
  readonly modelVersion: number;
  /** The version directory. */
  readonly path: string;
  /** Counts evaluations. */
  readonly round: number;
}

/** What a worker is told to do. */
export type WorkerTask = TrainingTask | EvaluationTask | { readonly kind: "wait" } | { readonly kind: "end" };

/** How a task went. */
export interface TaskResult {
  readonly taskId: number;
  /** The model's version after it. */
  readonly modelVersion: number;
  /** Why it was not done. */
  readonly failure?: { readonly code: string; readonly message: string } | undefined;
}

/** What a worker reports while it works. */
export interface WorkerProgress {
  readonly workerId: number;
  readonly modelVersion: number;
  readonly loss: number;
  readonly batches: number;
}

/** What the model gave for the records of an evaluation task. */
export interface EvaluationOutputs {
  readonly workerId: number;
  readonly outputs: BatchOutputs;
  readonly labels: TensorMessage;
}

/** A worker's side of the master, near or far. */
export interface MasterLink {
  join(workerId: number): Promise<Job>;
  getTask(workerId: number): Promise<WorkerTask>;
  reportTaskResult(result: TaskResult): Promise<void>;
  reportEvaluation(outputs: EvaluationOutputs): Promise<void>;
  reportProgress(progress: WorkerProgress): Promise<void>;
}
