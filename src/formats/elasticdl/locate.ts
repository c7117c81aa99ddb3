import type { FileInfo, FileStore } from "../../bytes/file-store.js";
import { baseName, parentPath } from "../../bytes/path.js";
import { NotFoundError } from "../../errors.js";
import { isWholeModelName, parseShardName, parseVersionName } from "./names.js";
import { recoverForReading } from "./publish.js";
import { HEADER_TAG } from "./shard-checksums.js";
import { VersionContents } from "./version-contents.js";
import { findLatest, formatProblem, type ListedVersion, listVersion, listVersions } from "./versions.js";

/** What a path of a training checkpoint is. */
export interface Located {
  readonly kind: "root" | "version" | "shard";
  readonly info: FileInfo;
}

/** Finds what a path of a training checkpoint is by names, or of a file by its first bytes; undefined for anything else. */
export async function locate(files: FileStore, path: string): Promise<Located | undefined> {
  let info = await files.stat(path);
  if (info === undefined && parseVersionName(baseName(path)) !== undefined) {
    await recoverForReading(files, parentPath(path));
    info = await files.stat(path);
  }
  if (info === undefined) return undefined;
  if (info.kind === "file") return (await isShard(files, info)) ? { kind: "shard", info } : undefined;
  const entries = await files.list(path);
  if (entries.some(isShardEntry)) return { kind: "version", info };
  if (entries.length === 0)
    return parseVersionName(baseName(path)) === undefined ? undefined : { kind: "version", info };
  if (entries.some(({ path: entry, kind }) => kind === "file" && isWholeModelName(baseName(entry)))) {
    return { kind: "root", info };
  }
  const versions = entries.filter(({ path: entry, kind }) => {
    return kind === "directory" && parseVersionName(baseName(entry)) !== undefined;
  });
  let areAllEmpty = versions.length > 0;
  for (const { path: version } of versions.reverse()) {
    const inside = await files.list(version);
    if (inside.some(isShardEntry)) return { kind: "root", info };
    areAllEmpty &&= inside.length === 0;
  }
  return areAllEmpty ? { kind: "root", info } : undefined;
}

function isShardEntry({ path, kind }: FileInfo): boolean {
  const name = baseName(path);
  return kind === "file" && parseShardName(name) !== undefined && !isWholeModelName(name);
}

async function isShard(files: FileStore, { path, size }: FileInfo): Promise<boolean> {
  if (parseShardName(baseName(path)) !== undefined) return true;
  if (size < HEADER_TAG.length) return false;
  const source = await files.open(path);
  try {
    const first = await source.read(0, HEADER_TAG.length);
    return HEADER_TAG.every((byte, i) => first[i] === byte);
  } finally {
    await source.close();
  }
}

/**
 * The version that a path means: itself, or of a checkpoint directory the newest complete one. Of that only names and
 * heads are looked at; what is read is checked when it is read.
 * @throws {@link NotFoundError} (`no-complete-version`, `missing-shard`, `mixed-shards`)
 */
export async function chooseVersion(files: FileStore, { kind, info }: Located): Promise<ListedVersion> {
  if (kind === "root") {
    const { latest, incomplete } = await findLatest(files, await listVersions(files, info.path), { quick: true });
    if (latest !== undefined) return latest;
    const reasons = incomplete.slice(0, 3).map(({ path, problem }) => {
      return `${baseName(path)}: ${problem === undefined ? "" : formatProblem(problem, path)}`;
    });
    throw new NotFoundError("no-complete-version", "no complete version here", {
      file: info.path,
      hint: reasons.length === 0 ? undefined : `${reasons.join("; ")}.`,
    });
  }
  const version = await listVersion(files, info);
  const [problem] = version.problems;
  if (problem === undefined) return version;
  throw new NotFoundError(problem.code, problem.message, { file: problem.file });
}

/**
 * Opens the shards of a version directory, of the newest complete version of a checkpoint directory, or one shard. Close
 * them in the end.
 * @throws {@link NotFoundError} (`not-found`, `no-complete-version`, `missing-shard`, `mixed-shards`), and what damaged
 * shards give
 */
export async function openVersion(files: FileStore, path: string): Promise<VersionContents> {
  const located = await locate(files, path);
  if (located === undefined) throw new NotFoundError("not-found", "no training checkpoint here", { file: path });
  const { shards } = await chooseVersion(files, located);
  return VersionContents.open(
    files,
    shards.map((shard) => shard.path),
  );
}
