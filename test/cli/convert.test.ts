import { execFile } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fixturePath, readFixture } from "../support/fixtures.js";
import { TestServer } from "../support/http-server.js";

const BIN = fileURLToPath(new URL("../../dist/bin/cairn.js", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "cairn-convert-"));
const server = new TestServer();
beforeAll(async () => {
  await server.start();
  for (const name of ["checkpoints/keras_model", "checkpoints/all_dtypes", "elasticdl/model_a", "elasticdl/versions"]) {
    cpSync(fixturePath(name), join(folder, name.split("/")[1] as string), { recursive: true });
  }
});
afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

interface Run {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the command line in the test's folder, as it stands when it is installed. */
function cairn(...args: string[]): Promise<Run> {
  return new Promise((resolve) => {
    execFile(process.execPath, [BIN, ...args], { cwd: folder, encoding: "utf8" }, (error, stdout, stderr) => {
      resolve({ status: typeof error?.code === "number" ? error.code : 0, stdout, stderr });
    });
  });
}

/** What a command that went well gives with --json. */
async function jsonOf(...args: string[]): Promise<Record<string, unknown>> {
  const { status, stdout, stderr } = await cairn(...args, "--json");
  expect([status, stderr.replace(/^converted.*$/gm, "")], args.join(" ")).toEqual([0, expect.any(String)]);
  return JSON.parse(stdout) as Record<string, unknown>;
}

const noDifference = { added: [], removed: [], changed: [] };

describe.concurrent("cairn convert", () => {
  it("takes a checkpoint to safetensors and training checkpoints and back", async () => {
    const there = await jsonOf("convert", "keras_model/ckpt-1", "k.safetensors");
    expect(there).toMatchObject({ from: "checkpoint", to: "safetensors", tensorCount: 11, dryRun: false });
    expect(there.skipped).toEqual([{ key: "_CHECKPOINTABLE_OBJECT_GRAPH", reason: expect.any(String) }]);
    expect(await jsonOf("convert", "k.safetensors", "k", "--to", "elasticdl")).toMatchObject({ tensorCount: 11 });
    expect(await jsonOf("convert", "k", "k/back", "--to", "checkpoint")).toMatchObject({ from: "elasticdl" });
    expect(await jsonOf("diff", "keras_model/ckpt-1", "k/back")).toMatchObject(noDifference);
  });

  it("lists all that a format cannot hold, and leaves it away when it may", async () => {
    const refused = await cairn("convert", "all_dtypes/all", "all.safetensors");
    expect([refused.status, existsSync(join(folder, "all.safetensors"))]).toEqual([2, false]);
    expect(refused.stderr.match(/^cannot hold /gm)).toHaveLength(12);
    expect(refused.stderr).toMatch(
      /error: safetensors cannot hold "dt\/complex128" \(.*and 7 more\n.*--skip-unsupported/,
    );
    const { skipped, tensorCount } = await jsonOf("convert", "all_dtypes/all", "all.safetensors", "--skip-unsupported");
    expect([(skipped as unknown[]).length, tensorCount]).toEqual([12, 24]);
  });

  it("replaces an output only when it is told to, and writes nothing for a dry run", async () => {
    const convert = ["convert", "keras_model/ckpt-1", "once.safetensors"];
    expect(await jsonOf(...convert, "--dry-run")).toMatchObject({ dryRun: true, tensorCount: 11 });
    expect(existsSync(join(folder, "once.safetensors"))).toBe(false);
    await jsonOf(...convert);
    const again = await cairn(...convert, "--json", "-q");
    expect([again.status, JSON.parse(again.stdout).error.code]).toEqual([2, "exists"]);
    await jsonOf(...convert, "--force");
  });

  it("refuses an output that is standard output, the source, or of no use", async () => {
    for (const [args, message] of [
      [["model_a/ps3", "-", "--to", "safetensors"], "standard output"],
      [["model_a/ps3", "model_a/ps3/", "--to", "elasticdl"], "the output is the source"],
      [["model_a/ps3", "x", "--to", "riegeli"], 'cannot write "riegeli"'],
      [["model_a/ps3", "x.safetensors", "--num-ps", "2"], "--num-ps with safetensors"],
      [["model_a/ps3", "x", "--to", "elasticdl", "--num-ps", "0"], "from 1 up"],
    ] as const) {
      const { status, stderr } = await cairn("convert", ...args);
      expect([status, stderr], args.join(" ")).toEqual([2, expect.stringContaining(message)]);
    }
    expect(readdirSync(folder).filter((name) => name.startsWith("x"))).toEqual([]);
  });

  it("writes a training checkpoint for so many servers and in the names that are asked for", async () => {
    await jsonOf("convert", "model_a/ps3", "m.safetensors");
    await jsonOf("convert", "m.safetensors", "m", "--to", "elasticdl", "--num-ps", "2", "--layout", "elasticdl");
    expect(readdirSync(join(folder, "m")).sort()).toEqual(["version-300"]);
    expect(readdirSync(join(folder, "m/version-300")).sort()).toEqual([
      "variables-0-of-2.ckpt",
      "variables-1-of-2.ckpt",
    ]);
    expect(await jsonOf("diff", "model_a/ps3", "m")).toMatchObject({ ...noDifference, sameCount: 19 });
  });

  it("saves what is good of a damaged checkpoint", async () => {
    for (const end of [".index", ".data-00000-of-00001"]) {
      const bytes = Uint8Array.from(readFixture(`checkpoints/all_dtypes/all${end}`));
      if (end !== ".index") bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] as number) ^ 0x10;
      writeFileSync(join(folder, `bad${end}`), bytes);
    }
    const refused = await cairn("convert", "bad", "good", "--to", "checkpoint", "--json", "-q");
    expect([refused.status, JSON.parse(refused.stdout).error.code]).toEqual([3, "tensor-checksum"]);
    const { skipped } = await jsonOf("convert", "bad", "good", "--to", "checkpoint", "--skip-damaged");
    expect(skipped).toEqual([{ key: expect.any(String), reason: expect.stringMatching(/^damaged: .*checksum/) }]);
    expect((await cairn("verify", "good")).status).toBe(0);
    const { removed, changed } = await jsonOf("convert", "good", "again", "--to", "checkpoint").then(() =>
      jsonOf("diff", "good", "again"),
    );
    expect([removed, changed]).toEqual([[], []]);
  });

  it("exports a version of a training", async () => {
    const { stderr } = await cairn("export", "versions", "v.safetensors", "--version", "20");
    expect(stderr).toContain("version 20: versions/version-20");
    await jsonOf("export", "versions", "v", "--to", "elasticdl", "--num-ps", "3");
    expect(readdirSync(join(folder, "v/version_20"))).toHaveLength(3);
    expect(await cairn("export", "versions", "w.safetensors", "--version", "21")).toMatchObject({ status: 3 });
  });

  it("reads a source on a web server", async () => {
    for (const end of [".index", ".data-00000-of-00001"]) {
      server.serve(`/hub/all${end}`, readFixture(`checkpoints/all_dtypes/all${end}`));
    }
    server.take();
    await jsonOf("convert", server.url("/hub/all"), "web", "--to", "checkpoint");
    expect(await jsonOf("diff", "all_dtypes/all", "web")).toMatchObject(noDifference);
    expect(server.take().requests).toBeLessThanOrEqual(20);
    const { status, stderr } = await cairn("convert", "all_dtypes/all", server.url("/out"), "--to", "checkpoint");
    expect([status, stderr]).toEqual([expect.any(Number), expect.stringMatching(/error: http.*(write|read)/)]);
    expect(status).toBeGreaterThan(1);
  });
});

describe.concurrent("cairn diff", () => {
  it("exits with 1 and tells what differs, or with 0 within a tolerance", async () => {
    const half = [
      "convert",
      "keras_model/ckpt-1",
      "half.safetensors",
      "--dtype",
      "float32=bfloat16",
      "--rename",
      "*/moving_mean=*/mean",
    ];
    expect((await cairn(...half)).status).toBe(0);
    const { status, stdout } = await cairn("diff", "keras_model/ckpt-1", "half.safetensors");
    expect(status).toBe(1);
    expect(stdout).toMatch(/^- .*\/moving_mean$/m);
    expect(stdout).toMatch(/^\+ .*\/mean$/m);
    expect(stdout).toMatch(/^~ .*moving_variance: dtype: float32 → bfloat16.*apart/m);
    const missing = await cairn("diff", "keras_model/ckpt-1", "nowhere", "--json", "-q");
    expect([missing.status, JSON.parse(missing.stdout).error.code]).toEqual([3, "not-found"]);
  });
});
