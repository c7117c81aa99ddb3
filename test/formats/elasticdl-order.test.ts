import { describe, expect, it } from "vitest";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { ShardFile } from "../../src/formats/elasticdl/shard-file.js";
import { writeVersion } from "../../src/formats/elasticdl/write-version.js";
import { openTensors } from "../../src/ops/tensors.js";
import { modelAt, tensorsAt } from "../safety/writers.js";

describe("a shard with checksums", () => {
  it("is right when its elements are read out of order", async () => {
    const store = new MemoryStore();
    const { shards } = await writeVersion(store, "ckpt", modelAt(3));
    const shard = await ShardFile.open(store, shards[0]!.path);
    const data = shard.elements(shard.catalog.dense.get("a")!);
    const half = data.size / 2;
    for (const offset of [half, 0]) await data.read(offset, half);
    await shard.verify();
    await shard.close();
  });
});

describe("an embedding table in which ids stand twice", () => {
  it("keeps the last row of each, in whichever batch it comes", async () => {
    const store = new MemoryStore();
    const batches = [
      [1, 2, 3, 4],
      [3, 5, 1],
      [6, 5],
    ].map((ids) => BigInt64Array.from(ids.map(BigInt)));
    const rows = Float32Array.from({ length: 9 }, (_, i) => i);
    const part = {
      rowCount: 9,
      slots: new Map(),
      data: () => new MemorySource(new Uint8Array(rows.buffer), "given"),
      async *idBatches() {
        yield* batches;
      },
    };
    const table = { name: "t", dim: 1, dtype: "float32" as const, initializer: "zeros", parts: [part], slots: [] };
    const contents = { modelVersion: 1, dense: [], tables: [table], states: [] };
    for (const psNum of [1, 2, 3]) {
      const { path } = await writeVersion(store, `ckpt${psNum}`, contents, { psNum });
      const found = new Map<bigint, number>();
      const { tensors } = await openTensors(store, path);
      const ids = (await tensors.ids?.("t"))!;
      const bytes = await (await tensors.data("t")).read(0, ids.length * 4);
      const values = new Float32Array(bytes.slice().buffer);
      for (const [i, id] of ids.entries()) found.set(id, values[i] as number);
      expect(Object.fromEntries(found)).toEqual({ 1: 6, 2: 1, 3: 4, 4: 3, 5: 8, 6: 7 });
      await tensors.close();
      expect(await tensorsAt(store, path)).toMatch(/^1 tensors/);
    }
  });
});
