import { describe, expect, it } from "vitest";
import { MemorySink } from "../../src/bytes/byte-sink.js";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { maskCrc, portableCrc32c } from "../../src/codecs/crc32c.js";
import { type BundleEntry, EntryWriter, encodeHeader } from "../../src/formats/checkpoint/bundle-proto.js";
import { openCheckpoint } from "../../src/formats/checkpoint/checkpoint-reader.js";
import { encodeSliceKey } from "../../src/formats/checkpoint/ordered-code.js";
import { inspect, outlineToJson } from "../../src/ops/inspect.js";
import { verify } from "../../src/ops/verify.js";
import { TableBuilder } from "../../src/table/table-builder.js";

const DATA = Uint8Array.from({ length: 64 }, (_, i) => i);
const crc = (from: number, to: number): number => maskCrc(portableCrc32c(DATA.subarray(from, to)));
const good: BundleEntry = { dtype: 4, shape: [8], shardId: 0, offset: 0, size: 8, crc32c: crc(0, 8), slices: [] };

type Content = readonly (readonly [string, Uint8Array | BundleEntry])[];

/** A checkpoint of one shard with these entries, sorted. */
async function storeOf(content: Content, header: Uint8Array | undefined = encodeHeader(1)): Promise<MemoryStore> {
  const sink = new MemorySink();
  const builder = new TableBuilder(sink);
  if (header !== undefined) await builder.add("", header);
  for (const [key, entry] of [...content].sort(([a], [b]) => (a < b ? -1 : 1))) {
    await builder.add(key, entry instanceof Uint8Array ? entry : new EntryWriter().encode(entry));
  }
  await builder.finish();
  return new MemoryStore([
    ["c.index", sink.bytes.slice()],
    ["c.data-00000-of-00001", DATA],
  ]);
}

/** Bytes of fields that no writer of ours would make: [tag, value] pairs as varints, or raw. */
const bytes = (...parts: (number | readonly number[])[]): Uint8Array => Uint8Array.from(parts.flat());
const MINUS_ONE = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
const HUGE = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];

/** The code of the error that reading "t" ends with. */
async function codeOf(content: Content, header?: Uint8Array): Promise<string> {
  const store = await storeOf(content, header);
  try {
    const reader = await openCheckpoint("c", { files: store });
    const data = await reader.data("t");
    await data.read(0, data.size);
    return "good";
  } catch (error) {
    expect(error).toMatchObject({ code: expect.any(String), file: expect.stringMatching(/^c\./) });
    return (error as { code: string }).code;
  }
}

/** All other ways to look at a checkpoint end too, with errors that are known. */
async function lookAtAll(content: Content, header?: Uint8Array): Promise<boolean> {
  const store = await storeOf(content, header);
  const { ok, findings } = await verify(store, "c");
  expect(findings.every(({ code }) => typeof code === "string")).toBe(true);
  const known = (error: unknown) => expect(error).toMatchObject({ code: expect.any(String) });
  await inspect(store, "c").then(async ({ root, close }) => {
    await outlineToJson(root, 9).catch(known);
    await close();
  }, known);
  try {
    const reader = await openCheckpoint("c", { files: store });
    for await (const _ of reader.readAll());
  } catch (error) {
    known(error);
  }
  return ok;
}

const slice = (start: number, length: number) => [{ start, length }];
const sliced = (...slices: [number, number][]): BundleEntry => ({
  ...good,
  shape: [16],
  size: 0,
  crc32c: 0,
  slices: slices.map(([start, length]) => slice(start, length)),
});
const part = (start: number, length: number, more: Partial<BundleEntry> = {}): [string, BundleEntry] => [
  encodeSliceKey("t", slice(start, length)),
  { ...good, shape: [length], size: length, crc32c: crc(0, length), ...more },
];

/** What is tried, the entries, and the error it ends with. */
const CASES: [trick: string, content: Content, code: string][] = [
  ["a good tensor", [["t", good]], "good"],
  ["good slices", [["t", sliced([0, 8], [8, 8])], part(0, 8), part(8, 8)], "good"],
  [
    "a name that begins with NUL",
    [
      ["t", good],
      ["\x00\x01", good],
    ],
    "good",
  ],
  ["a value that is no message", [["t", bytes(0x0a, 0x7f, 1)]], "bundle-entry"],
  ["an empty value: a scalar of dtype 0", [["t", bytes()]], "unsupported-dtype"],
  ["a size that is not that of the shape", [["t", { ...good, size: 7 }]], "bundle-entry"],
  ["a shape of 2^53 and more", [["t", bytes(8, 4, 0x12, 12, 0x12, 10, 8, HUGE)]], "bundle-entry"],
  ["a shape whose product overflows", [["t", { ...good, shape: [2 ** 40, 2 ** 40] }]], "limit"],
  ["a shape that overflows with a zero in it", [["t", { ...good, shape: [2 ** 40, 2 ** 40, 0], size: 0 }]], "limit"],
  ["a negative dimension", [["t", bytes(8, 4, 0x12, 13, 0x12, 11, 8, MINUS_ONE)]], "bundle-entry"],
  ["an unknown rank", [["t", bytes(8, 4, 0x12, 2, 0x18, 1)]], "bundle-entry"],
  ["a rank of 300", [["t", { ...good, shape: new Array(300).fill(1) }]], "bundle-entry"],
  ["a negative offset", [["t", bytes(8, 4, 0x12, 0, 0x20, MINUS_ONE)]], "bundle-entry"],
  ["a negative size", [["t", bytes(8, 4, 0x12, 0, 0x28, MINUS_ONE)]], "bundle-entry"],
  ["a negative shard", [["t", bytes(8, 4, 0x12, 0, 0x18, MINUS_ONE)]], "bundle-entry"],
  ["a shard that there is not", [["t", { ...good, shardId: 1 }]], "bundle-entry"],
  ["an offset behind the end", [["t", { ...good, offset: 60 }]], "truncated"],
  ["an offset near 2^53", [["t", { ...good, offset: Number.MAX_SAFE_INTEGER - 8 }]], "truncated"],
  ["no checksum", [["t", { ...good, crc32c: 0 }]], "tensor-checksum"],
  ["an unknown dtype", [["t", { ...good, dtype: 77 }]], "unsupported-dtype"],
  ["a resource", [["t", { ...good, dtype: 20 }]], "unsupported-dtype"],
  ["more strings than bytes", [["t", { ...good, dtype: 7, shape: [2 ** 50], size: 64 }]], "tensor-data"],
  ["strings longer than the data", [["t", { ...good, dtype: 7, offset: 50, size: 14 }]], "tensor-data"],
  ["an empty string tensor with bytes", [["t", { ...good, dtype: 7, shape: [0], size: 9 }]], "tensor-data"],
  ["strings in no bytes", [["t", { ...good, dtype: 7, shape: [3], size: 0 }]], "tensor-data"],
  ["variants that are none", [["t", { ...good, dtype: 21 }]], "tensor-checksum"],
  ["bytes behind the variants", [["t", { ...good, dtype: 21, shape: [0] }]], "tensor-data"],
  ["a slice listed twice", [["t", sliced([0, 8], [0, 8])], part(0, 8)], "slice-coverage"],
  ["slices that overlap", [["t", sliced([0, 9], [8, 8])], part(0, 9), part(8, 8)], "slice-coverage"],
  ["slices that leave a gap", [["t", sliced([0, 8], [9, 7])], part(0, 8), part(9, 7)], "slice-coverage"],
  ["a slice that passes the shape", [["t", sliced([0, 8], [8, 9])], part(0, 8), part(8, 9)], "slice-coverage"],
  ["a slice with a negative start", [["t", sliced([-8, 16])], part(-8, 16)], "slice-coverage"],
  ["a slice of no length", [["t", sliced([0, 0], [0, 16])], part(0, 0), part(0, 16)], "slice-coverage"],
  ["a slice without an entry", [["t", sliced([0, 8], [8, 8])], part(0, 8)], "slice-coverage"],
  [
    "a slice of another shape",
    [["t", sliced([0, 8], [8, 8])], part(0, 8), part(8, 8, { shape: [4, 2] })],
    "bundle-entry",
  ],
  ["a slice of another dtype", [["t", sliced([0, 8], [8, 8])], part(0, 8), part(8, 8, { dtype: 6 })], "bundle-entry"],
  [
    "a slice of slices",
    [["t", sliced([0, 8], [8, 8])], part(0, 8), part(8, 8, { slices: [slice(0, 8)] })],
    "bundle-entry",
  ],
  ["a slice of another rank", [["t", { ...sliced([0, 8]), shape: [4, 4] }], part(0, 8)], "slice-coverage"],
  [
    "tensors over one another",
    [
      ["t", good],
      ["u", { ...good, offset: 4, crc32c: crc(4, 12) }],
    ],
    "good",
  ],
];

describe("a hostile checkpoint", () => {
  it.each(CASES)("with %s", async (_, content, code) => {
    // A start below 0 cannot be written by the codec, so its entry is what the wire would have.
    const encoded = content.map(([key, entry]) => [key, withNegative(entry)] as const);
    expect(await codeOf(encoded)).toBe(code);
    expect(await lookAtAll(encoded)).toBe(code === "good");
  });

  it.each([
    ["no header", undefined, "bundle-header"],
    ["a header that is no message", bytes(0x0a, 9), "bundle-header"],
    ["fewer shards than none", bytes(8, MINUS_ONE), "bundle-header"],
    ["a later version", bytes(8, 1, 0x1a, 4, 8, 2, 0x10, 2), "unsupported-version"],
    ["this version forbidden", bytes(8, 1, 0x1a, 4, 8, 2, 0x18, 1), "unsupported-version"],
    ["this version forbidden in a packed list", bytes(8, 1, 0x1a, 5, 8, 2, 0x1a, 1, 1), "unsupported-version"],
    ["a producer of the future", bytes(8, 1, 0x1a, 2, 8, 99), "good"],
    ["another forbidden", bytes(8, 1, 0x1a, 4, 8, 2, 0x18, 9), "good"],
    ["fields that nobody knows", bytes(8, 1, 0x7a, 1, 0, 0x79, 1, 2, 3, 4, 5, 6, 7, 8), "good"],
    ["two billion shards", bytes(8, 0xff, 0xff, 0xff, 0xff, 7), "not-found"],
  ])("with %s", async (_, header, code) => {
    const store = await storeOf([["t", good]], header);
    if (header === undefined) {
      const sink = new MemorySink();
      const builder = new TableBuilder(sink);
      await builder.add("t", new EntryWriter().encode(good));
      await builder.finish();
      const index = await store.create("c.index", { overwrite: true });
      await index.write(sink.bytes);
      await index.close();
      await expect(openCheckpoint("c", { files: store })).rejects.toMatchObject({ code });
      return;
    }
    expect(await codeOf([["t", good]], header)).toBe(code);
    expect(await lookAtAll([["t", good]], header)).toBe(code === "good");
  });
});

/** The entry as bytes when a slice begins below 0. */
function withNegative(entry: Uint8Array | BundleEntry): Uint8Array | BundleEntry {
  if (entry instanceof Uint8Array || !entry.slices.some(([first]) => first!.start < 0)) return entry;
  return bytes(8, 4, 0x12, 4, 0x12, 2, 8, 16, 0x3a, 15, 0x0a, 13, 8, [0xf8, ...MINUS_ONE.slice(1)], 0x10, 16);
}
