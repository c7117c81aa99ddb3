import type { FileStore } from "../../bytes/file-store.js";
import { parentPath } from "../../bytes/path.js";
import { UsageError } from "../../errors.js";
import { openVersion } from "./locate.js";
import { versionTarget } from "./names.js";
import type { VersionContents } from "./version-contents.js";
import { type WriteVersionOptions, type WrittenVersion, writeVersion } from "./write-version.js";

/** Options of {@link reshardVersion}. */
export interface ReshardVersionOptions extends Omit<WriteVersionOptions, "verify" | "psNum"> {
  /** How many parameter servers the version is for. */
  readonly psNum: number;
  /** Where the output goes, when that is another store. */
  readonly target?: FileStore | undefined;
}

/**
 * Writes a version anew for another number of parameter servers, slots and training state too. `source` is a version
 * directory or a checkpoint directory, of which the newest complete version is taken; `output` a version directory or a
 * checkpoint directory that gets one. Rows are streamed, so memory does not grow with the model, each is read once for up
 * to 128 servers, and nothing is visible before every checksum of the source is right.
 * @throws NotFoundError (`not-found`, `no-complete-version`, `missing-shard`), {@link UsageError} (`exists`,
 * `usage`), LimitError (`limit`), and what damaged shards give
 */
export async function reshardVersion(
  files: FileStore,
  source: string,
  output: string,
  { target = files, ...options }: ReshardVersionOptions,
): Promise<WrittenVersion> {
  const contents = await openVersion(files, source);
  try {
    const { path } = versionTarget(output, contents.modelVersion, options.layout);
    if (target === files && (await isSource(files, contents, path))) {
      throw new UsageError("usage", "the output is the source", { file: path });
    }
    return await writeVersion(target, output, contents, { ...options, verify: () => contents.verify() });
  } finally {
    await contents.close();
  }
}

async function isSource(files: FileStore, contents: VersionContents, path: string): Promise<boolean> {
  const [first] = contents.shards;
  return first !== undefined && files.isSame(parentPath(first.path), path);
}
