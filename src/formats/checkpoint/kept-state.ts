import type { FileStore } from "../../bytes/file-store.js";
import { baseName, joinPath } from "../../bytes/path.js";
import { writeFile } from "../../bytes/write-file.js";
import { isCairnError } from "../../errors.js";
import { descriptionPath, findShards, indexPath } from "./bundle-paths.js";
import {
  type CheckpointState,
  formatCheckpointState,
  readCheckpointState,
  resolveCheckpointPath,
  STATE_FILE_NAME,
} from "./checkpoint-state.js";

/** What a directory of checkpoints keeps, by paths that can be opened. Times are in seconds since 1970. */
export interface KeptState {
  /** The prefix of the latest checkpoint. */
  readonly latest: string | undefined;
  /** The prefixes that are managed, oldest first. */
  readonly kept: readonly { readonly path: string; readonly time?: number | undefined }[];
  /** When a checkpoint was last kept for good. */
  readonly lastPreserved?: number | undefined;
}

/**
 * What the state file of a directory says; undefined without one, and for one that cannot be read, which TensorFlow takes
 * for none as well.
 */
export async function readKeptState(files: FileStore, directory: string): Promise<KeptState | undefined> {
  let state: CheckpointState | undefined;
  try {
    state = await readCheckpointState(files, directory);
  } catch (error) {
    if (isCairnError(error, "invalid-text") || isCairnError(error, "limit")) return undefined;
    throw error;
  }
  if (state === undefined) return undefined;
  const { modelCheckpointPath: latest, allModelCheckpointTimestamps: times } = state;
  const resolve = (path: string) => resolveCheckpointPath(path, directory);
  return {
    latest: latest === undefined ? undefined : resolve(latest),
    kept: state.allModelCheckpointPaths.map((path, i) => ({ path: resolve(path), time: times[i] })),
    lastPreserved: state.lastPreservedTimestamp,
  };
}

/** Writes the state file of a directory; paths of the directory itself are written relative to it. */
export async function writeKeptState(files: FileStore, directory: string, state: KeptState): Promise<void> {
  const relative = (path: string) => (joinPath(directory, baseName(path)) === path ? baseName(path) : path);
  const times = state.kept.map(({ time }) => time);
  const text = formatCheckpointState({
    modelCheckpointPath: state.latest === undefined ? undefined : relative(state.latest),
    allModelCheckpointPaths: state.kept.map(({ path }) => relative(path)),
    allModelCheckpointTimestamps: times.every((time) => time !== undefined) ? times : [],
    lastPreservedTimestamp: state.lastPreserved,
  });
  await writeFile(files, joinPath(directory, STATE_FILE_NAME), text, { overwrite: true });
}

/** Removes a checkpoint: its index, with which it is gone, then its data files and its description. */
export async function removeCheckpoint(files: FileStore, prefix: string): Promise<void> {
  await files.remove(indexPath(prefix));
  for (const { path } of await findShards(files, prefix)) await files.remove(path);
  await files.remove(descriptionPath(prefix));
}
