import { describe, expect, it } from "vitest";
import { MemorySink } from "../../src/bytes/byte-sink.js";
import type { ByteSource } from "../../src/bytes/byte-source.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { hash64 } from "../../src/codecs/hasher.js";
import { CairnError } from "../../src/errors.js";
import { RIEGELI_HASH_KEY } from "../../src/riegeli/blocks.js";
import { ChunkBytes } from "../../src/riegeli/chunk-bytes.js";
import { encodeChunkHeader } from "../../src/riegeli/chunk-header.js";
import { ChunkSink } from "../../src/riegeli/chunk-sink.js";
import { RecordReader } from "../../src/riegeli/record-reader.js";
import { RecordWriter, type RecordWriterOptions } from "../../src/riegeli/record-writer.js";
import { sha256 } from "../support/bytes.js";
import { CountingSource } from "../support/counting-source.js";
import { fixtureSource, readExpected, readFixture } from "../support/fixtures.js";

interface ExpectedRecord {
  position: number;
  size: number;
  sha256: string;
}
interface ExpectedFile {
  record_count: number;
  chunks: {
    begin: number;
    end: number;
    type: string;
    num_records: number;
    data_size: number;
    decoded_data_size: number;
  }[];
  records?: ExpectedRecord[];
  first_position?: number;
  last_position?: number;
}
const expected = readExpected<{
  files: Record<string, ExpectedFile>;
  corrupt: Record<string, { expected_error_class: string }>;
}>("riegeli/expected.json");

async function readAll(source: ByteSource): Promise<ExpectedRecord[]> {
  const reader = await RecordReader.open(source);
  const records: ExpectedRecord[] = [];
  for await (const record of reader.records()) {
    const bytes = await record.read(0, record.size);
    records.push({ position: record.position, size: bytes.length, sha256: sha256(bytes) });
  }
  return records;
}

describe("records of a file that google/riegeli wrote", () => {
  it.each(Object.entries(expected.files))("%s gives the expected records and chunks", async (name, file) => {
    const source = fixtureSource(`riegeli/${name}`);
    const records = await readAll(source);
    expect(records.length).toBe(file.record_count);
    if (file.records !== undefined) expect(records).toEqual(file.records);
    const reader = await RecordReader.open(source);
    const chunks = [];
    for await (const chunk of reader.chunks()) {
      chunks.push({
        begin: chunk.begin,
        end: chunk.end,
        type: String.fromCharCode(chunk.type),
        num_records: chunk.recordCount,
        data_size: chunk.dataSize,
        decoded_data_size: chunk.decodedDataSize,
      });
    }
    const wanted = file.chunks.map(({ begin, end, type, num_records, data_size, decoded_data_size }) => {
      return { begin, end, type, num_records, data_size, decoded_data_size };
    });
    expect(chunks).toEqual(wanted);
  });

  it.each(Object.entries(expected.files).filter(([, file]) => (file.record_count ?? 0) > 0))(
    "%s gives each record by its position, and the last one",
    async (name, file) => {
      const reader = await RecordReader.open(fixtureSource(`riegeli/${name}`));
      const records = file.records ?? [];
      const step = Math.max(1, Math.floor(records.length / 40));
      for (let i = 0; i < records.length; i += step) {
        const wanted = records[i] as ExpectedRecord;
        const record = await reader.record(wanted.position);
        expect(record.position).toBe(wanted.position);
        expect(sha256(await record.read(0, record.size))).toBe(wanted.sha256);
      }
      const last = await reader.lastRecord();
      expect(last).toBeDefined();
      if (records.length > 0) expect(last?.position).toBe(records.at(-1)?.position);
    },
  );
});

// The error classes of expected.json, and the code that stands for each here.
const CODE_OF: [RegExp, string][] = [
  [/block header hash/, "block-header"],
  [/chunk header hash/, "chunk-header"],
  [/chunk data hash/, "chunk-data"],
  [/^truncated/, "truncated"],
  [/missing file signature|not a riegeli file/, "missing-signature"],
  [/unknown chunk type/, "unsupported-chunk-type"],
  [/invalid file signature chunk|invalid simple chunk|invalid transposed chunk/, "chunk-contents"],
  [/unknown compression type/, "unsupported-compression"],
  [/decompression: size \/ limit/, "limit"],
  [/^decompression/, "decompression"],
];

describe("damaged files", () => {
  it.each(Object.entries(expected.corrupt))("%s is reported for what it is", async (name, { expected_error_class }) => {
    const source = fixtureSource(`riegeli/${name}`);
    if (expected_error_class.startsWith("none")) {
      expect((await readAll(source)).length).toBeGreaterThan(0);
      return;
    }
    const code = CODE_OF.find(([pattern]) => pattern.test(expected_error_class))?.[1];
    const error = await readAll(source).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(CairnError);
    expect(error).toMatchObject({ code, file: source.name, offset: expect.any(Number) });
  });
});

describe("RecordReader", () => {
  it("takes a position behind the records of a chunk for the next record", async () => {
    const reader = await RecordReader.open(fixtureSource("riegeli/simple_none_multiblock.riegeli"));
    const chunks = [];
    for await (const chunk of reader.chunks()) chunks.push(chunk);
    const [, first, second] = chunks;
    const record = await reader.record((first?.begin ?? 0) + (first?.recordCount ?? 0) + 3);
    expect(record.position).toBe(second?.begin);
  });

  it("says so when no record is at or after the position", async () => {
    const source = fixtureSource("riegeli/simple_none_multiblock.riegeli");
    const reader = await RecordReader.open(source);
    await expect(reader.record(source.size - 1)).rejects.toMatchObject({ code: "no-such-record" });
    await expect(reader.record(source.size + 100)).rejects.toMatchObject({ code: "no-such-record" });
  });

  it("has no last record in a file without records", async () => {
    const reader = await RecordReader.open(fixtureSource("riegeli/signature_only.riegeli"));
    expect(await reader.lastRecord()).toBeUndefined();
  });

  it("finds one record of a file of many blocks in a few small reads", async () => {
    const counting = new CountingSource(fixtureSource("riegeli/simple_none_multiblock.riegeli"));
    const reader = await RecordReader.open(counting);
    const records = expected.files["simple_none_multiblock.riegeli"]?.records ?? [];
    counting.reset();
    await reader.record((records[100] as ExpectedRecord).position);
    expect(counting.reads).toBeLessThanOrEqual(6);
    expect(counting.bytes).toBeLessThan(40_000);
  });

  it("gives a record from a damaged file when the damage is elsewhere", async () => {
    const reader = await RecordReader.open(fixtureSource("riegeli/bad_chunk_data.riegeli"));
    const good = expected.files["simple_none_multiblock.riegeli"]?.records?.at(-1) as ExpectedRecord;
    const record = await reader.record(good.position);
    expect(sha256(await record.read(0, record.size))).toBe(good.sha256);
  });
});

describe("every damaged byte and every cut", () => {
  it.each(["simple_snappy_proto.riegeli", "straddle_24.riegeli", "padding_signature_unknown_between.riegeli"])(
    "%s: a flipped byte gives the same records or a typed error",
    async (name) => {
      const original = readFixture(`riegeli/${name}`);
      const wanted = JSON.stringify(await readAll(new MemorySource(original, name)));
      const step = Math.max(1, Math.floor(original.length / 3000));
      let undetected = 0;
      for (let at = 0; at < original.length; at += step) {
        const bytes = original.slice();
        bytes[at] = (bytes[at] as number) ^ (1 << (at % 8));
        const got = await readAll(new MemorySource(bytes, name)).catch((error: unknown) => {
          expect(error).toBeInstanceOf(CairnError);
          expect((error as CairnError).file).toBe(name);
          return undefined;
        });
        if (got !== undefined) {
          undetected++;
          expect(JSON.stringify(got)).toBe(wanted);
        }
      }
      expect(undetected).toBe(0);
    },
  );

  it("a cut file gives a typed error, or fewer records when it is cut between chunks", async () => {
    const name = "simple_zstd_multiblock.riegeli";
    const original = readFixture(`riegeli/${name}`);
    const wanted = await readAll(new MemorySource(original, name));
    for (let length = 0; length < original.length; length += 97) {
      const got = await readAll(new MemorySource(original.subarray(0, length), name)).catch((error: unknown) => {
        expect(error).toBeInstanceOf(CairnError);
        return undefined;
      });
      if (got !== undefined) expect(wanted.slice(0, got.length)).toEqual(got);
    }
  });
});

describe("a reader whose file cannot be read for a while", () => {
  class FailingSource extends MemorySource {
    fails = false;
    override async readPieces(offset: number, length: number): Promise<readonly Uint8Array[]> {
      return [await this.read(offset, length)];
    }
    override async read(offset: number, length: number): Promise<Uint8Array> {
      if (this.fails) throw new CairnError("read-failed", "no route to the file", { file: this.name });
      return super.read(offset, length);
    }
  }

  it("reads chunk headers and records when they can be read again", async () => {
    const source = new FailingSource(readFixture("riegeli/simple_snappy_proto.riegeli"));
    const reader = await RecordReader.open(source);
    const position = expected.files["simple_snappy_proto.riegeli"]!.records![0]!.position;
    source.fails = true;
    await expect(reader.chunkAt(position)).rejects.toMatchObject({ code: "read-failed" });
    source.fails = false;
    const chunk = await reader.chunkAt(position);
    source.fails = true;
    await expect(reader.decoded(chunk, {})).rejects.toMatchObject({ code: "read-failed" });
    source.fails = false;
    const [one, other] = await Promise.all([reader.decoded(chunk, {}), reader.decoded(chunk, { streaming: true })]);
    expect(one).toBe(other);
    expect(await reader.record(position).then((record) => record.size)).toBe(
      expected.files["simple_snappy_proto.riegeli"]!.records![0]!.size,
    );
  });
});

describe("a reader of many chunks", () => {
  async function fileOf(records: readonly Uint8Array[], options: RecordWriterOptions) {
    const sink = new MemorySink("many");
    const writer = new RecordWriter(sink, options);
    for (const record of records) await writer.write(record);
    await writer.finish();
    return { bytes: sink.bytes, positions: writer.positions };
  }

  it("takes a position behind the last record of a chunk for the first record after it", async () => {
    const records = Array.from({ length: 10 }, (_, i) => new Uint8Array(1000).fill(i));
    const { bytes, positions } = await fileOf(records, { compression: "none", chunkSize: 3100 });
    const reader = await RecordReader.open(new MemorySource(bytes));
    const first = await reader.record(positions[0]!);
    const { begin, recordCount } = first.chunk;
    expect(recordCount).toBeGreaterThan(1);
    for (const position of [begin + recordCount, begin + recordCount + 500]) {
      const next = await reader.record(position);
      expect(next.position).toBe(positions[recordCount]);
      expect((await next.read(0, 1))[0]).toBe(recordCount);
    }
    await expect(reader.record(positions.at(-1)! + 100)).rejects.toMatchObject({ code: "no-such-record" });
  });

  it("forgets decoded chunks that were used long ago, so that memory stays bounded", async () => {
    const records = Array.from({ length: 40 }, (_, i) => new Uint8Array(1_000_000).fill(i));
    const { bytes, positions } = await fileOf(records, { compression: "snappy", chunkSize: 1 });
    const counting = new CountingSource(new MemorySource(bytes));
    const reader = await RecordReader.open(counting);
    const readsFor = async (index: number) => {
      const before = counting.bytes;
      const record = await reader.record(positions[index]!);
      expect((await record.read(500, 1))[0]).toBe(index);
      return counting.bytes - before;
    };
    for (let i = 0; i < 40; i++) expect(await readsFor(i)).toBeGreaterThan(10_000);
    expect(await readsFor(39)).toBeLessThan(1000);
    expect(await readsFor(0)).toBeGreaterThan(10_000);
  });

  it("checks a large record before it is given out, though it was streamed before", async () => {
    const { bytes, positions } = await fileOf([new Uint8Array(2_000_000)], { compression: "none" });
    bytes[bytes.length - 100]! ^= 1;
    const reader = await RecordReader.open(new MemorySource(bytes));
    const streamed = await reader.record(positions[0]!, { streaming: true });
    expect((await streamed.read(0, 10)).length).toBe(10);
    const strict = await reader.record(positions[0]!);
    await expect(strict.read(0, 10)).rejects.toMatchObject({ code: "chunk-data", file: "memory" });
    await expect(streamed.read(0, 2_000_000)).rejects.toMatchObject({ code: "chunk-data" });
    await expect(reader.verifyRecord(streamed)).rejects.toMatchObject({ code: "chunk-data" });
  });

  it("checks the block header before the first byte of what is read, too", async () => {
    const { bytes, positions } = await fileOf([new Uint8Array(200_000)], { compression: "none" });
    bytes[65_536]! ^= 1;
    const reader = await RecordReader.open(new MemorySource(bytes));
    const chunk = await reader.chunkAt(positions[0]!);
    const data = new ChunkBytes(new MemorySource(bytes), chunk);
    // The first byte behind the header of the block at 65,536.
    const behind = 65_536 - chunk.begin - 40;
    expect(data.fileOffset(behind)).toBe(65_536 + 24);
    await expect(data.read(behind, 10)).rejects.toMatchObject({ code: "block-header", offset: 65_536 });
    expect((await data.read(behind + 1, 10)).length).toBe(10);
  });

  it("refuses a file signature that holds data", async () => {
    const sink = new MemorySink("odd");
    const header = { type: 0x73, dataSize: 3, recordCount: 0, decodedDataSize: 0 };
    const data = Uint8Array.of(1, 2, 3);
    const chunk = new ChunkSink(sink, 0, 24 + 40 + 3);
    await chunk.write([encodeChunkHeader({ ...header, dataHash: hash64(RIEGELI_HASH_KEY, data) }), data]);
    await expect(RecordReader.open(new MemorySource(sink.bytes, "odd"))).rejects.toMatchObject({
      code: "chunk-contents",
      file: "odd",
    });
  });
});
