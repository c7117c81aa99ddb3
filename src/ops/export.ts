import type { FileStore } from "../bytes/file-store.js";
import { NotFoundError } from "../errors.js";
import type { DirectoryVersion, LookOptions } from "../formats/versioned-directory.js";
import { openVersions } from "./checkpoints.js";

/** Which version of a training is meant: the one that was evaluated best, the newest, or one by its number. */
export type VersionChoice = "best" | "latest" | number;

/**
 * Finds a complete version of a training.
 * @throws {@link NotFoundError} (`no-such-version`) when there is none, or it is not complete
 */
export async function chooseVersion(
  files: FileStore,
  path: string,
  choice: VersionChoice,
  look: LookOptions = {},
): Promise<DirectoryVersion> {
  const directory = await openVersions(files, path);
  const reason = (text: string, hint?: string) => new NotFoundError("no-such-version", text, { file: path, hint });
  if (choice === "latest") {
    const { latest } = await directory.latest(look);
    if (latest === undefined) throw reason("no version is complete");
    return latest;
  }
  if (choice === "best") {
    const { best, metric } = await directory.best(look);
    if (best !== undefined) return best;
    if (metric !== undefined) throw reason(`no complete version has the metric ${metric}`);
    throw reason("no metrics are recorded", "Evaluate while training, or take the newest version with --latest.");
  }
  const { versions } = await directory.list(look);
  const found = versions.find(({ version }) => version === choice);
  if (found?.isComplete) return found;
  if (found !== undefined) throw reason(`version ${choice} is not complete: ${found.reason}`);
  const known = versions.filter(({ isComplete }) => isComplete).map(({ version }) => version);
  throw reason(`no version ${choice}`, known.length === 0 ? undefined : `There are ${known.join(", ")}.`);
}
