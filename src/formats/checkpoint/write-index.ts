import type { ByteSink } from "../../bytes/byte-sink.js";
import { PlanError } from "../../errors.js";
import { TableBuilder } from "../../table/table-builder.js";
import { type BundleEntry, type BundleHeader, EntryWriter, encodeHeader, type SliceExtent } from "./bundle-proto.js";
import { HEADER_KEY, type RawKey, textOfKey } from "./checkpoint-key.js";
import { encodeSliceKey } from "./ordered-code.js";
import type { WrittenSlice } from "./write-shard.js";

/** The entry of a tensor in slices while they are collected. */
interface SlicedEntry extends BundleEntry {
  readonly slices: (readonly SliceExtent[])[];
}

/**
 * The entries of an index from what was written, in the order of saving.
 * @throws PlanError (`invalid-plan`) when something stands twice
 */
export function collectEntries(written: Iterable<WrittenSlice>): Map<RawKey, BundleEntry> {
  const entries = new Map<RawKey, BundleEntry>();
  const add = (rawKey: RawKey, entry: BundleEntry, owner: RawKey): void => {
    if (entries.has(rawKey)) throw new PlanError("invalid-plan", `"${textOfKey(owner)}" is to be written twice`);
    entries.set(rawKey, entry);
  };
  const sliced = new Map<RawKey, SlicedEntry>();
  for (const { rawKey, entry, slice } of written) {
    if (slice === undefined) {
      add(rawKey, entry, rawKey);
      continue;
    }
    let whole = sliced.get(rawKey);
    if (whole === undefined) {
      // Of a tensor in slices only dtype, shape and slices count. The shard is what TensorFlow's merging leaves there.
      const { dtype, shardId } = entry;
      whole = { dtype, shape: slice.fullShape, shardId, offset: 0, size: 0, crc32c: 0, slices: [] };
      sliced.set(rawKey, whole);
      add(rawKey, whole, rawKey);
    }
    if (whole.dtype !== entry.dtype || whole.shape.join() !== slice.fullShape.join()) {
      throw new PlanError("invalid-plan", `slices of "${textOfKey(rawKey)}" differ in dtype or full shape`);
    }
    whole.slices.push(slice.extents);
    add(encodeSliceKey(rawKey, slice.extents), entry, rawKey);
  }
  return entries;
}

/** Writes an `.index` file; the caller closes the sink. */
export async function writeIndex(
  sink: ByteSink,
  entries: ReadonlyMap<RawKey, BundleEntry>,
  header: Pick<BundleHeader, "shardCount" | "isBigEndian">,
): Promise<void> {
  const table = new TableBuilder(sink);
  const writer = new EntryWriter();
  await table.add(HEADER_KEY, encodeHeader(header.shardCount, header.isBigEndian));
  for (const rawKey of [...entries.keys()].sort(compareRaw)) {
    const writing = table.add(rawKey, writer.encode(entries.get(rawKey) as BundleEntry));
    if (writing !== undefined) await writing;
  }
  await table.finish();
}

function compareRaw(a: RawKey, b: RawKey): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
