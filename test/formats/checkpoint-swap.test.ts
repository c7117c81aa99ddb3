import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { FileStore } from "../../src/bytes/file-store.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { StorageError } from "../../src/errors.js";
import { openCheckpoint } from "../../src/formats/checkpoint/checkpoint-reader.js";
import { writeCheckpoint } from "../../src/formats/checkpoint/checkpoint-writer.js";
import { verify } from "../../src/ops/verify.js";
import { LocalFiles } from "../../src/platform/node/local-files.js";
import type { ShardPlan } from "../../src/sharding/shard-plan.js";
import { tensorsOf } from "../support/checkpoint-values.js";
import { CrashingStore, countChanges } from "../support/crashing-store.js";

/** A plan of `shards` shards with two tensors each, all filled with `value`. */
function planWith(value: number, shards: number, description = `all ${value}`): ShardPlan {
  const slice = (key: string) => {
    const bytes = new Uint8Array(400).fill(value);
    const tensor = {
      dtype: "uint8",
      shape: [400],
      byteLength: 400,
      data: async () => new MemorySource(bytes),
    } as const;
    return { key, sliceSpec: "", fullShape: [400], region: [{ start: 0, end: 400 }], tensor };
  };
  return {
    description,
    shards: Array.from({ length: shards }, (_, i) => ({ task: "", slices: [slice(`a${i}`), slice(`b${i}`)] })),
    warnings: [],
  };
}

/** What a checkpoint holds: how many tensors, of which values. */
async function contentsOf(files: FileStore, prefix: string): Promise<{ count: number; values: number[] }> {
  const reader = await openCheckpoint(prefix, { files });
  try {
    const values = new Set<number>();
    let count = 0;
    for await (const { bytes } of reader.readAll()) {
      count++;
      for (const byte of bytes) values.add(byte);
    }
    return { count, values: [...values] };
  } finally {
    await reader.close();
  }
}

/** Files that cannot be changed. */
class ReadOnlyStore extends CrashingStore {
  override async create(path: string): Promise<never> {
    throw new StorageError("write-failed", "read-only", { file: path });
  }
  override async rename(_: string, to: string): Promise<never> {
    throw new StorageError("write-failed", "read-only", { file: to });
  }
  override async remove(path: string): Promise<never> {
    throw new StorageError("write-failed", "read-only", { file: path });
  }
}

const OLD = { count: 6, values: [1] };
const NEW = { count: 6, values: [2] };
const overwrite = true;

async function storeWithOld(): Promise<MemoryStore> {
  const store = new MemoryStore();
  await writeCheckpoint(store, "d/c", planWith(1, 3));
  return store;
}

describe("replacing a checkpoint", () => {
  it("refuses to without being told so", async () => {
    await expect(writeCheckpoint(await storeWithOld(), "d/c", planWith(2, 3))).rejects.toMatchObject({
      code: "exists",
      file: "d/c.index",
    });
  });

  it.each([1, 2, 3, 5])("leaves nothing of the old one beside %i new shards", async (shards) => {
    const store = await storeWithOld();
    await writeCheckpoint(store, "d/c", planWith(2, shards), { overwrite });
    expect(await contentsOf(store, "d/c")).toEqual({ count: 2 * shards, values: [2] });
    const data = Array.from({ length: shards }, (_, i) => `d/c.data-0000${i}-of-0000${shards}`);
    expect((await store.list("d")).map(({ path }) => path)).toEqual(["d/c.cairn.json", ...data, "d/c.index"]);
  });

  it("leaves the old one or the new one whole, wherever it is cut short, and goes on from there", async () => {
    const changes = await countChanges(await storeWithOld(), (store) =>
      writeCheckpoint(store, "d/c", planWith(2, 3), { overwrite }).then(() => {}),
    );
    expect(changes).toBeGreaterThan(10);
    const seen = new Set<string>();
    for (let at = 0; at < changes; at++) {
      const store = await storeWithOld();
      const crashing = new CrashingStore(store, at);
      await expect(writeCheckpoint(crashing, "d/c", planWith(2, 3), { overwrite })).rejects.toThrow("crash");
      // First by somebody who cannot write, then by somebody who can, then by the check.
      const readOnly = await contentsOf(new ReadOnlyStore(store), "d/c");
      const writable = await contentsOf(store, "d/c");
      expect([readOnly, writable]).toEqual([writable, writable]);
      expect([OLD, NEW]).toContainEqual(writable);
      seen.add(JSON.stringify(writable));
      expect(await verify(store, "d/c")).toMatchObject({ ok: true });
      await writeCheckpoint(store, "d/c", planWith(3, 2), { overwrite });
      expect(await contentsOf(store, "d/c")).toEqual({ count: 4, values: [3] });
      // Another save may be at work, so that what the crash left is only told of.
      const strays = (await verify(store, "d/c")).findings.map(({ file }) => file);
      const names = (await store.list("d")).map(({ path }) => path).filter((path) => !strays.includes(path));
      expect(names).toEqual(["d/c.cairn.json", "d/c.data-00000-of-00002", "d/c.data-00001-of-00002", "d/c.index"]);
    }
    expect(seen.size).toBe(2);
  });

  it("puts the new one in place when it is opened after a crash, so that others can read it too", async () => {
    const store = await storeWithOld();
    // The journal is the sixth file; after it only names change.
    await writeCheckpoint(new CrashingStore(store, 6), "d/c", planWith(2, 3), { overwrite }).catch(() => {});
    expect((await store.list("d")).some(({ path }) => path === "d/.c.cairn-swap.json")).toBe(true);
    expect(await contentsOf(store, "d/c")).toEqual(NEW);
    await store.remove("d/.c.cairn-swap.json");
    expect(await contentsOf(store, "d/c")).toEqual(NEW);
  });

  it("lets a reader that has its files open finish, and others fail as they should", async () => {
    const store = await storeWithOld();
    const reader = await openCheckpoint("d/c", { files: store });
    const open = await reader.data("a0");
    await open.read(0, 10);
    await writeCheckpoint(store, "d/c", planWith(2, 3), { overwrite });
    expect((await open.read(0, 400)).every((byte) => byte === 1)).toBe(true);
    await expect(reader.data("a1")).rejects.toMatchObject({ code: "file-changed", file: "d/c" });
    await expect(contentsOf(store, "d/c")).resolves.toEqual(NEW);
    await reader.close();
  });

  it("never mixes for a reader that comes while it goes on", async () => {
    const changes = await countChanges(await storeWithOld(), (store) =>
      writeCheckpoint(store, "d/c", planWith(2, 3), { overwrite }).then(() => {}),
    );
    for (let at = 0; at < changes; at++) {
      const store = await storeWithOld();
      const reader = await openCheckpoint("d/c", { files: store });
      await writeCheckpoint(new CrashingStore(store, at), "d/c", planWith(2, 3), { overwrite }).catch(() => {});
      const values = new Set<number>();
      try {
        for (const key of ["a0", "b1", "a2"])
          for (const byte of await (await reader.data(key)).read(0, 400)) values.add(byte);
        expect([...values]).toEqual([1]);
      } catch (error) {
        expect(error).toMatchObject({ code: "file-changed" });
      }
    }
  });

  it("refuses a journal that would take files from elsewhere", async () => {
    const moves = [
      { from: "../secret", to: "c.index" },
      { from: "/etc/passwd", to: "c.index" },
      { from: "x/../../c.data-00000-of-00001", to: "c.index" },
      { from: "notes.txt", to: "c.index" },
      { from: ".c.index.cairn-0123456789abcdef.new", to: "other" },
      { from: ".c.index.cairn-0123456789abcdef.new", to: "c.x/../../y" },
    ];
    for (const move of moves) {
      const store = await storeWithOld();
      const sink = await store.create("d/.c.cairn-swap.json");
      await sink.write(new TextEncoder().encode(JSON.stringify({ cairnSwap: 1, moves: [move] })));
      await sink.close();
      await expect(openCheckpoint("d/c", { files: store })).rejects.toMatchObject({ code: "invalid-json" });
    }
  });

  it("removes what it wrote when a tensor cannot be read", async () => {
    const store = await storeWithOld();
    const plan = planWith(2, 3);
    const bad = { ...plan.shards[2]!.slices[1]! };
    bad.tensor = { ...bad.tensor, data: () => Promise.reject(new Error("gone")) };
    const shards = [...plan.shards.slice(0, 2), { task: "", slices: [bad] }];
    await expect(writeCheckpoint(store, "d/c", { ...plan, shards }, { overwrite })).rejects.toThrow("gone");
    await expect(writeCheckpoint(store, "e/new", { ...plan, shards })).rejects.toThrow("gone");
    expect(await contentsOf(store, "d/c")).toEqual(OLD);
    expect((await store.list("")).map(({ path }) => path)).toEqual(["d"]);
  });
});

describe("on a disk", () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "cairn-swap-"));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it("replaces a checkpoint that is being read", async () => {
    const files = new LocalFiles();
    const prefix = join(folder, "c");
    await writeCheckpoint(files, prefix, planWith(1, 2));
    const before = await tensorsOf(files, prefix);
    const reader = await openCheckpoint(prefix, { files });
    const data = await reader.data("a0");
    await data.read(0, 1);
    await writeCheckpoint(files, prefix, planWith(2, 2), { overwrite });
    expect((await data.read(0, 400))[399]).toBe(1);
    await expect(reader.data("a1")).rejects.toMatchObject({ code: "file-changed" });
    await reader.close();
    expect(await tensorsOf(files, prefix)).not.toEqual(before);
    expect(readdirSync(folder).sort()).toEqual([
      "c.cairn.json",
      "c.data-00000-of-00002",
      "c.data-00001-of-00002",
      "c.index",
    ]);
  });
});
