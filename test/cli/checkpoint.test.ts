import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EXPECTED, keyOf } from "../support/checkpoint-fixtures.js";
import { fixturePath } from "../support/fixtures.js";

const BIN = fileURLToPath(new URL("../../dist/bin/cairn.js", import.meta.url));
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "cairn-cli-checkpoint-"));
  for (const name of ["names", "module_adam_v1opt", "sliced_dtypes", "manager", "variant"]) {
    cpSync(fixturePath(`checkpoints/${name}`), join(folder, name), { recursive: true });
  }
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function cairn(...args: string[]) {
  return spawnSync(process.execPath, [BIN, ...args], { cwd: folder, encoding: "utf8", maxBuffer: 2 ** 26 });
}

function json(...args: string[]) {
  const { status, stdout, stderr } = cairn(...args, "--json");
  return { status, stderr, value: JSON.parse(stdout) };
}

describe("cairn on checkpoints", () => {
  it("lists and hashes tensors with their shards and slices", () => {
    const { status, value } = json("tensors", "sliced_dtypes/m", "--sha256");
    expect(status).toBe(0);
    expect(value.format).toBe("checkpoint");
    const expected = EXPECTED["sliced_dtypes/m"]!.tensors!;
    expect(value.tensors.length).toBe(expected.length);
    for (const row of value.tensors) {
      const one = expected.find((tensor) => keyOf(tensor) === row.key)!;
      expect(row).toMatchObject({ dtype: one.dtype, shape: one.shape, sha256: one.sha256 });
      expect(row.slices.map(({ slice }: { slice: string }) => slice)).toEqual(
        one.slices!.map((extents) => extents.map(([start, length]) => `${start},${length}`).join(":")),
      );
    }
  });

  it("gives keys that are not UTF-8 as hex, and takes them so", () => {
    const { value } = json("tensors", "names/nonutf8");
    expect(value.tensors.map(({ keyHex }: { keyHex: string }) => keyHex)).toEqual(["61ff62", "ffff"]);
    const { status, stdout } = cairn("get", "names/nonutf8", "hex:61ff62", "--region", "1:");
    expect([status, stdout.startsWith("[")]).toEqual([0, true]);
  });

  it("shows the tree of objects", () => {
    const { status, stdout } = cairn("inspect", "module_adam_v1opt/ckpt-1");
    expect(status).toBe(0);
    expect(stdout).toContain("20 tensors, 1 shard");
    expect(stdout).toMatch(/m of model\/table\/emb {2}/);
  });

  it("takes a directory for its latest checkpoint, and says so", () => {
    const { status, stderr, stdout } = cairn("verify", "manager/mgr");
    expect([status, stdout]).toEqual([0, expect.stringContaining("good")]);
    expect(stderr + stdout).toBeDefined();
    const listed = cairn("tensors", "manager/mgr");
    expect(listed.stderr).toContain("the latest of 3 checkpoints in manager/mgr is ckpt-5");
  });

  it("lists what is good beside a damaged tensor, says which it is, and ends with 3", () => {
    const data = join(folder, "module_adam_v1opt/ckpt-1.data-00000-of-00001");
    const bytes = readFileSync(data);
    bytes[20]! ^= 1;
    writeFileSync(data, bytes);
    const key = "model/table/emb/.ATTRIBUTES/VARIABLE_VALUE";
    const { status, value, stderr } = json("tensors", "module_adam_v1opt/ckpt-1", "--sha256");
    expect(status).toBe(3);
    expect(value.tensors.length).toBe(19);
    expect(value.damaged).toMatchObject([{ key, code: "tensor-checksum", offset: 16 }]);
    expect(stderr).toContain(`${key}: module_adam_v1opt/ckpt-1.data-00000-of-00001@0x10`);
    expect(cairn("get", "module_adam_v1opt/ckpt-1", key).status).toBe(3);
    const verified = json("verify", "module_adam_v1opt/ckpt-1");
    expect(verified.status).toBe(1);
    expect(verified.value).toMatchObject({ ok: false, findings: [{ key, code: "tensor-checksum", offset: 16 }] });
    expect(verified.value.good.length).toBe(20);
  });

  it("says what is missing", () => {
    rmSync(join(folder, "variant/tensorlist.index"));
    const { status, stderr } = cairn("tensors", "variant/tensorlist");
    expect(status).toBe(3);
    expect(stderr).toContain("variant/tensorlist.index: there is no checkpoint: its index is missing");
  });
});
