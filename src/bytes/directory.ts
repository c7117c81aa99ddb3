import { UnsupportedError, UsageError } from "../errors.js";
import type { FileStore } from "./file-store.js";
import { baseName, joinPath, parentPath } from "./path.js";

/**
 * Writes a directory as a whole: `write` fills a temporary one beside it, which then takes its place. An older directory
 * of the name steps aside under a hidden name until the new one is there; when that fails it steps back, and when a crash
 * came in between, the next call puts it back first. So the old state or the new one is there.
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
  const parent = parentPath(path);
  const name = baseName(path);
  const temporary = joinPath(parent, `.${name}.cairn-new`);
  const aside = joinPath(parent, `.${name}.cairn-old`);
  await recover(files, path, aside);
  const exists = (await files.stat(path)) !== undefined;
  if (exists && !overwrite) throw alreadyThere(path);
  await files.remove(temporary);
  let result: Result;
  try {
    result = await write(temporary);
  } catch (error) {
    await files.remove(temporary);
    throw error;
  }
  if (exists) await files.rename(path, aside);
  try {
    await files.rename(temporary, path);
  } catch (error) {
    await recover(files, path, aside);
    await files.remove(temporary);
    throw error;
  }
  if (exists) await files.remove(aside);
  return result;
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

/** Puts back what stepped aside when nothing has taken its place, and removes it when something has. */
async function recover(files: FileStore, path: string, aside: string): Promise<void> {
  if ((await files.stat(aside)) === undefined) return;
  if ((await files.stat(path)) === undefined) await files.rename(aside, path);
  else await files.remove(aside);
}
