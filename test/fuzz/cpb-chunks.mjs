// The records of a split model: fuzzed parts become records of a sound Riegeli file, the last one its ChunkMetadata.
import { MemorySink } from "../../dist/bytes/byte-sink.js";
import { MemorySource } from "../../dist/bytes/memory-source.js";
import { RecordReader, RecordWriter } from "../../dist/riegeli/index.js";
import { fuzz as fuzzFile } from "./cpb.mjs";
import { joinParts, partsOf } from "./read-everything.mjs";

export const seeds = ["cpb/handmade", "cpb/cpb", "cpb/trees", "cpb/graphdef"];
const PARTS = 4;

/** Of a whole file as seed: its first three records and its last. The fields that name places in the file stay wrong. */
export async function seedFrom(file) {
  const records = [];
  const reader = await RecordReader.open(new MemorySource(file, "seed"));
  for await (const record of reader.records()) records.push(await record.read(0, record.size));
  const [one = new Uint8Array(0), two = one, three = one] = records;
  const last = records.at(-1) ?? one;
  if ([one, two, three].some((part) => part.length > 65_535)) return undefined;
  return joinParts([one, two, three, last]);
}

export async function fuzz(data) {
  const sink = new MemorySink("x");
  const writer = new RecordWriter(sink, { compression: "none" });
  for (const part of partsOf(data, PARTS)) await writer.write(part);
  await writer.finish();
  await fuzzFile(sink.bytes.slice());
}
