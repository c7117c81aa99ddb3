import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { CheckpointDirectory } from "../../src/formats/checkpoint/checkpoint-directory.js";
import { LocalFiles } from "../../src/platform/node/local-files.js";

const FIXTURES = fileURLToPath(new URL("../fixtures/checkpoints/manager", import.meta.url));

/** A copy in memory of a directory that TensorFlow's manager kept. */
async function copy(name: string): Promise<{ files: MemoryStore; directory: CheckpointDirectory }> {
  const disk = new LocalFiles();
  const entries: [string, Uint8Array][] = [];
  for (const { path } of await disk.list(`${FIXTURES}/${name}`)) {
    const source = await disk.open(path);
    entries.push([`${name}/${path.split("/").at(-1)}`, (await source.read(0, source.size)).slice()]);
    await source.close();
  }
  const files = new MemoryStore(entries);
  return { files, directory: new CheckpointDirectory(files, name) };
}

async function damage(files: MemoryStore, path: string, at: number): Promise<void> {
  const source = await files.open(path);
  const bytes = (await source.read(0, source.size)).slice();
  bytes[at]! ^= 0x40;
  const sink = await files.create(path, { overwrite: true });
  await sink.write(bytes);
  await sink.close();
}

const text = async (files: MemoryStore, path: string) => {
  const source = await files.open(path);
  return new TextDecoder().decode(await source.read(0, source.size));
};

describe("a directory of TensorFlow's CheckpointManager", () => {
  it.each([
    ["mgr", [3, 4, 5]],
    // By the time of saving, not by number.
    ["named", [7, 250]],
    // Those that were kept for good are in no list.
    ["hours", [2, 5, 7]],
  ] as const)("lists %s, oldest first", async (name, numbers) => {
    const { directory } = await copy(name);
    const { versions, skipped } = await directory.list();
    expect(versions.map(({ version }) => version)).toEqual(numbers);
    expect(versions.every(({ isComplete, shards, byteLength }) => isComplete && shards === 1 && byteLength > 0)).toBe(
      true,
    );
    expect(skipped).toEqual([]);
    expect((await directory.latest()).latest).toEqual(versions.at(-1));
  });

  it("passes over what is missing, cut or damaged", async () => {
    const { files, directory } = await copy("mgr");
    await damage(files, "mgr/ckpt-5.data-00000-of-00001", 3);
    expect((await directory.latest({ quick: true })).latest?.version).toBe(5);
    const found = await directory.latest();
    expect(found.latest?.version).toBe(4);
    expect(found.skipped).toMatchObject([{ path: "mgr/ckpt-5" }]);
    await files.remove("mgr/ckpt-4.data-00000-of-00001");
    await files.remove("mgr/ckpt-3.index");
    const { versions } = await directory.list({ quick: true });
    expect(versions.map(({ version, isComplete }) => [version, isComplete])).toEqual([
      [3, false],
      [4, false],
      [5, true],
    ]);
    expect((await directory.latest()).latest).toBeUndefined();
  });

  it("is there without a state file, and with one that cannot be read", async () => {
    const { files, directory } = await copy("mgr");
    await damage(files, "mgr/checkpoint", 0);
    expect((await directory.latest()).latest?.version).toBe(5);
    await files.remove("mgr/checkpoint");
    expect((await directory.latest()).latest?.version).toBe(5);
  });

  it("prunes the oldest, and the state file forgets them", async () => {
    const { files, directory } = await copy("mgr");
    const plan = await directory.planPrune({ keep: 1 });
    expect(plan.remove.map(({ version }) => version)).toEqual([3, 4]);
    expect(plan.keep).toEqual([{ version: 5, path: "mgr/ckpt-5" }]);
    await directory.prune(plan);
    expect((await files.list("mgr")).map(({ path }) => path)).toEqual([
      "mgr/checkpoint",
      "mgr/ckpt-5.data-00000-of-00001",
      "mgr/ckpt-5.index",
    ]);
    const state = await text(files, "mgr/checkpoint");
    expect(state).toContain('model_checkpoint_path: "ckpt-5"\nall_model_checkpoint_paths: "ckpt-5"\nall_model');
    expect((await directory.planPrune({ keep: 1 })).remove).toEqual([]);
  });

  it("prunes what is not whole only when a newer one is, or by force", async () => {
    const { files, directory } = await copy("mgr");
    await files.remove("mgr/ckpt-3.data-00000-of-00001");
    await files.remove("mgr/ckpt-5.data-00000-of-00001");
    expect((await directory.planPrune({ keep: 0 })).remove.map(({ version }) => version)).toEqual([3]);
    const plan = await directory.planPrune({ keep: 1, force: true });
    expect(plan.remove.map(({ version }) => version)).toEqual([3, 5]);
    await directory.prune(plan);
    expect(await text(files, "mgr/checkpoint")).toContain('model_checkpoint_path: "ckpt-4"');
    expect((await directory.latest()).latest?.version).toBe(4);
  });

  it("never prunes the last one that is whole", async () => {
    const { files, directory } = await copy("mgr");
    for (const number of [3, 4, 5]) await files.remove(`mgr/ckpt-${number}.data-00000-of-00001`);
    expect((await directory.planPrune({ keep: 1, force: true })).remove).toEqual([]);
  });
});
