import type { StreamOptions } from "../../bytes/copy-source.js";
import type { FileInfo, FileStore } from "../../bytes/file-store.js";
import { baseName } from "../../bytes/path.js";
import { CairnError, type ErrorCode } from "../../errors.js";
import { isWholeModelName, parseShardName, parseVersionName, type ShardName } from "./names.js";
import { recoverForReading } from "./publish.js";
import { ShardFile } from "./shard-file.js";

/** A shard file as the listing of its directory tells it. */
export interface ListedShard extends ShardName {
  readonly path: string;
  readonly byteLength: number;
}

/** Something that is wrong with a version. */
export interface VersionProblem {
  readonly code: ErrorCode;
  readonly file: string;
  readonly message: string;
  readonly offset?: number | undefined;
}

/** A version as the listing of its directory tells it; no shard was opened. */
export interface ListedVersion {
  /** By the name of the directory; undefined when that tells none. */
  readonly modelVersion: number | undefined;
  /** The version directory, or the file that holds the whole model. */
  readonly path: string;
  /** The shards that make it up, by server: all of one number of servers where they are complete, else all there are. */
  readonly shards: readonly ListedShard[];
  /** Entries of the directory that do not belong to it. */
  readonly strays: readonly string[];
  /** What the names tell is wrong; without any, all shards are there. */
  readonly problems: readonly VersionProblem[];
}

/** What is in a checkpoint directory. */
export interface ListedVersions {
  /** Oldest first, by number. */
  readonly versions: readonly ListedVersion[];
  /** Entries that are no versions. */
  readonly strays: readonly string[];
}

/** Lists the versions of a checkpoint directory by their names. @throws NotFoundError (`not-found`) */
export async function listVersions(files: FileStore, root: string): Promise<ListedVersions> {
  const versions: ListedVersion[] = [];
  const strays: string[] = [];
  await recoverForReading(files, root);
  for (const entry of await files.list(root)) {
    const name = baseName(entry.path);
    const isVersion = parseVersionName(name) !== undefined && isWholeModelName(name) === (entry.kind === "file");
    if (isVersion) versions.push(await listVersion(files, entry));
    else strays.push(entry.path);
  }
  const number = ({ modelVersion }: ListedVersion) => modelVersion ?? 0;
  return { versions: versions.sort((a, b) => number(a) - number(b) || (a.path < b.path ? -1 : 1)), strays };
}

/** Looks at one version directory, or at one file with a whole model, by names. @throws NotFoundError (`not-found`) */
export async function listVersion(files: FileStore, { path, kind, size }: FileInfo): Promise<ListedVersion> {
  const modelVersion = parseVersionName(baseName(path));
  if (kind === "file") {
    const name = parseShardName(baseName(path)) ?? { psId: 0, psNum: 1 };
    return { modelVersion, path, shards: [{ ...name, path, byteLength: size }], strays: [], problems: [] };
  }
  const shards: ListedShard[] = [];
  const strays: string[] = [];
  for (const entry of await files.list(path)) {
    const name = parseShardName(baseName(entry.path));
    if (name === undefined || entry.kind === "directory" || isWholeModelName(baseName(entry.path)))
      strays.push(entry.path);
    else shards.push({ ...name, path: entry.path, byteLength: entry.size });
  }
  return { modelVersion, path, ...chooseShards(path, shards), strays };
}

/**
 * The shards that make up a version: all of one number of servers, each once. Others beside them are told of.
 * @throws nothing: what is wrong is in `problems`
 */
function chooseShards(path: string, shards: readonly ListedShard[]): Pick<ListedVersion, "shards" | "problems"> {
  const byCount = new Map<number, ListedShard[]>();
  for (const shard of shards) byCount.set(shard.psNum, [...(byCount.get(shard.psNum) ?? []), shard]);
  const groups = [...byCount.values()].map((group) => group.sort((a, b) => a.psId - b.psId));
  const complete = groups.filter(
    (group) => group.length === group[0]?.psNum && group.every(({ psId }, i) => psId === i),
  );
  const [only] = complete;
  if (only !== undefined && complete.length === 1) return { shards: only, problems: [] };
  const all = groups.flat();
  if (groups.length > 1) {
    const counts = [...byCount.keys()].sort((a, b) => a - b).join(" and ");
    const what = complete.length > 1 ? "complete shards" : "shards";
    return { shards: all, problems: [{ code: "mixed-shards", file: path, message: `${what} of ${counts} servers` }] };
  }
  return { shards: all, problems: [missing(path, groups[0] ?? [])] };
}

function missing(path: string, group: readonly ListedShard[]): VersionProblem {
  const psNum = group[0]?.psNum;
  if (psNum === undefined) return { code: "missing-shard", file: path, message: "no shards" };
  const there = new Set(group.map(({ psId }) => psId));
  const stray = group.find(({ psId }, i) => psId >= psNum || group[i - 1]?.psId === psId);
  const lacking = Array.from({ length: Math.min(psNum, 1000) }, (_, psId) => psId).filter((psId) => !there.has(psId));
  if (lacking.length === 0 && stray !== undefined) {
    return { code: "mixed-shards", file: stray.path, message: `shard ${stray.psId} of ${psNum} is one too many` };
  }
  const shown = lacking.slice(0, 5).join(", ") + (lacking.length > 5 ? ", …" : "");
  const noun = lacking.length === 1 ? "shard" : "shards";
  return { code: "missing-shard", file: path, message: `${noun} ${shown} of ${psNum} missing` };
}

/** Options of {@link findProblem}. */
export interface CompleteOptions extends StreamOptions {
  /** Read heads only, not every byte for its checksum. */
  readonly quick?: boolean | undefined;
}

/**
 * What keeps a version from being complete; undefined when it is: every shard of one number of servers is there once, can
 * be read, is of the version that the directory names, and matches its checksums.
 */
export async function findProblem(
  files: FileStore,
  version: ListedVersion,
  options: CompleteOptions = {},
): Promise<VersionProblem | undefined> {
  if (version.problems.length > 0) return version.problems[0];
  let modelVersion = version.modelVersion;
  for (const { path } of version.shards) {
    try {
      const shard = await ShardFile.open(files, path);
      try {
        const actual = shard.catalog.modelVersion;
        modelVersion ??= actual;
        if (actual !== modelVersion)
          return { code: "version-mismatch", file: path, message: mismatchText(modelVersion, actual) };
        if (!options.quick) await shard.verifyAll(options.onBytes, options.signal);
      } finally {
        await shard.close();
      }
    } catch (error) {
      if (!(error instanceof CairnError) || error.code === "interrupted") throw error;
      return { code: error.code, file: error.file ?? path, message: problemText(error), offset: error.offset };
    }
  }
  return undefined;
}

/** The text of a shard of another version. */
export function mismatchText(expected: number, actual: number): string {
  return `model version ${actual} where ${expected} belongs`;
}

function problemText({ summary, expected, actual }: CairnError): string {
  if (expected === undefined) return actual === undefined ? summary : `${summary}: got ${actual}`;
  return actual === undefined ? `${summary}: expected ${expected}` : `${summary}: expected ${expected}, got ${actual}`;
}

/** A problem in one line, with the file's name. */
export function formatProblem({ file, message }: VersionProblem, versionPath: string): string {
  return file === versionPath ? message : `${baseName(file)}: ${message}`;
}

/** A version, and what keeps it from being complete. */
export interface LookedAtVersion extends ListedVersion {
  readonly problem: VersionProblem | undefined;
}

/** The newest complete version of a checkpoint directory, and the newer ones that are not, newest first. */
export async function findLatest(
  files: FileStore,
  { versions }: ListedVersions,
  options: CompleteOptions = {},
): Promise<{ readonly latest: ListedVersion | undefined; readonly incomplete: readonly LookedAtVersion[] }> {
  const incomplete: LookedAtVersion[] = [];
  for (const version of [...versions].reverse()) {
    const problem = await findProblem(files, version, options);
    if (problem === undefined) return { latest: version, incomplete };
    incomplete.push({ ...version, problem });
  }
  return { latest: undefined, incomplete };
}
