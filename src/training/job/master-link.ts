import type { Layout } from "../../formats/elasticdl/names.js";
import type { TensorMessage } from "../messages.js";
import type { BatchOutputs } from "../model/trainable-model.js";
import type { CommRank, ReduceCall, Reduced } from "./reducer.js";

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
  /** What a worker that keeps the model itself trains with, and saves. */
  readonly optimizer: { readonly type: string; readonly args: string };
  readonly saving?: Saving | undefined;
}

/** Where and how often a worker that keeps the model itself saves it. */
export interface Saving {
  readonly checkpointDir: string;
  readonly checkpointSteps: number;
  readonly keepCheckpointMax: number;
  readonly layout: Layout;
}

/** Where the parameters are that a task is for. */
export interface ServersOfTask {
  /** Counts how often the servers have been started; 0 before. */
  readonly generation: number;
  readonly addresses: readonly string[];
  /** Whether the servers were restored, so that none of them may be without variables. */
  readonly isRestored: boolean;
  /** The version directory that a worker who keeps the model itself begins with; empty for none. */
  readonly startPath: string;
}

/** A range of records to train with. */
export interface TrainingTask extends ServersOfTask {
  readonly kind: "training";
  readonly taskId: number;
  readonly epoch: number;
  readonly start: number;
  readonly end: number;
  /** The version at which the task began, where the job is exact. */
  readonly startVersion: number;
}

/** The last model is to be saved by the worker that has it. */
export interface SaveTask extends ServersOfTask {
  readonly kind: "save";
  readonly taskId: number;
}

/** There is nothing to do now. */
export interface WaitTask extends ServersOfTask {
  readonly kind: "wait";
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
export type WorkerTask = TrainingTask | EvaluationTask | SaveTask | WaitTask | { readonly kind: "end" };

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
  /** A worker's place among those that average their gradients. */
  getCommRank(workerId: number): Promise<CommRank>;
  /** Hands in gradients and waits for the mean of all; undefined when the workers have changed. */
  reduce(call: ReduceCall): Promise<Reduced>;
}
