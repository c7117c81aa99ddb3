import type { FileStore } from "../../bytes/file-store.js";
import { baseName } from "../../bytes/path.js";
import { CairnError } from "../../errors.js";
import { finding, findingOf } from "../finding.js";
import type { Detection, VerifyEvent, VerifyOptions } from "../format.js";
import { formatCount } from "../text.js";
import { readIds } from "./id-codec.js";
import { locate } from "./locate.js";
import { keyToId, partitionIds } from "./partition.js";
import type { ShardCatalog, StoredEntry } from "./shard-catalog.js";
import { ShardFile } from "./shard-file.js";
import { planRows } from "./table-plan.js";
import { VersionContents } from "./version-contents.js";
import { type ListedVersion, listVersion, listVersions, mismatchText } from "./versions.js";

/** Checks all of a training checkpoint, and goes on after each finding. */
export async function* verifyTraining(
  { files, path }: Detection,
  options: VerifyOptions = {},
): AsyncGenerator<VerifyEvent> {
  const located = await locate(files, path);
  if (located === undefined) {
    yield finding("error", "not-found", "no training checkpoint here", { file: path });
    return;
  }
  if (located.kind !== "root") {
    yield* verifyVersion(files, await listVersion(files, located.info), options);
    return;
  }
  const { versions, strays } = await listVersions(files, path);
  for (const stray of strays) yield strayFinding(stray, "versions");
  let isAnyComplete = false;
  for (const version of versions) {
    let isComplete = true;
    for await (const event of verifyVersion(files, version, options)) {
      isComplete &&= event.kind === "good" || event.finding.severity === "warning";
      yield event;
    }
    isAnyComplete ||= isComplete;
  }
  if (!isAnyComplete) yield finding("error", "no-complete-version", "no complete version", { file: path });
}

function strayFinding(file: string, among: string): VerifyEvent {
  return finding("warning", "stray-file", `stands among the ${among} and is none`, { file });
}

/** Checks one version: that its shards are there, each of them, and that they belong together. */
async function* verifyVersion(
  files: FileStore,
  version: ListedVersion,
  options: VerifyOptions,
): AsyncGenerator<VerifyEvent> {
  for (const { code, message, file } of version.problems) yield finding("error", code, message, { file });
  for (const stray of version.strays) yield strayFinding(stray, "shards");
  const sound: ShardFile[] = [];
  try {
    for (const { path } of version.shards) {
      let shard: ShardFile;
      try {
        shard = await ShardFile.open(files, path);
      } catch (error) {
        yield findingOf(error, path);
        continue;
      }
      sound.push(shard);
      yield* verifyShard(shard, version.modelVersion, options);
    }
    if (sound.length === version.shards.length && version.problems.length === 0)
      yield* verifyTogether(sound, version.path);
  } finally {
    for (const shard of sound) await shard.close();
  }
}

async function* verifyShard(
  shard: ShardFile,
  modelVersion: number | undefined,
  options: VerifyOptions,
): AsyncGenerator<VerifyEvent> {
  const { catalog, path: file } = shard;
  let isGood = true;
  if (modelVersion !== undefined && catalog.modelVersion !== modelVersion) {
    isGood = false;
    yield finding("error", "version-mismatch", mismatchText(modelVersion, catalog.modelVersion), { file });
  }
  const entries: [string, StoredEntry][] = [...catalog.dense, ...catalog.tables];
  for (const slot of catalog.slots) entries.push([`${slot.owner}, slot ${slot.name}`, slot]);
  for (const [key, entry] of entries) {
    options.signal?.throwIfAborted();
    try {
      await shard.verifyEntry(entry);
    } catch (error) {
      isGood = false;
      yield findingOf(error, file, undefined, key);
    }
    options.onBytes?.(entry.content.size);
  }
  for await (const event of verifyPlaces(shard)) {
    isGood = false;
    yield event;
  }
  for (const name of catalog.tables.keys()) {
    if (catalog.infos.has(name)) continue;
    yield finding("warning", "tensor-data", "embedding table without info: ElasticDL cannot restore it", {
      file,
      key: name,
    });
  }
  if (isGood)
    yield { kind: "good", what: `${file}: ${describe(catalog)}${checked(shard)}`, byteLength: shard.byteLength };
}

function checked(shard: ShardFile): string {
  return shard.hasChecksums ? "" : "; it has no checksums";
}

function describe({ dense, tables }: ShardCatalog): string {
  const rows = [...tables.values()].reduce((sum, { rowCount }) => sum + rowCount, 0);
  return `${formatCount(dense.size, "variable")}, ${formatCount(rows, "row")} of ${formatCount(tables.size, "table")}`;
}

/** Checks that each variable and row stands in the shard of its server, and that there are as many ids as rows. */
async function* verifyPlaces({ name, catalog, path: file }: ShardFile): AsyncGenerator<VerifyEvent> {
  if (name === undefined) return;
  const { psId, psNum } = name;
  for (const key of catalog.dense.keys()) {
    const owner = keyToId(key, psNum);
    if (owner === psId) continue;
    yield finding("error", "wrong-partition", `a variable of server ${owner} in shard ${psId} of ${psNum}`, {
      file,
      key,
    });
  }
  for (const [key, { ids: source, rowCount }] of catalog.tables) {
    try {
      const ids = await readIds(source);
      if (ids.length !== rowCount) {
        yield finding("error", "tensor-data", `${ids.length} ids for ${formatCount(rowCount, "row")}`, { file, key });
      }
      const owners = partitionIds(ids, psNum);
      const strangers = ids.filter((_, i) => owners[i] !== psId);
      const [first] = strangers;
      if (first === undefined) continue;
      const what = `${formatCount(strangers.length, "row")} of other servers in shard ${psId} of ${psNum}, the first of id ${first}`;
      yield finding("error", "wrong-partition", what, { file, key });
    } catch (error) {
      yield findingOf(error, file, undefined, key);
    }
  }
}

/** Checks what concerns several shards: one version, one form of each table, no id twice. */
async function* verifyTogether(shards: readonly ShardFile[], path: string): AsyncGenerator<VerifyEvent> {
  let contents: VersionContents;
  try {
    contents = new VersionContents(shards);
  } catch (error) {
    yield findingOf(error, path);
    return;
  }
  yield* compareInfos(shards);
  for (const table of contents.tables) {
    try {
      const { dropped } = await planRows(table, 1);
      if (dropped.size === 0) continue;
      const what = `${formatCount(dropped.size, "row")} with an id that stands again later`;
      yield finding("error", "duplicate-id", what, { file: path, key: table.name });
    } catch (error) {
      // Told of with its shard already.
      if (!(error instanceof CairnError)) throw error;
    }
  }
}

function* compareInfos(shards: readonly ShardFile[]): Iterable<VerifyEvent> {
  const [first, ...others] = shards;
  for (const { catalog, path: file } of others) {
    for (const [key, info] of catalog.infos) {
      const known = first?.catalog.infos.get(key);
      if (known === undefined || (known.dim === info.dim && known.initializer === info.initializer)) continue;
      const what = `dim ${info.dim}, initializer "${info.initializer}"; ${baseName(first?.path ?? "")} has ${known.dim}, "${known.initializer}"`;
      yield finding(known.dim === info.dim ? "warning" : "error", "tensor-data", what, { file, key });
    }
  }
}
