import type { ByteSink } from "../../bytes/byte-sink.js";
import type { CreateOptions, FileStore } from "../../bytes/file-store.js";
import { baseName, joinPath } from "../../bytes/path.js";
import { CairnError, isCairnError, UsageError } from "../../errors.js";
import { sidePath, type VersionTarget } from "./names.js";

/** How often a rename is tried again when another server made or removed the directory in between. */
const RENAME_ATTEMPTS = 5;

/** Where files are written before they get their names, in the directory beside the checkpoint directory. */
export function stagingPath(root: string): string {
  return joinPath(sidePath(root), "staging");
}

/** Where versions go that are being removed. */
export function trashPath(root: string): string {
  return joinPath(sidePath(root), "trash");
}

/** Where a version waits while another takes its place. */
function replacedPath(root: string): string {
  return joinPath(sidePath(root), "replaced");
}

/** Puts back what stepped aside when a crash came before the new version was there. */
export async function recoverReplaced(files: FileStore, root: string): Promise<void> {
  const path = replacedPath(root);
  if ((await files.stat(path)) === undefined) return;
  for (const entry of await files.list(path)) {
    const [name = ""] = baseName(entry.path).split(".");
    await putBack(files, entry.path, joinPath(root, name));
  }
}

async function putBack(files: FileStore, aside: string, home: string): Promise<void> {
  if ((await files.stat(aside)) === undefined) return;
  if (await holdsFiles(files, home)) {
    await files.remove(aside);
    return;
  }
  await files.rename(aside, home).catch(async (error: unknown) => {
    // Somebody else has done it.
    if ((await files.stat(aside)) !== undefined) throw error;
  });
}

/** The same for who only reads: where nothing may be written, what stepped aside stays there. */
export async function recoverForReading(files: FileStore, root: string): Promise<void> {
  try {
    await recoverReplaced(files, root);
  } catch (error) {
    if (!(error instanceof CairnError)) throw error;
  }
}

function alreadyThere(path: string): UsageError {
  return new UsageError("exists", "the output exists already", {
    file: path,
    hint: "Pass --force to replace it, or choose another name.",
  });
}

/** A name that nobody else uses at the same time. */
export function uniqueName(name: string): string {
  return `${name}.${globalThis.crypto.randomUUID().slice(0, 8)}`;
}

/**
 * Writes a version directory as a whole: `write` fills one beside the checkpoint directory, which then takes its place.
 * Nothing else ever stands where ElasticDL looks. An older one of the name steps aside first, and back when that fails.
 * @throws {@link UsageError} (`exists`) when there is one and `overwrite` is not set
 */
export async function publishVersion<Result>(
  files: FileStore,
  target: VersionTarget,
  overwrite: boolean,
  write: (temporaryPath: string) => Promise<Result>,
): Promise<Result> {
  const { root, path } = target;
  await recoverReplaced(files, root);
  if (!overwrite && (await holdsFiles(files, path))) throw alreadyThere(path);
  const name = uniqueName(baseName(path));
  const temporary = joinPath(stagingPath(root), name);
  try {
    const result = await write(temporary);
    await swapIn(files, { temporary, path, aside: joinPath(replacedPath(root), name) }, overwrite);
    return result;
  } catch (error) {
    await files.remove(temporary).catch(() => {});
    throw error;
  } finally {
    await tidySide(files, root);
  }
}

async function swapIn(
  files: FileStore,
  { temporary, path, aside }: { temporary: string; path: string; aside: string },
  overwrite: boolean,
): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const exists = await holdsFiles(files, path);
    if (exists && !overwrite) throw alreadyThere(path);
    try {
      if (exists) await files.rename(path, aside);
      await files.rename(temporary, path);
      break;
    } catch (error) {
      await putBack(files, aside, path);
      // Somebody else has taken the old one away, or put another in its place.
      const isOther = (await holdsFiles(files, path)) && (await files.stat(temporary)) !== undefined;
      if (!isCairnError(error, "write-failed") || !isOther || attempt === RENAME_ATTEMPTS) throw error;
    }
  }
  await files.remove(aside);
}

async function holdsFiles(files: FileStore, path: string): Promise<boolean> {
  const info = await files.stat(path);
  if (info === undefined) return false;
  return info.kind === "file" || (await files.list(path)).length > 0;
}

/**
 * Begins a file beside the checkpoint directory, in a directory that other servers may take away as empty at the same time.
 * @throws StorageError (`write-failed`)
 */
export async function createAmongOthers(files: FileStore, path: string, options?: CreateOptions): Promise<ByteSink> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await files.create(path, options);
    } catch (error) {
      if (!isCairnError(error, "write-failed") || attempt === RENAME_ATTEMPTS) throw error;
    }
  }
}

/**
 * Renames a file or directory whose old or new parent other servers may make or remove at the same time.
 * @throws StorageError (`write-failed`)
 */
export async function renameAmongOthers(files: FileStore, from: string, to: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await files.rename(from, to);
      return;
    } catch (error) {
      const mayGoBetter = isCairnError(error, "write-failed") && (await files.stat(from)) !== undefined;
      if (!mayGoBetter || attempt === RENAME_ATTEMPTS) throw error;
    }
  }
}

/**
 * Gives a shard that was written beside the checkpoint directory its place in a version directory, which is made when it
 * is not there.
 * @throws StorageError (`write-failed`)
 */
export function publishShard(files: FileStore, temporary: string, path: string): Promise<void> {
  return renameAmongOthers(files, temporary, path);
}

/** Takes away the directories beside the checkpoint directory that are empty. */
export async function tidySide(files: FileStore, root: string): Promise<void> {
  for (const path of [stagingPath(root), replacedPath(root), trashPath(root), sidePath(root)]) {
    try {
      await files.removeEmptyDirectory?.(path);
    } catch (error) {
      // Others may be at work there; what is left is found by the next.
      if (!(error instanceof CairnError)) throw error;
    }
  }
}
