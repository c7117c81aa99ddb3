import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { isCairnError } from "../../src/errors.js";
import { Checkpoint } from "../../src/tracking/checkpoint.js";
import { CheckpointManager, type CheckpointManagerOptions } from "../../src/tracking/manager.js";
import { TrackedNumber } from "../../src/tracking/scalars.js";

const FIXTURES = fileURLToPath(new URL("../fixtures/checkpoints/manager", import.meta.url));

async function setUp(options: Partial<CheckpointManagerOptions> = {}) {
  const files = options.files ?? new MemoryStore();
  const step = new TrackedNumber();
  const checkpoint = new Checkpoint({ step }, { files });
  const settings = { files, directory: "dir", maxToKeep: 2, ...options };
  return { files, step, checkpoint, manager: await CheckpointManager.open(checkpoint, settings) };
}

async function indexes(files: CheckpointManagerOptions["files"], directory = "dir"): Promise<string[]> {
  const names = (await files.list(directory)).map(({ path }) => path.slice(directory.length + 1));
  return names.filter((name) => name.endsWith(".index")).map((name) => name.slice(0, -".index".length));
}

async function read(files: CheckpointManagerOptions["files"], path: string): Promise<string> {
  const source = await files.open(path);
  return new TextDecoder().decode(await source.read(0, source.size));
}

async function write(files: CheckpointManagerOptions["files"], path: string, text: string): Promise<void> {
  const sink = await files.create(path, { overwrite: true });
  await sink.write(new TextEncoder().encode(text));
  await sink.close();
}

describe("a manager of checkpoints", () => {
  it("keeps what TensorFlow's manager keeps, and its state file is the same", async () => {
    const log = JSON.parse(readFileSync(join(FIXTURES, "hours/log.json"), "utf8")) as {
      t: number;
      number: number;
      kept: string[];
    }[];
    let now = log[0]!.t - 1500;
    const { files, manager } = await setUp({ maxToKeep: 1, keepCheckpointEveryNHours: 1, now: () => now });
    for (const { t, number, kept } of log) {
      now = t;
      expect(await manager.save({ checkpointNumber: number })).toBe(`dir/ckpt-${number}`);
      expect((await indexes(files)).map((name) => `${name}.index`)).toEqual(kept);
    }
    expect(await read(files, "dir/checkpoint")).toBe(readFileSync(join(FIXTURES, "hours/checkpoint"), "utf8"));
  });

  it("removes all files of what it no longer keeps, and no others", async () => {
    const { files, manager } = await setUp({ maxToKeep: 1 });
    await write(files, "dir/ckpt-1.notes.txt", "mine");
    await write(files, "dir/ckpt-10.index", "other");
    await write(files, "dir/ckpt-10.data-00000-of-00001", "other");
    await manager.save();
    await manager.save();
    const names = (await files.list("dir")).map(({ path }) => path.slice(4));
    expect(names).toEqual([
      "checkpoint",
      "ckpt-1.notes.txt",
      "ckpt-10.data-00000-of-00001",
      "ckpt-10.index",
      ...["cairn.json", "data-00000-of-00001", "index"].map((end) => `ckpt-2.${end}`),
    ]);
    expect(manager.checkpoints).toEqual(["dir/ckpt-2"]);
    expect(manager.latestCheckpoint).toBe("dir/ckpt-2");
  });

  it.each(["/elsewhere/ckpt-9", "../elsewhere/ckpt-9", "sub/ckpt-9", "other-9", "ckpt-../../elsewhere/ckpt-9"])(
    "never removes %s, which a state file may name",
    async (path) => {
      const files = new MemoryStore();
      for (const place of ["/elsewhere/ckpt-9", "elsewhere/ckpt-9", "dir/sub/ckpt-9", "dir/other-9"])
        await write(files, `${place}.index`, "x");
      await write(
        files,
        "dir/checkpoint",
        `model_checkpoint_path: "${path}"\nall_model_checkpoint_paths: "${path}"\nall_model_checkpoint_timestamps: 50.0\nlast_preserved_timestamp: 1.0\n`,
      );
      const { manager } = await setUp({ files, maxToKeep: 1, now: () => 100 });
      expect(manager.checkpoints).toHaveLength(1);
      await manager.save();
      expect(manager.checkpoints).toEqual(["dir/ckpt-1"]);
      expect(await indexes(files, "elsewhere")).toHaveLength(1);
      expect(await indexes(files, "dir/sub")).toHaveLength(1);
      expect(await indexes(files)).toEqual(["ckpt-1", "other-9"]);
    },
  );

  it("goes on where the last one ended", async () => {
    const { files, manager } = await setUp();
    await manager.save();
    await manager.save();
    const second = await setUp({ files });
    expect(second.manager.checkpoints).toEqual(["dir/ckpt-1", "dir/ckpt-2"]);
    expect((await second.manager.restoreOrInitialize()).restored).toBe("dir/ckpt-2");
    await second.manager.save();
    expect(await indexes(files)).toEqual(["ckpt-2", "ckpt-3"]);
  });

  it("passes over a checkpoint that is not whole or damaged, and says so", async () => {
    const { files, step, manager } = await setUp({ maxToKeep: undefined });
    for (step.value = 1; step.value <= 4; step.value++) await manager.save();
    await files.remove("dir/ckpt-4.data-00000-of-00001");
    const path = "dir/ckpt-3.data-00000-of-00001";
    const source = await files.open(path);
    const damaged = (await source.read(0, source.size)).slice();
    damaged[0]! ^= 1;
    await write(files, path, "");
    const sink = await files.create(path, { overwrite: true });
    await sink.write(damaged);
    await sink.close();
    const { restored, skipped } = await manager.restoreOrInitialize();
    expect(restored).toBe("dir/ckpt-2");
    expect(step.value).toBe(2);
    expect(skipped.map((one) => one.path)).toEqual(["dir/ckpt-4", "dir/ckpt-3"]);
    expect(skipped[0]!.reason).toContain("missing");
    expect(skipped[1]!.reason).toContain("checksum");
    // What can be told without reading it.
    expect((await manager.findLatest()).latest).toMatchObject({ path: "dir/ckpt-3", version: 3 });
  });

  it("initializes when there is nothing", async () => {
    let isInitialized = false;
    const { manager } = await setUp({
      initialize: () => {
        isInitialized = true;
      },
    });
    expect(await manager.restoreOrInitialize()).toEqual({ restored: undefined, skipped: [] });
    expect(isInitialized).toBe(true);
  });

  it("does not take a checkpoint of other objects for a damaged one", async () => {
    const { files, manager } = await setUp();
    await manager.save();
    const checkpoint = new Checkpoint({ step: new TrackedNumber(0, "float32") }, { files });
    const other = await CheckpointManager.open(checkpoint, { files, directory: "dir", maxToKeep: 1 });
    await expect(other.restoreOrInitialize()).rejects.toMatchObject({ code: "tensor-mismatch" });
  });

  it("leaves out saves that come too soon", async () => {
    let now = 0;
    const { manager } = await setUp({ stepCounter: () => now, checkpointInterval: 10 });
    const saved: boolean[] = [];
    for (now of [0, 0, 5, 10, 19, 20]) saved.push((await manager.save()) !== undefined);
    expect(saved).toEqual([true, false, false, true, false, true]);
    expect(await manager.save({ checkInterval: false })).toBeUndefined();
    now = 21;
    expect(await manager.save({ checkInterval: false })).toBe("dir/ckpt-4");
  });

  it("keeps all it kept when a save fails", async () => {
    const { files, manager } = await setUp({ maxToKeep: 1 });
    await manager.save();
    const before = await read(files, "dir/checkpoint");
    await expect(manager.save({ signal: AbortSignal.abort(new Error("stop")) })).rejects.toThrow("stop");
    expect(await indexes(files)).toEqual(["ckpt-1"]);
    expect(await read(files, "dir/checkpoint")).toBe(before);
    expect(await manager.save()).toBe("dir/ckpt-2");
  });

  it.each([{ maxToKeep: 0 }, { maxToKeep: 1.5 }, { checkpointInterval: 5 }, { checkpointName: "a/b" }])(
    "refuses %j",
    async (options) => {
      const error = await setUp(options).catch((one: unknown) => one);
      expect(isCairnError(error, "usage")).toBe(true);
    },
  );
});
