import { encodedIdsLength } from "./id-codec.js";
import type { EmbeddingRows, EmbeddingTable } from "./model-contents.js";
import { partitionIds, wordsOf } from "./partition.js";
import { uniqueOrder } from "./sort-ids.js";

/** Ids of one table that are kept once they were decoded, 2 Mi; of more they are decoded each time. */
const KEPT_IDS = 2 ** 21;
/** Ids that are decoded at once. */
export const ID_BATCH = 65_536;

/** Ids of one part of a table: those of its rows from `firstRow` on. */
export interface IdBatch {
  readonly ids: BigInt64Array;
  readonly firstRow: number;
}

/** The ids of a table, decoded as often as needed in little memory. */
export class TableIds {
  readonly table: EmbeddingTable;
  readonly rowCount: number;
  private readonly kept = new Map<EmbeddingRows, BigInt64Array>();

  /** The ids of all parts of `table`. */
  constructor(table: EmbeddingTable) {
    this.table = table;
    this.rowCount = table.parts.reduce((sum, { rowCount }) => sum + rowCount, 0);
  }

  /** The ids of a part, in batches of at most `limit`. */
  async *batches(part: EmbeddingRows, limit: number): AsyncGenerator<IdBatch> {
    if (this.rowCount <= KEPT_IDS) {
      const ids = this.kept.get(part) ?? (await readAll(part));
      this.kept.set(part, ids);
      for (let row = 0; row < ids.length; row += limit) yield { ids: ids.subarray(row, row + limit), firstRow: row };
      return;
    }
    let firstRow = 0;
    for await (const ids of part.idBatches(limit)) {
      yield { ids, firstRow };
      firstRow += ids.length;
    }
  }

  /** The ids of all parts, with the number of rows before each batch, over the parts. */
  async *all(): AsyncGenerator<IdBatch> {
    let before = 0;
    for (const part of this.table.parts) {
      for await (const { ids, firstRow } of this.batches(part, ID_BATCH)) yield { ids, firstRow: before + firstRow };
      before += part.rowCount;
    }
  }
}

async function readAll(part: EmbeddingRows): Promise<BigInt64Array> {
  const ids = new BigInt64Array(part.rowCount);
  let at = 0;
  for await (const batch of part.idBatches(ID_BATCH)) {
    ids.set(batch, at);
    at += batch.length;
  }
  return ids;
}

/** Where the rows of a table go. */
export interface TablePlan {
  readonly table: EmbeddingTable;
  readonly ids: TableIds;
  /** Rows for each server. */
  readonly rowCounts: Float64Array;
  /** Bytes of their ids as varints, for each server. */
  readonly idBytes: Float64Array;
  /** Rows that go nowhere since a later one has their id; counted over the parts. */
  readonly dropped: ReadonlySet<number>;
}

/** Decides where the rows of a table go. Reads its ids, not its rows. */
export async function planRows(table: EmbeddingTable, psNum: number): Promise<TablePlan> {
  const ids = new TableIds(table);
  const dropped = await findDropped(ids);
  const rowCounts = new Float64Array(psNum);
  const idBytes = new Float64Array(psNum);
  for await (const batch of ids.all()) {
    const shares = splitIds(batch, psNum, dropped);
    for (const [psId, share] of shares) {
      rowCounts[psId] = (rowCounts[psId] as number) + share.length;
      idBytes[psId] = (idBytes[psId] as number) + encodedIdsLength(share);
    }
  }
  return { table, ids, rowCounts, idBytes, dropped };
}

/** The ids of a batch for each server that gets any, in their order; without those of dropped rows. */
export function splitIds(
  { ids, firstRow }: IdBatch,
  psNum: number,
  dropped: ReadonlySet<number>,
): Map<number, BigInt64Array> {
  if (psNum === 1 && dropped.size === 0) return new Map([[0, ids]]);
  const owners = partitionIds(ids, psNum);
  const counts = new Uint32Array(psNum);
  for (const owner of owners) counts[owner] = (counts[owner] as number) + 1;
  const shares = new Map<number, BigInt64Array>();
  const shareWords: Uint32Array[] = [];
  for (const [owner, count] of counts.entries()) {
    const share = new BigInt64Array(count);
    if (count > 0) shares.set(owner, share);
    shareWords.push(wordsOf(share));
  }
  const words = wordsOf(ids);
  const filled = counts.fill(0);
  for (let i = 0; i < owners.length; i++) {
    if (dropped.size > 0 && dropped.has(firstRow + i)) continue;
    const owner = owners[i] as number;
    const at = filled[owner] as number;
    const target = shareWords[owner] as Uint32Array;
    target[2 * at] = words[2 * i] as number;
    target[2 * at + 1] = words[2 * i + 1] as number;
    filled[owner] = at + 1;
  }
  if (dropped.size > 0) for (const [owner, share] of shares) shares.set(owner, share.subarray(0, filled[owner]));
  return shares;
}

/** Finds the rows whose id stands again in a later row. Ids are looked at in groups, so that memory is bounded. */
async function findDropped(ids: TableIds): Promise<Set<number>> {
  const groups = Math.max(1, Math.ceil(ids.rowCount / KEPT_IDS));
  const dropped = new Set<number>();
  for (let group = 0; group < groups; group++) {
    const { values, rows } = await collectGroup(ids, group, groups);
    for (const index of uniqueOrder(values).dropped) dropped.add(rows === undefined ? index : (rows[index] as number));
  }
  return dropped;
}

/** The ids of one group, and their rows; all of them, whose rows are their places, when there is only one group. */
async function collectGroup(ids: TableIds, group: number, groups: number) {
  // Groups are about equal; room for twice the mean is far beyond what chance does, and more is made when needed.
  let values = new BigInt64Array(groups === 1 ? ids.rowCount : 2 * KEPT_IDS);
  let rows = groups === 1 ? undefined : new Float64Array(2 * KEPT_IDS);
  let count = 0;
  for await (const batch of ids.all()) {
    if (rows === undefined) {
      values.set(batch.ids, batch.firstRow);
      count = batch.firstRow + batch.ids.length;
      continue;
    }
    if (count + batch.ids.length > values.length) {
      values = grown(values, new BigInt64Array(2 * values.length));
      rows = grown(rows, new Float64Array(2 * rows.length));
    }
    const words = wordsOf(batch.ids);
    for (let i = 0; i < batch.ids.length; i++) {
      if (groupOf(words[2 * i] as number, words[2 * i + 1] as number, groups) !== group) continue;
      values[count] = batch.ids[i] as bigint;
      rows[count++] = batch.firstRow + i;
    }
  }
  return { values: values.subarray(0, count), rows };
}

function grown<List extends BigInt64Array | Float64Array>(list: List, larger: List): List {
  (larger as Float64Array).set(list as Float64Array);
  return larger;
}

/** Spreads ids evenly, whatever pattern they have. */
function groupOf(low: number, high: number, groups: number): number {
  return ((Math.imul(low ^ Math.imul(high, 0x85ebca6b), 0x9e3779b1) >>> 0) % 1_000_003) % groups;
}
