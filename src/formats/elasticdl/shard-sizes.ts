import { MAX_SHARD_BYTES } from "../../limits.js";
import { elementBytes } from "../../tensor/dtype.js";
import { elementCount } from "../../tensor/shape.js";
import {
  type DenseVariable,
  type EmbeddingTable,
  isEmptyState,
  type ModelContents,
  stateFor,
} from "./model-contents.js";
import type { ShardName } from "./names.js";
import { keyToId } from "./partition.js";
import {
  type FieldPlan,
  fieldByteLength,
  planDense,
  planHeader,
  planInfo,
  planSlot,
  planState,
  planTable,
  planVersion,
} from "./shard-encoding.js";
import { checkShardSize, checksumsByteLength } from "./shard-writer.js";
import type { TablePlan } from "./table-plan.js";
import { rowByteLength } from "./version-contents.js";

/** More servers than this are not proposed. */
const MOST_PROPOSED = 65_536;
/** Rows spread by chance; a share may be this much above the mean. */
const UNEVENNESS = 1.05;

/** A model, and the servers that its parts go to. */
export interface SharePlan {
  readonly contents: ModelContents;
  readonly tables: readonly TablePlan[];
  /** The server of each dense variable. */
  readonly owners: readonly number[];
  readonly psNum: number;
}

/** Bytes of each shard, to the byte. */
export function shardByteLengths(plan: SharePlan): number[] {
  const { contents, owners, psNum } = plan;
  const dense: DenseVariable[][] = Array.from({ length: psNum }, () => []);
  for (const [i, variable] of contents.dense.entries()) dense[owners[i] as number]?.push(variable);
  return dense.map((variables, psId) => {
    let total = 0;
    let count = 0;
    for (const field of fieldsOf(plan, variables, { psId, psNum })) {
      total += fieldByteLength(field);
      count++;
    }
    return total + checksumsByteLength(count);
  });
}

function* fieldsOf(
  { contents, tables }: SharePlan,
  dense: readonly DenseVariable[],
  name: ShardName,
): Iterable<FieldPlan> {
  const { psId, psNum } = name;
  yield planHeader(name);
  const version = planVersion(contents.modelVersion);
  if (version !== undefined) yield version;
  for (const table of contents.tables) yield planInfo(table);
  for (const { name: owner, dtype, shape, slots } of dense) {
    yield planDense(owner, dtype, shape);
    for (const [slot, tensor] of slots) {
      yield planSlot({ owner, name: slot, isEmbedding: false, dtype: tensor.dtype, shape: tensor.shape });
    }
  }
  for (const { table, rowCounts, idBytes } of tables) {
    const rowCount = rowCounts[psId] as number;
    const { name: owner, dtype, dim } = table;
    yield planTable({ name: owner, dtype, dim, rowCount, idBytes: idBytes[psId] as number });
    for (const { name: slot, dtype: slotDtype, rowShape } of table.slots) {
      yield planSlot({ owner, name: slot, isEmbedding: true, dtype: slotDtype, shape: [rowCount, ...rowShape] });
    }
  }
  const state = stateFor(contents.states, psId, psNum);
  if (!isEmptyState(state)) yield planState(state);
}

/** Refuses shards that protobuf cannot hold, and says how many servers would do. @throws LimitError (`limit`) */
export function checkSizes({ contents, tables }: SharePlan, sizes: readonly number[], path: string): void {
  const largest = sizes.reduce((most, size) => Math.max(most, size), 0);
  if (largest <= MAX_SHARD_BYTES) return;
  const enough = enoughServers(contents, tables, sizes.length + 1);
  const hint =
    enough === undefined
      ? "No number of parameter servers makes it small enough: one variable alone is too large for protobuf."
      : `--num-ps ${enough} makes shards that are small enough.`;
  checkShardSize(largest, path, hint);
}

/** The fewest servers, from `from` on, whose shards are small enough; undefined when a variable alone is too large. */
function enoughServers(contents: ModelContents, tables: readonly TablePlan[], from: number): number | undefined {
  const dense = contents.dense.map(({ name, dtype, shape, slots }) => {
    const tensors = [{ dtype, shape }, ...slots.values()];
    const byteLength = tensors.reduce((sum, one) => sum + elementCount(one.shape) * elementBytes(one.dtype) + 256, 0);
    return { name, byteLength };
  });
  if (dense.some(({ byteLength }) => byteLength > MAX_SHARD_BYTES)) return undefined;
  const rows = tables.reduce((sum, plan) => sum + rowsByteLength(plan), 0);
  for (let psNum = from; psNum <= MOST_PROPOSED; psNum += Math.max(1, Math.floor(psNum / 64))) {
    const loads = new Float64Array(psNum).fill((rows / psNum) * UNEVENNESS);
    for (const { name, byteLength } of dense) {
      const psId = keyToId(name, psNum);
      loads[psId] = (loads[psId] as number) + byteLength;
    }
    if (loads.every((load) => load <= MAX_SHARD_BYTES)) return psNum;
  }
  return undefined;
}

function rowsByteLength({ table, rowCounts, idBytes }: TablePlan): number {
  const rowCount = rowCounts.reduce((sum, count) => sum + count, 0);
  return rowCount * allRowBytes(table) + idBytes.reduce((sum, bytes) => sum + bytes, 0);
}

function allRowBytes(table: EmbeddingTable): number {
  const slots = table.slots.map(({ dtype, rowShape }) => elementCount(rowShape) * elementBytes(dtype));
  return slots.reduce((sum, bytes) => sum + bytes, rowByteLength(table));
}
