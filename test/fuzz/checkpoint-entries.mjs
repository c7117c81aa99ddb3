// The entries of a checkpoint's index: fuzzed keys and values in a table whose checksums are right.
import { MemorySink } from "../../dist/bytes/byte-sink.js";
import { MemorySource } from "../../dist/bytes/memory-source.js";
import { TableBuilder } from "../../dist/table/table-builder.js";
import { TableReader } from "../../dist/table/table-reader.js";
import { joinParts, partsOf, readEverything, storeOf } from "./read-everything.mjs";

export const seeds = ["checkpoints"];
export const only = /\.index$/;
const ENTRIES = 6;
const latin1 = (bytes) => Buffer.from(bytes).toString("latin1");

/** Of a whole index as seed: its header and first five entries. */
export async function seedFrom(file) {
  const table = await TableReader.open(new MemorySource(file, "seed"));
  const parts = [];
  for await (const { key, value } of table.entries()) {
    if (parts.length === 2 * ENTRIES) break;
    parts.push(Buffer.from(key, "latin1"), value);
  }
  while (parts.length < 2 * ENTRIES) parts.push(new Uint8Array(0));
  return parts.some((part) => part.length > 65_535) ? undefined : joinParts(parts);
}

export async function fuzz(data) {
  const parts = partsOf(data, 2 * ENTRIES);
  const entries = new Map();
  for (let i = 0; i < parts.length; i += 2) entries.set(latin1(parts[i]), parts[i + 1]);
  const sink = new MemorySink("x");
  const table = new TableBuilder(sink);
  for (const key of [...entries.keys()].sort((a, b) => (a < b ? -1 : 1))) await table.add(key, entries.get(key));
  await table.finish();
  const zeros = new Uint8Array(4096);
  const files = { "d/x.index": sink.bytes.slice() };
  for (const name of ["00000-of-00001", "00000-of-00002", "00001-of-00002"]) files[`d/x.data-${name}`] = zeros;
  await readEverything(storeOf(files), "d/x");
}
