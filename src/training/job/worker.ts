import { setTimeout as delay } from "node:timers/promises";
import { CairnError, isCairnError } from "../../errors.js";
import { GRPC, RpcError } from "../grpc-status.js";
import type { ModelDefinition } from "../model/model-definition.js";
import { TrainableModel } from "../model/trainable-model.js";
import { EvaluationWork } from "./evaluation-work.js";
import type { Job, MasterLink, TaskResult, TrainingTask, WorkerProgress } from "./master-link.js";
import type { ParameterStore } from "./parameter-store.js";
import { TrainingWork } from "./training-work.js";

/** How long a worker waits when there is nothing to do, in milliseconds. */
const WAIT_MS = 50;
/** How long it waits after a task failed, which may be since servers are being started. */
const FAILED_WAIT_MS = 100;

/** Options of {@link runWorker}. */
export interface WorkerOptions {
  readonly master: MasterLink;
  readonly definition: ModelDefinition;
  readonly workerId: number;
  /** Where the parameters of a task are; asked for again when the servers have been started anew. */
  readonly openStore: (task: TrainingTask) => Promise<ParameterStore>;
  readonly signal?: AbortSignal | undefined;
  readonly onNote?: ((text: string) => void) | undefined;
  readonly onProgress?: ((progress: WorkerProgress) => void) | undefined;
}

/**
 * Trains and evaluates what the master deals out, until there is nothing more. What fails is told to the master, who
 * decides whether to try it again.
 * @throws {@link CairnError} of a master that cannot be reached, or (`interrupted`)
 */
export async function runWorker(options: WorkerOptions): Promise<void> {
  const { master, definition, workerId, signal } = options;
  const job = await master.join(workerId);
  const model = await TrainableModel.build(definition, job.seed);
  const stores = new Stores(options);
  const evaluation = new EvaluationWork(model);
  const report = progressReporter(options);
  try {
    for (;;) {
      signal?.throwIfAborted();
      const task = await master.getTask(workerId);
      if (task.kind === "end") return;
      if (task.kind === "wait") {
        await delay(WAIT_MS, undefined, { signal });
        continue;
      }
      const result = await attempt(task.taskId, signal, async () => {
        if (task.kind === "training") {
          const work = new TrainingWork({ model, job, store: await stores.of(task), report, signal });
          return work.run(task);
        }
        const outputs = await evaluation.run(task);
        await master.reportEvaluation({ workerId, ...outputs });
        return task.modelVersion;
      });
      await master.reportTaskResult(result);
      if (result.failure === undefined) continue;
      options.onNote?.(`task ${task.taskId}: ${result.failure.message}`);
      await stores.close();
      await delay(FAILED_WAIT_MS, undefined, { signal });
    }
  } finally {
    await stores.close();
    await evaluation.close();
  }
}

/** The store of the servers that there are now. */
class Stores {
  private readonly options: WorkerOptions;
  private generation = 0;
  private store: ParameterStore | undefined;

  constructor(options: WorkerOptions) {
    this.options = options;
  }

  async of(task: TrainingTask): Promise<ParameterStore> {
    if (this.store !== undefined && task.generation === this.generation) return this.store;
    await this.close();
    this.store = await this.options.openStore(task);
    this.generation = task.generation;
    return this.store;
  }

  async close(): Promise<void> {
    const { store } = this;
    this.store = undefined;
    await store?.close();
  }
}

async function attempt(
  taskId: number,
  signal: AbortSignal | undefined,
  work: () => Promise<number>,
): Promise<TaskResult> {
  try {
    return { taskId, modelVersion: await work() };
  } catch (error) {
    if (signal?.aborted) throw error;
    return { taskId, modelVersion: 0, failure: failureOf(error) };
  }
}

/** What the master is told of an error: a server that is away may be back soon, one that refuses a call refuses it again. */
function failureOf(error: unknown): { code: string; message: string } {
  if (error instanceof RpcError) {
    const isAway = [GRPC.unavailable, GRPC.deadlineExceeded, GRPC.cancelled].some((status) => status === error.status);
    return { code: isAway ? "rpc-failed" : "training-failed", message: error.message };
  }
  if (error instanceof CairnError) return { code: error.code, message: error.message };
  const message = error instanceof Error ? error.message : String(error);
  return { code: "training-failed", message: `the model definition fails: ${message}` };
}

/** Reports at most every quarter of a second, and never waits for the answer. */
function progressReporter({ master, workerId, onProgress }: WorkerOptions) {
  let batches = 0;
  let reportedMs = 0;
  let isBusy = false;
  return (modelVersion: number, loss: number): void => {
    batches++;
    const progress = { workerId, modelVersion, loss, batches };
    onProgress?.(progress);
    const nowMs = performance.now();
    if (isBusy || nowMs - reportedMs < 250) return;
    isBusy = true;
    reportedMs = nowMs;
    batches = 0;
    // A master that is away is met again with the next task.
    const done = master.reportProgress(progress).catch((error: unknown) => {
      if (!isCairnError(error)) throw error;
    });
    void done.finally(() => {
      isBusy = false;
    });
  };
}

export type { Job };
