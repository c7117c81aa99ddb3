import { concatBytes } from "../../bytes/byte-sink.js";
import { type StreamOptions, streamSource } from "../../bytes/copy-source.js";
import { UsageError } from "../../errors.js";
import type { DType } from "../../tensor/dtype.js";
import { elementBytes } from "../../tensor/dtype.js";
import { elementCount, type Shape } from "../../tensor/shape.js";
import {
  type EmbeddingTable,
  type ModelContents,
  type StoredTensor,
  stateFor,
  type TrainingState,
} from "./model-contents.js";
import { checkPsNum, keyToId } from "./partition.js";
import { type RowBuffer, routeRows } from "./row-router.js";
import { planRows, splitIds, type TablePlan } from "./table-plan.js";
import { rowByteLength } from "./version-contents.js";

/** A tensor in memory. */
export interface RestoredTensor {
  readonly dtype: DType;
  readonly shape: Shape;
  /** Row-major, little-endian. */
  readonly data: Uint8Array;
}

/** A dense variable in memory, with its slots. */
export interface RestoredVariable extends RestoredTensor {
  readonly slots: ReadonlyMap<string, RestoredTensor>;
}

/** The rows of an embedding table that one server has. */
export interface RestoredTable extends RestoredTensor {
  readonly dim: number;
  readonly initializer: string;
  /** One for each row, none of them twice. */
  readonly ids: BigInt64Array;
  /** What an optimizer keeps, row by row in the order of the ids. */
  readonly slots: ReadonlyMap<string, RestoredTensor>;
}

/** The share of one parameter server. */
export interface RestoredShare {
  readonly psId: number;
  readonly psNum: number;
  readonly modelVersion: number;
  readonly dense: ReadonlyMap<string, RestoredVariable>;
  readonly tables: ReadonlyMap<string, RestoredTable>;
  readonly state: TrainingState;
}

/** Options of {@link restoreShares}. */
export interface RestoreOptions extends StreamOptions {
  /** How many servers there will be. */
  readonly psNum: number;
  /** Which of them are asked for; all when absent. */
  readonly psIds?: readonly number[] | undefined;
}

/**
 * The shares of parameter servers, whatever their number was when the version was saved; server 0 of 1 has the whole
 * model. The elements of each source shard are read once for all that are asked for. Of an id that stands twice the
 * later row counts, and rows keep the order of the source. With shards as source, call their `verify` before the result
 * is used.
 * @throws {@link UsageError} (`usage`), and what damaged shards give
 */
export async function restoreShares(contents: ModelContents, options: RestoreOptions): Promise<RestoredShare[]> {
  const { psNum, psIds = Array.from({ length: psNum }, (_, psId) => psId) } = options;
  checkPsNum(psNum);
  for (const psId of psIds) {
    if (Number.isInteger(psId) && psId >= 0 && psId < psNum) continue;
    throw new UsageError("usage", "parameter server", { expected: `0 to ${psNum - 1}`, actual: psId });
  }
  const shares = new Map<number, MutableShare>();
  for (const psId of psIds) shares.set(psId, { dense: new Map(), tables: new Map() });
  for (const { name, slots, ...tensor } of contents.dense) {
    const share = shares.get(keyToId(name, psNum));
    if (share === undefined) continue;
    const restored = await readTensor(tensor, options);
    share.dense.set(name, { ...restored, slots: await readSlots(slots, options) });
  }
  for (const table of contents.tables) await restoreTable(table, shares, options);
  const { modelVersion, states } = contents;
  return Array.from(shares, ([psId, share]) => ({
    psId,
    psNum,
    modelVersion,
    ...share,
    state: stateFor(states, psId, psNum),
  }));
}

interface MutableShare {
  readonly dense: Map<string, RestoredVariable>;
  readonly tables: Map<string, RestoredTable>;
}

async function readTensor({ dtype, shape, data }: StoredTensor, options: StreamOptions): Promise<RestoredTensor> {
  const source = data();
  const bytes = new Uint8Array(source.size);
  let at = 0;
  for await (const piece of streamSource(source, options)) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return { dtype, shape, data: bytes };
}

async function readSlots(
  slots: ReadonlyMap<string, StoredTensor>,
  options: StreamOptions,
): Promise<Map<string, RestoredTensor>> {
  const restored = new Map<string, RestoredTensor>();
  for (const [name, slot] of slots) restored.set(name, await readTensor(slot, options));
  return restored;
}

async function restoreTable(
  table: EmbeddingTable,
  shares: ReadonlyMap<number, MutableShare>,
  options: RestoreOptions,
): Promise<void> {
  const plan = await planRows(table, options.psNum);
  const ids = await readShareIds(plan, shares, options.psNum);
  const { dim, dtype, initializer } = table;
  const rows = await readShareRows(plan, rowByteLength(table), undefined, shares, options);
  const slots = new Map<number, Map<string, RestoredTensor>>();
  for (const psId of shares.keys()) slots.set(psId, new Map());
  for (const slot of table.slots) {
    const rowBytes = elementCount(slot.rowShape) * elementBytes(slot.dtype);
    const data = await readShareRows(plan, rowBytes, slot.name, shares, options);
    for (const [psId, bytes] of data) {
      const shape = [plan.rowCounts[psId] as number, ...slot.rowShape];
      slots.get(psId)?.set(slot.name, { dtype: slot.dtype, shape, data: bytes });
    }
  }
  for (const [psId, share] of shares) {
    share.tables.set(table.name, {
      dim,
      dtype,
      initializer,
      shape: [plan.rowCounts[psId] as number, dim],
      ids: ids.get(psId) ?? new BigInt64Array(0),
      data: rows.get(psId) ?? concatBytes([]),
      slots: slots.get(psId) ?? new Map(),
    });
  }
}

async function readShareIds(
  { ids, rowCounts, dropped }: TablePlan,
  shares: ReadonlyMap<number, MutableShare>,
  psNum: number,
): Promise<Map<number, BigInt64Array>> {
  const lists = new Map<number, BigInt64Array>();
  const filled = new Map<number, number>();
  for (const psId of shares.keys()) lists.set(psId, new BigInt64Array(rowCounts[psId] as number));
  for await (const batch of ids.all()) {
    for (const [psId, share] of splitIds(batch, psNum, dropped)) {
      const at = filled.get(psId) ?? 0;
      lists.get(psId)?.set(share, at);
      filled.set(psId, at + share.length);
    }
  }
  return lists;
}

/** The rows of a table, or of one of its slots, for each server that is asked for. */
async function readShareRows(
  plan: TablePlan,
  rowBytes: number,
  slot: string | undefined,
  shares: ReadonlyMap<number, MutableShare>,
  { psNum, onBytes, signal }: RestoreOptions,
): Promise<Map<number, Uint8Array>> {
  const buffers: (RowBuffer | undefined)[] = new Array(psNum).fill(undefined);
  const rows = new Map<number, Uint8Array>();
  for (const psId of shares.keys()) {
    const bytes = new Uint8Array((plan.rowCounts[psId] as number) * rowBytes);
    rows.set(psId, bytes);
    buffers[psId] = { bytes, filled: 0 };
  }
  const data = (part: number) => rowData(plan.table, part, slot);
  await routeRows({ plan, psNum, rowBytes, data, buffers, onBytes, signal });
  return rows;
}

/** The rows of one part of a table, or those of a slot. */
export function rowData(table: EmbeddingTable, partIndex: number, slot: string | undefined) {
  const part = table.parts[partIndex];
  const source = slot === undefined ? part : part?.slots.get(slot);
  if (source === undefined) throw new TypeError(`no slot ${slot} in part ${partIndex}`);
  return source.data();
}
