import type { StreamOptions } from "../../bytes/copy-source.js";
import type { FileStore } from "../../bytes/file-store.js";
import { joinPath } from "../../bytes/path.js";
import { UsageError } from "../../errors.js";
import type { ModelContents } from "./model-contents.js";
import { formatShardName, formatVersionName, type Layout } from "./names.js";
import { checkPsNum } from "./partition.js";
import { publishShard, stagingPath, tidySide, uniqueName } from "./publish.js";
import { checkModelVersion, planShards, type VersionPlan, writeShards } from "./write-version.js";

/** Options of {@link saveShard}. */
export interface SaveShardOptions extends StreamOptions {
  readonly psId: number;
  readonly psNum: number;
  readonly layout?: Layout | undefined;
}

/**
 * Writes the shard of one parameter server into its version of a checkpoint directory, in one step: until all of it is on
 * the disk nothing is there, then all of it. A shard of that name that is there is replaced. Other servers write theirs
 * at any time; the version is complete when all have.
 * @throws {@link UsageError} (`usage`) for a variable or row that belongs to another server, LimitError (`limit`)
 */
export async function saveShard(
  files: FileStore,
  root: string,
  contents: ModelContents,
  { psId, psNum, layout = "design", ...options }: SaveShardOptions,
): Promise<{ readonly path: string; readonly byteLength: number }> {
  checkPsNum(psNum);
  checkModelVersion(contents.modelVersion);
  const name = formatShardName({ psId, psNum }, layout);
  const path = joinPath(root, formatVersionName(contents.modelVersion, layout), name);
  const { plan, sizes } = await planShards(contents, psNum, path, options);
  checkOwner(plan, psId, path);
  const temporary = joinPath(stagingPath(root), uniqueName(`${contents.modelVersion}-${name}`));
  const byteLength = sizes[psId] as number;
  try {
    await writeShards(files, [{ psId, path: temporary, byteLength }], plan);
    await publishShard(files, temporary, path);
  } catch (error) {
    await files.remove(temporary).catch(() => {});
    throw error;
  }
  await tidySide(files, root);
  return { path, byteLength };
}

/** Refuses what belongs to another server: a restore for other servers would not find it where it looks. */
function checkOwner({ contents, tables, owners }: VersionPlan, psId: number, path: string): void {
  const stranger = contents.dense.find((_, i) => owners[i] !== psId);
  if (stranger !== undefined) throw wrongOwner(`variable "${stranger.name}"`, path);
  for (const { table, rowCounts } of tables) {
    if (rowCounts.some((count, owner) => count > 0 && owner !== psId)) {
      throw wrongOwner(`a row of embedding table "${table.name}"`, path);
    }
  }
}

function wrongOwner(what: string, path: string): UsageError {
  return new UsageError("usage", `${what} belongs to another parameter server`, { file: path });
}
