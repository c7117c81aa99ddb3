import type { FileStore } from "../../bytes/file-store.js";
import { leftoverOf, mayBeWritten } from "../../bytes/leftovers.js";
import { baseName, withoutSuffix } from "../../bytes/path.js";
import type { PassedOver } from "../versioned-directory.js";
import { besides, indexPath, listIfThere, parseShardName } from "./bundle-paths.js";
import { journalPath } from "./swap-journal.js";

/** How {@link findStrays} tells what nobody is writing any more. */
export interface StrayOptions {
  /** Take what somebody may be writing too. */
  readonly force: boolean;
  /** Whether the checkpoint of a prefix will not come any more: newer ones are complete. */
  isDone(prefix: string): boolean;
}

/** Files of a directory that a crash left: those that never got their name, and those of checkpoints without an index. */
export async function findStrays(
  files: FileStore,
  directory: string,
  { force, isDone }: StrayOptions,
): Promise<PassedOver[]> {
  const entries = await listIfThere(files, directory);
  const names = new Set(entries.map(({ path }) => baseName(path)));
  const strays: PassedOver[] = [];
  for (const entry of entries) {
    const leftover = leftoverOf(entry);
    if (leftover !== undefined) {
      // What a journal names is moved into its place when the checkpoint is opened.
      const isAwaited = [...names].some((name) => isJournalOf(name, leftover.name));
      if (isAwaited && leftover.kind === "new") continue;
      if (force || !mayBeWritten(leftover)) strays.push({ path: entry.path, reason: "left by a crash" });
      continue;
    }
    const name = baseName(entry.path);
    const prefix = parseShardName(name)?.prefix ?? withoutSuffix(name, ".cairn.json");
    if (entry.kind !== "file" || prefix === undefined || names.has(indexPath(prefix))) continue;
    if (names.has(baseName(journalPath(prefix)))) continue;
    const isOver = force || isDone(besides(entry.path, prefix)) || isLongAgo(entry.modifiedMs);
    if (isOver) strays.push({ path: entry.path, reason: "of a checkpoint without an index" });
  }
  return strays;
}

/** Whether a name is that of the journal of the checkpoint that a file belongs to. */
function isJournalOf(name: string, file: string): boolean {
  const prefix = /^\.(.+)\.cairn-swap\.json$/.exec(name)?.[1];
  return prefix !== undefined && file.startsWith(`${prefix}.`);
}

function isLongAgo(modifiedMs: number | undefined): boolean {
  return !mayBeWritten({ path: "", name: "", kind: "tmp", modifiedMs });
}
