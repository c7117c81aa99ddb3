import type { FileStore } from "../bytes/file-store.js";
import { isCairnError, UsageError } from "../errors.js";
import { checkPsNum } from "../formats/elasticdl/partition.js";
import type { RestoredShare } from "../formats/elasticdl/restore.js";
import { localFiles } from "../platform/node/index.js";
import { CheckpointSaver, type CheckpointSaverOptions } from "./checkpoint-saver.js";
import { GrpcServer, type ListenOptions } from "./grpc-server.js";
import { parseOptimizer } from "./optimizers.js";
import { Parameters } from "./parameters.js";
import { pserverHandlers } from "./pserver-methods.js";
import { PserverService, type SgdOptions } from "./pserver-service.js";
import { readShare, restoreParameters, storedSeed } from "./restore-parameters.js";
import { Snapshots } from "./snapshot.js";

/** What is saved, and where. */
export type CheckpointOptions = Omit<CheckpointSaverOptions, "parameters" | "snapshots" | "psId" | "psNum">;

/** Options of {@link ParameterServer.start}. */
export interface ParameterServerOptions extends ListenOptions, Omit<SgdOptions, "onUpdate"> {
  /** Which of the job's servers this is, from 0. */
  readonly psId: number;
  /** How many the job has. */
  readonly psNum: number;
  /** `SGD`, `Adam` or `Adagrad`. */
  readonly optimizerType: string;
  /** See {@link parseOptimizer}. */
  readonly optimizerArgs?: string | undefined;
  /** What random rows depend on; unless said that of the checkpoint, else 0. */
  readonly seed?: number | undefined;
  /** Saves nothing when absent. */
  readonly checkpoint?: CheckpointOptions | undefined;
  /**
   * Where to go on from: a version directory, a checkpoint directory, of which the newest complete version is taken, or
   * `latest` for that of the own checkpoint directory, where a job begins anew when there is none.
   */
  readonly checkpointDirForInit?: string | undefined;
  /** Told of every update, after it. */
  readonly onUpdate?: ((modelVersion: number) => void) | undefined;
}

/** A parameter server: its share of a model, served to workers and saved while they train. */
export class ParameterServer {
  readonly parameters: Parameters;
  /** Undefined when nothing is saved. */
  readonly saver: CheckpointSaver | undefined;
  /** What somebody should know of the start. */
  readonly notes: readonly string[];
  private readonly server: GrpcServer;
  private listenPort = 0;

  private constructor(options: ParameterServerOptions, share: RestoredShare | undefined) {
    const { psId, psNum, optimizerType, optimizerArgs, checkpoint } = options;
    const optimizer = parseOptimizer(optimizerType, optimizerArgs);
    const seed = options.seed ?? (share && storedSeed(share)) ?? 0;
    const snapshots = new Snapshots();
    this.parameters = new Parameters({ optimizer, seed, guard: snapshots });
    this.notes = share === undefined ? [] : restoreParameters(this.parameters, share);
    const { parameters } = this;
    const service = new PserverService(parameters, {
      ...options,
      onUpdate: (modelVersion) => {
        this.saver?.saveIfDue(modelVersion);
        options.onUpdate?.(modelVersion);
      },
    });
    this.server = new GrpcServer(pserverHandlers(service));
    this.saver = checkpoint && new CheckpointSaver({ ...checkpoint, parameters, snapshots, psId, psNum });
  }

  /**
   * Restores what there is to restore, and begins to serve.
   * @throws {@link UsageError} (`usage`), StorageError (`rpc-failed`) when the port is taken, what {@link readShare} throws
   */
  static async start(options: ParameterServerOptions, files: FileStore = localFiles): Promise<ParameterServer> {
    const { psId, psNum } = options;
    checkPsNum(psNum);
    if (!Number.isInteger(psId) || psId < 0 || psId >= psNum) {
      throw new UsageError("usage", "number of this parameter server", { expected: `0 to ${psNum - 1}`, actual: psId });
    }
    const server = new ParameterServer(options, await findShare(options, files));
    try {
      server.listenPort = await server.server.listen(options);
    } catch (error) {
      await server.saver?.close();
      throw error;
    }
    return server;
  }

  /** The port that it serves. */
  get port(): number {
    return this.listenPort;
  }

  /**
   * Ends: takes no more calls, waits for those under way, and for what is being saved. With `saveLast` the last state is
   * saved too, unless it has been.
   */
  async close({ saveLast = false }: { readonly saveLast?: boolean | undefined } = {}): Promise<void> {
    await this.server.close();
    const { saver, parameters } = this;
    if (saver === undefined) return;
    const isNew = parameters.isInitialized && saver.latestVersion !== parameters.modelVersion;
    if (saveLast && isNew) await saver.save();
    await saver.close();
  }
}

async function findShare(options: ParameterServerOptions, files: FileStore): Promise<RestoredShare | undefined> {
  const { checkpointDirForInit, checkpoint } = options;
  if (checkpointDirForInit === undefined || checkpointDirForInit === "") return undefined;
  if (checkpointDirForInit !== "latest") return readShare(files, checkpointDirForInit, options);
  if (checkpoint === undefined) {
    throw new UsageError("usage", "latest is the newest version of the checkpoint directory, and none is given");
  }
  try {
    return await readShare(files, checkpoint.directory, options);
  } catch (error) {
    const isFresh = isCairnError(error, "not-found") || isCairnError(error, "no-complete-version");
    if (isFresh) return undefined;
    throw error;
  }
}
