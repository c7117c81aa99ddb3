import { brotliCompressSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { concatBytes } from "../../src/bytes/byte-sink.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { hash64 } from "../../src/codecs/hasher.js";
import { encodeVarint, encodeVarint64 } from "../../src/codecs/varint.js";
import { CairnError } from "../../src/errors.js";
import { BLOCK_HEADER_BYTES, encodeBlockHeader, RIEGELI_HASH_KEY } from "../../src/riegeli/blocks.js";
import { CHUNK_TYPES } from "../../src/riegeli/chunk-header.js";
import { RecordReader } from "../../src/riegeli/record-reader.js";
import { readFixture } from "../support/fixtures.js";

interface Hostile {
  readonly data: Uint8Array;
  readonly type?: number;
  readonly recordCount?: bigint;
  readonly decodedDataSize?: bigint;
  /** What the header says instead of the length of the data. */
  readonly dataSize?: bigint;
}

/** A Riegeli file with one chunk that says what it likes, all hashes right. */
function fileWith({
  data,
  type = CHUNK_TYPES.simple,
  recordCount = 1n,
  decodedDataSize = 0n,
  dataSize,
}: Hostile): MemorySource {
  const header = new Uint8Array(40);
  const view = new DataView(header.buffer);
  view.setBigUint64(8, dataSize ?? BigInt(data.length), true);
  view.setBigUint64(16, hash64(RIEGELI_HASH_KEY, data), true);
  view.setBigUint64(24, BigInt(type) | (recordCount << 8n), true);
  view.setBigUint64(32, decodedDataSize, true);
  view.setBigUint64(0, hash64(RIEGELI_HASH_KEY, header.subarray(8)), true);
  return new MemorySource(concatBytes([readFixture("riegeli/signature_only.riegeli"), header, data]), "hostile");
}

async function readAll(source: MemorySource): Promise<number> {
  const reader = await RecordReader.open(source);
  let bytes = 0;
  for await (const record of reader.records()) bytes += (await record.read(0, record.size)).length;
  return bytes;
}

/** A simple chunk's data from its parts, uncompressed unless said. */
function simple(sizes: readonly bigint[], values: Uint8Array): Uint8Array {
  const packed = concatBytes([new Uint8Array(0), ...sizes.map(encodeVarint64)]);
  return concatBytes([Uint8Array.of(0), encodeVarint(packed.length), packed, values]);
}

const MADE: [trick: string, code: string, file: () => MemorySource][] = [
  [
    "a record of 2^60 bytes",
    "limit",
    () => fileWith({ data: simple([2n ** 60n], new Uint8Array(4)), decodedDataSize: 2n ** 60n }),
  ],
  [
    "a size varint of 2^63",
    "chunk-contents",
    () => fileWith({ data: simple([2n ** 63n], new Uint8Array(4)), decodedDataSize: 4n }),
  ],
  [
    "2^55 records",
    "truncated",
    () => fileWith({ data: simple([1n], new Uint8Array(1)), recordCount: 2n ** 50n, decodedDataSize: 1n }),
  ],
  ["data of 2^62 bytes", "limit", () => fileWith({ data: new Uint8Array(9), dataSize: 2n ** 62n })],
  ["data of 2^50 bytes", "truncated", () => fileWith({ data: new Uint8Array(9), dataSize: 2n ** 50n })],
  [
    "sizes that overflow to the right sum",
    "chunk-contents",
    () => fileWith({ data: simple([2n ** 53n, 4n], new Uint8Array(4)), recordCount: 2n, decodedDataSize: 4n }),
  ],
  [
    "sizes longer than the data",
    "chunk-contents",
    () => fileWith({ data: concatBytes([Uint8Array.of(0), encodeVarint(1000)]), decodedDataSize: 0n }),
  ],
  ["a chunk without any data", "chunk-contents", () => fileWith({ data: new Uint8Array(0) })],
  ["an endless varint", "chunk-contents", () => fileWith({ data: Uint8Array.from([0, ...new Array(20).fill(0xff)]) })],
  ["an unknown compression", "unsupported-compression", () => fileWith({ data: Uint8Array.of(0x58, 1, 0) })],
  [
    "transposed data of one byte",
    "chunk-contents",
    () => fileWith({ data: Uint8Array.of(0), type: CHUNK_TYPES.transposed }),
  ],
  [
    "transposed data that announces 2^40 bytes",
    "limit",
    () => fileWith({ data: Uint8Array.of(0, 1, 0), type: CHUNK_TYPES.transposed, decodedDataSize: 2n ** 40n }),
  ],
];

describe("a hostile Riegeli file", () => {
  it.each(MADE)("with %s is refused", async (_, code, file) => {
    const error = await readAll(file()).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(CairnError);
    expect(error).toMatchObject({ code, file: "hostile" });
  });

  it("that is a decompression bomb is refused before it takes memory", async () => {
    // 2 MB of zeros that say they are 2^45 bytes.
    const stream = brotliCompressSync(new Uint8Array(2_000_000));
    const sizes = brotliCompressSync(encodeVarint(2 ** 45));
    const part = (announced: number, bytes: Uint8Array) => concatBytes([encodeVarint(announced), bytes]);
    const sizesPart = part(encodeVarint(2 ** 45).length, sizes);
    const data = concatBytes([Uint8Array.of(0x62), encodeVarint(sizesPart.length), sizesPart, part(2 ** 45, stream)]);
    const before = process.memoryUsage().rss;
    await expect(readAll(fileWith({ data, decodedDataSize: 2n ** 45n }))).rejects.toMatchObject({ code: "limit" });
    expect(process.memoryUsage().rss - before).toBeLessThan(100e6);
  });

  it("whose block headers send the reader back and forth comes to an end", async () => {
    // A block header that names a chunk begin far behind, in a block of zeros.
    const bytes = new Uint8Array(65_536 * 3);
    bytes.set(readFixture("riegeli/signature_only.riegeli"));
    for (const block of [1, 2]) {
      const header = bytes.subarray(block * 65_536, block * 65_536 + BLOCK_HEADER_BYTES);
      encodeBlockHeader({ previousChunk: block * 65_536 - 64, nextChunk: 65_536 }, header);
    }
    const reader = await RecordReader.open(new MemorySource(bytes, "hostile"));
    await expect(reader.lastRecord()).rejects.toMatchObject({ code: "chunk-header" });
    await expect(reader.record(140_000)).rejects.toBeInstanceOf(CairnError);
  });
});
