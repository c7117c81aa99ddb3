import { describe, expect, it } from "vitest";
import { type ByteSink, concatBytes, MemorySink } from "../../src/bytes/byte-sink.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { memoryScratch } from "../../src/bytes/memory-store.js";
import { hash64 } from "../../src/codecs/hasher.js";
import { encodeVarint } from "../../src/codecs/varint.js";
import { StorageError } from "../../src/errors.js";
import { RIEGELI_HASH_KEY } from "../../src/riegeli/blocks.js";
import { CHUNK_TYPES, type ChunkHeader, encodeChunkHeader } from "../../src/riegeli/chunk-header.js";
import { ChunkSink } from "../../src/riegeli/chunk-sink.js";
import { RecordReader } from "../../src/riegeli/record-reader.js";
import { RecordWriter, type RecordWriterOptions } from "../../src/riegeli/record-writer.js";
import { recoverRecords } from "../../src/riegeli/recovery.js";
import { encodeSimpleChunk } from "../../src/riegeli/simple-chunk.js";
import { expectBytes } from "../support/bytes.js";
import { readFixture } from "../support/fixtures.js";
import { randomBytes } from "../support/odd-sources.js";

const BLOCK = 65_536;

async function write(records: readonly Uint8Array[], options: RecordWriterOptions): Promise<Uint8Array> {
  const sink = new MemorySink("written");
  const writer = new RecordWriter(sink, options);
  for (const record of records) await writer.write(record);
  await writer.finish();
  return sink.bytes;
}

/** A signature and one chunk with any header, its hashes right, laid out in blocks. */
async function fileWith(header: Omit<ChunkHeader, "dataHash" | "dataSize">, data: Uint8Array): Promise<MemorySource> {
  const sink = new MemorySink("made");
  await sink.write(readFixture("riegeli/signature_only.riegeli"));
  const size = 40 + data.length;
  const end = 64 + size + 24 * Math.floor((63 + size) / (BLOCK - 24));
  const chunk = new ChunkSink(sink, 64, end);
  const hashed = { ...header, dataSize: data.length, dataHash: hash64(RIEGELI_HASH_KEY, data) };
  await chunk.write([encodeChunkHeader(hashed), data]);
  return new MemorySource(sink.bytes, "made");
}

describe("padding to a block", () => {
  it("ends at a block boundary from wherever the records end, so that files can be joined", async () => {
    const whole = await write([randomBytes(40)], { compression: "none", padToBlockBoundary: true });
    for (const missing of [0, 1, 20, 39, 40, 41, 42, 43, 44, 45, 60, 64, 80, 100]) {
      const record = randomBytes(BLOCK - 64 - 40 - 5 - missing, missing);
      const bytes = await write([record], { compression: "none", padToBlockBoundary: true });
      expect(bytes.length % BLOCK).toBe(0);
      const reader = await RecordReader.open(new MemorySource(concatBytes([bytes, whole])));
      const sizes = [];
      for await (const one of reader.records()) sizes.push(one.size);
      expect(sizes).toEqual([record.length, 40]);
    }
  });
});

describe("a chunk of records", () => {
  it("is closed when the next record does not fit, each counted with 8 bytes more, as in Riegeli", async () => {
    const records = Array.from({ length: 11 }, () => new Uint8Array(12));
    const reader = await RecordReader.open(
      new MemorySource(await write(records, { compression: "none", chunkSize: 100 })),
    );
    const counts = [];
    for await (const { recordCount } of reader.chunks()) counts.push(recordCount);
    expect(counts).toEqual([0, 5, 5, 1]);
  });

  it("is refused when bytes stand behind its sizes", async () => {
    const [type, size, ...parts] = await encodeSimpleChunk([Uint8Array.of(7)], "none");
    expect([type, size]).toEqual([Uint8Array.of(0), Uint8Array.of(1)]);
    const data = concatBytes([Uint8Array.of(0), Uint8Array.of(2), Uint8Array.of(1, 0), parts.at(-1)!]);
    const file = await fileWith({ type: CHUNK_TYPES.simple, recordCount: 1, decodedDataSize: 1 }, data);
    const reader = await RecordReader.open(file);
    await expect(reader.record(64)).resolves.toMatchObject({ size: 1 });
    const record = await reader.record(64);
    await expect(record.read(0, 1)).rejects.toMatchObject({ code: "chunk-contents", file: "made", offset: 64 });
  });

  it("that is large and damaged is told by its hash, not by the nonsense that the damage makes of it", async () => {
    const bytes = await write([randomBytes(2_000_000)], { compression: "none" });
    // The size of the only record, in the first bytes of the data.
    bytes[64 + 40 + 2]! ^= 0x11;
    const reader = await RecordReader.open(new MemorySource(bytes, "damaged"));
    await expect(reader.record(64).then((record) => record.read(0, 1))).rejects.toMatchObject({
      code: "chunk-data",
      file: "damaged",
    });
  });

  it("that decompresses to more than it announces does not fill the disk", async () => {
    const announced = 40_000_000;
    const parts = await encodeSimpleChunk([new Uint8Array(4 * announced)], "brotli", 1);
    const [size] = await encodeSimpleChunk([new Uint8Array(announced)], "brotli", 1).then((all) => [all]);
    // Type, length of the sizes and sizes of the smaller one; then the values of the larger, announced as smaller.
    const data = concatBytes([...size!.slice(0, 4), encodeVarint(announced), parts.at(-1)!]);
    const file = await fileWith({ type: CHUNK_TYPES.simple, recordCount: 1, decodedDataSize: announced }, data);
    let written = 0;
    const scratch = async () => {
      const room = await memoryScratch();
      const { sink } = room;
      const plain = sink.write.bind(sink);
      sink.write = async (bytes) => {
        await plain(bytes);
        written = sink.position;
      };
      return room;
    };
    const reader = await RecordReader.open(file, { scratch });
    const reading = reader.record(64).then((record) => record.read(0, 1));
    await expect(reading).rejects.toMatchObject({ code: "chunk-contents", file: "made" });
    expect(written).toBeLessThanOrEqual(announced);
    expect(written).toBeGreaterThan(announced / 2);
  });
});

describe("a sink that fails late", () => {
  it("fails the writer, also when the last write of a large record is the one", async () => {
    class Failing extends MemorySink {
      override async write(bytes: Uint8Array | readonly Uint8Array[]): Promise<void> {
        await super.write(bytes);
        if (this.position < 4_000_000) return;
        await new Promise((resolve) => setImmediate(resolve));
        throw new StorageError("write-failed", "the disk is full", { file: this.name });
      }
    }
    const sink: ByteSink = new Failing("full");
    const writer = new RecordWriter(sink, { compression: "none" });
    const work = writer.write(new MemorySource(new Uint8Array(5_000_000)), { alone: true }).then(() => writer.finish());
    await expect(work).rejects.toMatchObject({ code: "write-failed", file: "full" });
  });
});

describe("recovery", () => {
  it("goes on at a chunk that begins with a block", async () => {
    const first = await write([randomBytes(100_000)], { compression: "none", padToBlockBoundary: true });
    const second = await write([Uint8Array.of(1, 2, 3)], { compression: "none", padToBlockBoundary: true });
    const third = await write([Uint8Array.of(4)], { compression: "none" });
    const bytes = concatBytes([first, second, third]);
    // The header of the padding chunk, the last of the first file.
    const reader = await RecordReader.open(new MemorySource(bytes));
    const chunks = [];
    for await (const chunk of reader.chunks()) chunks.push(chunk);
    const padding = chunks.find(({ type }) => type === CHUNK_TYPES.padding)!;
    expect(padding.end).toBe(first.length);
    bytes[padding.begin + 10]! ^= 1;
    const found: Uint8Array[] = [];
    const skipped: [number, number][] = [];
    for await (const one of recoverRecords(new MemorySource(bytes))) {
      if (one.kind === "skipped") skipped.push([one.region.begin, one.region.end]);
      else found.push(await one.record.read(0, one.record.size));
    }
    expect(skipped).toEqual([[padding.begin, first.length]]);
    expect(found).toHaveLength(3);
    expectBytes(found[1]!, Uint8Array.of(1, 2, 3));
  });
});
