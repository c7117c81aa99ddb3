import type { FileInfo, FileStore } from "../../bytes/file-store.js";
import { leftoverOf, mayBeWritten } from "../../bytes/leftovers.js";
import { baseName } from "../../bytes/path.js";
import { isCairnError } from "../../errors.js";
import type { PassedOver } from "../versioned-directory.js";
import { parseVersionName, sidePath } from "./names.js";
import { stagingPath, trashPath } from "./publish.js";

/**
 * What a crash left of a training: files that were being written, in its directory, its versions and beside it, and
 * versions that were being removed. With `force` also what somebody may be writing now.
 */
export async function findTrainingStrays(files: FileStore, root: string, force = false): Promise<PassedOver[]> {
  const strays: PassedOver[] = [];
  const add = ({ path }: FileInfo) => strays.push({ path, reason: "left by a crash" });
  const isOver = (info: FileInfo) =>
    force || !mayBeWritten({ path: "", name: "", kind: "tmp", modifiedMs: info.modifiedMs });
  const entries = await listOrNone(files, root);
  const versions = entries.filter(
    ({ path, kind }) => kind === "directory" && parseVersionName(baseName(path)) !== undefined,
  );
  const inside = await Promise.all(versions.map(({ path }) => listOrNone(files, path)));
  for (const info of [...entries, ...inside.flat(), ...(await listOrNone(files, sidePath(root)))]) {
    if (leftoverOf(info) !== undefined && isOver(info)) add(info);
  }
  for (const info of await listOrNone(files, stagingPath(root))) if (isOver(info)) add(info);
  for (const info of await listOrNone(files, trashPath(root))) add(info);
  return strays;
}

async function listOrNone(files: FileStore, path: string): Promise<readonly FileInfo[]> {
  try {
    return await files.list(path);
  } catch (error) {
    if (isCairnError(error, "not-found")) return [];
    throw error;
  }
}
