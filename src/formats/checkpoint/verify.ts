import { baseName, parentPath } from "../../bytes/path.js";
import { CairnError, isCairnError } from "../../errors.js";
import { parseSidecar } from "../../sharding/sidecar.js";
import { finding, findingOf } from "../finding.js";
import type { Detection, VerifyEvent, VerifyOptions } from "../format.js";
import { formatBytes, formatCount } from "../text.js";
import { descriptionPath, findShards, indexPath, listIfThere, shardPath } from "./bundle-paths.js";
import type { LoadedIndex, PlacedEntry } from "./checkpoint-index.js";
import { textOfKey } from "./checkpoint-key.js";
import { type CheckpointReader, openCheckpoint } from "./checkpoint-reader.js";
import { readIfThere } from "./description.js";
import { slicesOf } from "./loaded-slices.js";
import { findCheckpoint } from "./locate.js";
import { encodeSliceKey } from "./ordered-code.js";
import { checkedDType } from "./stored-entry.js";
import { isStagedName, journalPath } from "./swap-journal.js";
import { formatExtents } from "./tensor-slices.js";

/** Checks a checkpoint to the last byte, and goes on after each finding. */
export async function* verifyCheckpoint(
  detection: Detection,
  options: VerifyOptions = {},
): AsyncGenerator<VerifyEvent> {
  const { files, path } = detection;
  const prefix = (await findCheckpoint(files, path))?.prefix ?? path;
  let reader: CheckpointReader;
  try {
    yield* verifySwap(detection, prefix);
    reader = await openCheckpoint(prefix, { files });
  } catch (error) {
    yield findingOf(error, indexPath(prefix));
    return;
  }
  try {
    const events: VerifyEvent[] = [];
    const index = await loadIndex(reader, events);
    yield* events;
    yield* verifyTable(reader);
    yield* verifySlices(index);
    yield* verifyShards(detection, reader, index, options);
    yield* verifyRemains(detection, prefix, reader.header.shardCount);
    yield* verifyDescription(detection, prefix);
  } finally {
    await reader.close();
  }
}

async function* verifySwap({ files }: Detection, prefix: string): AsyncGenerator<VerifyEvent> {
  const journal = journalPath(prefix);
  if ((await files.stat(journal)) === undefined) return;
  const message =
    "a replacement of this checkpoint was cut short; the new one counts, and is put in place when it is opened";
  yield finding("warning", "unfinished-swap", message, { file: journal });
}

function loadIndex(reader: CheckpointReader, events: VerifyEvent[]): Promise<LoadedIndex> {
  return reader.index.load((error, rawKey) => {
    const key = rawKey === undefined ? undefined : textOfKey(rawKey);
    events.push(findingOf(error, reader.index.name, undefined, key));
  });
}

/** The blocks that no entry is in; the others were checked when they were read. */
async function* verifyTable({ index }: CheckpointReader): AsyncGenerator<VerifyEvent> {
  try {
    await index.table.check(index.table.metaindex);
  } catch (error) {
    yield findingOf(error, index.name, "nothing reads the metaindex block");
    return;
  }
  const what = `${index.name}: index with ${formatCount(index.table.blocks.length, "block")} of entries`;
  yield { kind: "good", what, byteLength: index.byteLength };
}

async function* verifySlices(index: LoadedIndex): AsyncGenerator<VerifyEvent> {
  for (const placed of index.tensors) {
    const { entry, place } = placed;
    try {
      const dtype = checkedDType(placed);
      if (entry.slices.length > 0) slicesOf(index, placed, dtype);
    } catch (error) {
      yield findingOf(error, place.file, undefined, place.key);
    }
  }
}

/** What is stored in one data file: a tensor, or a slice of one. */
interface Stored {
  readonly placed: PlacedEntry;
  /** Of a slice. */
  readonly extents?: string;
}

async function* verifyShards(
  detection: Detection,
  reader: CheckpointReader,
  index: LoadedIndex,
  options: VerifyOptions,
): AsyncGenerator<VerifyEvent> {
  const { shardCount } = reader.header;
  const stored = collectStored(index);
  const byShard = new Map<number, Stored[]>();
  for (const one of stored) {
    const { shardId } = one.placed.entry;
    const ofShard = byShard.get(shardId);
    if (ofShard === undefined) byShard.set(shardId, [one]);
    else ofShard.push(one);
  }
  for (const [shard, ofShard] of [...byShard].sort(([a], [b]) => a - b)) {
    for (const one of ofShard) yield* verifyStored(reader, one, options);
    if (shard < shardCount) yield* describeShard(detection, reader, shard, ofShard);
  }
  yield* verifyEmptyShards(detection, reader, new Set(byShard.keys()));
}

/** Data files in which no tensor is should be there all the same. A hostile header may speak of billions. */
async function* verifyEmptyShards(
  { files }: Detection,
  { prefix, header }: CheckpointReader,
  known: Set<number>,
): AsyncGenerator<VerifyEvent> {
  const found = await findShards(files, prefix);
  for (const { shard, shardCount } of found) if (shardCount === header.shardCount) known.add(shard);
  const missing = header.shardCount - known.size;
  if (missing <= 0 || found.length === 0) return;
  const message = `${formatCount(missing, "data file")} of ${header.shardCount} missing; no tensor is in them`;
  yield finding("warning", "not-found", message, { file: indexPath(prefix) });
}

function collectStored(index: LoadedIndex): Stored[] {
  const stored: Stored[] = [];
  for (const placed of index.tensors) {
    const { entry, rawKey, place } = placed;
    if (entry.slices.length === 0) stored.push({ placed });
    for (const extents of entry.slices) {
      const slice = index.slices.get(encodeSliceKey(rawKey, extents));
      if (slice === undefined) continue;
      stored.push({
        placed: { ...slice, place: { ...slice.place, key: place.key } },
        extents: formatExtents(extents),
      });
    }
  }
  const byPlace = ({ placed: { entry: a } }: Stored, { placed: { entry: b } }: Stored) =>
    a.offset - b.offset || a.size - b.size;
  return stored.sort(byPlace);
}

async function* verifyStored(
  reader: CheckpointReader,
  one: Stored,
  options: VerifyOptions,
): AsyncGenerator<VerifyEvent> {
  const { placed, extents } = one;
  const { key } = placed.place;
  options.signal?.throwIfAborted();
  try {
    await reader.verifyEntry(placed, { signal: options.signal });
    options.onBytes?.(placed.entry.size);
    yield { kind: "good", what: extents === undefined ? key : `${key} ${extents}`, byteLength: placed.entry.size };
  } catch (error) {
    if (!(error instanceof CairnError) || isCairnError(error, "interrupted")) throw error;
    const file = shardPath(reader.prefix, placed.entry.shardId, reader.header.shardCount);
    yield findingOf(error, file, extents === undefined ? undefined : `slice ${extents}`, key);
  }
}

/** Tells of a data file what no tensor tells: gaps, and bytes behind the last tensor. */
async function* describeShard(
  { files }: Detection,
  reader: CheckpointReader,
  shard: number,
  stored: readonly Stored[],
): AsyncGenerator<VerifyEvent> {
  const file = shardPath(reader.prefix, shard, reader.header.shardCount);
  const info = await files.stat(file);
  if (info === undefined) return; // told of each tensor already
  let [end, gaps, gapBytes] = [0, 0, 0];
  for (const { placed } of stored) {
    const { offset, size } = placed.entry;
    if (offset > end) {
      gaps++;
      gapBytes += offset - end;
    } else if (offset < end && size > 0) {
      yield finding("warning", "overlap", "its bytes are those of another tensor too", {
        file,
        offset,
        key: placed.place.key,
      });
    }
    end = Math.max(end, offset + size);
  }
  const notes = [];
  if (gaps > 0) notes.push(`${formatCount(gaps, "gap")} of ${formatBytes(gapBytes)} between tensors`);
  if (info.size > end) notes.push(`${formatBytes(info.size - end)} behind the last`);
  if (notes.length > 0)
    yield { kind: "good", what: `${file}: ${notes.join(", ")}, which nothing reads`, byteLength: 0 };
}

async function* verifyRemains(detection: Detection, prefix: string, shardCount: number): AsyncGenerator<VerifyEvent> {
  const { files } = detection;
  for (const found of await findShards(files, prefix)) {
    if (found.shardCount === shardCount && found.shard < shardCount) continue;
    const message = `no index names this data file: it is of ${found.shardCount} shards, the checkpoint has ${shardCount}`;
    yield finding("warning", "orphan-file", message, { file: found.path });
  }
  for (const { path } of await listIfThere(files, parentPath(prefix))) {
    if (!isStagedName(baseName(path), prefix)) continue;
    yield finding("warning", "orphan-file", "left by a replacement of the checkpoint that did not come about", {
      file: path,
    });
  }
}

async function* verifyDescription({ files }: Detection, prefix: string): AsyncGenerator<VerifyEvent> {
  const path = descriptionPath(prefix);
  try {
    const text = await readIfThere(files, path);
    if (text === undefined) return;
    parseSidecar(text, path);
    yield { kind: "good", what: `${path}: description of the sharding`, byteLength: text.length };
  } catch (error) {
    const event = findingOf(error, path);
    // Nothing but people reads it.
    yield event.kind === "finding" ? { ...event, finding: { ...event.finding, severity: "warning" } } : event;
  }
}
