import { checkOutputFile } from "../bytes/output.js";
import { joinPath } from "../bytes/path.js";
import { writeFile } from "../bytes/write-file.js";
import { filesFor } from "./files.js";

/**
 * Writes texts as files of a directory, and gives their paths. No file is written when one may not be.
 * @throws UsageError (`exists`, `usage`), StorageError (`write-failed`)
 */
export async function writeFiles(
  directory: string,
  contents: readonly { readonly name: string; readonly text: string }[],
  overwrite: boolean,
): Promise<string[]> {
  const files = filesFor(directory);
  const named = contents.map(({ name, text }) => ({ path: joinPath(directory, name), text }));
  for (const { path } of named) await checkOutputFile(files, path, overwrite);
  for (const { path, text } of named) await writeFile(files, path, text, { overwrite });
  return named.map(({ path }) => path);
}
