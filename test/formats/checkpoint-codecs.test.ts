import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { decodeEntry, decodeHeader, EntryWriter, encodeHeader } from "../../src/formats/checkpoint/bundle-proto.js";
import { rawKeyOf, textOfKey } from "../../src/formats/checkpoint/checkpoint-key.js";
import { openCheckpoint } from "../../src/formats/checkpoint/checkpoint-reader.js";
import { writeCheckpoint } from "../../src/formats/checkpoint/checkpoint-writer.js";
import { decodeSliceKey, encodeSliceKey } from "../../src/formats/checkpoint/ordered-code.js";
import type { PlannedSlice } from "../../src/sharding/shard-plan.js";
import { formatSliceSpec } from "../../src/tensor/slice-spec.js";
import { encodeStrings } from "../../src/tensor/strings.js";
import { expectBytes } from "../support/bytes.js";
import { EXPECTED } from "../support/checkpoint-fixtures.js";
import { PlainSource } from "../support/odd-sources.js";

const hex = (text: string): string => Buffer.from(text, "latin1").toString("hex");
const rawKeys = fc.uint8Array({ minLength: 1, maxLength: 9 }).map((bytes) => String.fromCharCode(...bytes));
const nasty = fc.array(fc.constantFrom("\x00", "\x01", "\xff", "a"), { maxLength: 8 }).map((parts) => parts.join(""));
const extents = fc.array(fc.record({ start: fc.maxSafeNat(), length: fc.oneof(fc.constant(-1), fc.maxSafeNat()) }), {
  maxLength: 5,
});

describe("slice keys", () => {
  // Source: tensorflow/core/lib/strings/ordered_code.cc, the table of the header lengths; checked on the fixtures below.
  it.each([
    [0, "80"],
    [5, "85"],
    [63, "bf"],
    [-1, "7f"],
    [64, "c040"],
    [8191, "dfff"],
    [8192, "e02000"],
  ])("write %i as %s", (value, code) => {
    expect(hex(encodeSliceKey("", [{ start: value, length: 0 }]))).toBe(`0000010101${code}80`);
  });

  it("are those of TensorFlow for every slice of the fixtures", () => {
    let count = 0;
    for (const { slice_entries = [] } of Object.values(EXPECTED)) {
      for (const { of, key_hex, extents: expected } of slice_entries) {
        // A name that is not UTF-8 stands as null.
        const name = of === null ? decodeSliceKey(Buffer.from(key_hex, "hex").toString("latin1"))!.name : rawKeyOf(of);
        const list = expected.map(([start, length]) => ({ start, length }));
        expect(hex(encodeSliceKey(name, list))).toBe(key_hex);
        count++;
      }
    }
    expect(count).toBeGreaterThan(200);
  });

  it("tell name and extents again, whatever they are", () => {
    fc.assert(
      fc.property(fc.oneof(rawKeys, nasty), extents, (name, list) => {
        expect(decodeSliceKey(encodeSliceKey(name, list))).toEqual({ name, extents: list });
      }),
    );
  });

  it("are not read out of other keys", () => {
    fc.assert(
      fc.property(fc.oneof(rawKeys, nasty), (key) => {
        const decoded = decodeSliceKey(key);
        if (decoded !== undefined) expect(encodeSliceKey(decoded.name, decoded.extents)).toBe(key);
      }),
    );
  });
});

describe("entries", () => {
  const place = { file: "f", offset: 0, key: "k" };
  const entries = fc.record({
    dtype: fc.nat(200),
    shape: fc.array(fc.maxSafeNat(), { maxLength: 6 }),
    shardId: fc.nat(),
    offset: fc.maxSafeNat(),
    size: fc.maxSafeNat(),
    crc32c: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
    slices: fc.array(extents, { maxLength: 4 }),
  });

  it("are read as they were written", () => {
    fc.assert(
      fc.property(entries, (entry) => void expect(decodeEntry(new EntryWriter().encode(entry), place)).toEqual(entry)),
    );
    for (const isBigEndian of [false, true]) {
      expect(decodeHeader(encodeHeader(7, isBigEndian), place)).toMatchObject({
        shardCount: 7,
        isBigEndian,
        producer: 1,
      });
    }
  });

  it("fail in a known way whatever the bytes are", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
        for (const [decode, code] of [
          [decodeEntry, /^bundle-entry$/],
          [decodeHeader, /^(bundle-header|unsupported-version)$/],
        ] as const) {
          try {
            decode(bytes, place);
          } catch (error) {
            expect(error).toMatchObject({ code: expect.stringMatching(code), file: "f" });
          }
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe("keys", () => {
  it("stand as one text each, and back", () => {
    fc.assert(fc.property(rawKeys, (raw) => void expect(rawKeyOf(textOfKey(raw))).toBe(raw)));
    expect(textOfKey("a\xff")).toBe("hex:61ff");
    expect(textOfKey("hex:a")).toBe("hex:6865783a61");
    expect(textOfKey("\xc3\xbc")).toBe("ü");
  });
});

/** Cuts a shape in two along a dimension, again and again. */
function cut(shape: number[], depth: number, at: (below: number) => number): { start: number; end: number }[][] {
  let boxes = [shape.map((size) => ({ start: 0, end: size }))];
  for (let i = 0; i < depth; i++) {
    boxes = boxes.flatMap((box) => {
      const d = at(shape.length);
      const { start, end } = box[d]!;
      if (end - start < 2) return [box];
      const middle = start + 1 + at(end - start - 1);
      const part = (range: { start: number; end: number }) => box.map((one, j) => (j === d ? range : one));
      return [part({ start, end: middle }), part({ start: middle, end })];
    });
  }
  return boxes;
}

describe("a checkpoint of any tensors", () => {
  const strings = fc.array(fc.uint8Array({ maxLength: 300 }), { minLength: 1, maxLength: 12 });
  const numbers = fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 4 });

  it("is read as it was written: strings, from memory or from elsewhere", async () => {
    await fc.assert(
      fc.asyncProperty(strings, fc.boolean(), async (elements, isLazy) => {
        const { bytes, byteLengths } = encodeStrings(elements);
        const tensor = {
          dtype: "string",
          shape: [elements.length],
          byteLength: bytes.length,
          byteLengths: isLazy ? undefined : byteLengths,
          data: async () => (isLazy ? new PlainSource(bytes) : new MemorySource(bytes)),
        } as const;
        const region = [{ start: 0, end: elements.length }];
        const slice = { key: "s", sliceSpec: "", fullShape: tensor.shape, region, tensor };
        const store = new MemoryStore();
        await writeCheckpoint(store, "c", { description: "", shards: [{ task: "", slices: [slice] }], warnings: [] });
        const reader = await openCheckpoint("c", { files: store });
        const data = await reader.data("s");
        expectBytes((await data.read(0, data.size)).slice(), bytes);
        for (let at = 0; at < data.size; at += 7) {
          expectBytes((await data.read(at, Math.min(7, data.size - at))).slice(), bytes.slice(at, at + 7));
        }
        const last = await reader.data("s", [{ start: elements.length - 1, end: elements.length }]);
        expectBytes((await last.read(8, last.size - 8)).slice(), new Uint8Array(elements.at(-1)!));
        expect((await reader.lazyTensor("s")).byteLengths).toEqual(byteLengths);
        await reader.verify();
      }),
      { numRuns: 60 },
    );
  });

  it("is put together from slices in any arrangement, whole or in part", async () => {
    await fc.assert(
      fc.asyncProperty(
        numbers,
        fc.nat(4),
        fc.array(fc.nat(), { minLength: 30, maxLength: 30 }),
        async (shape, depth, seeds) => {
          let seed = 0;
          const at = (below: number) => (seeds[seed++ % seeds.length] as number) % Math.max(1, below);
          const count = shape.reduce((a, b) => a * b, 1);
          const whole = new Uint8Array(new Uint16Array(Array.from({ length: count }, (_, i) => i)).buffer);
          const source = new MemoryStore();
          const one: PlannedSlice = {
            key: "t",
            sliceSpec: "",
            fullShape: shape,
            region: shape.map((size) => ({ start: 0, end: size })),
            tensor: { dtype: "uint16", shape, byteLength: whole.length, data: async () => new PlainSource(whole) },
          };
          await writeCheckpoint(source, "c", { description: "", shards: [{ task: "", slices: [one] }], warnings: [] });
          const first = await openCheckpoint("c", { files: source });
          const slices = cut(shape, depth, at).map((region): PlannedSlice => {
            const sizes = region.map(({ start, end }) => end - start);
            const byteLength = 2 * sizes.reduce((a, b) => a * b, 1);
            const tensor = { dtype: "uint16", shape: sizes, byteLength, data: () => first.data("t", region) } as const;
            return { key: "t", sliceSpec: formatSliceSpec(shape, region), fullShape: shape, region, tensor };
          });
          const half = Math.ceil(slices.length / 2);
          const shards = [slices.slice(0, half), slices.slice(half)].filter(({ length }) => length > 0);
          await writeCheckpoint(source, "d", {
            description: "",
            shards: shards.map((list) => ({ task: "", slices: list })),
            warnings: [],
          });
          const reader = await openCheckpoint("d", { files: source });
          const data = await reader.data("t");
          expectBytes((await data.read(0, data.size)).slice(), whole);
          const [from, length] = [at(data.size), 1 + at(5)];
          expectBytes(
            (await data.read(from, Math.min(length, data.size - from))).slice(),
            whole.slice(from, from + length),
          );
          for await (const { bytes } of reader.readAll()) expectBytes(bytes.slice(), whole);
          const region = shape.map((size) => {
            const start = at(size);
            return { start, end: start + 1 + at(size - start) };
          });
          const part = await reader.data("t", region);
          const expected = await first.data("t", region);
          expectBytes((await part.read(0, part.size)).slice(), (await expected.read(0, expected.size)).slice());
          await reader.verify();
          await first.verify();
        },
      ),
      { numRuns: 80 },
    );
  });
});

describe("writing", () => {
  const tensor = (dtype: string, shape: number[], byteLength: number) =>
    ({
      dtype,
      shape,
      byteLength,
      data: async () => new MemorySource(new Uint8Array(byteLength)),
    }) as PlannedSlice["tensor"];
  const planned = (key: string, one: PlannedSlice["tensor"], sliceSpec = "", fullShape = one.shape): PlannedSlice => {
    return { key, sliceSpec, fullShape, region: one.shape.map((size) => ({ start: 0, end: size })), tensor: one };
  };
  const write = (slices: PlannedSlice[]) =>
    writeCheckpoint(new MemoryStore(), "c", { description: "", shards: [{ task: "", slices }], warnings: [] });
  const four = tensor("float32", [1], 4);

  it.each<[string, PlannedSlice[], string]>([
    ["no tensors", [], "invalid-plan"],
    ["an empty key", [planned("", four)], "invalid-plan"],
    ["a tensor twice", [planned("a", four), planned("a", four)], "invalid-plan"],
    ["a tensor whole and in slices", [planned("a", four), planned("a", four, "2 0,1", [2])], "invalid-plan"],
    ["a slice twice", [planned("a", four, "2 0,1", [2]), planned("a", four, "2 0,1", [2])], "invalid-plan"],
    ["slices of two shapes", [planned("a", four, "2 0,1", [2]), planned("a", four, "3 1,1", [3])], "invalid-plan"],
    ["a part without a spec", [planned("a", four, "", [2])], "invalid-plan"],
    ["data of another size", [planned("a", tensor("float32", [2], 4))], "invalid-plan"],
    [
      "strings that do not fill their data",
      [planned("a", { ...tensor("string", [1], 8), byteLengths: [3] })],
      "invalid-plan",
    ],
    ["a resource", [planned("a", tensor("resource", [], 0))], "unsupported-dtype"],
    ["a dtype that TensorFlow has not", [planned("a", tensor("float4_e2m1fn", [2], 1))], "unsupported-dtype"],
  ])("refuses %s", async (_, slices, code) => {
    await expect(write(slices)).rejects.toMatchObject({ code });
  });

  it("refuses a plan without shards", async () => {
    const plan = { description: "", shards: [], warnings: [] };
    await expect(writeCheckpoint(new MemoryStore(), "c", plan)).rejects.toMatchObject({ code: "invalid-plan" });
  });

  it("refuses what is damaged where it comes from", async () => {
    const store = new MemoryStore();
    const bytes = new Uint8Array(300_000).fill(3);
    const source = {
      dtype: "uint8",
      shape: [300_000],
      byteLength: 300_000,
      data: async () => new MemorySource(bytes),
    } as const;
    await writeCheckpoint(store, "c", {
      description: "",
      shards: [{ task: "", slices: [planned("a", source)] }],
      warnings: [],
    });
    const damaged = bytes.slice();
    damaged[200_000] = 4;
    const sink = await store.create("c.data-00000-of-00001", { overwrite: true });
    await sink.write(damaged);
    await sink.close();
    const reader = await openCheckpoint("c", { files: store });
    const plan = {
      description: "",
      shards: [{ task: "", slices: [planned("a", await reader.lazyTensor("a"))] }],
      warnings: [],
    };
    await expect(writeCheckpoint(store, "d", plan)).rejects.toMatchObject({ code: "tensor-checksum", offset: 0 });
    expect(await store.stat("d.index")).toBeUndefined();
  });
});
