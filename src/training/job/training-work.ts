import { StorageError } from "../../errors.js";
import { takeRows } from "../model/columns.js";
import { readBatch } from "../model/model-definition.js";
import type { CheckedBatch, TrainableModel } from "../model/trainable-model.js";
import type { Job, ServersOfTask, TrainingTask } from "./master-link.js";
import type { ParameterStore } from "./parameter-store.js";
import { shuffleInPlace } from "./task-schedule.js";

/** How often a batch is computed again since its gradients came too late. Source: elasticdl/python/worker/worker.py, max_minibatch_retry_num. */
const MAX_RETRIES = 64;

/** What {@link TrainingWork} works with. */
export interface TrainingWorkOptions {
  readonly model: TrainableModel;
  readonly job: Job;
  readonly store: ParameterStore;
  /** The newest version that was seen of each server since they were started; it is kept here. */
  readonly seen: number[];
  /** Told of every batch. */
  readonly report: (modelVersion: number, loss: number) => void;
  readonly signal?: AbortSignal | undefined;
}

/** Trains with the records of one task: pull, compute, push, batch by batch. */
export class TrainingWork {
  private readonly options: TrainingWorkOptions;
  /** The versions of the variables that the model has. */
  private heldVersions: readonly number[] = [];
  /** The newest versions that are known of. */
  private latestVersions: readonly number[] = [];
  private isFresh = false;

  constructor(options: TrainingWorkOptions) {
    this.options = options;
  }

  /** Does a task and gives the model's version after it. @throws {@link StorageError} (`servers-disagree`), and what the calls throw */
  async run(task: TrainingTask): Promise<number> {
    const { model, job, signal } = this.options;
    await this.prepare(task);
    const skipped = this.batchesDone(task);
    const count = task.end - task.start;
    if (skipped * job.minibatchSize >= count || this.isAtEnd) return this.modelVersion;
    const records = model.check(await readBatch(model.definition, "training", task), count);
    const order = Array.from({ length: count }, (_, i) => i);
    if (job.shuffle) shuffleInPlace(order, job.seed, task.epoch * 1_000_003 + task.start);
    for (let at = skipped * job.minibatchSize; at < count && !this.isAtEnd; at += job.minibatchSize) {
      signal?.throwIfAborted();
      const loss = await this.train(batchOf(records, order.slice(at, at + job.minibatchSize)));
      this.options.report(this.modelVersion, loss);
    }
    return this.modelVersion;
  }

  private get modelVersion(): number {
    return Math.max(...this.latestVersions);
  }

  private get isAtEnd(): boolean {
    const { maxStep } = this.options.job;
    return maxStep > 0 && this.modelVersion >= maxStep;
  }

  /** Gets the model from where the parameters are, or gives it to them. @throws {@link StorageError} (`servers-disagree`), and what the calls throw */
  async prepare({ isRestored }: ServersOfTask): Promise<void> {
    const { model, job, store } = this.options;
    await store.prepare(model.tableInfos);
    let pulled = await store.pullDense();
    if (!pulled.isInitialized && (isRestored || pulled.modelVersions.some((version) => version > 0))) {
      throw new StorageError(
        "servers-disagree",
        "a parameter server has no variables, though others have been trained",
      );
    }
    if (!pulled.isInitialized) {
      await store.pushModel({ dense: model.initialDense, tableInfos: model.tableInfos });
      pulled = await store.pullDense();
    }
    if (job.isExact && new Set(pulled.modelVersions).size > 1) {
      throw new StorageError("servers-disagree", "the parameter servers are of different versions", {
        actual: pulled.modelVersions.join(", "),
      });
    }
    model.requireDense(pulled.dense);
    model.setDense(pulled.dense);
    this.hold(pulled.modelVersions);
  }

  /** How many batches of a task the model has in it already: each is one version where the job is exact. */
  private batchesDone({ startVersion }: TrainingTask): number {
    if (!this.options.job.isExact) return 0;
    const done = this.modelVersion - startVersion;
    if (done >= 0) return done;
    throw new StorageError("servers-disagree", "the parameter servers have gone back to an older version", {
      expected: `at least ${startVersion}`,
      actual: this.modelVersion,
    });
  }

  /** Trains with one batch and gives its loss. */
  private async train(batch: CheckedBatch): Promise<number> {
    const { model, store } = this.options;
    for (let retry = 0; retry <= MAX_RETRIES; retry++) {
      if (!this.isFresh) await this.pull();
      const gradients = await model.gradients(batch, store);
      const rate = model.definition.learningRate?.(this.modelVersion) ?? 0;
      this.isFresh = false;
      const { accepted, modelVersions } = await store.push(gradients, this.heldVersions, rate);
      this.see(modelVersions);
      if (accepted) return gradients.loss;
    }
    throw new StorageError("training-failed", `the gradients of a batch came too late ${MAX_RETRIES} times`, {
      hint: "Fewer workers, or --sync-version-tolerance, may help.",
    });
  }

  private async pull(): Promise<void> {
    const { model, store } = this.options;
    const { modelVersions, dense } = await store.pullDense(this.heldVersions);
    model.setDense(dense);
    this.hold(modelVersions);
  }

  private hold(modelVersions: readonly number[]): void {
    this.see(modelVersions);
    this.heldVersions = modelVersions;
    this.isFresh = true;
  }

  /** Versions only grow: a server whose version is less than before was started anew, and the others were not. */
  private see(modelVersions: readonly number[]): void {
    const { seen } = this.options;
    modelVersions.forEach((version, psId) => {
      if (version < (seen[psId] ?? 0)) {
        throw new StorageError("servers-disagree", `parameter server ${psId} has gone back to an older version`, {
          expected: `at least ${seen[psId]}`,
          actual: version,
        });
      }
      seen[psId] = version;
    });
    this.latestVersions = modelVersions;
  }
}

function batchOf({ inputs, labels }: CheckedBatch, rows: readonly number[]): CheckedBatch {
  return {
    count: rows.length,
    inputs: new Map(Array.from(inputs, ([name, table]) => [name, takeRows(table, rows)])),
    labels: labels && takeRows(labels, rows),
  };
}
