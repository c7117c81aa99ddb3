import { cpSync, mkdtempSync, rmSync, unlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { makeProgram } from "../../src/cli/program.js";
import { isCairnError } from "../../src/errors.js";
import { chooseVersion } from "../../src/ops/export.js";
import { LocalFiles } from "../../src/platform/node/local-files.js";

const FIXTURES = fileURLToPath(new URL("../fixtures/elasticdl/go/sgd_ps2", import.meta.url));
const files = new LocalFiles();

describe("chooseVersion", () => {
  let folder = "";
  let ckpt = "";
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "cairn-export-"));
    ckpt = join(folder, "ckpt");
    cpSync(FIXTURES, ckpt, { recursive: true });
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it("finds the newest complete version, and one by its number", async () => {
    expect((await chooseVersion(files, ckpt, "latest")).version).toBe(9);
    expect((await chooseVersion(files, ckpt, 6)).path).toBe(join(ckpt, "version-6"));
    unlinkSync(join(ckpt, "version-9/variables-1-of-2.ckpt"));
    expect((await chooseVersion(files, ckpt, "latest")).version).toBe(6);
  });

  it.each([
    [7, "no version 7"],
    ["best", "no metrics are recorded"],
  ] as const)("says why there is no version %s", async (choice, message) => {
    const error: unknown = await chooseVersion(files, ckpt, choice).catch((caught: unknown) => caught);
    expect(isCairnError(error, "no-such-version") && error.summary).toBe(message);
  });

  it("says what is missing of one that is not complete", async () => {
    unlinkSync(join(ckpt, "version-9/variables-1-of-2.ckpt"));
    const error: unknown = await chooseVersion(files, ckpt, 9).catch((caught: unknown) => caught);
    expect(isCairnError(error, "no-such-version") && error.summary).toMatch(
      /^version 9 is not complete: .*1-of-2|missing/,
    );
  });

  it("is what cairn export takes, by the version's number too", async () => {
    const out = join(folder, "model.safetensors");
    const program = makeProgram("0.0.0");
    await program.parseAsync(["export", ckpt, out, "--version", "6", "--json"], { from: "user" });
    expect(process.exitCode).toBe(0);
    process.exitCode = undefined;
    expect((await files.stat(out))?.kind).toBe("file");
  });
});
