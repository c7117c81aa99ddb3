import { setTimeout as delay } from "node:timers/promises";
import { CairnError, isCairnError } from "../../errors.js";
import { GRPC, RpcError } from "../grpc-status.js";
import type { ModelDefinition } from "../model/model-definition.js";
import { TrainableModel } from "../model/trainable-model.js";
import { EvaluationWork } from "./evaluation-work.js";
import type { Job, MasterLink, SaveTask, ServersOfTask, TaskResult, WaitTask, WorkerProgress } from "./master-link.js";
import type { OwnStore, ParameterStore } from "./parameter-store.js";
import { TrainingWork } from "./training-work.js";

/** How long a worker waits when there is nothing to do, in milliseconds. */
const WAIT_MS = 50;
/** How often a worker tells that it is there, however long a call takes, in milliseconds. */
const HEARTBEAT_MS = 5000;
/** How long it waits between two steps of the others, in milliseconds. */
const TAKE_PART_MS = 5;
/** How long it waits after a task failed, which may be since servers are being started. */
const FAILED_WAIT_MS = 100;

/** Options of {@link runWorker}. */
export interface WorkerOptions {
  readonly master: MasterLink;
  readonly definition: ModelDefinition;
  readonly workerId: number;
  /** Where the parameters of a task are; asked for again when the servers have been started anew. */
  readonly openStore: (servers: ServersOfTask, job: Job) => Promise<ParameterStore | OwnStore>;
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
  const stores = new Stores(options, job);
  const evaluation = new EvaluationWork(model);
  const report = progressReporter(options);
  const heartbeat = setInterval(() => report.alive(), HEARTBEAT_MS);
  try {
    for (;;) {
      signal?.throwIfAborted();
      const task = await master.getTask(workerId);
      if (task.kind === "end") return;
      if (task.kind === "wait") {
        await waitFor(task, model, stores, signal);
        continue;
      }
      const result = await attempt(task.taskId, signal, async () => {
        if (task.kind === "training") {
          const store = await stores.of(task);
          return new TrainingWork({ model, job, store, seen: stores.seen, report: report.batch, signal }).run(task);
        }
        if (task.kind === "save") return saveLast(model, stores, task);
        const outputs = await evaluation.run(task);
        await master.reportEvaluation({ workerId, ...outputs });
        return task.modelVersion;
      });
      await master.reportTaskResult(result);
      if (result.failure === undefined) continue;
      options.onNote?.(`task ${task.taskId}: ${result.failure.message}`);
      await stores.afterFailure();
      await delay(FAILED_WAIT_MS, undefined, { signal });
    }
  } finally {
    clearInterval(heartbeat);
    await stores.close();
    await evaluation.close();
  }
}

/** Waits a moment, or takes part in what the other workers do together meanwhile. */
async function waitFor(
  task: WaitTask,
  model: TrainableModel,
  stores: Stores,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { job } = stores;
  if (job.strategy !== "allreduce" || task.generation === 0) {
    await delay(WAIT_MS, undefined, { signal });
    return;
  }
  const store = await stores.of(task);
  await new TrainingWork({ model, job, store, seen: stores.seen, report: () => {}, signal }).prepare(task);
  if ("takePart" in store) await store.takePart?.((modelVersion) => model.definition.learningRate?.(modelVersion) ?? 0);
  await delay(TAKE_PART_MS, undefined, { signal });
}

async function saveLast(model: TrainableModel, stores: Stores, task: SaveTask): Promise<number> {
  const store = await stores.of(task);
  await new TrainingWork({ model, job: stores.job, store, seen: stores.seen, report: () => {} }).prepare(task);
  if ("saveLast" in store) return store.saveLast();
  throw new TypeError("servers save the model themselves");
}

/** The store of the servers that there are now. */
class Stores {
  readonly job: Job;
  private readonly options: WorkerOptions;
  private generation = 0;
  private store: ParameterStore | OwnStore | undefined;
  /** The newest version that was seen of each server of this generation. */
  seen: number[] = [];

  constructor(options: WorkerOptions, job: Job) {
    this.options = options;
    this.job = job;
  }

  async of(servers: ServersOfTask): Promise<ParameterStore | OwnStore> {
    if (this.store !== undefined && servers.generation === this.generation) return this.store;
    await this.close();
    this.store = await this.options.openStore(servers, this.job);
    if (servers.generation !== this.generation) this.seen = [];
    this.generation = servers.generation;
    return this.store;
  }

  /** Lets go of servers that may be away. A model of one's own is not away, and there is no other. */
  async afterFailure(): Promise<void> {
    if (this.store !== undefined && !("saveLast" in this.store)) await this.close();
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

/** Reports batches at most every quarter of a second, and never waits for the answer. */
function progressReporter({ master, workerId, onProgress }: WorkerOptions) {
  let last = { workerId, modelVersion: 0, loss: Number.NaN, batches: 0 };
  let reportedMs = 0;
  let isBusy = false;
  const send = () => {
    if (isBusy) return;
    isBusy = true;
    reportedMs = performance.now();
    const progress = last;
    last = { ...last, batches: 0 };
    // A master that is away is met again with the next task.
    const done = master.reportProgress(progress).catch((error: unknown) => {
      if (!isCairnError(error)) throw error;
    });
    void done.finally(() => {
      isBusy = false;
    });
  };
  return {
    /** A batch was trained. */
    batch: (modelVersion: number, loss: number): void => {
      last = { workerId, modelVersion, loss, batches: last.batches + 1 };
      onProgress?.(last);
      if (performance.now() - reportedMs >= 250) send();
    },
    /** The worker is there. */
    alive: send,
  };
}
