import type { FileStore } from "../../bytes/file-store.js";
import { joinPath } from "../../bytes/path.js";
import { writeFile } from "../../bytes/write-file.js";
import { CorruptionError, LimitError } from "../../errors.js";
import { sidePath } from "../../formats/elasticdl/names.js";
import { MAX_STATE_FILE_BYTES } from "../../limits.js";
import type { QueueState } from "./task-queue.js";

/** How far a training is, as it is kept beside its checkpoint directory. */
export interface ProgressRecord extends QueueState {
  /** Of the schedule that the tasks are of. */
  readonly fingerprint: string;
  /** Of the run that wrote it: a master that was restarted knows its own record by it. */
  readonly jobId: string;
  readonly generation: number;
  /** Whether each batch made one version, so that the version tells how much of a task is in it. */
  readonly isExact?: boolean | undefined;
}

/** Where the record of a checkpoint directory is. */
export function progressPath(root: string): string {
  return joinPath(sidePath(root), "progress.json");
}

/** Reads the record of a checkpoint directory; undefined when there is none. @throws {@link CorruptionError} (`invalid-json`), {@link LimitError} (`limit`) */
export async function readProgress(files: FileStore, root: string): Promise<ProgressRecord | undefined> {
  const value = await readJson(files, progressPath(root));
  if (value === undefined) return undefined;
  if (isRecord(value)) return value;
  throw new CorruptionError("invalid-json", "a record of progress of an unknown form", { file: progressPath(root) });
}

function isRecord(value: unknown): value is ProgressRecord {
  const { fingerprint, jobId, generation, baseVersion, done } = (value ?? {}) as Partial<ProgressRecord>;
  const isCount = (number: unknown) => Number.isSafeInteger(number) && (number as number) >= 0;
  if (typeof fingerprint !== "string" || typeof jobId !== "string") return false;
  if (!isCount(generation) || !Number.isSafeInteger(baseVersion) || !Array.isArray(done)) return false;
  return done.every((pair: unknown) => Array.isArray(pair) && pair.length === 2 && pair.every(isCount));
}

/** Writes the record of a checkpoint directory. */
export async function writeProgress(files: FileStore, root: string, record: ProgressRecord): Promise<void> {
  await writeJson(files, progressPath(root), record);
}

/** Reads a JSON file; undefined when there is none. @throws {@link CorruptionError} (`invalid-json`), {@link LimitError} (`limit`) */
export async function readJson(files: FileStore, path: string): Promise<unknown> {
  if ((await files.stat(path))?.kind !== "file") return undefined;
  const source = await files.open(path);
  try {
    if (source.size > MAX_STATE_FILE_BYTES) {
      throw new LimitError("limit", "a file of state", {
        file: path,
        expected: MAX_STATE_FILE_BYTES,
        actual: source.size,
      });
    }
    return JSON.parse(new TextDecoder().decode(await source.read(0, source.size))) as unknown;
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    throw new CorruptionError("invalid-json", "a file of state that is no JSON", { file: path, cause });
  } finally {
    await source.close();
  }
}

/** Writes a JSON file; what was there stays until the new one is whole. */
export async function writeJson(files: FileStore, path: string, value: unknown): Promise<void> {
  await writeFile(files, path, `${JSON.stringify(value)}\n`, { overwrite: true });
}
