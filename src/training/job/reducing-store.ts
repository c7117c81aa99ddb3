import { setTimeout as delay } from "node:timers/promises";
import { StorageError } from "../../errors.js";
import { emptyModel, type TableInfoMessage } from "../messages.js";
import type { BatchGradients } from "../model/trainable-model.js";
import { LocalStore, type LocalStoreOptions } from "./local-store.js";
import type { MasterLink } from "./master-link.js";
import type { FirstModel, OwnStore, PulledDense, PushResult } from "./parameter-store.js";
import type { CommRank } from "./reducer.js";

/** How long to wait until all workers are there, between two questions, in milliseconds. */
const GATHER_MS = 50;

/** Parameters that every worker has as a whole, and changes by the mean of the gradients of all. The first worker saves them. */
export class ReducingStore implements OwnStore {
  private readonly local: LocalStore;
  private readonly master: MasterLink;
  private readonly workerId: number;
  private readonly signal: AbortSignal | undefined;
  private readonly comm: { rank: CommRank | undefined };

  private constructor(local: LocalStore, comm: ReducingStore["comm"], options: ReducingStoreOptions) {
    this.local = local;
    this.comm = comm;
    this.master = options.master;
    this.workerId = options.workerId;
    this.signal = options.signal;
  }

  /** The whole model, restored where that is asked for. @throws what reading a version throws */
  static async open(options: ReducingStoreOptions): Promise<ReducingStore> {
    const comm: ReducingStore["comm"] = { rank: undefined };
    const local = await LocalStore.open({ ...options.store, isSaver: () => comm.rank?.rank === 0 });
    return new ReducingStore(local, comm, options);
  }

  /** See {@link OwnStore.prepare}. */
  prepare(tableInfos: TableInfoMessage[]): Promise<void> {
    return this.local.prepare(tableInfos);
  }

  /** See {@link OwnStore.pushModel}. */
  pushModel(model: FirstModel): Promise<void> {
    return this.local.pushModel(model);
  }

  /** See {@link OwnStore.pullDense}. */
  pullDense(modelVersions?: readonly number[]): Promise<PulledDense> {
    return this.local.pullDense(modelVersions);
  }

  /** See {@link OwnStore.pullRows}. */
  pullRows(table: string, ids: BigInt64Array): Promise<Float32Array> {
    return this.local.pullRows(table, ids);
  }

  /** See {@link OwnStore.push}: what is applied is the mean of all workers' gradients. */
  push(gradients: BatchGradients, modelVersions: readonly number[], learningRate: number): Promise<PushResult> {
    return this.step(gradients, gradients.records, modelVersions[0] ?? 0, learningRate);
  }

  /** Takes part in one step of the others without a batch of its own. */
  async takePart(learningRate: (modelVersion: number) => number): Promise<void> {
    const { modelVersion } = this.local.parameters;
    const none = { loss: 0, records: 0, dense: new Map(), rows: new Map() };
    await this.step(none, 0, modelVersion, learningRate(modelVersion));
  }

  /** See {@link OwnStore.saveLast}. */
  saveLast(): Promise<number> {
    return this.local.saveLast();
  }

  /** See {@link OwnStore.close}. */
  close(): Promise<void> {
    return this.local.close();
  }

  private async step(
    { dense, rows }: BatchGradients,
    records: number,
    modelVersion: number,
    learningRate: number,
  ): Promise<PushResult> {
    const { master, workerId } = this;
    const gradients = { ...emptyModel(), modelVersion, denseParameters: dense, embeddingTables: rows };
    for (;;) {
      this.signal?.throwIfAborted();
      this.comm.rank ??= await this.gather();
      const { rendezvousId } = this.comm.rank;
      const reduced = await master.reduce({ workerId, rendezvousId, gradients, records });
      if (reduced === undefined) {
        this.comm.rank = undefined;
        if (records === 0) return { accepted: true, modelVersions: [modelVersion] };
        continue;
      }
      if (reduced.records === 0) return { accepted: true, modelVersions: [modelVersion] };
      const mean = { dense: reduced.gradients.denseParameters, rows: reduced.gradients.embeddingTables };
      return this.local.push({ loss: 0, records, ...mean }, [modelVersion], learningRate);
    }
  }

  /** Waits until all workers are there. @throws {@link StorageError} (`training-failed`) when the others went on without this one */
  private async gather(): Promise<CommRank> {
    for (;;) {
      const rank = await this.master.getCommRank(this.workerId);
      if (rank.rank >= 0) return rank;
      if (rank.rank < -1) throw new StorageError("training-failed", "the other workers went on without this one");
      await delay(GATHER_MS, undefined, { signal: this.signal });
    }
  }
}

/** Options of {@link ReducingStore.open}. */
export interface ReducingStoreOptions {
  readonly master: MasterLink;
  readonly workerId: number;
  readonly store: LocalStoreOptions;
  readonly signal?: AbortSignal | undefined;
}
