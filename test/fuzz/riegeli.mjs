// A Riegeli/records file: all records, the last one, recovery.
import { MemorySource } from "../../dist/bytes/memory-source.js";
import { RecordReader, recoverRecords } from "../../dist/riegeli/index.js";
import { allowed, readEverything, storeOf } from "./read-everything.mjs";

export const seeds = ["riegeli"];

export async function fuzz(data) {
  const bytes = new Uint8Array(data);
  const source = new MemorySource(bytes, "x");
  await allowed(async () => {
    const reader = await RecordReader.open(source);
    for await (const record of reader.records()) await record.read(0, Math.min(record.size, 65_536));
  });
  await allowed(async () => (await RecordReader.open(source)).lastRecord());
  await allowed(async () => {
    for await (const recovered of recoverRecords(source)) void recovered;
  });
  await readEverything(storeOf({ "x.riegeli": bytes }), "x.riegeli");
}
