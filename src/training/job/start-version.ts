import { basename, dirname, resolve } from "node:path";
import type { FileStore } from "../../bytes/file-store.js";
import { joinPath } from "../../bytes/path.js";
import { NotFoundError, UsageError } from "../../errors.js";
import { parseVersionName, sidePath } from "../../formats/elasticdl/names.js";
import { uniqueName } from "../../formats/elasticdl/publish.js";
import { applyRetention } from "../../formats/elasticdl/retention.js";
import { TrainingDirectory } from "../../formats/elasticdl/versioned.js";
import {
  findLatest,
  findProblem,
  formatProblem,
  type ListedVersion,
  listVersion,
  listVersions,
} from "../../formats/elasticdl/versions.js";

/** A complete version that a training begins with. */
export interface StartVersion {
  /** The version directory. */
  readonly path: string;
  readonly modelVersion: number;
  /** What was passed over, and why. */
  readonly notes: readonly string[];
}

/** Where a training begins and saves. */
export interface StartOptions {
  readonly checkpointDir?: string | undefined;
  /** A version directory, a checkpoint directory, `latest` for the own one; anew when absent. */
  readonly checkpointDirForInit?: string | undefined;
}

/**
 * Finds the version that a training begins with; undefined for one that begins anew. What is damaged or incomplete and newer
 * than it is put aside, so that no shard of it can ever be taken for one of the new training.
 * @throws {@link UsageError} (`exists`) when the checkpoint directory has versions and it is not said to go on,
 *   {@link NotFoundError} (`no-complete-version`, `not-found`)
 */
export async function findStart(files: FileStore, options: StartOptions): Promise<StartVersion | undefined> {
  const { checkpointDir, checkpointDirForInit: init = "" } = options;
  if (init === "latest" && checkpointDir === undefined) {
    throw new UsageError("usage", "latest is the newest version of the checkpoint directory, and none is given");
  }
  const own = checkpointDir === undefined ? [] : await versionsIn(files, checkpointDir);
  if (init === "" || (init === "latest" && own.length === 0)) {
    if (own.length === 0) return undefined;
    throw new UsageError("exists", "the checkpoint directory has versions of another training", {
      file: checkpointDir,
      hint: "Go on from the newest with --checkpoint-dir-for-init latest, or name another --checkpoint-dir.",
    });
  }
  const start = await findVersion(files, init === "latest" ? (checkpointDir as string) : init);
  if (checkpointDir === undefined) return start;
  const isOwn = resolve(dirname(start.path)) === resolve(checkpointDir);
  const newer = own.filter(({ modelVersion = 0 }) => !isOwn || modelVersion > start.modelVersion);
  const notes = [...start.notes];
  for (const version of newer) {
    if ((await findProblem(files, version)) === undefined) {
      throw new UsageError(
        "exists",
        `the checkpoint directory has a complete version ${version.modelVersion} that training would mix with`,
        {
          file: checkpointDir,
          hint: "Name another --checkpoint-dir, or remove that version.",
        },
      );
    }
  }
  for (const version of newer) notes.push(await putAside(files, checkpointDir, version));
  return { ...start, notes };
}

/** The newest complete version of a checkpoint directory or, for a version directory, itself. @throws {@link NotFoundError} (`no-complete-version`, `not-found`) */
export async function findVersion(files: FileStore, path: string): Promise<StartVersion> {
  const info = await files.stat(path);
  if (info === undefined) throw new NotFoundError("not-found", "no such checkpoint", { file: path });
  if (parseVersionName(basename(resolve(path))) !== undefined) {
    const version = await listVersion(files, { ...info, path: path.replace(/\/+$/, "") });
    const problem = await findProblem(files, version);
    if (problem === undefined) return { path: version.path, modelVersion: version.modelVersion ?? 0, notes: [] };
    throw new NotFoundError(
      "no-complete-version",
      `the version is not complete: ${formatProblem(problem, version.path)}`,
      {
        file: path,
      },
    );
  }
  const { latest, incomplete } = await findLatest(files, await listVersions(files, path));
  const notes = incomplete.map(
    (one) => `passed over ${one.path}: ${one.problem && formatProblem(one.problem, one.path)}`,
  );
  if (latest !== undefined) return { path: latest.path, modelVersion: latest.modelVersion ?? 0, notes };
  throw new NotFoundError("no-complete-version", "no version is complete", { file: path, hint: notes[0] });
}

/** The newest complete version after a fault, while nobody writes; what is newer was being written and is removed. */
export async function findAfterFault(files: FileStore, checkpointDir: string): Promise<StartVersion | undefined> {
  const versions = await versionsIn(files, checkpointDir);
  const { latest, incomplete } = await findLatest(files, { versions, strays: [] });
  const removals = incomplete.map(({ path, modelVersion = 0 }) => ({
    path,
    modelVersion,
    reason: "incomplete" as const,
  }));
  await applyRetention(files, checkpointDir, removals);
  return latest && { path: latest.path, modelVersion: latest.modelVersion ?? 0, notes: [] };
}

async function versionsIn(files: FileStore, root: string): Promise<readonly ListedVersion[]> {
  if ((await files.stat(root)) === undefined) return [];
  return (await listVersions(files, root)).versions;
}

async function putAside(files: FileStore, root: string, { path }: ListedVersion): Promise<string> {
  const aside = joinPath(joinPath(sidePath(root), "set-aside"), uniqueName(basename(path)));
  await files.rename(path, aside);
  return `put aside ${path}, which is not complete, as ${aside}`;
}

/** Removes what nobody will complete any more, and old versions. Nobody writes now. */
export async function prune(files: FileStore, checkpointDir: string, keep: number): Promise<void> {
  if ((await files.stat(checkpointDir)) === undefined) return;
  const directory = new TrainingDirectory(files, checkpointDir);
  await directory.prune(await directory.planPrune({ keep, force: true, quick: true }));
}
