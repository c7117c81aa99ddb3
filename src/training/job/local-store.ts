import { setImmediate as immediate } from "node:timers/promises";
import type { FileStore } from "../../bytes/file-store.js";
import type { RestoredShare } from "../../formats/elasticdl/restore.js";
import { localFiles } from "../../platform/node/index.js";
import { CheckpointSaver, type CheckpointSaverOptions } from "../checkpoint-saver.js";
import { emptyModel, type TableInfoMessage } from "../messages.js";
import type { BatchGradients } from "../model/trainable-model.js";
import { parseOptimizer } from "../optimizers.js";
import { Parameters } from "../parameters.js";
import { PserverService } from "../pserver-service.js";
import { readShare, restoreParameters, storedSeed } from "../restore-parameters.js";
import { Snapshots } from "../snapshot.js";
import type { Job, ServersOfTask } from "./master-link.js";
import type { FirstModel, OwnStore, PulledDense, PushResult } from "./parameter-store.js";

/** Options of {@link LocalStore}. */
export interface LocalStoreOptions {
  readonly optimizer: { readonly type: string; readonly args: string };
  /** What random rows depend on; unless said that of the checkpoint, else 0. */
  readonly seed?: number | undefined;
  /** A version directory, or a checkpoint directory, to begin with. */
  readonly checkpointDirForInit?: string | undefined;
  /** What is saved, and where; nothing when absent. */
  /** Whether it is this one that saves; it is unless said. */
  readonly isSaver?: (() => boolean) | undefined;
  readonly checkpoint?: Omit<CheckpointSaverOptions, "parameters" | "snapshots" | "psId" | "psNum"> | undefined;
}

/** A whole model in this process, trained by the same arithmetic as on servers, and saved as shard 0 of 1. */
export class LocalStore implements OwnStore {
  readonly parameters: Parameters;
  readonly notes: readonly string[];
  readonly saver: CheckpointSaver | undefined;
  private readonly service: PserverService;
  private readonly checkpoint: LocalStoreOptions["checkpoint"];

  private constructor(options: LocalStoreOptions, share: RestoredShare | undefined) {
    const { optimizer, checkpoint } = options;
    this.checkpoint = checkpoint;
    const snapshots = new Snapshots();
    const seed = options.seed ?? (share && storedSeed(share)) ?? 0;
    this.parameters = new Parameters({
      optimizer: parseOptimizer(optimizer.type, optimizer.args),
      seed,
      guard: snapshots,
    });
    this.notes = share === undefined ? [] : restoreParameters(this.parameters, share);
    const { parameters } = this;
    this.saver = checkpoint && new CheckpointSaver({ ...checkpoint, parameters, snapshots, psId: 0, psNum: 1 });
    const { isSaver = () => true } = options;
    this.service = new PserverService(parameters, {
      onUpdate: (modelVersion) => {
        if (isSaver()) this.saver?.saveIfDue(modelVersion);
      },
    });
  }

  /** Makes a store, restored where that is asked for. @throws what {@link readShare} throws */
  static async open(options: LocalStoreOptions, files: FileStore = localFiles): Promise<LocalStore> {
    const { checkpointDirForInit: path } = options;
    const share = path === undefined ? undefined : await readShare(files, path, { psId: 0, psNum: 1 });
    return new LocalStore(options, share);
  }

  /** See {@link OwnStore.prepare}. */
  async prepare(tableInfos: TableInfoMessage[]): Promise<void> {
    this.service.pushEmbeddingTableInfos({ ...emptyModel(), tableInfos });
  }

  /** See {@link OwnStore.pushModel}. */
  async pushModel({ dense, tableInfos }: FirstModel): Promise<void> {
    this.service.pushModel({ ...emptyModel(), denseParameters: dense, tableInfos });
  }

  /** See {@link OwnStore.pullDense}. */
  async pullDense(modelVersions: readonly number[] = []): Promise<PulledDense> {
    const { initialized, modelVersion, denseParameters } = this.service.pullDenseParameters(modelVersions[0] ?? -1);
    return { isInitialized: initialized, modelVersions: [modelVersion], dense: denseParameters };
  }

  /** See {@link OwnStore.pullRows}. */
  async pullRows(name: string, ids: BigInt64Array): Promise<Float32Array> {
    const { byteLength, fill } = this.service.pullEmbeddingVectors({ name, ids });
    const rows = new Float32Array(byteLength / 4);
    fill(new Uint8Array(rows.buffer), 0);
    return rows;
  }

  /** See {@link OwnStore.push}. */
  async push(
    { dense, rows }: BatchGradients,
    modelVersions: readonly number[],
    learningRate: number,
  ): Promise<PushResult> {
    // Timers and the thread that saves get their turn; a save that is under way ends before the next one.
    await immediate();
    const { checkpoint, saver } = this;
    if (checkpoint?.checkpointSteps && (this.parameters.modelVersion + 1) % checkpoint.checkpointSteps === 0)
      await saver?.idle();
    const gradients = {
      ...emptyModel(),
      modelVersion: modelVersions[0] ?? 0,
      denseParameters: dense,
      embeddingTables: rows,
    };
    const { accepted, modelVersion } = this.service.pushGradients({ gradients, learningRate });
    return { accepted, modelVersions: [modelVersion] };
  }

  /** See {@link OwnStore.saveLast}. */
  async saveLast(): Promise<number> {
    const { saver, parameters } = this;
    const isNew = parameters.isInitialized && saver?.latestVersion !== parameters.modelVersion;
    if (isNew) await saver?.save();
    await saver?.idle();
    return parameters.modelVersion;
  }

  /** See {@link OwnStore.close}. */
  async close(): Promise<void> {
    await this.saver?.close();
  }
}

/** How a worker keeps the model that a job is about. */
export function storeOptions(
  { startPath }: ServersOfTask,
  job: Job,
  onNote: (text: string) => void,
): LocalStoreOptions {
  const { optimizer, seed, saving } = job;
  const checkpoint = saving && {
    directory: saving.checkpointDir,
    checkpointSteps: saving.checkpointSteps,
    keepCheckpointMax: saving.keepCheckpointMax,
    layout: saving.layout,
    onProblem: (_modelVersion: number, { message }: Error) => onNote(message),
  };
  return { optimizer, seed, checkpoint, checkpointDirForInit: startPath === "" ? undefined : startPath };
}
