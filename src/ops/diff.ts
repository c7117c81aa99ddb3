import { type CompareOptions, compareData } from "../tensor/compare.js";
import { elementBytes } from "../tensor/dtype.js";
import { compareKeys } from "../tensor/key-order.js";
import { elementCount, formatShape } from "../tensor/shape.js";
import type { TensorInfo, TensorSource } from "../tensor/tensor-source.js";
import { idsBeside, readIds } from "./embedding-ids.js";
import { globMatcher } from "./tensors.js";

/** A tensor that is in both sources and not the same. */
export interface ChangedTensor {
  /** Its name on the left. */
  readonly key: string;
  /** What differs first: the shape, then the dtype, the ids of an embedding table, the values. */
  readonly reason: "shape" | "dtype" | "ids" | "values";
  /** Both sides in a few words: `[2, 3] → [3, 2]`, `float32 → bfloat16`, `12 of 600 elements, first at [0, 5]`. */
  readonly detail: string;
  /** The largest difference of two elements; null where elements are no numbers, or one of them is not finite. */
  readonly maxAbs: number | null;
  /** The same as a part of the larger magnitude. */
  readonly maxRel: number | null;
}

/** What {@link diff} gives: names in byte order. */
export interface DiffReport {
  /** Only on the right. */
  readonly added: readonly string[];
  /** Only on the left. */
  readonly removed: readonly string[];
  readonly changed: readonly ChangedTensor[];
  /** How many tensors are the same. */
  readonly sameCount: number;
}

/** Options of {@link diff}. */
export interface DiffOptions extends CompareOptions {
  /** Only names that match: `*` stands for any characters, `?` for one. */
  readonly filter?: string | undefined;
}

/**
 * Compares two models or checkpoints tensor by tensor, of whatever formats, streaming. Tensors are matched by their
 * names; what only one format understands is compared when both sides are of that format.
 */
export async function diff(left: TensorSource, right: TensorSource, options: DiffOptions = {}): Promise<DiffReport> {
  const [lefts, rights] = [await namedTensors(left, options), await namedTensors(right, options)];
  const changed: ChangedTensor[] = [];
  let sameCount = 0;
  const ids = new Set<TensorInfo>();
  for (const [name, info] of lefts) {
    const other = rights.get(name);
    if (other === undefined) continue;
    const sides = [
      { source: left, info, byName: lefts },
      { source: right, info: other, byName: rights },
    ] as const;
    if (info.embedding !== undefined || other.embedding !== undefined) {
      for (const side of sides) ids.add(idsBeside(side.info, side.byName) ?? side.info);
    }
    const change = await compareTensors(...sides, options);
    if (change === undefined) sameCount++;
    else changed.push({ key: name, ...change });
  }
  const added = onlyIn(rights, lefts, ids);
  const removed = onlyIn(lefts, rights, ids);
  return { added, removed, changed, sameCount };
}

type ByName = ReadonlyMap<string, TensorInfo>;

/** The names that are on one side alone, without ids of tables that the other side has with their table. */
function onlyIn(these: ByName, others: ByName, ids: ReadonlySet<TensorInfo>): string[] {
  const othersHaveConstants = Array.from(others.values()).some(({ role }) => role === "constant");
  const counts = (info: TensorInfo) =>
    !ids.has(info) && info.role !== "structure" && (info.role !== "constant" || othersHaveConstants);
  return [...these].flatMap(([name, info]) => (!others.has(name) && counts(info) ? [name] : [])).sort(compareKeys);
}

/** The tensors of a source by name, in key order. */
async function namedTensors(source: TensorSource, { filter }: DiffOptions): Promise<Map<string, TensorInfo>> {
  const matches = filter === undefined ? () => true : globMatcher(filter);
  const byName = new Map<string, TensorInfo>();
  for await (const info of source.tensors()) {
    const name = info.name ?? info.key;
    if (matches(name)) byName.set(byName.has(name) ? info.key : name, info);
  }
  return byName;
}

interface Side {
  readonly source: TensorSource;
  readonly info: TensorInfo;
  readonly byName: ByName;
}

async function compareTensors(
  left: Side,
  right: Side,
  options: CompareOptions,
): Promise<Omit<ChangedTensor, "key"> | undefined> {
  const [a, b] = [left.info, right.info];
  if (a.shape.length !== b.shape.length || a.shape.some((size, i) => size !== b.shape[i])) {
    const detail = `${formatShape(a.shape)} → ${formatShape(b.shape)}`;
    return { reason: "shape", detail, maxAbs: null, maxRel: null };
  }
  const isSameType = a.dtype === b.dtype;
  const areFixed = elementBytes(a.dtype) > 0 && elementBytes(b.dtype) > 0;
  const types = `${a.dtype} → ${b.dtype}`;
  if (!isSameType && !areFixed) return { reason: "dtype", detail: types, maxAbs: null, maxRel: null };
  const otherIds = await compareIds(left, right);
  if (otherIds !== undefined) return { reason: "ids", detail: otherIds, maxAbs: null, maxRel: null };
  const [leftData, rightData] = [await left.source.data(a.key), await right.source.data(b.key)];
  const difference = await compareData(
    { dtype: a.dtype, data: leftData },
    { dtype: b.dtype, data: rightData },
    options,
  );
  if (difference === undefined) {
    return isSameType ? undefined : { reason: "dtype", detail: types, maxAbs: 0, maxRel: 0 };
  }
  const { count, maxAbs, maxRel, firstIndex } = difference;
  const place = formatShape(indexOf(firstIndex, a.shape));
  const counted = `${count.toLocaleString("en-US")} of ${elementCount(a.shape).toLocaleString("en-US")} elements`;
  const values = `${counted}, first at ${place}`;
  return {
    reason: isSameType ? "values" : "dtype",
    detail: isSameType ? values : `${types}, ${values}`,
    maxAbs: finite(maxAbs),
    maxRel: finite(maxRel),
  };
}

/** How the ids of two embedding tables differ; undefined when they don't, or one side has none. */
async function compareIds(left: Side, right: Side): Promise<string | undefined> {
  if (left.info.embedding === undefined && right.info.embedding === undefined) return undefined;
  const [a, b] = [await idsOf(left), await idsOf(right)];
  if (a === undefined || b === undefined) return undefined;
  const count = a.reduce((sum, id, i) => sum + (id === b[i] ? 0 : 1), 0);
  const first = a.findIndex((id, i) => id !== b[i]);
  if (count === 0) return undefined;
  const rows = `${count.toLocaleString("en-US")} of ${a.length.toLocaleString("en-US")} rows have other ids`;
  return `${rows}, first ${a[first]} → ${b[first]}`;
}

async function idsOf({ source, info, byName }: Side): Promise<BigInt64Array | undefined> {
  if (info.embedding !== undefined) return source.ids?.(info.key);
  const beside = idsBeside(info, byName);
  return beside && readIds(source, beside);
}

function finite(value: number | undefined): number | null {
  return value !== undefined && Number.isFinite(value) ? value : null;
}

/** The indexes of an element by its place in row-major order. */
function indexOf(place: number, shape: readonly number[]): number[] {
  const index: number[] = [];
  let rest = place;
  for (let i = shape.length - 1; i >= 0; i--) {
    const size = shape[i] as number;
    index.unshift(rest % size);
    rest = Math.floor(rest / size);
  }
  return index;
}
