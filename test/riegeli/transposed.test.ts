import { readdirSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { concatBytes, totalLength } from "../../src/bytes/byte-sink.js";
import type { CompressionType } from "../../src/codecs/compression.js";
import { encodeVarint } from "../../src/codecs/varint.js";
import { CairnError, CorruptionError, isCairnError, LimitError, UnsupportedError } from "../../src/errors.js";
import {
  MAX_IN_MEMORY_BYTES,
  MAX_RECORDS_PER_CHUNK,
  MAX_TRANSPOSED_BYTES,
  MAX_TRANSPOSED_NODES,
} from "../../src/limits.js";
import { type DecodedRecords, decodeTransposedChunk } from "../../src/riegeli/transposed/decoder.js";
import { encodeTransposedChunk } from "../../src/riegeli/transposed/encoder.js";
import { expectBytes, sha256 } from "../support/bytes.js";
import { fixturePath, readExpected, readFixture } from "../support/fixtures.js";

const TYPES: CompressionType[] = ["none", "brotli", "zstd", "snappy"];
const PLACE = { file: "test.riegeli", offset: 64 };
const TRANSPOSED = 0x74;

interface StoredChunk {
  type: number;
  begin: number;
  recordCount: number;
  decodedDataSize: number;
  data: Uint8Array;
}

/** The chunks of a file that is known to be good, block headers taken out. */
function chunksOf(file: Uint8Array): StoredChunk[] {
  const chunks: StoredChunk[] = [];
  let at = 0;
  const take = (count: number): Uint8Array => {
    const bytes = new Uint8Array(count);
    for (let i = 0; i < count; i++) {
      if (at % 65_536 === 0) at += 24;
      bytes[i] = file[at++]!;
    }
    return bytes;
  };
  while (at < file.length) {
    const begin = at;
    const header = new DataView(take(40).buffer);
    chunks.push({
      type: header.getUint8(24),
      begin,
      recordCount: Number(header.getBigUint64(24, true) >> 8n),
      decodedDataSize: Number(header.getBigUint64(32, true)),
      data: take(Number(header.getBigUint64(8, true))),
    });
    at = Math.max(at, begin + chunks.at(-1)!.recordCount);
  }
  return chunks;
}

function split({ values, ends }: DecodedRecords): Uint8Array[] {
  return Array.from(ends, (end, i) => values.subarray(i === 0 ? 0 : ends[i - 1], end));
}

function expectedOf(records: readonly Uint8Array[]): { recordCount: number; decodedDataSize: number } {
  return { recordCount: records.length, decodedDataSize: totalLength(records) };
}

async function encode(
  records: readonly Uint8Array[],
  options: Parameters<typeof encodeTransposedChunk>[1],
): Promise<Uint8Array> {
  return concatBytes(await encodeTransposedChunk(records, options));
}

async function expectRoundTrip(
  records: readonly Uint8Array[],
  options: Parameters<typeof encodeTransposedChunk>[1],
): Promise<Uint8Array> {
  const data = await encode(records, options);
  const decoded = split(await decodeTransposedChunk(data, expectedOf(records), PLACE));
  expect(decoded.length).toBe(records.length);
  for (const [i, record] of records.entries()) expectBytes(decoded[i]!, record);
  return data;
}

const fixtures = readdirSync(fixturePath("riegeli")).filter((name) => name.startsWith("transposed_"));
const manifest = readExpected<{
  files: Record<string, { records: { sha256: string }[] }>;
  corrupt: Record<string, unknown>;
}>("riegeli/expected.json");

describe("chunks that google/riegeli wrote", () => {
  it.each(fixtures.filter((name) => name in manifest.files))("%s gives the records that were written", async (name) => {
    const hashes: string[] = [];
    for (const chunk of chunksOf(readFixture(`riegeli/${name}`))) {
      if (chunk.type !== TRANSPOSED) continue;
      const decoded = await decodeTransposedChunk(chunk.data, chunk, { file: name, offset: chunk.begin });
      expect(decoded.values.length).toBe(chunk.decodedDataSize);
      hashes.push(...split(decoded).map(sha256));
    }
    expect(hashes).toEqual(manifest.files[name]!.records.map((record) => record.sha256));
  });

  it.each(fixtures.filter((name) => name in manifest.corrupt))("%s is corrupt", async (name) => {
    const chunk = chunksOf(readFixture(`riegeli/${name}`)).find(({ type }) => type === TRANSPOSED)!;
    const decoding = decodeTransposedChunk(chunk.data, chunk, { file: name, offset: chunk.begin });
    await expect(decoding).rejects.toBeInstanceOf(CorruptionError);
    await expect(decoding).rejects.toMatchObject({ code: "chunk-contents", file: name, offset: 64 });
  });

  it.each(["none", "brotli", "zstd", "snappy"])("come out no larger from our encoder: %s", async (type) => {
    const name = `riegeli/transposed_${type}_proto.riegeli`;
    const chunk = chunksOf(readFixture(name)).find((one) => one.type === TRANSPOSED)!;
    const records = split(await decodeTransposedChunk(chunk.data, chunk, PLACE));
    // The writer of the fixtures made small buckets.
    const data = await expectRoundTrip(records, { compression: type as CompressionType, bucketBytes: 1024 });
    expect(data.length).toBeLessThan(chunk.data.length * 1.01);
  });
});

const varintBytes = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).chain((value) =>
  // Short ones as often as long ones.
  fc.integer({ min: 0, max: 63 }).map((shift) => {
    const bytes: number[] = [];
    let rest = value >> BigInt(shift);
    for (; rest >= 128n; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
    return Uint8Array.from([...bytes, Number(rest)]);
  }),
);
const fieldNumber = fc.oneof(
  { weight: 8, arbitrary: fc.integer({ min: 1, max: 6 }) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 2 ** 29 - 1 }) },
);

function field(number: number, wireType: number, ...value: Uint8Array[]): Uint8Array {
  return concatBytes([encodeVarint(number * 8 + wireType), ...value]);
}

function lengthDelimited(number: number, value: Uint8Array): Uint8Array {
  return field(number, 2, encodeVarint(value.length), value);
}

/** Messages as protobuf would write them, of any shape. */
const { message } = fc.letrec<{ message: Uint8Array; field: Uint8Array }>((tie) => ({
  message: fc
    .array(tie("field"), { maxLength: 6, depthIdentifier: "message" })
    .map((fields) => concatBytes(fields.length === 0 ? [new Uint8Array(0)] : fields)),
  field: fc.oneof(
    { depthIdentifier: "message", maxDepth: 5 },
    fc.tuple(fieldNumber, varintBytes).map(([number, value]) => field(number, 0, value)),
    fc
      .tuple(fieldNumber, fc.uint8Array({ minLength: 4, maxLength: 4 }))
      .map(([number, value]) => field(number, 5, value)),
    fc
      .tuple(fieldNumber, fc.uint8Array({ minLength: 8, maxLength: 8 }))
      .map(([number, value]) => field(number, 1, value)),
    fc.tuple(fieldNumber, fc.uint8Array({ maxLength: 40 })).map(([number, value]) => lengthDelimited(number, value)),
    fc.tuple(fieldNumber, tie("message")).map(([number, value]) => lengthDelimited(number, value)),
    fc
      .tuple(fieldNumber, tie("message"))
      .map(([number, value]) => concatBytes([field(number, 3), value, field(number, 4)])),
  ),
}));
/** Valid protobuf, but not in its shortest form, so it cannot be taken apart. */
const padded = fc.tuple(message, fc.integer({ min: 0, max: 127 })).map(([start, value]) => {
  return concatBytes([start, field(1, 0, Uint8Array.of(value | 0x80, 0x80, 0))]);
});
const record = fc.oneof(
  { weight: 6, arbitrary: message },
  { weight: 1, arbitrary: padded },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 60 }) },
  { weight: 1, arbitrary: fc.constant(new Uint8Array(0)) },
);

describe.each(TYPES)("encodeTransposedChunk with %s", (compression) => {
  it("gives back any records", async () => {
    const bucketBytes = fc.constantFrom(undefined, 1, 50);
    await fc.assert(
      fc.asyncProperty(fc.array(record, { maxLength: 20 }), bucketBytes, async (records, bytes) => {
        await expectRoundTrip(records, { compression, bucketBytes: bytes });
      }),
      { numRuns: compression === "none" ? 300 : 60 },
    );
  });

  it("gives back records in many forms of the same message", async () => {
    // A few forms in any order and number, so that there are frequent and rare transitions between them.
    const many = fc.array(record, { minLength: 1, maxLength: 5 }).chain((forms) => {
      return fc.array(fc.constantFrom(...forms), { maxLength: 200 });
    });
    await fc.assert(
      fc.asyncProperty(many, async (records) => {
        await expectRoundTrip(records, { compression });
      }),
      { numRuns: 30 },
    );
  });

  it("gives a chunk of no records", async () => {
    await expectRoundTrip([], { compression });
  });
});

/** Numbers that look random and are the same in each run. */
function makeRandom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fff_ffff;
    return (state >>> 8) % below;
  };
}

describe("encodeTransposedChunk", () => {
  it.each([
    ["within one step", 40],
    ["over one level of stepping stones", 500],
    ["over two levels of stepping stones", 6000],
  ])("reaches successors %s", async (_name, fieldCount) => {
    const random = makeRandom(fieldCount);
    const records = Array.from({ length: 2000 }, () =>
      concatBytes(Array.from({ length: 10 }, () => field(1 + random(fieldCount), 0, encodeVarint(random(1000))))),
    );
    await expectRoundTrip(records, { compression: "none" });
  });

  it("reaches frequent and rare successors of a node with very many", async () => {
    const random = makeRandom(3);
    const records = Array.from({ length: 5000 }, (_, i) => {
      const number = i % 20 === 0 ? 2 + random(900) : 2 + random(70) * 7;
      return concatBytes([field(1, 0, encodeVarint(5 + random(50))), lengthDelimited(number, encodeVarint(number))]);
    });
    await expectRoundTrip(records, { compression: "none" });
  });

  it("takes no transition bytes for records that are all alike but the end of each", async () => {
    const records = Array.from({ length: 1000 }, (_, i) =>
      concatBytes([
        field(1, 0, encodeVarint(200 + i)),
        field(2, 5, new Uint8Array(4)),
        lengthDelimited(3, Uint8Array.of(255)),
      ]),
    );
    const data = await expectRoundTrip(records, { compression: "none" });
    // Per record: varint 2, fixed 4, string 2, and a quarter of a transition byte.
    expect(data.length).toBeLessThan(1000 * 8.25 + 60);
  });

  it("takes messages nested over 100 deep as strings, and groups as they are", async () => {
    let nested = field(1, 0, Uint8Array.of(1));
    for (let depth = 0; depth < 300; depth++) nested = lengthDelimited(1, nested);
    const groups = concatBytes([
      ...Array.from({ length: 1000 }, () => field(2, 3)),
      nested,
      ...Array.from({ length: 1000 }, () => field(2, 4)),
    ]);
    await expectRoundTrip([nested, groups, concatBytes([nested, groups])], { compression: "none" });
  });

  it("gives back large values, which it does not copy", async () => {
    const large = new Uint8Array(200_000).map((_, i) => (i * i) >>> 3);
    const small = field(1, 0, encodeVarint(300));
    const records = [
      concatBytes([small, lengthDelimited(2, large), small, lengthDelimited(2, large.subarray(0, 10))]),
      large,
      lengthDelimited(2, large.subarray(5)),
      concatBytes([Uint8Array.of(0), large]),
    ];
    for (const compression of TYPES) await expectRoundTrip(records, { compression });
  });

  it("gives back a value that is too large to be decompressed as a whole", async () => {
    const unit = new Uint8Array(100_000).map((_, i) => (i * i * i) >>> 7);
    const large = new Uint8Array(MAX_IN_MEMORY_BYTES + 1);
    for (let at = 0; at + unit.length <= large.length; at += unit.length) large.set(unit, at);
    const data = await expectRoundTrip([large], { compression: "zstd" });
    await expect(decode(data.subarray(0, -1), 1, large.length)).rejects.toBeInstanceOf(CorruptionError);
  });

  it("refuses records that are too large for a chunk", async () => {
    const half = new Uint8Array(MAX_TRANSPOSED_BYTES / 2);
    await expect(encodeTransposedChunk([half, half, Uint8Array.of(1)], { compression: "none" })).rejects.toMatchObject({
      code: "limit",
    });
  });
});

describe("damage in a chunk", () => {
  const records = [
    concatBytes([field(1, 0, encodeVarint(300)), lengthDelimited(2, field(3, 5, Uint8Array.of(1, 2, 3, 4)))]),
    concatBytes([field(1, 0, encodeVarint(2)), lengthDelimited(2, Uint8Array.of(255, 254)), field(4, 3), field(4, 4)]),
    new Uint8Array(0),
    Uint8Array.of(255, 1, 2),
    concatBytes([field(1, 0, encodeVarint(90)), lengthDelimited(2, field(3, 5, Uint8Array.of(1, 2, 3, 4)))]),
  ];

  async function expectNoOtherError(data: Uint8Array): Promise<void> {
    try {
      const { values, ends } = await decodeTransposedChunk(data, expectedOf(records), PLACE);
      expect(values.length).toBe(totalLength(records));
      expect(ends.at(-1)).toBe(values.length);
    } catch (error) {
      if (!(error instanceof CairnError)) throw error;
      expect(error.file).toBe(PLACE.file);
      expect(error.offset).toBeGreaterThanOrEqual(PLACE.offset);
    }
  }

  it.each(TYPES)("in any bit gives an error of cairn or records of the announced size: %s", async (compression) => {
    const data = await encode(records, { compression });
    for (let i = 0; i < data.length * 8; i++) {
      const damaged = data.slice();
      damaged[i >>> 3]! ^= 1 << (i & 7);
      await expectNoOtherError(damaged);
    }
  });

  it("in any byte, whatever the value, gives an error of cairn or records of the announced size", async () => {
    const data = await encode(records, { compression: "none" });
    for (let i = 0; i < data.length * 256; i++) {
      const damaged = data.slice();
      damaged[i >>> 8] = i & 255;
      await expectNoOtherError(damaged);
    }
  });

  it.each(TYPES)("that cuts it off is an error: %s", async (compression) => {
    const data = await encode(records, { compression });
    for (let length = 0; length < data.length; length++) {
      await expect(decodeTransposedChunk(data.subarray(0, length), expectedOf(records), PLACE)).rejects.toSatisfy(
        (error) => isCairnError(error, "chunk-contents") || isCairnError(error, "decompression"),
      );
    }
  });

  it("in many places at once gives an error of cairn or records of the announced size", async () => {
    const data = await encode(records, { compression: "none" });
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.nat(data.length - 1), fc.nat(255)), { minLength: 2, maxLength: 6 }),
        async (changes) => {
          const damaged = data.slice();
          for (const [at, value] of changes) damaged[at] = value;
          await expectNoOtherError(damaged);
        },
      ),
      { numRuns: 3000 },
    );
  });
});

interface HandmadeNode {
  tag: number;
  next?: number;
  implicit?: boolean;
  subtype?: number;
  buffer?: number;
}
interface HandmadeChunk {
  buckets?: number[][];
  bufferLengths?: number[];
  nodes: HandmadeNode[];
  first?: number;
  transitions?: number[];
  /** More bytes at the end of the header. */
  tail?: number[];
}

const varints = (...values: number[]): number[] => values.flatMap((value) => [...encodeVarint(value)]);

/** The header of a chunk that no writer would make. */
function handmadeHeader({ buckets = [], bufferLengths, nodes, first = 0, tail = [] }: HandmadeChunk): Uint8Array {
  const bucketLengths = buckets.map((bucket) => bucket.length);
  const buffers = bufferLengths ?? bucketLengths;
  return Uint8Array.from([
    ...varints(buckets.length, buffers.length, ...bucketLengths, ...buffers),
    ...varints(nodes.length, ...nodes.map(({ tag }) => tag)),
    ...varints(...nodes.map(({ next = 0, implicit }) => next + (implicit === true ? nodes.length : 0))),
    ...nodes.flatMap(({ subtype }) => (subtype === undefined ? [] : [subtype])),
    ...nodes.flatMap(({ buffer }) => (buffer === undefined ? [] : varints(buffer))),
    ...varints(first),
    ...tail,
  ]);
}

function uncompressed(header: Uint8Array, ...rest: number[][]): Uint8Array {
  return Uint8Array.from([0, ...varints(header.length), ...header, ...rest.flat()]);
}

function handmade(chunk: HandmadeChunk): Uint8Array {
  return uncompressed(handmadeHeader(chunk), ...(chunk.buckets ?? []), chunk.transitions ?? []);
}

const START: HandmadeNode = { tag: 3 };
const INLINE: HandmadeNode = { tag: 8, subtype: 10 };

function decode(data: Uint8Array, recordCount: number, decodedDataSize: number): Promise<DecodedRecords> {
  return decodeTransposedChunk(data, { recordCount, decodedDataSize }, PLACE);
}

describe("decodeTransposedChunk accepts", () => {
  it("inline values up to 127", async () => {
    const data = handmade({ nodes: [{ tag: 8, subtype: 137, next: 1, implicit: true }, START] });
    expectBytes((await decode(data, 1, 2)).values, Uint8Array.of(8, 127));
  });

  it("empty buckets and buffers", async () => {
    const nodes = [{ tag: 13, buffer: 2, next: 1, implicit: true }, START];
    const data = handmade({ buckets: [[], [], [1, 2, 3, 4], []], bufferLengths: [0, 0, 4, 0], nodes });
    expectBytes((await decode(data, 1, 5)).values, Uint8Array.of(13, 1, 2, 3, 4));
  });

  it("string lengths that are not in their shortest form, and puts them as they are", async () => {
    const nodes = [{ tag: 10, buffer: 0, next: 1, implicit: true }, START];
    const data = handmade({ buckets: [[0x82, 0x80, 0, 65, 66]], nodes });
    expectBytes((await decode(data, 1, 6)).values, Uint8Array.of(10, 0x82, 0x80, 0, 65, 66));
  });

  it("a node for non-proto records that shares its buffer with their lengths", async () => {
    const data = handmade({ buckets: [[2, 7, 8]], nodes: [{ tag: 1, buffer: 0 }] });
    expectBytes((await decode(data, 1, 2)).values, Uint8Array.of(7, 8));
  });
});

describe("decodeTransposedChunk refuses", () => {
  const cases: [string, Uint8Array, number, number][] = [
    ["no data", new Uint8Array(0), 0, 0],
    ["a header longer than the chunk", Uint8Array.from([0, ...varints(2 ** 50), 0, 0]), 0, 0],
    ["a number over 2^53", Uint8Array.from([0, ...Array<number>(9).fill(255), 1]), 0, 0],
    ["an empty header", uncompressed(new Uint8Array(0)), 0, 0],
    ["2^40 buckets", uncompressed(Uint8Array.from(varints(2 ** 40, 0, 0))), 0, 0],
    ["2^40 buffers", uncompressed(Uint8Array.from(varints(1, 2 ** 40, 0))), 0, 0],
    [
      "buckets and buffers of which there are too many together",
      uncompressed(Uint8Array.from([3, 3, 0, 0, 0, 0])),
      0,
      0,
    ],
    ["a bucket of 2^50 bytes", uncompressed(Uint8Array.from(varints(1, 1, 2 ** 50, 1, 1, 3, 0, 0))), 1, 0],
    ["a buffer of 2^50 bytes", uncompressed(Uint8Array.from(varints(1, 1, 1, 2 ** 50, 1, 3, 0, 0)), [1]), 1, 0],
    ["buffers without buckets", handmade({ bufferLengths: [0], nodes: [START] }), 1, 0],
    ["a buffer that spans two buckets", handmade({ buckets: [[1], [2]], bufferLengths: [2], nodes: [START] }), 1, 0],
    ["bytes of a bucket in no buffer", handmade({ buckets: [[1, 2]], bufferLengths: [1], nodes: [START] }), 1, 0],
    ["a bucket without buffers", handmade({ buckets: [[1], [2]], bufferLengths: [1], nodes: [START] }), 1, 0],
    ["no nodes", handmade({ nodes: [] }), 0, 0],
    ["2^40 nodes", uncompressed(Uint8Array.from(varints(0, 0, 2 ** 40, 3, 0, 0))), 1, 0],
    ["a tag over 32 bits", handmade({ nodes: [{ tag: 2 ** 32 + 8, subtype: 10 }] }), 1, 0],
    ...[4, 5, 6, 7, 15, 23].map((tag): [string, Uint8Array, number, number] => [
      `tag ${tag}`,
      handmade({ nodes: [{ tag }, START] }),
      1,
      0,
    ]),
    ["a subtype over 137", handmade({ nodes: [{ tag: 8, subtype: 138, next: 1, implicit: true }, START] }), 1, 2],
    ["subtypes that end early", uncompressed(Uint8Array.from([0, 0, 2, 8, 8, 0, 0, 10])), 1, 0],
    ["a next node that is none", handmade({ nodes: [{ tag: 3, next: 2 }] }), 1, 0],
    ["a first node that is none", handmade({ nodes: [START], first: 1 }), 1, 0],
    ["a buffer that is none", handmade({ buckets: [[1]], nodes: [{ tag: 13, buffer: 1 }, START] }), 1, 0],
    ["non-proto records without buffers", handmade({ nodes: [{ tag: 1, buffer: 0 }] }), 1, 0],
    ["bytes behind the header", handmade({ nodes: [START], tail: [0] }), 1, 0],
    ["a step beyond the nodes", handmade({ nodes: [START], transitions: [63 << 2] }), 2, 0],
    ["a node that leads to itself for ever", handmade({ nodes: [{ tag: 0, implicit: true }] }), 0, 0],
    [
      "nodes that go round for ever",
      handmade({ nodes: [START, ...[2, 3, 1].map((next) => ({ ...INLINE, next, implicit: true }))] }),
      1,
      0,
    ],
    [
      "the start of a submessage without an end",
      handmade({ nodes: [{ tag: 2, next: 1, implicit: true }, START] }),
      1,
      2,
    ],
    ["a record inside a submessage", handmade({ nodes: [{ tag: 14, next: 1, implicit: true }, START] }), 1, 2],
    ["the end of a submessage without a start", handmade({ nodes: [START, { tag: 14 }], transitions: [4] }), 1, 2],
    ["more records than announced", handmade({ nodes: [START], transitions: [0] }), 1, 0],
    ["fewer records than announced", handmade({ nodes: [START] }), 2, 0],
    ["no record at all", handmade({ nodes: [{ tag: 0 }] }), 1, 0],
    [
      "records that are longer than announced",
      handmade({ nodes: [{ ...INLINE, next: 1, implicit: true }, START] }),
      1,
      1,
    ],
    [
      "records that are shorter than announced",
      handmade({ nodes: [{ ...INLINE, next: 1, implicit: true }, START] }),
      1,
      3,
    ],
    ["bytes before the first record", handmade({ nodes: [START, INLINE], transitions: [4] }), 1, 2],
    ["bytes without a record", handmade({ nodes: [INLINE] }), 0, 2],
    ["a buffer that ends early", handmade({ buckets: [[1, 2, 3]], nodes: [{ tag: 13, buffer: 0 }, START] }), 1, 5],
    ["a string without a length", handmade({ buckets: [[]], nodes: [{ tag: 10, buffer: 0 }, START] }), 1, 1],
    ["a string longer than its buffer", handmade({ buckets: [[3, 65]], nodes: [{ tag: 10, buffer: 0 }, START] }), 1, 5],
    [
      "a string of 2^35 bytes",
      handmade({ buckets: [[...varints(2 ** 35), 65]], nodes: [{ tag: 10, buffer: 0 }, START] }),
      1,
      8,
    ],
    ["a length of a string that ends early", handmade({ buckets: [[128]], nodes: [{ tag: 10, buffer: 0 }] }), 1, 2],
    [
      "a non-proto record longer than its buffer",
      handmade({ buckets: [[1], [2]], nodes: [{ tag: 1, buffer: 0 }] }),
      1,
      2,
    ],
    [
      "more transitions than the records can need",
      handmade({ nodes: [{ tag: 0 }], transitions: Array(100).fill(0) }),
      1,
      0,
    ],
  ];

  it.each(cases)("%s", async (_name, data, recordCount, decodedDataSize) => {
    const decoding = decode(data, recordCount, decodedDataSize);
    await expect(decoding).rejects.toBeInstanceOf(CorruptionError);
    await expect(decoding).rejects.toMatchObject({ code: "chunk-contents", ...PLACE });
  });

  it("an unknown compression", async () => {
    const decoding = decode(Uint8Array.of(0x71, 0), 0, 0);
    await expect(decoding).rejects.toBeInstanceOf(UnsupportedError);
    await expect(decoding).rejects.toMatchObject({ code: "unsupported-compression", ...PLACE });
  });

  it("numbers over a limit, before anything is allocated", async () => {
    const data = handmade({ nodes: [START] });
    const manyNodes = new Uint8Array(2 * MAX_TRANSPOSED_NODES + 10);
    manyNodes.set(varints(0, 0, MAX_TRANSPOSED_NODES + 1));
    for (const decoding of [
      decode(data, MAX_RECORDS_PER_CHUNK + 1, 0),
      decode(data, MAX_RECORDS_PER_CHUNK, 0),
      decode(data, 1, MAX_TRANSPOSED_BYTES + 1),
      decode(data, 1, MAX_TRANSPOSED_BYTES),
      decode(concatBytes([Uint8Array.from([0, ...varints(manyNodes.length)]), manyNodes]), 1, 0),
    ]) {
      await expect(decoding).rejects.toBeInstanceOf(LimitError);
      await expect(decoding).rejects.toMatchObject({ code: "limit", ...PLACE });
    }
  });

  it("buckets that announce more than they can hold", async () => {
    const bucket = varints(MAX_TRANSPOSED_BYTES / 16);
    const buckets = Array<number[]>(16).fill(bucket);
    const bufferLengths = Array<number>(16).fill(MAX_TRANSPOSED_BYTES / 16);
    const header = handmadeHeader({ buckets, bufferLengths, nodes: [START] });
    // A Snappy block of one literal: its length, then the tag with the literal's length less 1.
    const block = [...varints(header.length), ...varints(header.length), 60 << 2, header.length - 1, ...header];
    const data = Uint8Array.from([0x73, ...varints(block.length), ...block, ...buckets.flat()]);
    await expect(decode(data, 1, 0)).rejects.toMatchObject({ code: "limit", ...PLACE });
  });

  it("to take longer for long paths without output", async () => {
    // 50,000 stepping stones between any two fields would be 10^10 steps.
    const stones = Array.from({ length: 50_000 }, (_, i): HandmadeNode => ({ tag: 0, next: i + 2, implicit: true }));
    const nodes = [{ ...INLINE, next: 1 }, ...stones, { tag: 0, next: 0, implicit: true }];
    const data = handmade({ nodes, transitions: Array<number>(60_000).fill(3) });
    await expect(decode(data, 1, 600_000)).rejects.toMatchObject({ code: "chunk-contents" });
  });

  it("ends of submessages for which there is no room, before they fill the memory", async () => {
    const ends = Array.from({ length: 100 }, (_, i): HandmadeNode => ({ tag: 14, next: i + 1, implicit: true }));
    const nodes = [...ends, { tag: 14, next: 0 }];
    const data = handmade({ nodes, transitions: Array<number>(10_000).fill(3) });
    await expect(decode(data, 1, 2000)).rejects.toMatchObject({ code: "chunk-contents" });
  });
});
