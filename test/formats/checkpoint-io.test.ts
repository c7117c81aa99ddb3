import { describe, expect, it } from "vitest";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { openCheckpoint } from "../../src/formats/checkpoint/checkpoint-reader.js";
import { writeCheckpoint } from "../../src/formats/checkpoint/checkpoint-writer.js";
import type { PlannedSlice } from "../../src/sharding/shard-plan.js";
import { CountingStore } from "../support/counting-store.js";

/** A slice over bytes that repeat. */
function planned(key: string, shape: number[], fill: number, rows?: { start: number; end: number }): PlannedSlice {
  const region = shape.map((size, i) => (i === 0 && rows !== undefined ? rows : { start: 0, end: size }));
  const sliced = region.map(({ start, end }) => end - start);
  const bytes = new Uint8Array(sliced.reduce((a, b) => a * b, 1)).fill(fill);
  const tensor = {
    dtype: "uint8",
    shape: sliced,
    byteLength: bytes.length,
    data: async () => new MemorySource(bytes),
  } as const;
  const extents = region.map(({ start, end }) => `${start},${end - start}`).join(":");
  const sliceSpec = rows === undefined ? "" : `${shape.join(" ")} ${extents}`;
  return { key, sliceSpec, fullShape: shape, region, tensor };
}

async function storeOf(slices: PlannedSlice[], shardCount = 1): Promise<CountingStore> {
  const store = new MemoryStore();
  const shards = Array.from({ length: shardCount }, (_, s) => ({
    task: "",
    slices: slices.filter((_, i) => i % shardCount === s),
  }));
  await writeCheckpoint(store, "c", { description: "", shards, warnings: [] });
  return new CountingStore(store);
}

describe("what is read of a checkpoint", () => {
  it("is the index alone for a list, however many shards there are", async () => {
    const store = await storeOf(
      Array.from({ length: 60 }, (_, i) => planned(`t${i}`, [10], i)),
      30,
    );
    const reader = await openCheckpoint("c", { files: store });
    let count = 0;
    for await (const _ of reader.tensors()) count++;
    expect(count).toBe(60);
    expect(store.total(".data-")).toEqual({ reads: 0, bytes: 0 });
    expect(store.total(".index").reads).toBe(1);
  });

  it("is two ranges for one tensor of 20,000", async () => {
    const store = await storeOf(
      Array.from({ length: 20_000 }, (_, i) => planned(`layer_${String(i).padStart(5, "0")}/kernel`, [16], i % 251)),
    );
    const reader = await openCheckpoint("c", { files: store });
    const data = await reader.data("layer_12345/kernel");
    expect((await data.read(0, 16))[0]).toBe(12345 % 251);
    expect(store.total(".index").reads).toBe(1);
    expect(store.total(".data-")).toEqual({ reads: 1, bytes: 16 });
  });

  it("is three ranges of a large index and one of the data for a tensor of very many", async () => {
    const count = 80_000;
    const long = "a/rather/long/path/so/that/the/index/is/large/enough";
    const store = await storeOf(
      Array.from({ length: count }, (_, i) => planned(`${(i * 7919) % count}/${long}/${i}`, [1], i % 251)),
    );
    const reader = await openCheckpoint("c", { files: store });
    const i = 54_321;
    const data = await reader.data(`${(i * 7919) % count}/${long}/${i}`);
    expect((await data.read(0, 1))[0]).toBe(i % 251);
    const { size } = (await store.stat("c.index"))!;
    expect(size).toBeGreaterThan(4 * 2 ** 20);
    expect(store.total(".index").reads).toBe(3);
    expect(store.total(".index").bytes).toBeLessThan(800_000);
    expect(store.total(".data-")).toEqual({ reads: 1, bytes: 1 });
  });

  it("is one row for one row of a large tensor, and few ranges for a column", async () => {
    const store = await storeOf([planned("t", [1000, 4096], 7)]);
    const reader = await openCheckpoint("c", { files: store });
    const row = await reader.data("t", [
      { start: 500, end: 501 },
      { start: 0, end: 4096 },
    ]);
    await row.read(0, row.size);
    expect(store.total(".data-")).toEqual({ reads: 1, bytes: 4096 });
    const column = await reader.data("t", [
      { start: 0, end: 1000 },
      { start: 9, end: 10 },
    ]);
    expect((await column.read(0, 1000)).every((byte) => byte === 7)).toBe(true);
    expect(store.total(".data-").bytes).toBeLessThan(1000 * 4096 + 4096);
  });

  it("is only the slices that a region touches", async () => {
    const slices = Array.from({ length: 10 }, (_, i) =>
      planned("t", [1000, 100], i, { start: 100 * i, end: 100 * i + 100 }),
    );
    const store = await storeOf(slices, 10);
    const reader = await openCheckpoint("c", { files: store });
    const region = await reader.data("t", [
      { start: 350, end: 450 },
      { start: 0, end: 100 },
    ]);
    const bytes = await region.read(0, region.size);
    expect([bytes[0], bytes[4999], bytes[5000], bytes[9999]]).toEqual([3, 3, 4, 4]);
    expect(store.total(".data-0").reads).toBe(2);
    expect([...store.sources.keys()].filter((path) => path.includes(".data-")).length).toBe(2);
  });

  it("is once every byte for all of it, and once more for none", async () => {
    const store = await storeOf([planned("a", [300_000], 1), planned("b", [300_000], 2), planned("c", [5], 3)]);
    const reader = await openCheckpoint("c", { files: store });
    for await (const _ of reader.readAll());
    expect(store.total(".data-").bytes).toBe(600_005);
    for (const key of ["a", "b", "c"]) {
      const data = await reader.data(key);
      for (let at = 0; at < data.size; at += 1000) await data.read(at, Math.min(1000, data.size - at));
    }
    await reader.verify();
    expect(store.total(".data-").bytes).toBe(2 * 600_005);
  });

  it("takes no more than asked for when tensors are chosen", async () => {
    const slices = Array.from({ length: 20 }, (_, i) => planned(`t${i}`, [200_000], i));
    const store = await storeOf(slices);
    const reader = await openCheckpoint("c", { files: store });
    const keys: string[] = [];
    for await (const { info, bytes } of reader.readAll({ filter: ({ key }) => key === "t3" || key === "t17" })) {
      keys.push(info.key);
      expect(bytes.every((byte) => byte === Number(info.key.slice(1)))).toBe(true);
    }
    expect(keys).toEqual(["t3", "t17"]);
    expect(store.total(".data-").bytes).toBe(400_000);
  });

  it("stops when it is told to", async () => {
    const store = await storeOf([planned("a", [9_000_000], 1)]);
    const reader = await openCheckpoint("c", { files: store });
    const controller = new AbortController();
    controller.abort(new Error("stop"));
    await expect(async () => {
      for await (const _ of reader.readAll({ signal: controller.signal }));
    }).rejects.toThrow("stop");
    await expect(
      writeCheckpoint(
        store,
        "d",
        { description: "", shards: [{ task: "", slices: [planned("a", [9], 1)] }], warnings: [] },
        {
          signal: controller.signal,
        },
      ),
    ).rejects.toThrow("stop");
    expect(await store.stat("d.index")).toBeUndefined();
  });
});
