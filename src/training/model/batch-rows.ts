import { UsageError } from "../../errors.js";
import { toIds } from "../ids.js";
import type { Table } from "./columns.js";
import type { EmbeddingDefinition } from "./model-definition.js";

/** Where the rows of embedding tables come from. */
export interface RowSource {
  /** Rows in the order of the ids, made where there are none. */
  pullRows(table: string, ids: BigInt64Array): Promise<Float32Array>;
}

/** The rows that a batch needs of one table. */
export interface TableRows {
  readonly table: string;
  readonly dim: number;
  /** Each id once, in the order in which it is met first. */
  readonly ids: BigInt64Array;
  /** For each input that gets rows of this table, which row each of its ids is, and the shape of its ids. */
  readonly inputs: ReadonlyMap<string, { readonly rows: Int32Array; readonly shape: readonly number[] }>;
}

/** Which rows a batch needs: each only once, however often its id stands in the batch. */
export function planBatchRows(
  embeddings: readonly EmbeddingDefinition[],
  inputs: ReadonlyMap<string, Table>,
): TableRows[] {
  const byTable = new Map<string, { dim: number; places: Map<bigint, number>; inputs: Map<string, InputRows> }>();
  for (const { table, dim, input } of embeddings) {
    const column = inputs.get(input);
    if (column === undefined)
      throw new UsageError("usage", `the batch has no column "${input}" with the ids of "${table}"`);
    const known = byTable.get(table) ?? {
      dim,
      places: new Map<bigint, number>(),
      inputs: new Map<string, InputRows>(),
    };
    byTable.set(table, known);
    known.inputs.set(input, { rows: placeIds(column, known.places), shape: column.shape });
  }
  return Array.from(byTable, ([table, { dim, places, inputs: rows }]) => {
    return { table, dim, ids: BigInt64Array.from(places.keys()), inputs: rows };
  });
}

type InputRows = { readonly rows: Int32Array; readonly shape: readonly number[] };

function placeIds({ values }: Table, places: Map<bigint, number>): Int32Array {
  const ids = values instanceof BigInt64Array ? values : toIds(Array.from(values as readonly number[]));
  const rows = new Int32Array(ids.length);
  ids.forEach((id, i) => {
    const place = places.get(id) ?? places.size;
    places.set(id, place);
    rows[i] = place;
  });
  return rows;
}
