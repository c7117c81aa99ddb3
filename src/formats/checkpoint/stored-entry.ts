import { withoutSuffix } from "../../bytes/path.js";
import { type CorruptionError, UnsupportedError } from "../../errors.js";
import { type DType, dtypeOf, elementBytes } from "../../tensor/dtype.js";
import { type Region, regionShape } from "../../tensor/region.js";
import { checkShape, elementCount, formatShape, type Shape } from "../../tensor/shape.js";
import type { TensorFact, TensorInfo } from "../../tensor/tensor-source.js";
import { entryError } from "./bundle-proto.js";
import type { PlacedEntry } from "./checkpoint-index.js";
import { OBJECT_GRAPH_KEY } from "./checkpoint-key.js";
import { formatExtents } from "./tensor-slices.js";

/** Where the bytes of a tensor, or of a slice of it, are stored. */
export interface StoredBytes {
  /** The number of the data file. */
  readonly shard: number;
  readonly offset: number;
  readonly size: number;
  /** Masked, as it is stored. */
  readonly crc32c: number;
}

/** What an index says of a tensor. */
export interface StoredEntry {
  readonly key: string;
  readonly dtype: DType;
  readonly shape: Shape;
  /** Absent for a tensor in slices. */
  readonly stored?: StoredBytes;
  /** The slices of a tensor that is stored in slices, in the order of saving; empty for another. */
  readonly slices: readonly StoredSlice[];
}

/** A slice of a tensor: its extents as in a slice spec (`0,4:-`), and its bytes. */
export interface StoredSlice {
  readonly extents: string;
  readonly stored: StoredBytes;
}

/** Where an entry says that its bytes are. */
export function storedBytes({ entry }: PlacedEntry): StoredBytes {
  const { shardId, offset, size, crc32c } = entry;
  return { shard: shardId, offset, size, crc32c };
}

/**
 * The dtype of an entry whose shape is one.
 * @throws UnsupportedError (`unsupported-dtype`), CorruptionError (`tensor-data`), LimitError (`limit`)
 */
export function checkedDType({ entry, place }: PlacedEntry): DType {
  const dtype = dtypeOf(entry.dtype, place.file, place.key);
  if (dtype === "resource") {
    throw new UnsupportedError("unsupported-dtype", `"${place.key}" is a resource`, { file: place.file });
  }
  checkShape(entry.shape, place.file, place.key);
  return dtype;
}

/**
 * Checks the size of an entry whose elements have one width. Source: tensorflow/core/util/tensor_bundle/
 * tensor_bundle.cc, BundleReader::GetValue.
 * @throws CorruptionError (`bundle-entry`)
 */
export function checkStoredSize({ entry, place }: PlacedEntry, dtype: DType): void {
  const expected = elementCount(entry.shape) * elementBytes(dtype);
  if (elementBytes(dtype) > 0 && entry.size !== expected) {
    throw entryError("bundle-entry", "stored size", place, expected, entry.size);
  }
}

/** What lists have of a tensor. `sliceShards` are the data files of its slices, where they are known. */
export function infoOf(placed: PlacedEntry, sliceShards?: ReadonlyMap<string, number>): TensorInfo {
  const { entry, place } = placed;
  const dtype = checkedDType(placed);
  const width = elementBytes(dtype);
  const byteLength = width > 0 ? elementCount(entry.shape) * width : entry.size;
  const { key } = place;
  const { shape } = entry;
  const name = nameOf(key);
  const role = roleOf(key);
  const known = {
    key,
    ...(name === key ? {} : { name }),
    ...(role === undefined ? {} : { role }),
    dtype,
    shape,
    byteLength,
  };
  if (entry.slices.length === 0) return { ...known, facts: { shard: entry.shardId } };
  const slices = entry.slices.map((extents): TensorFact => {
    const spec = formatExtents(extents);
    const shard = sliceShards?.get(spec);
    return shard === undefined ? { slice: spec } : { slice: spec, shard };
  });
  return { ...known, facts: { slices } };
}

// Source: tensorflow/python/checkpoint/saveable_compat.py and trackable_utils.py: object attributes, optimizer slots.
const VALUE_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE";
const SLOT_STEP = "/.OPTIMIZER_SLOT/";

function nameOf(key: string): string {
  return withoutSuffix(key, VALUE_SUFFIX) || key;
}

function roleOf(key: string): TensorInfo["role"] {
  if (key === OBJECT_GRAPH_KEY) return "structure";
  return key.includes(SLOT_STEP) ? "slot" : undefined;
}

/** The error for a slice that a tensor names and the index does not have. */
export function missingSlice({ place }: PlacedEntry, extents: string): CorruptionError {
  return entryError("slice-coverage", "the entry of a slice is missing", place, extents);
}

/** Checks that the entry of a slice is that of the box it is for. */
export function checkSlice(slice: PlacedEntry, whole: PlacedEntry, region: Region, dtype: DType): PlacedEntry {
  const shape = regionShape(region);
  const isSame = slice.entry.shape.length === shape.length && shape.every((size, i) => size === slice.entry.shape[i]);
  if (!isSame || slice.entry.dtype !== whole.entry.dtype || slice.entry.slices.length > 0) {
    throw entryError(
      "bundle-entry",
      "its slice has another shape or dtype",
      whole.place,
      formatShape(shape),
      formatShape(slice.entry.shape),
    );
  }
  checkStoredSize(slice, dtype);
  return { ...slice, place: { ...slice.place, key: whole.place.key } };
}
