import type { ByteSource } from "../../bytes/byte-source.js";
import { CorruptionError, LimitError, NotFoundError } from "../../errors.js";
import { elementBytes } from "../../tensor/dtype.js";
import { elementCount } from "../../tensor/shape.js";
import type { EmbeddingTable } from "./model-contents.js";
import { rowData } from "./restore.js";
import { uniqueOrder } from "./sort-ids.js";
import { OrderedRows } from "./sorted-rows.js";
import { TableIds } from "./table-plan.js";
import { rowByteLength } from "./version-contents.js";

/** Rows of one table over all shards that can be put in order, 2^28: ids and their order take 12 bytes each. */
const MAX_ORDERED_ROWS = 2 ** 28;

/** The ids of a table in ascending order, and where their rows are. */
export class TableIndex {
  /** Ascending. */
  readonly ids: BigInt64Array;
  private readonly table: EmbeddingTable;
  private readonly file: string;
  private readonly order: Uint32Array;

  private constructor(table: EmbeddingTable, file: string, ids: BigInt64Array, order: Uint32Array) {
    this.table = table;
    this.file = file;
    this.ids = ids;
    this.order = order;
  }

  /** Reads and sorts the ids. @throws {@link LimitError} (`limit`), {@link CorruptionError} (`duplicate-id`), and what damaged shards give */
  static async read(table: EmbeddingTable, file: string): Promise<TableIndex> {
    const source = new TableIds(table);
    if (source.rowCount > MAX_ORDERED_ROWS) {
      const expected = `at most ${MAX_ORDERED_ROWS}`;
      throw new LimitError("limit", `rows of "${table.name}" to put in order`, {
        file,
        expected,
        actual: source.rowCount,
      });
    }
    const stored = new BigInt64Array(source.rowCount);
    for await (const { ids, firstRow } of source.all()) stored.set(ids, firstRow);
    const { order, dropped } = uniqueOrder(stored);
    const [twice] = dropped;
    if (twice !== undefined) {
      throw new CorruptionError("duplicate-id", `id ${stored[twice]} stands twice in "${table.name}"`, {
        file,
        hint: "Resharding keeps the later row of each.",
      });
    }
    const ids = new BigInt64Array(order.length);
    for (let i = 0; i < order.length; i++) ids[i] = stored[order[i] as number] as bigint;
    return new TableIndex(table, file, ids, order);
  }

  /** The rows of the table, or those of one of its slots, by ascending id. */
  rows(slot?: string): ByteSource {
    return this.ordered(this.order, slot);
  }

  /** Rows of some ids, in that order. @throws {@link NotFoundError} (`no-such-id`) */
  rowsOf(ids: BigInt64Array, slot?: string): ByteSource {
    const order = new Uint32Array(ids.length);
    for (const [i, id] of ids.entries()) {
      const place = this.find(id);
      if (place === undefined) {
        throw new NotFoundError("no-such-id", `no row ${id} in "${this.table.name}"`, { file: this.file });
      }
      order[i] = this.order[place] as number;
    }
    return this.ordered(order, slot);
  }

  private ordered(order: Uint32Array, slot: string | undefined): ByteSource {
    const facts = this.table.slots.find(({ name }) => name === slot);
    const rowBytes =
      facts === undefined ? rowByteLength(this.table) : elementCount(facts.rowShape) * elementBytes(facts.dtype);
    const parts = this.table.parts.map(({ rowCount }, i) => ({ rowCount, data: rowData(this.table, i, slot) }));
    return new OrderedRows(this.file, { rowBytes, parts }, order);
  }

  private find(id: bigint): number | undefined {
    let low = 0;
    let high = this.ids.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.ids[middle] as bigint) < id) low = middle + 1;
      else high = middle;
    }
    return this.ids[low] === id ? low : undefined;
  }
}
