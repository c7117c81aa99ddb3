import { concatBytes, MemorySink } from "../../src/bytes/byte-sink.js";
import type { ByteSource } from "../../src/bytes/byte-source.js";
import { joinSources } from "../../src/bytes/joined-source.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { ChunkBytes } from "../../src/riegeli/chunk-bytes.js";
import type { ChunkLocation } from "../../src/riegeli/chunk-header.js";
import { HashedBytes } from "../../src/riegeli/hashed-bytes.js";
import { type RecordOptions, RecordReader } from "../../src/riegeli/record-reader.js";
import { RecordWriter, type RecordWriterOptions } from "../../src/riegeli/record-writer.js";
import { testByteSource } from "../conformance/byte-source.js";
import { PlainSource, randomBytes, ScatteredSource } from "../support/odd-sources.js";

const RECORD = randomBytes(300_000, 3);

/** A file with a small record, the large one, and a small one. */
async function fileOf(options: RecordWriterOptions): Promise<Uint8Array> {
  const sink = new MemorySink("file");
  const writer = new RecordWriter(sink, options);
  await writer.write(randomBytes(1000, 4));
  await writer.write(new MemorySource(RECORD), { alone: true });
  await writer.write(randomBytes(50, 5));
  await writer.finish();
  return sink.bytes;
}

/** The chunk of the large record. */
async function largeChunk(file: ByteSource): Promise<ChunkLocation> {
  const reader = await RecordReader.open(file);
  for await (const chunk of reader.chunks()) if (chunk.dataSize > 200_000) return chunk;
  throw new Error("the file has no large chunk");
}

/** The data of a chunk, the block headers of 24 bytes at each 65,536 left out. */
function dataOf(file: Uint8Array, chunk: ChunkLocation): Uint8Array {
  const bytes = new Uint8Array(chunk.dataSize);
  let at = chunk.begin + 40;
  for (let i = 0; i < bytes.length; i++, at++) {
    if (at % 65_536 === 0) at += 24;
    bytes[i] = file[at]!;
  }
  return bytes;
}

const KINDS: [string, (bytes: Uint8Array) => ByteSource][] = [
  ["a file in memory", (bytes) => new MemorySource(bytes)],
  ["a file", (bytes) => new PlainSource(bytes)],
  [
    "a file in parts",
    (bytes) =>
      joinSources("parts", [new PlainSource(bytes.subarray(0, 65_536)), new PlainSource(bytes.subarray(65_536))]),
  ],
  ["a file whose pieces lie anywhere", (bytes) => new ScatteredSource(bytes, "mixed")],
];

for (const [kind, make] of KINDS) {
  testByteSource(`ChunkBytes of ${kind}`, async () => {
    const file = await fileOf({ compression: "none" });
    const chunk = await largeChunk(make(file));
    return { source: new ChunkBytes(make(file), chunk), bytes: dataOf(file, chunk) };
  });

  const hashed = async () => {
    const file = await fileOf({ compression: "none" });
    const chunk = await largeChunk(make(file));
    return { source: new HashedBytes(new ChunkBytes(make(file), chunk)), bytes: dataOf(file, chunk) };
  };
  testByteSource(`HashedBytes of ${kind}`, hashed);

  testByteSource(`a streamed record of ${kind}`, async () => {
    const record = await secondRecord(make(await fileOf({ compression: "none" })), { streaming: true });
    return { source: record, bytes: RECORD };
  });

  testByteSource(`a record in a JoinedSource of ${kind}`, async () => {
    const record = await secondRecord(make(await fileOf({ compression: "none" })), { streaming: true });
    const parts = [new MemorySource(RECORD.subarray(0, 9)), record.slice(5, 200_000), record.slice(0, 90_000)];
    const bytes = concatBytes([RECORD.subarray(0, 9), RECORD.subarray(5, 200_005), RECORD.subarray(0, 90_000)]);
    return { source: joinSources("joined", parts), bytes };
  });
}

async function secondRecord(file: ByteSource, options: RecordOptions): Promise<ByteSource> {
  const reader = await RecordReader.open(file);
  const records: ByteSource[] = [];
  for await (const record of reader.records(options)) records.push(record);
  return records[1]!;
}

for (const options of [
  { compression: "none" },
  { compression: "zstd" },
  { compression: "snappy" },
  { compression: "brotli", level: 1 },
] as const) {
  testByteSource(`a record compressed with ${options.compression}`, async () => {
    return { source: await secondRecord(new PlainSource(await fileOf(options)), {}), bytes: RECORD };
  });
}
