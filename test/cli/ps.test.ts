import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PserverClient } from "../../src/training/pserver-client.js";
import { gradients, model } from "../support/training.js";

const BIN = fileURLToPath(new URL("../../dist/bin/cairn.js", import.meta.url));
let folder: string;
const children: ChildProcess[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "cairn-ps-cli-"));
});
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

interface Running {
  address: string;
  document: { psId: number; restored: boolean; modelVersion: number };
  stop(): Promise<{ code: number | null; stderr: string }>;
}

/** Starts a server and waits until it says where it serves. */
async function start(...args: string[]): Promise<Running> {
  const child = spawn(process.execPath, [BIN, "ps", "--port", "0", "--json", ...args], { cwd: folder });
  children.push(child);
  let [stdout, stderr] = ["", ""];
  child.stderr.on("data", (text: Buffer) => {
    stderr += text;
  });
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  await new Promise<void>((resolve, reject) => {
    child.stdout.on("data", (text: Buffer) => {
      stdout += text;
      if (stdout.trimEnd().endsWith("}")) resolve();
    });
    child.once("exit", () => reject(new Error(stderr)));
  });
  const document = JSON.parse(stdout);
  const stop = async () => {
    child.kill("SIGTERM");
    return { code: await ended, stderr };
  };
  return { address: document.address, document, stop };
}

describe("cairn ps", () => {
  it("serves workers, saves while they train and when it is stopped, and goes on from there", async () => {
    const flags = [
      "--num-ps",
      "2",
      "--opt-type",
      "Adam",
      "--use-async",
      "--checkpoint-dir",
      "ckpt",
      "--checkpoint-steps",
      "2",
      "--keep-checkpoint-max",
      "2",
      "--save-on-exit",
      "--checkpoint-dir-for-init",
      "latest",
    ];
    const run = () => Promise.all(["0", "1"].map((id) => start(...flags, "--ps-id", id)));
    const servers = await run();
    expect(servers.map(({ document }) => [document.psId, document.restored])).toEqual([
      [0, false],
      [1, false],
    ]);
    expect(servers.every(({ address }) => address.startsWith("127.0.0.1:"))).toBe(true);
    const client = new PserverClient(servers.map(({ address }) => address));
    await client.pushModel(model({ dense: { w: [3], b: [2] }, tables: { e: 4 } }));
    for (let step = 0; step < 5; step++) {
      const { gradients: push } = gradients({ dense: { w: [3], b: [2] }, rows: { e: [[1n, 2n, 3n], 4] } }, step);
      await client.pushGradients({
        dense: push.denseParameters,
        rows: push.embeddingTables,
        modelVersions: [step, step],
      });
    }
    const trained = await client.pullEmbeddingVectors("e", [1, 2, 3]);
    await client.close();
    for (const { stop } of servers) {
      const { code, stderr } = await stop();
      expect([code, stderr]).toEqual([0, expect.stringMatching(/stopping at version 5\n.*saved .*version_5/s)]);
    }
    expect(readdirSync(join(folder, "ckpt"))).toContain("version_5");
    const { stdout, status } = spawnSync(process.execPath, [BIN, "checkpoints", "ckpt", "latest", "--json"], {
      cwd: folder,
      encoding: "utf8",
    });
    expect([status, JSON.parse(stdout).latest.version]).toEqual([0, 5]);
    const again = await run();
    expect(again.map(({ document }) => [document.restored, document.modelVersion])).toEqual([
      [true, 5],
      [true, 5],
    ]);
    const other = new PserverClient(again.map(({ address }) => address));
    expect(await other.pullEmbeddingVectors("e", [1, 2, 3])).toEqual(trained);
    await other.close();
    await Promise.all(again.map(({ stop }) => stop()));
  });

  it("refuses what does not go together", () => {
    const ps = (...args: string[]) =>
      spawnSync(process.execPath, [BIN, "ps", "--port", "0", ...args], { cwd: folder, encoding: "utf8" }).status;
    expect(ps("--checkpoint-steps", "5")).toBe(2);
    expect(ps("--checkpoint-dir-for-init", "latest")).toBe(2);
    expect(ps("--ps-id", "2", "--num-ps", "2")).toBe(2);
    expect(ps("--opt-type", "Nope")).toBe(2);
    expect(ps("--port", "x")).toBe(2);
    expect(ps("--checkpoint-dir-for-init", "nowhere")).toBe(3);
  });
});
