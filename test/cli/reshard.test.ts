import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { runProgram } from "../../src/cli/program.js";
import { fixturePath } from "../support/fixtures.js";

let folder: string;
let work: string;
let count = 0;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "cairn-reshard-"));
});
beforeEach(() => {
  work = join(folder, `work${count++}`);
  cpSync(fixturePath("checkpoints/max_shard_size"), join(work, "in"), { recursive: true });
  cpSync(fixturePath("checkpoints/manager/mgr"), join(work, "mgr"), { recursive: true });
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

const shards = (directory: string) => readdirSync(join(work, directory)).filter((name) => name.includes(".data-"));

describe("cairn reshard", () => {
  it("cuts into shards of a size, and back into one", async () => {
    const cut = await cairn("reshard", join(work, "in/max1000"), join(work, "out/ckpt"), "--max-shard-size", "100");
    expect(cut).toMatchObject({ status: 0, stdout: expect.stringContaining("8 shards of 1 shard") });
    expect(shards("out")).toHaveLength(8);
    const back = await cairn(
      "reshard",
      join(work, "out/ckpt"),
      join(work, "one/ckpt"),
      "--max-shard-size",
      "1MB",
      "--json",
    );
    expect(JSON.parse(back.stdout)).toMatchObject({
      dryRun: false,
      sourceShards: 8,
      shards: [{ slices: 13 }],
      warnings: [],
    });
    const same = readFileSync(join(work, "one/ckpt.data-00000-of-00001"));
    expect(same.equals(readFileSync(join(work, "in/max1000.data-00000-of-00001")))).toBe(true);
    expect((await cairn("diff", join(work, "in/max1000"), join(work, "one/ckpt"))).status).toBe(0);
  });

  it("shows a plan and writes nothing with --dry-run", async () => {
    const { status, stdout } = await cairn(
      "reshard",
      join(work, "in/max24"),
      join(work, "out/x"),
      "--policy",
      "by-device",
      "--dry-run",
    );
    expect(status).toBe(0);
    expect(stdout).toContain("31 shards of 31 shards");
    expect(stdout).toContain("  shard 30: ");
    expect(stdout).toContain("nothing was written");
    expect(existsSync(join(work, "out"))).toBe(false);
  });

  it("takes a policy from a module, also one that gets the size", async () => {
    const policy = join(work, "policy.mjs");
    writeFileSync(
      policy,
      `export default class {
        constructor({ maxShardSize }) { this.description = "Halves of " + maxShardSize; }
        call(tensors) {
          const shards = [new Map(), new Map()];
          tensors.forEach(({ checkpointKey, sliceSpec, tensor }, i) => shards[i % 2].set(checkpointKey, new Map([[sliceSpec, tensor]])));
          return shards;
        }
      }`,
    );
    const run = await cairn(
      "reshard",
      join(work, "in/max1000"),
      join(work, "out/ckpt"),
      "--policy",
      policy,
      "--max-shard-size",
      "7",
      "--json",
    );
    expect(JSON.parse(run.stdout)).toMatchObject({ description: "Halves of 7", shards: [{}, {}] });
    expect(JSON.parse(readFileSync(join(work, "out/ckpt.cairn.json"), "utf8"))).toMatchObject({
      description: "Halves of 7",
    });
    const losing = join(work, "losing.mjs");
    writeFileSync(losing, `export default { description: "Loses all.", call: () => [] };`);
    expect(await cairn("reshard", join(work, "in/max1000"), join(work, "out/y"), "--policy", losing)).toMatchObject({
      status: 2,
    });
    expect(existsSync(join(work, "out/y.index"))).toBe(false);
  });

  it.each([
    [["--policy", "by-size"], 2, /no policy "by-size"/],
    [["--policy", "max-shard-size"], 2, /needs --max-shard-size/],
    [["--policy", "by-task", "--max-shard-size", "5"], 2, /takes no --max-shard-size/],
    [["--policy", "./nowhere.js"], 3, /no such policy/],
  ])("refuses %j", async (options, status, message) => {
    const run = await cairn("reshard", join(work, "in/max1000"), join(work, "out/x"), ...options);
    expect(run).toMatchObject({ status, stderr: expect.stringMatching(message) });
  });

  it("replaces an output only when told", async () => {
    const args = ["reshard", join(work, "in/max1000"), join(work, "in/max24")];
    expect((await cairn(...args)).status).toBe(2);
    expect((await cairn(...args, "--force")).status).toBe(0);
    expect(shards("in").filter((name) => name.startsWith("max24"))).toHaveLength(1);
    expect((await cairn("verify", join(work, "in/max24"))).status).toBe(0);
    expect((await cairn("reshard", join(work, "in/max24"), join(work, "in/max24"), "--force")).status).toBe(2);
  });

  it("says what it cannot read", async () => {
    expect((await cairn("reshard", join(work, "nowhere"), join(work, "x"))).status).toBe(3);
  });
});

describe("cairn merge-checkpoints", () => {
  it("makes one of the parts", async () => {
    const names = ["default_two_devices/default", "keras_model/ckpt-1"].map((name) =>
      fixturePath(`checkpoints/${name}`),
    );
    const clash = await cairn("merge-checkpoints", ...names, join(work, "merged"));
    expect(clash).toMatchObject({ status: 3, stderr: expect.stringContaining("_CHECKPOINTABLE_OBJECT_GRAPH") });
    const parts = [
      fixturePath("checkpoints/crafted/restart1"),
      fixturePath("checkpoints/default_two_devices/by_device"),
    ];
    const plan = await cairn("merge-checkpoints", ...parts, join(work, "merged"), "--dry-run");
    expect(plan).toMatchObject({ status: 0, stdout: expect.stringContaining("2 parts") });
    expect(existsSync(join(work, "merged.index"))).toBe(false);
    const run = await cairn("merge-checkpoints", ...parts, join(work, "merged"), "--json");
    expect(JSON.parse(run.stdout)).toMatchObject({ parts, shards: [{}, {}, {}] });
    expect((await cairn("verify", join(work, "merged"))).status).toBe(0);
    expect((await cairn("merge-checkpoints", ...parts, join(work, "merged"))).status).toBe(2);
  });

  it("needs parts that are there", async () => {
    expect((await cairn("merge-checkpoints", join(work, "only"))).status).toBe(2);
    expect((await cairn("merge-checkpoints", join(work, "nowhere"), join(work, "out"))).status).toBe(3);
  });
});

describe("cairn checkpoints of TensorFlow's CheckpointManager", () => {
  it("tells the latest that is whole, and passes over others", async () => {
    rmSync(join(work, "mgr/ckpt-5.data-00000-of-00001"));
    const { stdout } = await cairn("checkpoints", join(work, "mgr"), "latest", "--json");
    expect(JSON.parse(stdout)).toEqual({
      latest: { version: 4, path: join(work, "mgr/ckpt-4"), shards: 1 },
      skipped: [{ path: join(work, "mgr/ckpt-5"), reason: expect.stringContaining("missing") }],
    });
    rmSync(join(work, "mgr/ckpt-5.index"));
    expect(await cairn("checkpoints", join(work, "mgr"), "latest")).toMatchObject({
      status: 0,
      stdout: `${join(work, "mgr/ckpt-4")}\n`,
    });
  });

  it("lists and prunes", async () => {
    const { stdout } = await cairn("checkpoints", join(work, "mgr"));
    expect(stdout.trim().split("\n")).toHaveLength(3);
    expect((await cairn("checkpoints", join(work, "mgr"), "prune", "--keep", "1")).status).toBe(0);
    expect(shards("mgr")).toEqual(["ckpt-5.data-00000-of-00001"]);
    expect((await cairn("checkpoints", join(work, "mgr"), "best")).status).toBe(1);
  });
});
