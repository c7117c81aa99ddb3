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
import type { FirstModel, ParameterStore, PulledDense, PushResult } from "./parameter-store.js";

/** Options of {@link LocalStore}. */
export interface LocalStoreOptions {
  readonly optimizer: { readonly type: string; readonly args: string };
  /** What random rows depend on; unless said that of the checkpoint, else 0. */
  readonly seed?: number | undefined;
  /** A version directory, or a checkpoint directory, to begin with. */
  readonly checkpointDirForInit?: string | undefined;
  /** What is saved, and where; nothing when absent. */
  readonly checkpoint?: Omit<CheckpointSaverOptions, "parameters" | "snapshots" | "psId" | "psNum"> | undefined;
}

/** A whole model in this process, trained by the same arithmetic as on servers, and saved as shard 0 of 1. */
export class LocalStore implements ParameterStore {
  readonly parameters: Parameters;
  readonly notes: readonly string[];
  readonly saver: CheckpointSaver | undefined;
  private readonly service: PserverService;

  private constructor(options: LocalStoreOptions, share: RestoredShare | undefined) {
    const { optimizer, checkpoint } = options;
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
    this.service = new PserverService(parameters, { onUpdate: (version) => this.saver?.saveIfDue(version) });
  }

  /** Makes a store, restored where that is asked for. @throws what {@link readShare} throws */
  static async open(options: LocalStoreOptions, files: FileStore = localFiles): Promise<LocalStore> {
    const { checkpointDirForInit: path } = options;
    const share = path === undefined ? undefined : await readShare(files, path, { psId: 0, psNum: 1 });
    return new LocalStore(options, share);
  }

  /** See {@link ParameterStore.prepare}. */
  async prepare(tableInfos: TableInfoMessage[]): Promise<void> {
    this.service.pushEmbeddingTableInfos({ ...emptyModel(), tableInfos });
  }

  /** See {@link ParameterStore.pushModel}. */
  async pushModel({ dense, tableInfos }: FirstModel): Promise<void> {
    this.service.pushModel({ ...emptyModel(), denseParameters: dense, tableInfos });
  }

  /** See {@link ParameterStore.pullDense}. */
  async pullDense(modelVersions: readonly number[] = []): Promise<PulledDense> {
    const { initialized, modelVersion, denseParameters } = this.service.pullDenseParameters(modelVersions[0] ?? -1);
    return { isInitialized: initialized, modelVersions: [modelVersion], dense: denseParameters };
  }

  /** See {@link ParameterStore.pullRows}. */
  async pullRows(name: string, ids: BigInt64Array): Promise<Float32Array> {
    const { byteLength, fill } = this.service.pullEmbeddingVectors({ name, ids });
    const rows = new Float32Array(byteLength / 4);
    fill(new Uint8Array(rows.buffer), 0);
    return rows;
  }

  /** See {@link ParameterStore.push}. */
  async push(
    { dense, rows }: BatchGradients,
    modelVersions: readonly number[],
    learningRate: number,
  ): Promise<PushResult> {
    const gradients = {
      ...emptyModel(),
      modelVersion: modelVersions[0] ?? 0,
      denseParameters: dense,
      embeddingTables: rows,
    };
    const { accepted, modelVersion } = this.service.pushGradients({ gradients, learningRate });
    return { accepted, modelVersions: [modelVersion] };
  }

  /** Saves the last state unless it has been, and gives its version directory; undefined when nothing is saved. */
  async saveLast(): Promise<void> {
    const { saver, parameters } = this;
    if (saver !== undefined && parameters.isInitialized && saver.latestVersion !== parameters.modelVersion)
      await saver.save();
    await saver?.idle();
  }

  /** See {@link ParameterStore.close}. */
  async close(): Promise<void> {
    await this.saver?.close();
  }
}
