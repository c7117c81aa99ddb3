import { describe, expect, it } from "vitest";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { openCheckpoint } from "../../src/formats/checkpoint/checkpoint-reader.js";
import { writeCheckpoint } from "../../src/formats/checkpoint/checkpoint-writer.js";
import { mergeCheckpoints } from "../../src/formats/checkpoint/merge-checkpoints.js";
import { LocalFiles } from "../../src/platform/node/local-files.js";
import { expectBytes } from "../support/bytes.js";
import { checkpointPath, EXPECTED } from "../support/checkpoint-fixtures.js";
import { planOf } from "../support/checkpoint-plans.js";
import { tensorsOf } from "../support/checkpoint-values.js";
import { CrashingStore, countChanges } from "../support/crashing-store.js";
import { readFixture } from "../support/fixtures.js";

/** Checkpoints that TensorFlow merged from parts. */
const MERGED = [
  "sliced_dtypes/m",
  "custom_callback/one_each",
  "custom_callback/by_dtype",
  "max_shard_size/max56",
  "max_on_sliced_input/composed",
  "multi_task/max20",
  "v1_saver_partitioned/sharded/model.ckpt-30",
];

/** Writes each shard of a fixture as a checkpoint of its own, as TensorFlow does while it saves. */
async function writeParts(store: MemoryStore, prefix: string): Promise<string[]> {
  const reader = await openCheckpoint(checkpointPath(prefix), { files: new LocalFiles() });
  const { shards } = await planOf(reader);
  const parts: string[] = [];
  for (const [i, shard] of shards.entries()) {
    const part = `d/out_temp/part-${i}`;
    await writeCheckpoint(store, part, { description: "by hand", shards: [shard], warnings: [] });
    parts.push(part);
  }
  await reader.close();
  return parts;
}

async function expectFixture(store: MemoryStore, prefix: string, out: string): Promise<void> {
  const [folder, name] = [prefix.slice(0, prefix.lastIndexOf("/")), prefix.slice(prefix.lastIndexOf("/") + 1)];
  for (const file of Object.keys(EXPECTED[prefix]!.files)) {
    if (file.endsWith(".meta")) continue;
    const source = await store.open(`${out}${file.slice(name.length)}`);
    expectBytes(await source.read(0, source.size), readFixture(`checkpoints/${folder}/${file}`));
  }
}

describe("merging checkpoints", () => {
  it.each(MERGED)("gives the very files that TensorFlow merged for %s, by copies and by moves", async (prefix) => {
    const store = new MemoryStore();
    const parts = await writeParts(store, prefix);
    await mergeCheckpoints(store, parts, "d/copied");
    await expectFixture(store, prefix, "d/copied");
    expect(await store.stat(`${parts[0]}.index`)).toBeDefined();
    await mergeCheckpoints(store, parts, "d/out", { move: true });
    await expectFixture(store, prefix, "d/out");
    expect(await store.stat("d/out_temp")).toBeUndefined();
    expect((await store.list("d")).every(({ path }) => !path.startsWith("d/."))).toBe(true);
  });

  it("keeps what the parts said of their sharding", async () => {
    const store = new MemoryStore();
    await mergeCheckpoints(store, await writeParts(store, "multi_task/max20"), "d/out");
    const source = await store.open("d/out.cairn.json");
    const sidecar = JSON.parse(new TextDecoder().decode(await source.read(0, source.size)));
    expect(sidecar).toMatchObject({ description: "by hand" });
    expect(sidecar.shards.length).toBe(10);
  });

  it("copies what is not below the directory of the result, and removes it when it is to be moved", async () => {
    const store = new MemoryStore();
    const parts = await writeParts(store, "multi_task/max20");
    await mergeCheckpoints(store, parts, "elsewhere/out", { move: true });
    await expectFixture(store, "multi_task/max20", "elsewhere/out");
    expect(await store.stat("d")).toBeUndefined();
  });

  it("refuses a tensor that stands in two parts, and leaves all as it was", async () => {
    const store = new MemoryStore();
    const parts = await writeParts(store, "multi_task/max20");
    const before = (await store.list("d")).length;
    for (const move of [false, true]) {
      await expect(mergeCheckpoints(store, [...parts, parts[0]!], "d/out", { move })).rejects.toMatchObject({
        code: "duplicate-key",
      });
    }
    expect((await store.list("d")).length).toBe(before);
  });

  it("refuses parts of other byte order, no parts, and a result that is there", async () => {
    const store = new LocalFiles();
    const [big, little] = ["crafted/bigendian", "crafted/aligned64"].map(checkpointPath);
    await expect(mergeCheckpoints(store, [big!, little!], "/tmp/none")).rejects.toMatchObject({ code: "usage" });
    await expect(mergeCheckpoints(store, [], "/tmp/none")).rejects.toMatchObject({ code: "usage" });
    await expect(mergeCheckpoints(store, [big!], little!)).rejects.toMatchObject({ code: "exists" });
  });

  it("finds damage in what it copies", async () => {
    const store = new MemoryStore();
    const parts = await writeParts(store, "custom_callback/by_dtype");
    const source = await store.open(`${parts[0]}.data-00000-of-00001`);
    const bytes = (await source.read(0, source.size)).slice();
    bytes[0] = (bytes[0] as number) ^ 1;
    const sink = await store.create(`${parts[0]}.data-00000-of-00001`, { overwrite: true });
    await sink.write(bytes);
    await sink.close();
    await expect(mergeCheckpoints(store, parts, "d/out")).rejects.toMatchObject({ code: "tensor-checksum" });
    expect((await store.list("d")).map(({ path }) => path)).toEqual(["d/out_temp"]);
  });

  it("loses nothing when it is cut short while files are moved", async () => {
    const prefix = "custom_callback/by_dtype";
    const fresh = async (): Promise<[MemoryStore, string[]]> => {
      const store = new MemoryStore();
      return [store, await writeParts(store, prefix)];
    };
    const [counted, countedParts] = await fresh();
    const changes = await countChanges(counted, (store) =>
      mergeCheckpoints(store, countedParts, "d/out", { move: true }).then(() => {}),
    );
    expect(changes).toBeGreaterThan(8);
    const whole = await tensorsOf(new LocalFiles(), checkpointPath(prefix));
    for (let at = 0; at < changes; at++) {
      const [store, parts] = await fresh();
      await mergeCheckpoints(new CrashingStore(store, at), parts, "d/out", { move: true }).catch(() => {});
      const merged = await tensorsOf(store, "d/out").catch(() => undefined);
      if (merged !== undefined) expect([at, merged]).toEqual([at, whole]);
      else for (const part of parts) expect((await tensorsOf(store, part)).size).toBeGreaterThan(0);
    }
  });
});
