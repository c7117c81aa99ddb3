import { copySource } from "../../bytes/copy-source.js";
import type { FileStore } from "../../bytes/file-store.js";
import { parentPath } from "../../bytes/path.js";
import { UsageError } from "../../errors.js";
import type { ShardSummary } from "../../sharding/shard-summary.js";
import { formatSummaries } from "../../sharding/sidecar.js";
import { descriptionPath, indexPath, shardPath } from "./bundle-paths.js";
import type { BundleEntry } from "./bundle-proto.js";
import type { PlacedEntry } from "./checkpoint-index.js";
import type { RawKey } from "./checkpoint-key.js";
import { type CheckpointReader, openCheckpoint } from "./checkpoint-reader.js";
import { type WrittenShard, writeFile } from "./checkpoint-writer.js";
import { readDescription } from "./description.js";
import { Publication } from "./publication.js";
import type { ShardStreamOptions } from "./shard-stream.js";
import { writeIndex } from "./write-index.js";

/** Options of {@link mergeCheckpoints}. */
export interface MergeCheckpointsOptions extends ShardStreamOptions {
  /**
   * Take the data files of the parts over instead of copying them, and remove the parts; what is not below the directory
   * of the result is copied all the same.
   */
  readonly move?: boolean | undefined;
  /** Replace a checkpoint of the prefix. */
  readonly overwrite?: boolean | undefined;
}

/** A data file of a part, and which one it is of the result. */
interface TakenShard {
  readonly part: CheckpointReader;
  readonly shard: number;
  readonly entries: PlacedEntry[];
}

/**
 * Makes one checkpoint of several, such as those that the tasks of a job wrote. Data files stay as they are; each gets a
 * number when the first of its entries comes, part by part and in key order. Slices of one tensor may be in several
 * parts. When the files are copied, every tensor is checked. The result is what TensorFlow's MergeV2Checkpoints gives.
 * Source: tensorflow/core/util/tensor_bundle/tensor_bundle.cc, MergeBundles.
 * @throws UsageError (`duplicate-key`, `usage`, `exists`), and what opening and reading the parts throws
 */
export async function mergeCheckpoints(
  files: FileStore,
  prefixes: readonly string[],
  outPrefix: string,
  options: MergeCheckpointsOptions = {},
): Promise<readonly WrittenShard[]> {
  if (prefixes.length === 0) throw new UsageError("usage", "there is nothing to merge: no prefix is given");
  const parts: CheckpointReader[] = [];
  try {
    for (const prefix of prefixes) parts.push(await openCheckpoint(prefix, { files }));
    checkHeaders(parts);
    const { entries, taken } = await collectParts(parts);
    if (taken.length === 0) throw new UsageError("usage", "there is nothing to merge: no tensor is in the parts");
    return await writeMerged(files, outPrefix, { parts, entries, taken }, options);
  } finally {
    for (const part of parts) await part.close();
  }
}

interface Merged {
  readonly parts: readonly CheckpointReader[];
  readonly entries: ReadonlyMap<RawKey, BundleEntry>;
  readonly taken: readonly TakenShard[];
}

function checkHeaders(parts: readonly CheckpointReader[]): void {
  const [first] = parts;
  for (const { header, index } of parts) {
    if (header.isBigEndian === first?.header.isBigEndian && header.producer === first.header.producer) continue;
    throw new UsageError("usage", "checkpoints to be merged differ in byte order or version", { file: index.name });
  }
}

/** All entries of the result, their data files numbered anew. */
async function collectParts(parts: readonly CheckpointReader[]): Promise<Omit<Merged, "parts">> {
  const entries = new Map<RawKey, BundleEntry>();
  const taken: TakenShard[] = [];
  for (const part of parts) {
    const { tensors, slices } = await part.load();
    const numbers = new Map<number, number>();
    const numberOf = (shard: number): number => {
      const known = numbers.get(shard);
      if (known !== undefined) return known;
      numbers.set(shard, taken.length);
      taken.push({ part, shard, entries: [] });
      return taken.length - 1;
    };
    const all = [...tensors, ...slices.values()].sort((a, b) => (a.rawKey < b.rawKey ? -1 : 1));
    for (const placed of all) {
      const { rawKey, entry } = placed;
      const before = entries.get(rawKey);
      if (before !== undefined) {
        entries.set(rawKey, joinSlices(before, placed));
        continue;
      }
      const shardId = numberOf(entry.shardId);
      entries.set(rawKey, { ...entry, shardId });
      if (entry.slices.length === 0) taken[shardId]?.entries.push(placed);
    }
  }
  return { entries, taken };
}

/** The entry of a tensor whose slices are in several parts. */
function joinSlices(before: BundleEntry, { entry, place }: PlacedEntry): BundleEntry {
  const isSliced = before.slices.length > 0 && entry.slices.length > 0;
  if (!isSliced) {
    throw new UsageError("duplicate-key", `"${place.key}" stands in two of the checkpoints`, { file: place.file });
  }
  if (before.dtype !== entry.dtype || before.shape.join() !== entry.shape.join()) {
    throw new UsageError("duplicate-key", `the slices of "${place.key}" differ in dtype or full shape`, {
      file: place.file,
    });
  }
  return { ...before, slices: [...before.slices, ...entry.slices] };
}

async function writeMerged(
  files: FileStore,
  outPrefix: string,
  merged: Merged,
  options: MergeCheckpointsOptions,
): Promise<WrittenShard[]> {
  const { move = false, overwrite } = options;
  const publication = await Publication.begin(files, outPrefix, { overwrite, adopts: move });
  const shardCount = merged.taken.length;
  const shards: WrittenShard[] = [];
  const moved = new Set<string>();
  try {
    for (const [number, taken] of merged.taken.entries()) {
      const path = shardPath(outPrefix, number, shardCount);
      const from = shardPath(taken.part.prefix, taken.shard, taken.part.header.shardCount);
      const source = await taken.part.openShard(taken.shard);
      shards.push({ path, byteLength: source.size });
      if (move) moved.add(from);
      if (move && publication.adopt(from, path)) continue;
      for (const placed of taken.entries) await taken.part.verifyEntry(placed, { signal: options.signal });
      await writeFile(publication, path, (sink) => copySource(source, sink, options), source.size);
    }
    const sidecar = await describeParts(files, merged);
    if (sidecar !== undefined) {
      const bytes = new TextEncoder().encode(sidecar);
      await writeFile(publication, descriptionPath(outPrefix), (sink) => sink.write(bytes));
    }
    const { isBigEndian } = (merged.parts[0] as CheckpointReader).header;
    await writeFile(publication, indexPath(outPrefix), (sink) =>
      writeIndex(sink, merged.entries, { shardCount, isBigEndian }),
    );
    await publication.commit();
  } catch (error) {
    await publication.abort().catch(() => {}); // what went wrong first is what counts
    throw error;
  }
  if (move) await removeParts(files, merged.parts, outPrefix, moved);
  return shards;
}

/** The description of the parts, when one of them has one. */
async function describeParts(files: FileStore, { parts, taken }: Merged): Promise<string | undefined> {
  const known = await Promise.all(parts.map(({ prefix }) => readDescription(files, prefix)));
  const found = known.filter((one) => one !== undefined);
  if (found.length === 0) return undefined;
  const description = [...new Set(found.map((one) => one.description))].join(" ");
  const shards = taken.map(({ part, shard, entries }): ShardSummary => {
    const summary = known[parts.indexOf(part)]?.shards[shard];
    if (summary !== undefined) return summary;
    const bytes = entries.reduce((sum, { entry }) => sum + entry.size, 0);
    return { task: "", bytes, tensors: entries.length, slices: entries.length };
  });
  return formatSummaries({ description, shards, warnings: found.flatMap(({ warnings }) => warnings) });
}

/** Removes what is left of parts whose data files were taken over, and directories that held nothing else. */
async function removeParts(
  files: FileStore,
  parts: readonly CheckpointReader[],
  outPrefix: string,
  moved: ReadonlySet<string>,
): Promise<void> {
  for (const { prefix } of parts) {
    if (await files.isSame(indexPath(prefix), indexPath(outPrefix))) continue;
    await files.remove(indexPath(prefix));
    await files.remove(descriptionPath(prefix));
  }
  for (const path of moved) {
    // What was copied is still there; what was moved is not. A part may have been the replaced checkpoint itself.
    if (!path.startsWith(`${outPrefix}.data-`)) await files.remove(path);
  }
  for (const directory of new Set(parts.map(({ prefix }) => parentPath(prefix)))) {
    if (directory !== parentPath(outPrefix)) await files.removeEmptyDirectory?.(directory);
  }
}
