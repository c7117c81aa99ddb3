import { createHash } from "node:crypto";
import type { MemoryStore } from "../../src/bytes/memory-store.js";
import { type RestoredShare, type RestoreOptions, restoreShares } from "../../src/formats/elasticdl/restore.js";
import { sortedOrder } from "../../src/formats/elasticdl/sort-ids.js";
import { VersionContents } from "../../src/formats/elasticdl/version-contents.js";
import { readExpected } from "./fixtures.js";

/** What expected.json says of a table. */
export interface ExpectedTable {
  dim: number;
  initializer: string;
  count: number;
  ids: string[];
  row_dtype: string[];
  rows_sha256: string;
}

/** What expected.json says of a whole model. */
export interface ExpectedWhole {
  dense: Record<string, { dtype: string; shape: number[]; sha256: string }>;
  tables: Record<string, ExpectedTable>;
}

/** What expected.json says of a shard after repartition. */
export interface ExpectedShare {
  dense: string[];
  tables: Record<string, { ids: string[]; rows_sha256: string }>;
}

/** What expected.json says of a shard file. */
export interface ExpectedRaw {
  dense: Record<string, { content_bytes: number; dtype: number; shape: number[] }>;
  infos: { name: string; dim: number; initializer: string; dtype: number }[];
  tables: Record<string, { dtype: number; shape: number[]; ids_in_file_order: string[] }>;
  version: number;
}

/** What expected.json says of a version directory. */
export interface ExpectedCase {
  dir: string;
  raw: Record<string, ExpectedRaw>;
  repartition: Record<string, ExpectedShare[]>;
  valid: boolean;
  whole: ExpectedWhole & { version: number };
}

export interface Expected {
  model_a: {
    whole: ExpectedWhole;
    cases: Record<string, ExpectedCase>;
    repartition: Record<string, ExpectedShare[]>;
  };
  edge: Record<string, ExpectedCase>;
  versions: {
    valid: Record<string, boolean>;
    latest_valid: string;
    whole_of_latest: ExpectedWhole;
    incomplete_restored_anyway: Record<string, ExpectedWhole>;
  };
  retention: Record<
    string,
    {
      keep_checkpoint_max: number;
      ps_num: number;
      steps: { ps: number; version: number; after: Record<string, string[]>; latest_valid: string | null }[];
    }
  >;
}

export const expected = readExpected<Expected>("elasticdl/expected.json");
export const goExpected = readExpected<Record<string, Record<string, ExpectedCase>>>("elasticdl/go/expected.json");

export const sha = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

/** Rows in the order of ascending ids. */
export function sortedRows(table: { ids: BigInt64Array; data: Uint8Array }): { ids: string[]; rows: Uint8Array } {
  const order = sortedOrder(table.ids);
  const width = table.ids.length === 0 ? 0 : table.data.length / table.ids.length;
  const rows = new Uint8Array(table.data.length);
  for (const [place, index] of order.entries())
    rows.set(table.data.subarray(index * width, (index + 1) * width), place * width);
  return { ids: Array.from(order, (index) => String(table.ids[index])), rows };
}

/** A share in the form of expected.json. */
export function shareOf({ dense, tables }: RestoredShare): ExpectedShare {
  const shown: ExpectedShare["tables"] = {};
  for (const [name, table] of tables) {
    const { ids, rows } = sortedRows(table);
    shown[name] = { ids, rows_sha256: sha(rows) };
  }
  return { dense: [...dense.keys()].sort(byCodePoint), tables: shown };
}

/** A whole model in the form of expected.json. */
export function wholeOf({ dense, tables }: RestoredShare): ExpectedWhole {
  const shown: ExpectedWhole = { dense: {}, tables: {} };
  for (const [name, { dtype, shape, data }] of dense)
    shown.dense[name] = { dtype, shape: [...shape], sha256: sha(data) };
  for (const [name, table] of tables) {
    const { ids, rows } = sortedRows(table);
    const { dim, initializer, dtype } = table;
    shown.tables[name] = {
      dim,
      initializer,
      count: ids.length,
      ids,
      row_dtype: ids.length === 0 ? [] : [dtype],
      rows_sha256: sha(rows),
    };
  }
  return shown;
}

function byCodePoint(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

/** Opens shards, restores, checks the checksums and closes. */
export async function restoreFrom(
  files: MemoryStore | Parameters<typeof VersionContents.open>[0],
  paths: readonly string[],
  options: RestoreOptions,
): Promise<RestoredShare[]> {
  const contents = await VersionContents.open(files, paths);
  try {
    const shares = await restoreShares(contents, options);
    await contents.verify();
    return shares;
  } finally {
    await contents.close();
  }
}
