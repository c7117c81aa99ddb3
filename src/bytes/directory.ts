import { CairnError, isCairnError, UnsupportedError, UsageError } from "../errors.js";
import type { FileStore } from "./file-store.js";
import { leftoverPath, leftoverToken, listLeftovers, removeOldLeftovers } from "./leftovers.js";

/** How often a directory is put in its place anew when somebody else has put one there in between. */
const SWAP_ATTEMPTS = 5;

/**
 * Writes a directory as a whole: `write` fills a temporary one beside it, which then takes its place. An older directory
 * of the name steps aside under a hidden name until the new one is there; when that fails it steps back, and when a crash
 * came in between, the next call, or {@link recoverDirectory}, puts it back. So the old state or the new one is there. Of
 * several writers at once, each has a temporary directory of its own, and what is there in the end is of one of them.
 *
 * Where a rename copies (`copiesOnRename`), `write` fills the directory itself, in which the file that names the others has
 * to come last, and an older directory is not replaced.
 * @throws {@link UsageError} (`exists`) when there is one and `overwrite` is not set; {@link UnsupportedError}
 * (`unsupported-operation`) when it is set and the store cannot do that
 */
export async function replaceDirectory<Result>(
  files: FileStore,
  path: string,
  overwrite: boolean,
  write: (temporaryPath: string) => Promise<Result>,
): Promise<Result> {
  if (files.copiesOnRename) return fillDirectory(files, path, overwrite, write);
  await recoverDirectory(files, path);
  if (!overwrite && (await files.stat(path)) !== undefined) throw alreadyThere(path);
  await removeOldLeftovers(files, path);
  const token = leftoverToken();
  const temporary = leftoverPath(path, token, "new");
  try {
    const result = await write(temporary);
    await swapIn(files, { temporary, path, aside: leftoverPath(path, token, "old") }, overwrite);
    return result;
  } catch (error) {
    // What went wrong first is what counts.
    await files.remove(temporary).catch(() => {});
    throw error;
  }
}

async function swapIn(
  files: FileStore,
  { temporary, path, aside }: { temporary: string; path: string; aside: string },
  overwrite: boolean,
): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const isThere = (await files.stat(path)) !== undefined;
    if (isThere && !overwrite) throw alreadyThere(path);
    try {
      if (isThere) await files.rename(path, aside);
      await files.rename(temporary, path);
      break;
    } catch (error) {
      await putBack(files, path, aside);
      // Somebody else has taken the old one away, or put another in its place.
      const isOther = (await files.stat(path)) !== undefined && (await files.stat(temporary)) !== undefined;
      if (!isCairnError(error, "write-failed") || !isOther || attempt === SWAP_ATTEMPTS) throw error;
    }
  }
  await files.remove(aside);
}

async function fillDirectory<Result>(
  files: FileStore,
  path: string,
  overwrite: boolean,
  write: (path: string) => Promise<Result>,
): Promise<Result> {
  if ((await files.stat(path)) !== undefined) {
    if (!overwrite) throw alreadyThere(path);
    throw new UnsupportedError("unsupported-operation", "a directory cannot be replaced in one step in this store", {
      file: path,
      hint: "Write to another name, and remove the old one then.",
    });
  }
  try {
    return await write(path);
  } catch (error) {
    await files.remove(path);
    throw error;
  }
}

function alreadyThere(path: string): UsageError {
  return new UsageError("exists", "the output exists already", {
    file: path,
    hint: "Pass --force to replace it, or choose another name.",
  });
}

/**
 * Puts back a directory that stepped aside for another when a crash came before that took its place, and removes it when
 * something has. Does nothing in a store that may not be written to.
 */
export async function recoverDirectory(files: FileStore, path: string): Promise<void> {
  // Nothing steps aside there, and a parent may have very many entries.
  if (files.copiesOnRename) return;
  for (const { path: leftover, kind } of await listLeftovers(files, path)) {
    if (kind === "old") await putBack(files, path, leftover).catch(ignoreRefusal);
  }
}

/** Opens something of a directory; when it is not there, once more after {@link recoverDirectory}. */
export async function openRecovered<Opened>(
  files: FileStore,
  path: string,
  open: () => Promise<Opened>,
): Promise<Opened> {
  try {
    return await open();
  } catch (error) {
    if (!isCairnError(error, "not-found") || (await files.stat(path)) !== undefined) throw error;
    await recoverDirectory(files, path);
    if ((await files.stat(path)) === undefined) throw error;
    return open();
  }
}

async function putBack(files: FileStore, path: string, aside: string): Promise<void> {
  if ((await files.stat(aside)) === undefined) return;
  if ((await files.stat(path)) !== undefined) {
    await files.remove(aside);
    return;
  }
  await files.rename(aside, path).catch(async (error: unknown) => {
    // Somebody else has done it.
    if ((await files.stat(aside)) !== undefined) throw error;
  });
}

function ignoreRefusal(error: unknown): void {
  if (!(error instanceof CairnError)) throw error;
}
