import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { isCairnError } from "../../src/errors.js";
import { encodedIdsLength, encodeIds, IdReader, readIds } from "../../src/formats/elasticdl/id-codec.js";
import { intToId, keyToId, partitionIds, stringToId } from "../../src/formats/elasticdl/partition.js";
import { sortedOrder, uniqueOrder } from "../../src/formats/elasticdl/sort-ids.js";
import { planRows } from "../../src/formats/elasticdl/table-plan.js";
import { decodeKey } from "../../src/tensor/key.js";
import { readExpected } from "../support/fixtures.js";

interface Vectors {
  string_to_id: { name: string; ps_id: Record<string, number> }[];
  int_to_id_python: { id: string | number; ps_id: Record<string, number> }[];
}
const vectors = readExpected<Vectors>("elasticdl/hash_vectors.json");

const anyIds = fc.array(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), { maxLength: 200 });
const nearIds = fc.array(fc.bigInt({ min: -40n, max: 200n }), { maxLength: 200 });

describe("the partition", () => {
  it.each(vectors.string_to_id)("of the name $name is ElasticDL's", ({ name, ps_id }) => {
    for (const [psNum, psId] of Object.entries(ps_id)) {
      expect(stringToId(name, Number(psNum))).toBe(psId);
      expect(keyToId(decodeKey(new TextEncoder().encode(name)), Number(psNum))).toBe(psId);
    }
  });

  it("of ids is that of ElasticDL's Python, also below 0 and beyond 2^53", () => {
    const ids = BigInt64Array.from(vectors.int_to_id_python, ({ id }) => BigInt(id));
    for (const psNum of [1, 2, 3, 4, 5, 7, 8, 16, 64, 100]) {
      const wanted = vectors.int_to_id_python.map(({ ps_id }) => ps_id[psNum]);
      expect(Array.from(ids, (id) => intToId(id, psNum))).toEqual(wanted);
      expect([...partitionIds(ids, psNum)]).toEqual(wanted);
    }
  });

  it("is the same one by one and for many, up to 2^20 servers", () => {
    fc.assert(
      fc.property(anyIds, fc.integer({ min: 1, max: 2 ** 20 }), (list, psNum) => {
        const ids = BigInt64Array.from(list);
        expect([...partitionIds(ids, psNum)]).toEqual(list.map((id) => intToId(id, psNum)));
      }),
    );
  });

  it.each([0, -1, 1.5, 2 ** 20 + 1, Number.NaN])("refuses %d servers", (psNum) => {
    for (const call of [
      () => stringToId("a", psNum),
      () => intToId(1n, psNum),
      () => partitionIds(new BigInt64Array(1), psNum),
    ]) {
      expect(call).toThrow(expect.objectContaining({ code: "usage" }));
    }
  });
});

describe("ids as varints", () => {
  it("come back as they were, in batches of any size and reads of any length", async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(anyIds, nearIds), fc.integer({ min: 1, max: 50 }), async (list, limit) => {
        const ids = BigInt64Array.from(list);
        const bytes = encodeIds(ids);
        expect(bytes.length).toBe(encodedIdsLength(ids));
        expect(await readIds(new MemorySource(bytes))).toEqual(ids);
        const reader = new IdReader(new MemorySource(bytes));
        const read: bigint[] = [];
        while (!reader.isAtEnd) read.push(...(await reader.next(limit)));
        expect(read).toEqual(list);
      }),
    );
  });

  it("are the same over more bytes than are read at once", async () => {
    const ids = BigInt64Array.from({ length: 100_000 }, (_, i) => BigInt.asIntN(64, BigInt(i) * 0x9e3779b97f4a7c15n));
    expect(await readIds(new MemorySource(encodeIds(ids)))).toEqual(ids);
  });

  it.each([
    ["cut", [0x80]],
    ["of eleven bytes", [...new Array(10).fill(0x80), 0x01]],
  ])("that are %s are an error", async (_name, bytes) => {
    await expect(readIds(new MemorySource(Uint8Array.from(bytes)))).rejects.toSatisfy((error) =>
      isCairnError(error, "invalid-wire"),
    );
  });
});

describe("sorting ids", () => {
  it("orders them as numbers, equal ones as they stand", () => {
    fc.assert(
      fc.property(fc.oneof(anyIds, nearIds), (list) => {
        const order = sortedOrder(BigInt64Array.from(list));
        const wanted = list
          .map((_, i) => i)
          .sort((a, b) => (list[a]! < list[b]! ? -1 : list[a]! > list[b]! ? 1 : a - b));
        expect([...order]).toEqual(wanted);
      }),
    );
  });

  it("keeps the last of equal ones where each may stand once", () => {
    const { order, dropped } = uniqueOrder(BigInt64Array.from([5n, -1n, 5n, 7n, -1n, 5n]));
    expect([...order]).toEqual([4, 5, 3]);
    expect([...dropped].sort()).toEqual([0, 1, 2]);
  });
});

describe("a plan for a table of more ids than are kept", () => {
  it("finds the rows that a later one replaces", async () => {
    // Ids 0 to 4,300,000 and one of them again: two groups.
    const rowCount = 4_300_000;
    const part = {
      rowCount,
      slots: new Map(),
      data: () => new MemorySource(new Uint8Array(0)),
      async *idBatches(limit: number) {
        for (let at = 0; at < rowCount; at += limit) {
          const ids = new BigInt64Array(Math.min(limit, rowCount - at));
          const words = new Uint32Array(ids.buffer);
          for (let i = 0; i < ids.length; i++) words[2 * i] = at + i === rowCount - 1 ? 77 : at + i;
          yield ids;
        }
      },
    };
    const table = { name: "t", dim: 0, dtype: "float32", initializer: "", parts: [part], slots: [] } as const;
    const { dropped, rowCounts } = await planRows(table, 2);
    expect([...dropped]).toEqual([77]);
    expect([...rowCounts]).toEqual([rowCount / 2, rowCount / 2 - 1]);
  });
});
