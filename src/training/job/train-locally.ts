import { setTimeout as delay } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { type ErrorCode, StorageError } from "../../errors.js";
import { localFiles } from "../../platform/node/index.js";
import { type JobStatus, JobStatusSchema } from "../../proto/gen/cairn/training_pb.js";
import type { ModelDefinition } from "../model/model-definition.js";
import { type JobOptions, masterOptions } from "./job-options.js";
import { LocalStore, storeOptions } from "./local-store.js";
import { Master } from "./master.js";
import type { MasterStatus } from "./master-options.js";
import { findStart, prune } from "./start-version.js";
import type { TrainingResult } from "./supervise-options.js";
import { runWorker } from "./worker.js";

/** How often the master looks around, in milliseconds. */
const TICK_MS = 100;

/** Options of {@link trainLocally}. */
export interface LocalTrainingOptions extends Omit<JobOptions, "initPath"> {
  readonly checkpointDirForInit?: string | undefined;
  readonly signal: AbortSignal;
  readonly onNote: (text: string) => void;
  readonly onStatus: (status: JobStatus) => void;
}

/**
 * Trains in this process, without servers, by the arithmetic that servers have; versions are saved as shard 0 of 1.
 * @throws StorageError with the code of what went wrong, CairnError (`interrupted`)
 */
export async function trainLocally(
  definition: ModelDefinition,
  options: LocalTrainingOptions,
): Promise<TrainingResult> {
  const { signal, onNote, onStatus, checkpointDir } = options;
  const start = await findStart(localFiles, options);
  for (const note of start?.notes ?? []) onNote(note);
  const master = await Master.start(await masterOptions(definition, { ...options, initPath: start?.path }));
  const modelVersion = start?.modelVersion ?? 0;
  const startPath = start?.path ?? "";
  await master.setServers({ addresses: [], generation: 1, modelVersion, isRestored: start !== undefined, startPath });
  const stop = new AbortController();
  const looking = lookAfter(master, stop.signal, (status) => {
    for (const note of status.notes) onNote(note);
    onStatus(statusMessage(status));
  });
  let store: LocalStore | undefined;
  try {
    await runWorker({
      master,
      definition,
      workerId: 0,
      signal,
      onNote,
      openStore: async (servers, job) => {
        store = await LocalStore.open(storeOptions(servers, job, onNote));
        return store;
      },
    });
  } catch (error) {
    if (signal.aborted) await store?.saveLast().catch(() => {});
    throw error;
  } finally {
    stop.abort();
    await looking;
    await store?.close();
    if (checkpointDir !== undefined) await prune(localFiles, checkpointDir, options.keepCheckpointMax);
  }
  const { phase, code, reason, evaluated, modelVersion: last } = master.status();
  if (phase === "failed") throw new StorageError((code || "training-failed") as ErrorCode, reason);
  return {
    modelVersion: last,
    reason,
    metrics: evaluated?.metrics ?? {},
    restarts: { servers: 0, workers: 0, master: 0 },
  };
}

async function lookAfter(master: Master, signal: AbortSignal, onStatus: (status: MasterStatus) => void): Promise<void> {
  while (!signal.aborted) {
    try {
      await master.tick();
    } catch (error) {
      master.fail("training-failed", error instanceof Error ? error.message : String(error));
    }
    onStatus(master.status());
    await delay(TICK_MS, undefined, { signal }).catch(() => {});
  }
}

function statusMessage({ evaluated, ...status }: MasterStatus): JobStatus {
  return create(JobStatusSchema, {
    ...status,
    notes: [...status.notes],
    silentWorkers: [...status.silentWorkers],
    evaluatedVersion: evaluated?.modelVersion ?? 0,
    metrics: { ...evaluated?.metrics },
  });
}
