import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MemorySink } from "../../src/bytes/byte-sink.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { shortestSeparator, shortSuccessor, TableBuilder } from "../../src/table/table-builder.js";
import { type TableEntry, TableReader } from "../../src/table/table-reader.js";
import { expectBytes } from "../support/bytes.js";
import { EXPECTED, PREFIXES } from "../support/checkpoint-fixtures.js";
import { CountingSource } from "../support/counting-source.js";
import { readFixture } from "../support/fixtures.js";

const index = (prefix: string): Uint8Array<ArrayBuffer> => readFixture(`checkpoints/${prefix}.index`);
const open = (bytes: Uint8Array): Promise<TableReader> => TableReader.open(new MemorySource(bytes, "t.index"));

async function entriesOf(table: TableReader, from?: string): Promise<TableEntry[]> {
  const entries: TableEntry[] = [];
  for await (const entry of table.entries(from)) entries.push(entry);
  return entries;
}

async function build(entries: Iterable<readonly [string, Uint8Array]>): Promise<Uint8Array> {
  const sink = new MemorySink();
  const builder = new TableBuilder(sink);
  for (const [key, value] of entries) await builder.add(key, value);
  await builder.finish();
  return sink.bytes.slice();
}

describe("a table of TensorFlow", () => {
  it.each(PREFIXES)("%s has as many blocks and entries as TensorFlow's reader finds", async (prefix) => {
    const table = await open(index(prefix));
    const { data_blocks, entries } = EXPECTED[prefix]!.index;
    expect(table.blocks.length).toBe(data_blocks);
    expect((await entriesOf(table)).length).toBe(entries);
  });

  it.each(PREFIXES.filter((prefix) => !prefix.startsWith("crafted/")))(
    "%s is written again byte for byte",
    async (prefix) => {
      const bytes = index(prefix);
      const entries = await entriesOf(await open(bytes));
      expectBytes(await build(entries.map(({ key, value }) => [key, value])), bytes);
    },
  );

  it("finds every key, and no other, in blocks of any form", async () => {
    for (const prefix of ["many/many", "crafted/snappy", "crafted/restart1", "names/rawnames"]) {
      const table = await open(index(prefix));
      const all = await entriesOf(table);
      for (const { key, value } of all.filter((_, i) => i % 7 === 0 || all.length < 500)) {
        expectBytes((await table.get(key))!.value.slice(), value.slice());
        expect(await table.get(`${key}\x00`)).toBeUndefined();
      }
      expect(await table.get("\xff\xff\xff")).toBeUndefined();
    }
  });

  it("goes on from any key", async () => {
    const table = await open(index("many/many"));
    const all = (await entriesOf(table)).map(({ key }) => key);
    for (const at of [0, 1, 1700, 4000, 4501]) {
      expect((await entriesOf(table, all[at])).map(({ key }) => key)).toEqual(all.slice(at));
      expect((await entriesOf(table, `${all[at]}\x00`)).length).toBe(all.length - at - 1);
    }
  });
});

describe("a table", () => {
  const values = fc.uint8Array({ maxLength: 40 });
  const keys = fc.uint8Array({ maxLength: 12 }).map((bytes) => String.fromCharCode(...bytes));

  it("gives back what was written, in the order of the bytes of its keys", async () => {
    await fc.assert(
      fc.asyncProperty(fc.dictionary(keys, values, { maxKeys: 60 }), async (content) => {
        const sorted = Object.entries(content).sort(([a], [b]) => (a < b ? -1 : 1));
        const table = await open(await build(sorted));
        expect((await entriesOf(table)).map(({ key, value }) => [key, value.slice()])).toEqual(sorted);
        for (const [key, value] of sorted) expect((await table.get(key))!.value.slice()).toEqual(value);
      }),
    );
  });

  it("refuses keys that stand twice or are out of order", async () => {
    const none = new Uint8Array(0);
    await expect(
      build([
        ["a", none],
        ["a", none],
      ]),
    ).rejects.toMatchObject({ code: "duplicate-key" });
    await expect(
      build([
        ["b", none],
        ["a", none],
      ]),
    ).rejects.toMatchObject({ code: "usage" });
  });

  it("names blocks by short keys between their own and the next", () => {
    // Source: google/leveldb, util/comparator.cc, and formats of the fixtures: model/… gives n.
    expect(shortestSeparator("abcdef", "abxyz")).toBe("abd");
    expect(shortestSeparator("abc", "abd")).toBe("abc");
    expect(shortestSeparator("ab", "abc")).toBe("ab");
    expect(shortestSeparator("a\xff", "b")).toBe("a\xff");
    expect(shortSuccessor("model/x")).toBe("n");
    expect(shortSuccessor("\xff\xffa")).toBe("\xff\xffb");
    expect(shortSuccessor("\xff\xff")).toBe("\xff\xff");
    fc.assert(
      fc.property(keys, keys, (a, b) => {
        if (a === b) return;
        const [low, high] = a < b ? [a, b] : [b, a];
        const middle = shortestSeparator(low, high);
        expect(low <= middle && middle < high).toBe(true);
        expect(low <= shortSuccessor(low)).toBe(true);
      }),
    );
  });

  it("gives a value of more than two blocks a block of its own", async () => {
    const large = new Uint8Array(600_000).fill(7);
    const small = new Uint8Array(10);
    const table = await open(
      await build([
        ["a", small],
        ["b", large],
        ["c", small],
      ]),
    );
    expect(table.blocks.length).toBe(3);
    expect((await table.get("b"))!.value.length).toBe(600_000);
  });

  it("of 20 MB is opened and searched by reading its end and one block", async () => {
    const value = new Uint8Array(1000);
    const entries = Array.from({ length: 20_000 }, (_, i) => [`key${String(i).padStart(6, "0")}`, value] as const);
    const bytes = await build(entries);
    const source = new CountingSource(new MemorySource(bytes));
    const table = await TableReader.open(source);
    expect([source.reads, source.bytes]).toEqual([1, 128 * 1024]);
    expect(await table.get("key012345")).toBeDefined();
    expect(source.reads).toBe(2);
    expect(source.bytes).toBeLessThan(128 * 1024 + 300_000);
  });

  it("without entries is one all the same", async () => {
    const table = await open(await build([]));
    expect(await entriesOf(table)).toEqual([]);
    expect(await table.get("")).toBeUndefined();
  });
});

/** What a damaged table does: gives all its entries as they were, or fails in a way that is known. */
async function outcome(bytes: Uint8Array): Promise<string> {
  try {
    const table = await open(bytes);
    const entries = await entriesOf(table);
    return JSON.stringify(entries.map(({ key, value }) => [key, Array.from(value)]));
  } catch (error) {
    expect(error).toMatchObject({ file: "t.index", offset: expect.any(Number) });
    return (error as { code: string }).code;
  }
}

describe("a damaged table", () => {
  const CODES = ["table-footer", "table-block", "table-entry", "truncated", "limit"];

  it.each(["default_two_devices/by_device", "crafted/aligned64"])("%s with any byte changed", async (prefix) => {
    const bytes = index(prefix);
    const good = await outcome(bytes);
    const seen = new Set<string>();
    for (let at = 0; at < bytes.length; at++) {
      for (const change of [1, 0x80]) {
        const flipped = bytes.slice();
        flipped[at] = (flipped[at] as number) ^ change;
        const result = await outcome(flipped);
        expect([...CODES, good]).toContain(result);
        seen.add(result);
      }
    }
    expect(seen).toContain("table-block");
    expect(seen).toContain("table-footer");
  });

  it("cut at any length", async () => {
    const bytes = index("crafted/aligned64");
    for (let length = 0; length < bytes.length; length++) {
      const cut = bytes.slice(0, length);
      await expect(open(cut)).rejects.toMatchObject({ code: length < 48 ? "truncated" : "table-footer" });
    }
  });

  it("says where the checksum is wrong and which it is", async () => {
    const bytes = index("crafted/aligned64");
    bytes[3] = (bytes[3] as number) ^ 1;
    const table = await open(bytes);
    await expect(table.get("x")).rejects.toThrow(
      /^t\.index@0x0: table block checksum: expected 0x[0-9a-f]{8}, got 0x[0-9a-f]{8}$/,
    );
  });

  it("is read where it is good", async () => {
    const bytes = index("many/many");
    const [first, , last] = (await open(bytes)).blocks;
    bytes[last!.handle.offset + 5] = (bytes[last!.handle.offset + 5] as number) ^ 1;
    const table = await open(bytes);
    expect((await table.blockEntries(0)).length).toBeGreaterThan(100);
    expect(await table.get("")).toBeDefined();
    await expect(table.blockEntries(2)).rejects.toMatchObject({ code: "table-block", offset: last!.handle.offset });
    expect(first!.handle.offset).toBe(0);
  });
});
