import type { FileStore } from "../../bytes/file-store.js";
import { baseName, withoutSuffix } from "../../bytes/path.js";
import { CairnError } from "../../errors.js";
import { besides, findShards, indexPath, listIfThere, parseShardName, prefixOf } from "./bundle-paths.js";
import { CheckpointDirectory } from "./checkpoint-directory.js";
import { latestCheckpoint, STATE_FILE_NAME } from "./checkpoint-state.js";
import { journalPath } from "./swap-journal.js";

/** A checkpoint that a path means. */
export interface FoundCheckpoint {
  readonly prefix: string;
  /** What the path was. */
  readonly by: "prefix" | "index" | "data" | "directory" | "state-file";
  readonly notes: readonly string[];
}

/**
 * The checkpoint that a path means: a prefix, the path of an index or of a data file, a state file, or a directory with a
 * state file or with one checkpoint in it. Undefined for anything else.
 */
export async function findCheckpoint(files: FileStore, path: string): Promise<FoundCheckpoint | undefined> {
  const trimmed = path.replace(/(?<=.)\/+$/, "");
  if (trimmed === path) {
    // From the moment that there is a journal the checkpoint counts, whatever has been moved into its place yet.
    for (const file of [indexPath(path), journalPath(path)]) {
      if (await hasFile(files, file)) return { prefix: path, by: "prefix", notes: [] };
    }
  }
  const info = await files.stat(path).catch(ignoreRefusal);
  if (info?.kind === "directory") return findInDirectory(files, trimmed);
  if (info?.kind === "file") return findByFile(files, path);
  // The index may be lost while data are there: that is a damaged checkpoint, and not nothing.
  const shards = await findShards(files, path);
  return shards.length > 0 ? { prefix: path, by: "prefix", notes: [] } : undefined;
}

async function findByFile(files: FileStore, path: string): Promise<FoundCheckpoint | undefined> {
  const name = baseName(path);
  if (parseShardName(name) !== undefined) return { prefix: prefixOf(path), by: "data", notes: [] };
  const prefix = withoutSuffix(path, ".index");
  if (prefix !== undefined && baseName(prefix) !== "") {
    const isTable = await endsAsTable(files, path);
    if (isTable || (await findShards(files, prefix)).length > 0) return { prefix, by: "index", notes: [] };
  }
  if (name !== STATE_FILE_NAME) return undefined;
  const found = await findInDirectory(files, besides(path, ".").replace(/\/?\.$/, "") || ".");
  return found && { ...found, by: "state-file" };
}

async function findInDirectory(files: FileStore, directory: string): Promise<FoundCheckpoint | undefined> {
  const prefixes = await prefixesIn(files, directory);
  const latest = await latestCheckpoint(files, directory);
  if (latest !== undefined) {
    const others = prefixes.filter((prefix) => prefix !== latest).length;
    const note = `the latest of ${others + 1} checkpoints in ${directory} is ${baseName(latest)}`;
    return { prefix: latest, by: "directory", notes: others > 0 ? [note] : [] };
  }
  const [only] = prefixes;
  if (only === undefined) return undefined;
  if (prefixes.length === 1) return { prefix: only, by: "directory", notes: [] };
  // The state file is lost, or names one that is not there: the newest of the others that is whole, or else any.
  const { latest: newest } = await new CheckpointDirectory(files, directory).latest({ quick: true });
  const prefix = newest?.path ?? only;
  const note = `no state file tells the latest of ${prefixes.length} checkpoints in ${directory}; ${baseName(prefix)} is taken`;
  return { prefix, by: "directory", notes: [note] };
}

/** The prefixes of the checkpoints in a directory. */
async function prefixesIn(files: FileStore, directory: string): Promise<string[]> {
  const prefixes: string[] = [];
  for (const { path, kind } of await listIfThere(files, directory)) {
    const prefix = withoutSuffix(path, ".index");
    if (kind !== "file" || prefix === undefined || baseName(path).startsWith(".")) continue;
    if (await endsAsTable(files, path)) prefixes.push(prefix);
  }
  return prefixes;
}

/** The last bytes of every table. Source: tensorflow/core/lib/io/format.h, kTableMagicNumber. */
const TABLE_END = [0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb];

async function endsAsTable(files: FileStore, path: string): Promise<boolean> {
  try {
    const source = await files.open(path);
    try {
      if (source.size < TABLE_END.length) return false;
      const end = await source.read(source.size - TABLE_END.length, TABLE_END.length);
      return TABLE_END.every((byte, i) => byte === end[i]);
    } finally {
      await source.close();
    }
  } catch (error) {
    ignoreRefusal(error);
    return false;
  }
}

async function hasFile(files: FileStore, path: string): Promise<boolean> {
  return (await files.stat(path).catch(ignoreRefusal))?.kind === "file";
}

/** A store may refuse to look at a path; then there is nothing there that is known. */
function ignoreRefusal(error: unknown): undefined {
  if (error instanceof CairnError) return undefined;
  throw error;
}
