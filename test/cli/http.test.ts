import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { sha256 } from "../support/bytes.js";
import { readExpected, readFixture } from "../support/fixtures.js";
import { TestServer } from "../support/http-server.js";

const BIN = fileURLToPath(new URL("../../dist/bin/cairn.js", import.meta.url));
const server = new TestServer();
const folder = mkdtempSync(join(tmpdir(), "cairn-http-"));
beforeAll(() => server.start());
afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
});
afterEach(() => void server.take());

/** Runs the command line while this process serves its requests. */
function cairn(...args: string[]): Promise<{ status: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [BIN, ...args], { cwd: folder, encoding: "utf8" }, (error, stdout, stderr) => {
      resolve({ status: typeof error?.code === "number" ? error.code : 0, stdout, stderr });
    });
  });
}

describe("cairn with a web server", () => {
  it("shows a .cpb, and reads one of its constants", async () => {
    const url = server.serve(
      "/model.cpb",
      readFixture("cpb/cpb/bigconst__30000_uncompressed_chunk20000/saved_model.cpb"),
    );
    const inspected = await cairn("inspect", url, "--json", "-q");
    expect([inspected.status, inspected.stderr]).toEqual([0, ""]);
    expect(JSON.parse(inspected.stdout)).toMatchObject({ outline: { facts: { type: "SavedModel", isSplit: true } } });
    // It has three blocks of 64 KiB.
    expect(server.take().requests).toBeLessThanOrEqual(3);
    const listed = JSON.parse((await cairn("tensors", url, "--json", "-q")).stdout) as {
      tensors: { key: string; dtype: string }[];
    };
    server.take();
    const key = listed.tensors.find(({ dtype }) => dtype === "float32")?.key as string;
    expect((await cairn("get", url, key, "-o", "out.npy")).status).toBe(0);
    expect(server.take().requests).toBeLessThanOrEqual(3);
  });

  it("reads one tensor of a sharded safetensors model in at most 3 requests", async () => {
    const names = [1, 2, 3].map((i) => `model-0000${i}-of-00003.safetensors`);
    for (const name of ["model.safetensors.index.json", ...names]) {
      server.serve(`/hub/${name}`, readFixture(`safetensors/sharded/${name}`));
    }
    const url = server.url("/hub/model.safetensors.index.json");
    const { status } = await cairn("get", url, "layer.1.weight", "--as", "raw", "-o", "weight.raw");
    expect(status).toBe(0);
    const { files } = readExpected<{ files: Record<string, { tensors: Record<string, { sha256: string }> }> }>(
      "safetensors/expected.json",
    );
    const right = files["sharded/model-00002-of-00003.safetensors"]?.tensors["layer.1.weight"]?.sha256;
    expect(sha256(readFileSync(join(folder, "weight.raw")))).toBe(right);
    expect(server.take().requests).toBeLessThanOrEqual(3);
    expect((await cairn("verify", server.url("/hub/"))).status).toBe(0);
  });

  it("exits with 3 and tells why for what is missing, may not be read, or is cut", async () => {
    const secret = server.on("/secret.cpb", (_, response) => void response.writeHead(403).end());
    const cut = server.serve("/cut.safetensors", readFixture("safetensors/model.safetensors").subarray(0, 900));
    for (const [url, code] of [
      [server.url("/none.cpb"), "not-found"],
      [secret, "read-failed"],
      [cut, "truncated"],
    ] as const) {
      const { status, stdout } = await cairn("tensors", url, "--json", "-q");
      expect([status, JSON.parse(stdout).error.code]).toEqual([3, code]);
    }
    const written = await cairn("split", cut, server.url("/out"), "-q");
    expect(written.status).toBeGreaterThan(0);
  });
});
