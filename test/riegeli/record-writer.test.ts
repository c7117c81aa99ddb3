import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type ByteSink, concatBytes, MemorySink } from "../../src/bytes/byte-sink.js";
import type { ByteSource } from "../../src/bytes/byte-source.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { RepeatedSource } from "../../src/bytes/repeated-source.js";
import { compressionOf } from "../../src/riegeli/chunk-facts.js";
import { CHUNK_TYPES } from "../../src/riegeli/chunk-header.js";
import { RecordReader } from "../../src/riegeli/record-reader.js";
import { type RecordPlacement, RecordWriter, type RecordWriterOptions } from "../../src/riegeli/record-writer.js";
import { expectBytes, sha256 } from "../support/bytes.js";
import { fixtureSource, readExpected, readFixture } from "../support/fixtures.js";

async function write(
  records: readonly (Uint8Array | ByteSource)[],
  options: RecordWriterOptions = {},
  placement: RecordPlacement = {},
  sink: ByteSink & { bytes: Uint8Array } = new MemorySink("written"),
): Promise<{ bytes: Uint8Array; positions: number[] }> {
  const writer = new RecordWriter(sink, options);
  for (const record of records) await writer.write(record, placement);
  await writer.finish();
  return { bytes: new Uint8Array(sink.bytes), positions: writer.positions };
}

async function readAll(bytes: Uint8Array): Promise<{ records: Uint8Array[]; positions: number[] }> {
  const reader = await RecordReader.open(new MemorySource(bytes, "written"));
  const records: Uint8Array[] = [];
  const positions: number[] = [];
  for await (const record of reader.records()) {
    records.push(new Uint8Array(await record.read(0, record.size)));
    positions.push(record.position);
  }
  return { records, positions };
}

/** A sink that cannot go back, like a pipe or an object store. */
function appendOnly(): MemorySink {
  return Object.defineProperty(new MemorySink("written"), "patch", { value: undefined });
}

const record = fc.oneof(
  fc.uint8Array({ maxLength: 40 }),
  fc.constant(new Uint8Array(0)),
  fc.integer({ min: 60_000, max: 140_000 }).map((length) => new Uint8Array(length).fill(length & 255)),
);

describe("RecordWriter", () => {
  it("writes what the reader gives back, with the positions it said, under any options", async () => {
    const options = fc.record({
      compression: fc.constantFrom("none", "brotli", "zstd", "snappy", "auto"),
      chunkSize: fc.constantFrom(1, 100, 4096, 1_000_000),
      padToBlockBoundary: fc.boolean(),
      parallelism: fc.integer({ min: 1, max: 4 }),
      transpose: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(record, { maxLength: 12 }), options, fc.boolean(), async (records, chosen, alone) => {
        const written = await write(records, chosen as RecordWriterOptions, { alone });
        const read = await readAll(written.bytes);
        expect(read.records.map(sha256)).toEqual(records.map(sha256));
        expect(read.positions).toEqual(written.positions);
        if (chosen.padToBlockBoundary) expect(written.bytes.length % 65_536).toBe(0);
      }),
      { numRuns: 150 },
    );
  });

  it("streams large records, uncompressed and compressed, to sinks that can and cannot go back", async () => {
    const big = [randomBytes(700_001), new Uint8Array(5_000_000).fill(3)].map(
      (bytes) => new MemorySource(new Uint8Array(bytes)),
    );
    for (const compression of ["none", "brotli", "snappy", "zstd", "auto"] as const) {
      for (const sink of [new MemorySink("a"), appendOnly()]) {
        const { bytes } = await write(
          [new Uint8Array(10), ...big, new Uint8Array(10)],
          { compression },
          { alone: true },
          sink,
        );
        const { records } = await readAll(bytes);
        expect(records.length).toBe(4);
        expectBytes(records[1]!, big[0]!.bytes);
        expectBytes(records[2]!, big[1]!.bytes);
      }
    }
  });

  it("writes the same bytes to a sink that cannot go back", async () => {
    const records = [new Uint8Array(10), new MemorySource(new Uint8Array(300_000).fill(1)), new Uint8Array(9)];
    const options = { compression: "none" } as const;
    const one = await write(records, options, { alone: true });
    const other = await write(records, options, { alone: true }, appendOnly());
    expectBytes(other.bytes, one.bytes);
  });

  it("streams a compressed record that is too large for memory", async () => {
    const zeros = new RepeatedSource("zeros", new Uint8Array(1), 80_000_000);
    const { bytes } = await write([zeros], { compression: "auto" });
    expect(bytes.length).toBeLessThan(10_000);
    const reader = await RecordReader.open(new MemorySource(bytes));
    const last = await reader.lastRecord();
    expect(last?.size).toBe(zeros.size);
    expectBytes((await last!.read(zeros.size - 9, 9)).slice(), new Uint8Array(9));
    await reader.close();
  });

  it("leaves what does not compress as it is, and compresses what does, chunk by chunk", async () => {
    const { bytes } = await write(
      [new Uint8Array(randomBytes(100_000)), new Uint8Array(100_000)],
      { compression: "auto" },
      { alone: true },
    );
    const source = new MemorySource(bytes);
    const reader = await RecordReader.open(source);
    const kinds: (string | undefined)[] = [];
    for await (const chunk of reader.chunks()) kinds.push(await compressionOf(source, chunk));
    expect(kinds).toEqual([undefined, "none", "brotli"]);
  });

  it("closes a chunk as Riegeli does: the files of the reference writer come out chunk for chunk", async () => {
    interface Expected {
      chunks: { begin: number; num_records: number; type: string }[];
      made_with: string;
    }
    const { files } = readExpected<{ files: Record<string, Expected> }>("riegeli/expected.json");
    const name = "simple_none_multiblock.riegeli";
    const reader = await RecordReader.open(fixtureSource(`riegeli/${name}`));
    const groups: Uint8Array[][] = [];
    for await (const chunk of reader.chunks()) {
      const group: Uint8Array[] = [];
      for await (const one of reader.recordsIn(chunk)) group.push(new Uint8Array(await one.read(0, one.size)));
      if (group.length > 0) groups.push(group);
    }
    // The reference groups its records itself; with the same groups every byte is the same.
    const sink = new MemorySink();
    const writer = new RecordWriter(sink, { compression: "none", chunkSize: 2 ** 30 });
    for (const group of groups) {
      for (const one of group) await writer.write(one);
      await writer.flush();
    }
    await writer.finish();
    expect(files[name]).toBeDefined();
    expectBytes(new Uint8Array(sink.bytes), readFixture(`riegeli/${name}`));
  });

  it("writes a file that begins with the 64 bytes of every Riegeli file, even without records", async () => {
    const { bytes } = await write([]);
    expectBytes(bytes, readFixture("riegeli/signature_only.riegeli"));
  });

  it("writes transposed chunks on request", async () => {
    const { bytes } = await write([Uint8Array.of(8, 1), Uint8Array.of(8, 2)], { transpose: true });
    const reader = await RecordReader.open(new MemorySource(bytes));
    const types: number[] = [];
    for await (const chunk of reader.chunks()) types.push(chunk.type);
    expect(types).toEqual([CHUNK_TYPES.signature, CHUNK_TYPES.transposed]);
  });

  it("gives the failure of a compression to whoever writes on, and does not hang", async () => {
    const failing = new MemorySink();
    failing.write = async () => {
      throw new Error("disk is gone");
    };
    await expect(write([new Uint8Array(10)], {}, {}, failing)).rejects.toThrow("disk is gone");
    const large = new MemorySource(new Uint8Array(6_000_000));
    await expect(write([large], { compression: "none" }, { alone: true }, failing)).rejects.toThrow("disk is gone");
  });

  it("reports the bytes of records as they are written", async () => {
    let count = 0;
    const records = [new Uint8Array(100), new MemorySource(new Uint8Array(500_000))];
    await write(records, {}, { alone: true, onBytes: (bytes) => (count += bytes) } as RecordPlacement);
    expect(count).toBe(500_100);
  });
});

describe("a written file", () => {
  it("can be concatenated with another when it is padded to the block boundary", async () => {
    const one = await write([Uint8Array.of(1)], { padToBlockBoundary: true });
    const two = await write([Uint8Array.of(2)]);
    // The block headers hold distances only, so a file may stand anywhere on the block grid.
    const { records } = await readAll(concatBytes([one.bytes, two.bytes]));
    expect(records.map((bytes) => bytes[0])).toEqual([1, 2]);
  });
});
