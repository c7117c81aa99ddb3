import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { fixturePath } from "../support/fixtures.js";

const BIN = fileURLToPath(new URL("../../dist/bin/cairn.js", import.meta.url));
const MODEL = fixturePath("checkpoints/saved_model/sm");
const folder = mkdtempSync(join(tmpdir(), "cairn-templates-"));
afterAll(() => rmSync(folder, { recursive: true }));

function cairn(...args: string[]) {
  return spawnSync(process.execPath, [BIN, ...args, "-q"], { cwd: folder, encoding: "utf8" });
}

describe("cairn convert with a template", () => {
  it("writes a SavedModel with other variables, and names what does not fit", () => {
    expect(cairn("convert", MODEL, "v.safetensors").status).toBe(0);
    const written = cairn("convert", "v.safetensors", "model", "--to", "saved-model", "--template", MODEL, "--json");
    expect(JSON.parse(written.stdout)).toMatchObject({ to: "saved-model", tensorCount: 6 });
    expect(readFileSync(join(folder, "model/saved_model.pb")).equals(readFileSync(`${MODEL}/saved_model.pb`))).toBe(
      true,
    );
    expect(cairn("diff", MODEL, "model").status).toBe(0);

    const without = cairn("convert", "v.safetensors", "no", "--to", "saved-model");
    expect([without.status, without.stderr]).toEqual([2, expect.stringContaining("--template")]);
    const part = cairn(
      "convert",
      "v.safetensors",
      "no",
      "--to",
      "saved-model",
      "--template",
      MODEL,
      "--filter",
      "table/*",
    );
    expect([part.status, part.stderr]).toEqual([2, expect.stringContaining("layers/0/b, layers/0/w")]);
    expect(existsSync(join(folder, "no"))).toBe(false);
  });

  it("writes a manifest of TF.js, with int64 made int32 only on request", () => {
    const refused = cairn("convert", MODEL, "web/model.json");
    expect([refused.status, refused.stderr]).toEqual([2, expect.stringContaining("TF.js has no int64")]);
    expect(cairn("convert", MODEL, "web/model.json", "--dtype", "int64=int32", "--max-shard-size", "100").status).toBe(
      0,
    );
    const listed = JSON.parse(cairn("tensors", "web", "--json").stdout) as {
      tensors: { key: string; dtype: string }[];
    };
    expect(listed.tensors.find(({ key }) => key === "table/step")?.dtype).toBe("int32");
    expect(existsSync(join(folder, "web/group1-shard3of3.bin"))).toBe(true);
  });
});
