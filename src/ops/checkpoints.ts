import type { FileStore } from "../bytes/file-store.js";
import { UnsupportedError, UsageError } from "../errors.js";
import { detectFormat } from "../formats/registry.js";
import type { VersionedDirectory } from "../formats/versioned-directory.js";

/**
 * Opens a directory that keeps several states of one training, whatever wrote it.
 * @throws NotFoundError (`not-found`), {@link UnsupportedError} (`unknown-format`, `unsupported-operation`)
 */
export async function openVersions(files: FileStore, path: string): Promise<VersionedDirectory> {
  const { format, detection } = await detectFormat(files, path);
  const directory = await format.openVersions?.(detection);
  if (directory !== undefined) return directory;
  throw new UnsupportedError("unsupported-operation", `a ${detection.description} does not keep several states`, {
    file: path,
  });
}

/** Parses how many versions are to stay. @throws {@link UsageError} (`usage`) */
export function parseKeep(text: string | undefined): number {
  if (text !== undefined && /^\d{1,9}$/.test(text)) return Number(text);
  throw new UsageError("usage", "prune needs --keep", {
    expected: "a number, 0 for all",
    actual: text,
    hint: "cairn checkpoints DIR prune --keep 3 --dry-run shows what would go.",
  });
}
