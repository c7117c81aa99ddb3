import { cpSync, mkdtempSync, readdirSync, rmSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { formatShardName, formatVersionName } from "../../../src/formats/elasticdl/names.js";
import { saveShard } from "../../../src/formats/elasticdl/save-shard.js";
import { localFiles } from "../../../src/platform/node/index.js";
import { findAfterFault, findStart, findVersion, prune } from "../../../src/training/job/start-version.js";

let made: string;
let folder: string;
let root: string;

/** Versions 10, 20 and 30 of two servers, which hold nothing but their version. */
beforeAll(async () => {
  made = mkdtempSync(join(tmpdir(), "cairn-made-"));
  for (const modelVersion of [10, 20, 30]) {
    for (const psId of [0, 1]) {
      const contents = { modelVersion, dense: [], tables: [], states: [] };
      await saveShard(localFiles, join(made, "ckpt"), contents, { psId, psNum: 2 });
    }
  }
});
afterAll(() => rmSync(made, { recursive: true, force: true }));
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "cairn-start-"));
  root = join(folder, "ckpt");
  cpSync(join(made, "ckpt"), root, { recursive: true });
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const version = (number: number) => join(root, formatVersionName(number, "design"));
const shard = (number: number, psId: number) => join(version(number), formatShardName({ psId, psNum: 2 }, "design"));
const latest = { checkpointDirForInit: "latest" };

describe("where a training begins", () => {
  it("is nowhere in an empty directory, and an error in one with versions unless it is to go on", async () => {
    expect(await findStart(localFiles, { checkpointDir: join(folder, "new") })).toBeUndefined();
    expect(await findStart(localFiles, { checkpointDir: join(folder, "new"), ...latest })).toBeUndefined();
    await expect(findStart(localFiles, { checkpointDir: root })).rejects.toMatchObject({ code: "exists" });
    await expect(findStart(localFiles, latest)).rejects.toMatchObject({ code: "usage" });
  });

  it("is the newest complete version; what is newer and damaged is put aside, whole", async () => {
    truncateSync(shard(30, 1), 10);
    const start = await findStart(localFiles, { checkpointDir: root, ...latest });
    expect(start).toMatchObject({ modelVersion: 20, path: version(20) });
    expect(start?.notes).toHaveLength(2);
    expect(readdirSync(root).sort()).toEqual(["version_10", "version_20"]);
    const [aside = ""] = readdirSync(join(folder, "ckpt.cairn", "set-aside"));
    expect(readdirSync(join(folder, "ckpt.cairn", "set-aside", aside))).toHaveLength(2);
  });

  it("is nothing random when no version is complete", async () => {
    for (const number of [10, 20, 30]) rmSync(shard(number, 0));
    await expect(findStart(localFiles, { checkpointDir: root, ...latest })).rejects.toMatchObject({
      code: "no-complete-version",
    });
    await expect(findVersion(localFiles, version(10))).rejects.toMatchObject({ code: "no-complete-version" });
    await expect(findVersion(localFiles, join(folder, "none"))).rejects.toMatchObject({ code: "not-found" });
  });

  it("is a version that is named, where no newer complete one would be mixed with", async () => {
    const other = { checkpointDir: join(folder, "other"), checkpointDirForInit: version(20) };
    expect(await findStart(localFiles, other)).toMatchObject({ modelVersion: 20 });
    const own = { checkpointDir: root, checkpointDirForInit: version(20) };
    await expect(findStart(localFiles, own)).rejects.toMatchObject({ code: "exists" });
    expect(await findStart(localFiles, { ...own, checkpointDirForInit: version(30) })).toMatchObject({
      modelVersion: 30,
    });
  });
});

describe("after a fault", () => {
  it("the newest complete version is left as the newest", async () => {
    rmSync(shard(30, 0));
    expect(await findAfterFault(localFiles, root)).toMatchObject({ modelVersion: 20 });
    expect(readdirSync(root).sort()).toEqual(["version_10", "version_20"]);
    expect(await findAfterFault(localFiles, join(folder, "none"))).toBeUndefined();
  });

  it("nothing stays that nobody completes any more", async () => {
    rmSync(shard(10, 1));
    await prune(localFiles, root, 0);
    expect(readdirSync(root).sort()).toEqual(["version_20", "version_30"]);
    await prune(localFiles, root, 1);
    expect(readdirSync(root)).toEqual(["version_30"]);
  });
});
