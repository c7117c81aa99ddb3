import type { FileStore } from "../../bytes/file-store.js";
import { baseName, joinPath } from "../../bytes/path.js";
import { UsageError } from "../../errors.js";
import { renameAmongOthers, trashPath, uniqueName } from "./publish.js";

/** A version as retention sees it. */
export interface RetainedVersion {
  readonly modelVersion: number;
  readonly path: string;
  readonly isComplete: boolean;
  readonly shards: readonly { readonly psId: number; readonly path: string }[];
}

/** Options of {@link planRetention}. */
export interface RetentionOptions {
  /** `keep_checkpoint_max`: how many complete versions stay. 0 keeps all. */
  readonly keepMax: number;
  /** Versions that stay in any case: the best, the one that training began with. */
  readonly keep?: ReadonlySet<number> | undefined;
  /** The server that asks: of an old complete version it takes its own shard only, as the design has it. */
  readonly psId?: number | undefined;
  /** Take incomplete versions away whatever their age: nobody is writing. */
  readonly takeAllIncomplete?: boolean | undefined;
}

/** Something to remove. */
export interface Removal {
  readonly modelVersion: number;
  /** The version directory. */
  readonly path: string;
  /** `old`: enough newer ones are complete. `incomplete`: and it will never be complete itself. */
  readonly reason: "old" | "incomplete";
  /** Only these files of it; all of it when undefined. */
  readonly files?: readonly string[] | undefined;
}

/**
 * Decides which versions go. One goes only when at least `keepMax` newer versions are complete, so the newest complete
 * versions stay whatever happens to the servers; an incomplete one that old was left behind by a server that died.
 * @throws {@link UsageError} (`usage`) when `keepMax` is no count
 */
export function planRetention(versions: readonly RetainedVersion[], options: RetentionOptions): Removal[] {
  const { keepMax, keep, psId, takeAllIncomplete = false } = options;
  if (!Number.isInteger(keepMax) || keepMax < 0) {
    throw new UsageError("usage", "number of versions to keep", { expected: "0 (all) or more", actual: keepMax });
  }
  const newest = versions.filter(({ isComplete }) => isComplete).map(({ modelVersion }) => modelVersion);
  const oldestKept = keepMax === 0 ? undefined : newest.sort((a, b) => b - a)[keepMax - 1];
  const removals: Removal[] = [];
  for (const { modelVersion, path, isComplete, shards } of versions) {
    const isOld = oldestKept !== undefined && modelVersion < oldestKept;
    if (keep?.has(modelVersion) || !(isOld || (takeAllIncomplete && !isComplete))) continue;
    if (!isComplete) removals.push({ modelVersion, path, reason: "incomplete" });
    else if (psId === undefined) removals.push({ modelVersion, path, reason: "old" });
    else {
      const own = shards.filter((shard) => shard.psId === psId).map((shard) => shard.path);
      if (own.length > 0) removals.push({ modelVersion, path, reason: "old", files: own });
    }
  }
  return removals;
}

/**
 * Removes what was decided. A whole version leaves the checkpoint directory in one step, so none is ever there in part;
 * what another server has removed meanwhile is no error.
 */
export async function applyRetention(files: FileStore, root: string, removals: readonly Removal[]): Promise<void> {
  for (const { path, files: some } of removals) {
    if (some === undefined) await removeWhole(files, root, path);
    else {
      for (const file of some) await files.remove(file);
      await files.removeEmptyDirectory?.(path);
    }
  }
}

async function removeWhole(files: FileStore, root: string, path: string): Promise<void> {
  const aside = joinPath(trashPath(root), uniqueName(baseName(path)));
  try {
    await renameAmongOthers(files, path, aside);
  } catch (error) {
    if ((await files.stat(path)) !== undefined) throw error;
    return;
  }
  await files.remove(aside);
}
