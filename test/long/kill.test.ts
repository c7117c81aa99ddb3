import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { writeCheckpoint } from "../../src/formats/checkpoint/checkpoint-writer.js";
import { verify } from "../../src/ops/verify.js";
import { LocalFiles } from "../../src/platform/node/local-files.js";
import type { ShardPlan } from "../../src/sharding/shard-plan.js";
import { tensorsAt } from "../safety/writers.js";

/** In all, over the commands. */
const KILLS = Number(process.env.CAIRN_KILLS ?? 200);
const CLI = fileURLToPath(new URL("../../dist/bin/cairn.js", import.meta.url));
const files = new LocalFiles();
let root: string;
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), "cairn-kill-"));
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** A checkpoint of 24 MB, so that there is something to be killed in. */
function planOf(value: number): ShardPlan {
  const size = 3_000_000;
  const slices = Array.from({ length: 8 }, (_, i) => {
    const data = async () => new MemorySource(new Uint8Array(size).fill(value + i));
    const tensor = { dtype: "float32", shape: [size / 4], byteLength: size, data } as const;
    return { key: `t${i}`, sliceSpec: "", fullShape: [size / 4], region: [{ start: 0, end: size / 4 }], tensor };
  });
  return { description: "", shards: [{ task: "", slices }], warnings: [] };
}

/** Runs the command line, and kills it without a warning after so many milliseconds. Gives whether it was killed. */
function run(args: readonly string[], killAfterMs?: number): Promise<boolean> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [CLI, ...args], { stdio: "ignore" });
    const timer = killAfterMs === undefined ? undefined : setTimeout(() => child.kill("SIGKILL"), killAfterMs);
    child.on("exit", (_, signal) => {
      clearTimeout(timer);
      resolve(signal === "SIGKILL");
    });
  });
}

const COMMANDS: [name: string, output: string, args: (from: string, to: string) => string[]][] = [
  ["reshard", "c", (from, to) => ["reshard", from, to, "--max-shard-size", "5MB", "--force"]],
  ["convert to a file", "x.safetensors", (from, to) => ["convert", from, to, "--force"]],
  [
    "convert to a directory",
    "m",
    (from, to) => ["convert", from, to, "--to", "safetensors", "--max-shard-size", "7MB", "--force"],
  ],
  ["convert to a training", "ckpt/version_4", (from, to) => ["convert", from, to, "--to", "elasticdl", "--force"]],
];

describe.each(COMMANDS)("%s, killed at any moment", (_, output, args) => {
  it("leaves the old state or the new one, and can be run again", async () => {
    const folder = mkdtempSync(join(root, "run-"));
    const [one, two, to] = ["one/c", "two/c", output].map((path) => join(folder, path)) as [string, string, string];
    await writeCheckpoint(files, one, planOf(1));
    await writeCheckpoint(files, two, planOf(101));
    expect(await run(args(one, to))).toBe(false);
    const states = [await tensorsAt(files, to)];
    const startMs = Date.now();
    await run(args(two, to));
    const tookMs = Date.now() - startMs;
    states.push(await tensorsAt(files, to));
    expect(states[0]).not.toBe(states[1]);
    let killed = 0;
    for (let i = 0; i < KILLS / COMMANDS.length; i++) {
      if (await run(args(i % 2 === 0 ? one : two, to), Math.random() * tookMs)) killed++;
      expect(states).toContain(await tensorsAt(files, to));
      expect(await verify(files, to)).toMatchObject({ ok: true });
    }
    expect(killed).toBeGreaterThan(0);
    await run(args(one, to));
    expect(await tensorsAt(files, to)).toBe(states[0]);
    const isTold = (name: string) => /\.cairn-[0-9a-f]+\.(tmp|new|old)/.test(name) || name.includes(".cairn");
    const parent = join(to, "..");
    expect(readdirSync(parent).filter((name) => name.startsWith(".") && !isTold(name))).toEqual([]);
  });
});
