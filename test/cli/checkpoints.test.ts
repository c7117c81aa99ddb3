import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { runProgram } from "../../src/cli/program.js";
import { isTraining, reshardTraining } from "../../src/cli/reshard-training.js";
import { Terminal } from "../../src/cli/terminal.js";
import { reshardVersion } from "../../src/formats/elasticdl/reshard.js";
import { LocalFiles } from "../../src/platform/node/local-files.js";
import { fixturePath } from "../support/fixtures.js";

let folder: string;
let root: string;
let count = 0;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "cairn-checkpoints-"));
});
beforeEach(() => {
  root = join(folder, `ckpt${count++}`);
  cpSync(fixturePath("elasticdl/versions"), root, { recursive: true });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs the command line within this process. */
async function cairn(...args: string[]): Promise<{ status: unknown; stdout: string; stderr: string }> {
  const out = { stdout: "", stderr: "" };
  const spies = (["stdout", "stderr"] as const).map((name) =>
    vi.spyOn(process[name], "write").mockImplementation((text) => {
      out[name] += String(text);
      return true;
    }),
  );
  const before = process.exitCode;
  try {
    await runProgram(args, "0.0.0");
    return { status: process.exitCode, ...out };
  } finally {
    for (const spy of spies) spy.mockRestore();
    process.exitCode = before;
  }
}

describe("cairn checkpoints", () => {
  it("prints the newest complete version, and why newer ones are passed over", async () => {
    expect(await cairn("checkpoints", root, "latest")).toMatchObject({
      status: 0,
      stdout: `${root}/version-20\n`,
      stderr: expect.stringContaining(`passed over ${root}/version-30: shard 1 of 3 missing`),
    });
    const { stdout } = await cairn("checkpoints", root, "latest", "--json");
    expect(JSON.parse(stdout)).toEqual({
      latest: { version: 20, path: `${root}/version-20`, shards: 3 },
      skipped: [
        { path: `${root}/version-100`, reason: "shards 0, 2 of 3 missing" },
        { path: `${root}/version-30`, reason: "shard 1 of 3 missing" },
      ],
    });
  });

  it("exits with 1 when there is none", async () => {
    for (const name of ["version-10", "version-20"]) rmSync(join(root, name), { recursive: true });
    const { status, stdout } = await cairn("checkpoints", root, "latest", "--json");
    expect(status).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({ latest: null });
    expect(await cairn("checkpoints", root, "best")).toMatchObject({
      status: 1,
      stderr: expect.stringContaining("no metrics"),
    });
  });

  it("lists versions with what each lacks", async () => {
    writeFileSync(join(root, "notes"), "");
    const { status, stdout } = await cairn("checkpoints", root, "--json");
    expect(status).toBe(0);
    const { versions, skipped } = JSON.parse(stdout);
    expect(versions.map((one: { version: number; complete: boolean }) => [one.version, one.complete])).toEqual([
      [10, true],
      [20, true],
      [30, false],
      [100, false],
    ]);
    expect(versions[2]).toMatchObject({
      path: `${root}/version-30`,
      shards: 2,
      byteLength: 160,
      reason: "shard 1 of 3 missing",
    });
    expect(skipped).toEqual([{ path: `${root}/notes`, reason: "not a part of a version" }]);
    expect((await cairn("checkpoints", root)).stdout).toMatch(
      /^ {6}10 {2}.*version-10 {2}3 shards {2}276 B {2}complete$/m,
    );
  });

  it("prints the best by recorded metrics", async () => {
    mkdirSync(`${root}.cairn`);
    const versions = [10, 20, 30].map((version) => ({ version, metrics: { loss: version === 30 ? 0 : version / 10 } }));
    writeFileSync(`${root}.cairn/metrics.json`, JSON.stringify({ best: { metric: "loss", mode: "min" }, versions }));
    const { status, stdout } = await cairn("checkpoints", root, "best", "--json");
    expect(status).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      best: { version: 10, path: `${root}/version-10`, metrics: { loss: 1 } },
      metric: "loss",
      mode: "min",
      skipped: [{ path: `${root}/version-30`, reason: "shard 1 of 3 missing" }],
    });
  });

  it("prunes old versions, after a dry run, and needs to know how many stay", async () => {
    expect(await cairn("checkpoints", root, "prune")).toMatchObject({
      status: 2,
      stderr: expect.stringContaining("--keep"),
    });
    expect(await cairn("checkpoints", root, "prune", "--keep", "-1")).toMatchObject({ status: 2 });
    const dry = await cairn("checkpoints", root, "prune", "--keep", "1", "--dry-run", "--json");
    const removed = [{ version: 10, path: `${root}/version-10`, reason: "old" }];
    expect(JSON.parse(dry.stdout)).toMatchObject({ dryRun: true, removed });
    expect(existsSync(join(root, "version-10"))).toBe(true);
    expect((await cairn("checkpoints", root, "prune", "--keep", "1")).stdout).toBe(
      `removed ${root}/version-10 (old)\n`,
    );
    expect(readdirSync(root)).toEqual(["version-100", "version-20", "version-30"]);
    await cairn("checkpoints", root, "prune", "--keep", "1", "--force");
    expect(readdirSync(root)).toEqual(["version-20"]);
  });

  it("refuses what keeps no versions", async () => {
    expect(await cairn("checkpoints", join(root, "version-20"))).toMatchObject({
      status: 3,
      stderr: expect.stringContaining("several states"),
    });
    expect(await cairn("checkpoints", join(root, "nowhere"))).toMatchObject({ status: 3 });
    expect((await cairn("checkpoints", root, "newest")).status).toBe(2);
  });

  it("passes over a newest version with a flipped bit, unless it is to be quick", async () => {
    const { path } = await reshardVersion(new LocalFiles(), fixturePath("elasticdl/model_a/ps2/version-200"), root, {
      psNum: 1,
    });
    const file = join(path, "variables-0-of-1.chkpt");
    const bytes = readFileSync(file);
    bytes[bytes.length >> 1]! ^= 1;
    writeFileSync(file, bytes);
    const latest = async (...more: string[]) =>
      JSON.parse((await cairn("checkpoints", root, "latest", "--json", ...more)).stdout);
    expect(await latest()).toMatchObject({ latest: { version: 20 } });
    expect((await latest()).skipped[0]).toMatchObject({
      path,
      reason: expect.stringMatching(/^variables-0-of-1\.chkpt: checksum of/),
    });
    expect(await latest("--quick")).toMatchObject({ latest: { version: 200 } });
  });
});

describe("cairn on training checkpoints", () => {
  it("prints rows by their ids, also negative ones", async () => {
    const edge = fixturePath("elasticdl/edge/negative_and_empty/version-7");
    const key = "neg/embeddings:0";
    const whole = await cairn("get", edge, key, "--json", "--as", "raw", "-o", join(root, "all"));
    expect(whole.status).toBe(0);
    const all = new Float32Array(new Uint8Array(readFileSync(join(root, "all"))).buffer);
    expect(all.length).toBe(21);
    const rows = await cairn("get", edge, key, "--ids", "-1,4");
    expect(rows.stdout.replace(/\s+/g, "")).toBe(`[[${[...all.slice(9, 12)]}],[${[...all.slice(15, 18)]}]]`);
    const asJson = await cairn("get", edge, key, "--ids", "4", "--json");
    expect(JSON.parse(asJson.stdout)).toEqual({
      key,
      dtype: "float32",
      shape: [1, 3],
      byteLength: 12,
      ids: ["4"],
      verified: true,
    });
    expect(await cairn("get", edge, key, "--ids", "5")).toMatchObject({
      status: 3,
      stderr: expect.stringContaining("no row 5"),
    });
    expect((await cairn("get", edge, key, "--ids", "5", "--region", "0:1")).status).toBe(2);
    expect((await cairn("get", edge, key, "--ids", "five")).status).toBe(2);
  });

  it("lists tables as embeddings", async () => {
    const { stdout } = await cairn("tensors", root, "--json", "--sha256");
    const { format, tensors } = JSON.parse(stdout);
    expect(format).toBe("elasticdl");
    expect(tensors.find((one: { key: string }) => one.key === "emb")).toMatchObject({
      kind: "embedding",
      dim: 2,
      rows: 4,
      initializer: "uniform",
      shape: [4, 2],
      sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
  });

  it("are resharded for a number of servers, after a dry run", async () => {
    const options = (more: object) => ({ numPs: "2", ...more });
    const reshard = async (out: string, more: object) => {
      let text = "";
      const spy = vi.spyOn(process.stdout, "write").mockImplementation((part) => {
        text += String(part);
        return true;
      });
      try {
        await reshardTraining(root, out, options(more), new Terminal({ json: true }));
      } finally {
        spy.mockRestore();
      }
      return JSON.parse(text);
    };
    expect(await isTraining(root)).toBe(true);
    expect(await isTraining(fixturePath("cpb/models/tiny"))).toBe(false);
    const out = `${root}-out`;
    const dry = await reshard(out, { dryRun: true });
    expect(existsSync(out)).toBe(false);
    const { shards, ...rest } = await reshard(out, { layout: "elasticdl" });
    expect(rest).toMatchObject({ output: `${out}/version-20`, version: 20, dryRun: false, byteLength: dry.byteLength });
    expect(shards.map(({ byteLength }: { byteLength: number }) => byteLength)).toEqual(
      dry.shards.map(({ byteLength }: { byteLength: number }) => byteLength),
    );
    expect(readdirSync(out)).toEqual(["version-20"]);
    await expect(reshard(out, { numPs: "many" })).rejects.toMatchObject({ code: "usage" });
    await expect(reshard(out, { layout: "elasticdl" })).rejects.toMatchObject({ code: "exists" });
  });

  it("verifies, and looks into them", async () => {
    expect(await cairn("verify", join(root, "version-20"))).toMatchObject({
      status: 0,
      stdout: expect.stringContaining("good"),
    });
    expect(await cairn("verify", root)).toMatchObject({
      status: 1,
      stdout: expect.stringContaining("[missing-shard]"),
    });
    expect((await cairn("inspect", root)).stdout).toContain("version-20");
  });
});
