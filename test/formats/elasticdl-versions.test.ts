import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { recordMetrics } from "../../src/formats/elasticdl/metrics.js";
import type { ModelContents } from "../../src/formats/elasticdl/model-contents.js";
import { parseShardName, parseVersionName, sidePath, versionTarget } from "../../src/formats/elasticdl/names.js";
import { intToId, stringToId } from "../../src/formats/elasticdl/partition.js";
import { recoverReplaced } from "../../src/formats/elasticdl/publish.js";
import { applyRetention, planRetention, type RetainedVersion } from "../../src/formats/elasticdl/retention.js";
import { saveShard } from "../../src/formats/elasticdl/save-shard.js";
import { TrainingDirectory } from "../../src/formats/elasticdl/versioned.js";
import { findLatest, findProblem, listVersions } from "../../src/formats/elasticdl/versions.js";
import { writeVersion } from "../../src/formats/elasticdl/write-version.js";
import { LocalFiles } from "../../src/platform/node/local-files.js";
import { CrashingStore, countChanges } from "../support/crashing-store.js";
import { expected, restoreFrom, wholeOf } from "../support/elasticdl.js";
import { fixturePath } from "../support/fixtures.js";

const files = new LocalFiles();
let folder: string;
let root: string;
let count = 0;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "cairn-versions-"));
});
beforeEach(() => {
  root = join(folder, `run${count++}`);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** What server `psId` of `psNum` has at a version. */
function shareOf(modelVersion: number, psId: number, psNum: number): ModelContents {
  const names = ["a", "b", "c", "d", "e", "f"].filter((name) => stringToId(name, psNum) === psId);
  const ids = Array.from({ length: 20 }, (_, i) => BigInt(i - 5)).filter((id) => intToId(id, psNum) === psId);
  const source = (values: number[]) => () =>
    new MemorySource(new Uint8Array(Float32Array.from(values).buffer), "given");
  const part = {
    rowCount: ids.length,
    slots: new Map(),
    data: source(ids.map((id) => Number(id) + modelVersion)),
    async *idBatches() {
      if (ids.length > 0) yield BigInt64Array.from(ids);
    },
  };
  return {
    modelVersion,
    dense: names.map((name) => ({
      name,
      dtype: "float32",
      shape: [1],
      data: source([modelVersion]),
      slots: new Map(),
    })),
    tables: [{ name: "t", dim: 1, dtype: "float32", initializer: "zeros", parts: [part], slots: [] }],
    states: [],
  };
}

const save = (
  modelVersion: number,
  psId: number,
  psNum: number,
  store: ConstructorParameters<typeof CrashingStore>[0] = files,
) => saveShard(store, root, shareOf(modelVersion, psId, psNum), { psId, psNum });

async function saveAll(modelVersion: number, psNum = 2): Promise<void> {
  for (let psId = 0; psId < psNum; psId++) await save(modelVersion, psId, psNum);
}

const latestOf = async () => (await new TrainingDirectory(files, root).latest()).latest?.version;

describe("names", () => {
  it("of both layouts are read, and nothing else is", () => {
    expect(parseShardName("variables-3-of-12.chkpt")).toEqual({ psId: 3, psNum: 12 });
    expect(parseShardName("variables-3-of-12.ckpt")).toEqual({ psId: 3, psNum: 12 });
    for (const name of [
      "variables-03-of-12.ckpt",
      "variables-1-of-0.ckpt",
      "variables-1-of-2.ckpt.tmp",
      "xvariables-0-of-1.ckpt",
      "variables--1-of-2.ckpt",
    ])
      expect(parseShardName(name), name).toBeUndefined();
    expect(
      ["version-7", "version_70", "model_v8.chkpt", "version-07", "other-9", "version-1.tmp"].map(parseVersionName),
    ).toEqual([7, 70, 8, undefined, undefined, undefined]);
  });

  it("say where a version goes, and contradictions are refused", () => {
    expect(versionTarget("out", 5)).toEqual({ root: "out", path: "out/version_5", layout: "design" });
    expect(versionTarget("out/", 5, "elasticdl")).toMatchObject({ path: "out/version-5" });
    expect(versionTarget("a/version-5", 5)).toEqual({ root: "a", path: "a/version-5", layout: "elasticdl" });
    expect(() => versionTarget("a/version-5", 6)).toThrow(expect.objectContaining({ code: "usage" }));
    expect(() => versionTarget("a/version-5", 5, "design")).toThrow(expect.objectContaining({ code: "usage" }));
    expect(() => sidePath(".")).toThrow(expect.objectContaining({ code: "usage" }));
  });
});

describe("versions that ElasticDL wrote", () => {
  it("are complete exactly where it calls them valid, and the latest is the same", async () => {
    cpSync(fixturePath("elasticdl/versions"), root, { recursive: true });
    mkdirSync(join(root, "version-40"));
    const listed = await listVersions(files, root);
    const complete: Record<string, boolean> = {};
    for (const version of listed.versions) {
      complete[version.path.slice(root.length + 1)] = (await findProblem(files, version)) === undefined;
    }
    expect(complete).toEqual(expected.versions.valid);
    expect(Object.keys(complete)).toEqual(["version-10", "version-20", "version-30", "version-40", "version-100"]);
    const { latest, incomplete } = await findLatest(files, listed);
    expect(latest!.path).toBe(join(root, expected.versions.latest_valid));
    expect(incomplete.map(({ problem }) => problem!.message)).toEqual([
      "shards 0, 2 of 3 missing",
      "no shards",
      "shard 1 of 3 missing",
    ]);
    const [whole] = await restoreFrom(
      files,
      latest!.shards.map(({ path }) => path),
      { psNum: 1 },
    );
    const { dense, tables } = expected.versions.whole_of_latest;
    expect(wholeOf(whole!)).toEqual({ dense, tables });
  });
});

describe("a checkpoint directory", () => {
  it("counts versions as numbers, in both layouts, and passes over what is none", async () => {
    await saveAll(9);
    await saveAll(30);
    await writeVersion(files, root, shareOf(100, 0, 1), { layout: "elasticdl" });
    writeFileSync(join(root, "notes.txt"), "");
    mkdirSync(join(root, "other-900"));
    const { versions, skipped } = await new TrainingDirectory(files, root).list();
    expect(versions.map(({ version, shards, isComplete }) => [version, shards, isComplete])).toEqual([
      [9, 2, true],
      [30, 2, true],
      [100, 1, true],
    ]);
    expect(skipped.map(({ path }) => path)).toEqual([join(root, "notes.txt"), join(root, "other-900")]);
  });

  it.each([
    ["lacks a shard", (at: (name: string) => string) => rmSync(at("variables-1-of-2.chkpt")), /^shard 1 of 2 missing$/],
    [
      "has an empty shard",
      (at: (name: string) => string) => writeFileSync(at("variables-1-of-2.chkpt"), ""),
      /variables-1-of-2\.chkpt: the shard is empty/,
    ],
    [
      "has a cut shard",
      (at: (name: string) => string) =>
        writeFileSync(at("variables-1-of-2.chkpt"), readFileSync(at("variables-1-of-2.chkpt")).subarray(0, 40)),
      /variables-1-of-2\.chkpt: /,
    ],
    [
      "has a flipped bit in a row",
      (at: (name: string) => string) => {
        const bytes = readFileSync(at("variables-0-of-2.chkpt"));
        bytes[bytes.indexOf(Buffer.from(Float32Array.of(22).buffer))]! ^= 1;
        writeFileSync(at("variables-0-of-2.chkpt"), bytes);
      },
      /checksum of embedding table "t"/,
    ],
    [
      "has a shard of another version",
      (at: (name: string) => string) =>
        cpSync(join(at(".."), "version_10/variables-1-of-2.chkpt"), at("variables-1-of-2.chkpt")),
      /model version 10 where 20 belongs/,
    ],
    [
      "has shards of two counts and none of one",
      (at: (name: string) => string) =>
        cpSync(at("variables-1-of-2.chkpt"), at("variables-1-of-3.chkpt")) ?? rmSync(at("variables-1-of-2.chkpt")),
      /shards of 2 and 3 servers/,
    ],
    [
      "has a shard under two names",
      (at: (name: string) => string) => cpSync(at("variables-1-of-2.chkpt"), at("variables-1-of-2.ckpt")),
      /one too many/,
    ],
    [
      "has shards beyond its count",
      (at: (name: string) => string) => cpSync(at("variables-1-of-2.chkpt"), at("variables-2-of-2.chkpt")),
      /one too many/,
    ],
  ])("falls back when the newest version %s, and says why", async (_name, damage, reason) => {
    await saveAll(10);
    await saveAll(20);
    damage((name) => join(root, "version_20", name));
    const { latest, skipped } = await new TrainingDirectory(files, root).latest();
    expect(latest).toMatchObject({ version: 10, path: join(root, "version_10"), shards: 2 });
    expect(skipped).toEqual([{ path: join(root, "version_20"), reason: expect.stringMatching(reason) }]);
  });

  it("takes the complete shards of one count where a few of another stand beside", async () => {
    await saveAll(10);
    cpSync(join(root, "version_10/variables-1-of-2.chkpt"), join(root, "version_10/variables-1-of-3.chkpt"));
    expect((await new TrainingDirectory(files, root).latest()).latest).toMatchObject({ version: 10, shards: 2 });
  });

  it("with nothing complete has no latest", async () => {
    await save(10, 0, 2);
    expect(await new TrainingDirectory(files, root).latest()).toEqual({
      latest: undefined,
      skipped: [{ path: join(root, "version_10"), reason: "shard 1 of 2 missing" }],
    });
  });

  it("with one file of a whole model has that version", async () => {
    await writeVersion(files, root, shareOf(8, 0, 1), { layout: "elasticdl" });
    cpSync(join(root, "version-8/variables-0-of-1.ckpt"), join(root, "model_v8.chkpt"));
    rmSync(join(root, "version-8"), { recursive: true });
    expect((await new TrainingDirectory(files, root).latest()).latest).toMatchObject({
      version: 8,
      shards: 1,
      path: join(root, "model_v8.chkpt"),
    });
  });
});

describe("saving", () => {
  it("leaves a whole shard or none at any crash, and nothing in the checkpoint directory but shards", async () => {
    await saveAll(10);
    const changes = await countChanges(files, async (store) => void (await save(20, 0, 2, store)));
    for (let crash = 0; crash < changes; crash++) {
      rmSync(join(root, "version_20"), { recursive: true, force: true });
      await expect(save(20, 0, 2, new CrashingStore(files, crash))).rejects.toThrow("crash");
      expect(readdirSync(root)).toEqual(["version_10"]);
      expect(await latestOf()).toBe(10);
    }
    await save(20, 0, 2);
    expect(await latestOf()).toBe(10);
    await save(20, 1, 2);
    expect(await latestOf()).toBe(20);
    expect(readdirSync(root)).toEqual(["version_10", "version_20"]);
  });

  it("of two servers at once gives a complete version", async () => {
    for (let modelVersion = 1; modelVersion <= 8; modelVersion++) {
      await Promise.all([0, 1, 2].map((psId) => save(modelVersion, psId, 3)));
      expect(await latestOf()).toBe(modelVersion);
    }
    expect(existsSync(`${root}.cairn`)).toBe(false);
  });

  it("refuses what belongs to another server", async () => {
    await expect(saveShard(files, root, shareOf(1, 0, 2), { psId: 1, psNum: 2 })).rejects.toMatchObject({
      code: "usage",
    });
    await expect(saveShard(files, root, shareOf(-1, 0, 1), { psId: 0, psNum: 1 })).rejects.toMatchObject({
      code: "usage",
    });
    expect(existsSync(root)).toBe(false);
  });

  it("a whole version replaces an older one only when that is asked for, and at any crash one of them is there", async () => {
    const write = (store: LocalFiles | CrashingStore, overwrite: boolean) =>
      writeVersion(store, root, shareOf(5, 0, 1), { overwrite });
    await write(files, false);
    await expect(write(files, false)).rejects.toMatchObject({ code: "exists" });
    const changes = await countChanges(files, async (store) => void (await write(store as never, true)));
    for (let crash = 0; crash < changes; crash++) {
      await write(new CrashingStore(files, crash), true).catch((error) => expect(error.message).toBe("crash"));
      // When the crash came between the two renames, the old version is put back by the next who writes.
      await recoverReplaced(files, root);
      expect(await latestOf()).toBe(5);
    }
  });
});

describe("retention", () => {
  const version = (modelVersion: number, isComplete = true): RetainedVersion => ({
    modelVersion,
    path: `v${modelVersion}`,
    isComplete,
    shards: [
      { psId: 0, path: `v${modelVersion}/0` },
      { psId: 1, path: `v${modelVersion}/1` },
    ],
  });
  const gone = (versions: RetainedVersion[], options: Parameters<typeof planRetention>[1]) =>
    planRetention(versions, options).map(({ modelVersion, reason, files: some }) => [
      modelVersion,
      reason,
      ...(some ?? []),
    ]);

  it("keeps the newest complete ones and collects what was left behind", () => {
    const versions = [version(1), version(2, false), version(3), version(4), version(5, false)];
    expect(gone(versions, { keepMax: 2 })).toEqual([
      [1, "old"],
      [2, "incomplete"],
    ]);
    expect(gone(versions, { keepMax: 3 })).toEqual([]);
    expect(gone(versions, { keepMax: 0 })).toEqual([]);
    expect(gone(versions, { keepMax: 2, keep: new Set([1]) })).toEqual([[2, "incomplete"]]);
    expect(gone(versions, { keepMax: 2, psId: 1 })).toEqual([
      [1, "old", "v1/1"],
      [2, "incomplete"],
    ]);
    expect(gone(versions, { keepMax: 1, takeAllIncomplete: true }).map(([number]) => number)).toEqual([1, 2, 3, 5]);
    expect(() => planRetention([], { keepMax: -1 })).toThrow(expect.objectContaining({ code: "usage" }));
  });

  /** The servers of a trace save, and after each save the one that saved retains. */
  function replay(steps: readonly { ps: number; version: number }[], psNum: number, keepMax: number) {
    const disk = new Map<number, Set<number>>();
    const everComplete = new Set<number>();
    for (const step of steps) {
      disk.set(step.version, (disk.get(step.version) ?? new Set()).add(step.ps));
      const isComplete = (shards: Set<number>) => shards.size === psNum;
      for (const [number, shards] of disk) if (isComplete(shards)) everComplete.add(number);
      const versions = Array.from(disk, ([modelVersion, shards]) => ({
        modelVersion,
        path: `${modelVersion}`,
        isComplete: isComplete(shards),
        shards: Array.from(shards, (psId) => ({ psId, path: `${modelVersion}/${psId}` })),
      }));
      for (const { modelVersion, files: some } of planRetention(versions, { keepMax, psId: step.ps })) {
        for (const path of some ?? []) disk.get(modelVersion)!.delete(Number(path.split("/")[1]));
        if (some === undefined || disk.get(modelVersion)!.size === 0) disk.delete(modelVersion);
      }
      const complete = [...disk].filter(([, shards]) => isComplete(shards)).map(([number]) => number);
      const wanted = [...everComplete].sort((a, b) => b - a).slice(0, keepMax === 0 ? undefined : keepMax);
      expect(complete).toEqual(expect.arrayContaining(wanted));
    }
    return disk;
  }

  it.each(Object.entries(expected.retention))(
    "never loses the newest complete versions where ElasticDL runs %s",
    (_name, trace) => {
      replay(trace.steps, trace.ps_num, trace.keep_checkpoint_max);
    },
  );

  it("never loses the newest complete versions, whichever server is fast, slow or dead", () => {
    const saves = fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 60 });
    fc.assert(
      fc.property(saves, fc.integer({ min: 1, max: 4 }), fc.integer({ min: 0, max: 3 }), (order, psNum, keepMax) => {
        const next = [1, 1, 1, 1];
        const steps = order.map((ps) => ps % psNum).map((ps) => ({ ps, version: 2 * next[ps]!++ }));
        replay(steps, psNum, keepMax);
      }),
    );
  });

  it("stays within its limit where ElasticDL's own never deletes again", () => {
    const steps = Array.from({ length: 40 }, (_, i) => ({ ps: i % 2, version: 2 * (1 + Math.floor(i / 2)) }));
    expect([...replay(steps, 2, 2).keys()].length).toBeLessThanOrEqual(3);
  });

  it("on the disk removes versions and shards, and no one trips over what another removed", async () => {
    for (const number of [1, 2, 3]) await saveAll(number);
    const { versions } = await listVersions(files, root);
    const seen = versions.map(({ modelVersion = 0, path, shards }) => ({
      modelVersion,
      path,
      shards,
      isComplete: true,
    }));
    await applyRetention(files, root, planRetention(seen, { keepMax: 2, psId: 0 }));
    expect(readdirSync(join(root, "version_1"))).toEqual(["variables-1-of-2.chkpt"]);
    await applyRetention(files, root, planRetention(seen, { keepMax: 2, psId: 1 }));
    expect(readdirSync(root)).toEqual(["version_2", "version_3"]);
    const all = planRetention(seen, { keepMax: 1 });
    await Promise.all([applyRetention(files, root, all), applyRetention(files, root, all)]);
    expect(readdirSync(root)).toEqual(["version_3"]);
    expect(await latestOf()).toBe(3);
  });

  it("of a whole directory keeps the best version, in one step each", async () => {
    for (const number of [1, 2, 3, 4]) await saveAll(number);
    await save(5, 0, 2);
    for (const [number, auc] of [
      [1, 0.5],
      [2, 0.9],
      [3, 0.9],
      [4, 0.7],
    ] as const)
      await recordMetrics(files, root, {
        version: number,
        metrics: { auc, loss: 1 - auc },
        best: { metric: "auc", mode: "max" },
      });
    const directory = new TrainingDirectory(files, root);
    expect(await directory.best()).toMatchObject({
      best: { version: 3, metrics: { auc: 0.9 } },
      metric: "auc",
      mode: "max",
    });
    const plan = await directory.planPrune({ keep: 1 });
    expect(plan.remove.map(({ version: number, reason }) => [number, reason])).toEqual([
      [1, "old"],
      [2, "old"],
    ]);
    expect(plan.keep.map(({ version: number }) => number)).toEqual([3, 4, 5]);
    await directory.prune(plan);
    expect(readdirSync(root).sort()).toEqual(["version_3", "version_4", "version_5"]);
    expect(readdirSync(`${root}.cairn`)).toEqual(["metrics.json"]);
    expect((await directory.planPrune({ keep: 0, force: true })).remove.map(({ version: number }) => number)).toEqual([
      5,
    ]);
  });

  it("finds the best among complete versions only", async () => {
    await saveAll(1);
    await save(2, 0, 2);
    for (const number of [1, 2])
      await recordMetrics(files, root, {
        version: number,
        metrics: { loss: 1 / number },
        best: { metric: "loss", mode: "min" },
      });
    const { best, skipped } = await new TrainingDirectory(files, root).best();
    expect(best!.version).toBe(1);
    expect(skipped).toEqual([{ path: join(root, "version_2"), reason: "shard 1 of 2 missing" }]);
    writeFileSync(join(`${root}.cairn`, "metrics.json"), '{"versions":[null]}');
    await expect(new TrainingDirectory(files, root).best()).rejects.toMatchObject({ code: "invalid-json" });
  });
});
