import { existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { writeCheckpoint } from "../../src/formats/checkpoint/checkpoint-writer.js";
import { writeVersion } from "../../src/formats/elasticdl/write-version.js";
import { openVersions } from "../../src/ops/checkpoints.js";
import { verify } from "../../src/ops/verify.js";
import { LocalFiles } from "../../src/platform/node/local-files.js";
import { modelAt, planWith } from "./writers.js";

const files = new LocalFiles();
let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "cairn-strays-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

/** A file that a crash left, so many hours ago. */
function leave(path: string, hours = 0): string {
  const at = join(root, path);
  mkdirSync(join(at, ".."), { recursive: true });
  writeFileSync(at, "left");
  const time = Date.now() / 1000 - hours * 3600;
  utimesSync(at, time, time);
  return at;
}

async function prune(path: string, force = false): Promise<void> {
  const directory = await openVersions(files, path);
  await directory.prune(await directory.planPrune({ keep: 5, force }));
}

describe("what a crash left", () => {
  it("of checkpoints is told of by verify and removed by prune, when nobody may be writing it", async () => {
    const at = join(root, "d");
    for (const value of [1, 2]) await writeCheckpoint(files, join(at, `c-${value}`), planWith(value, 2));
    const old = [leave("d/.c-2.index.cairn-0123456789ab.tmp", 2), leave("d/.c-2.index.cairn-0123456789abcdef.new", 2)];
    const remains = [leave("d/c-0.data-00000-of-00001"), leave("d/c-0.cairn.json")];
    const fresh = [leave("d/.c-2.index.cairn-aaaaaaaaaaaa.tmp"), leave("d/c-3.data-00000-of-00001")];
    const foreign = leave("d/notes.txt", 9);
    const { ok, findings } = await verify(files, join(at, "c-2"));
    expect(ok).toBe(true);
    expect(findings.map(({ file, severity }) => [file, severity]).sort()).toEqual(
      [...old, fresh[0]].map((file) => [file, "warning"]).sort(),
    );
    await prune(at);
    expect([...old, ...remains].filter(existsSync)).toEqual([]);
    expect(fresh.filter(existsSync)).toEqual(fresh);
    await prune(at, true);
    expect(fresh.filter(existsSync)).toEqual([]);
    expect(existsSync(foreign)).toBe(true);
    expect((await verify(files, join(at, "c-2"))).findings).toEqual([]);
  });

  it("of a training is told of by verify and removed by prune", async () => {
    const at = join(root, "ckpt");
    await writeVersion(files, at, modelAt(3), { psNum: 2 });
    const old = [
      leave("ckpt.cairn/.metrics.json.cairn-0123456789ab.tmp", 2),
      leave("ckpt.cairn/staging/.5-variables-0-of-2.chkpt.11111111.cairn-0123456789ab.tmp", 2),
      leave("ckpt/version_3/.variables-0-of-2.chkpt.cairn-0123456789ab.tmp", 2),
    ];
    const fresh = leave("ckpt.cairn/staging/6-variables-0-of-2.chkpt.22222222");
    const told = (await verify(files, at)).findings.map(({ file }) => file);
    for (const file of old) expect(told).toContain(file);
    await prune(at);
    expect(old.filter(existsSync)).toEqual([]);
    expect(existsSync(fresh)).toBe(true);
    await prune(at, true);
    expect(existsSync(fresh)).toBe(false);
    expect(await verify(files, at)).toMatchObject({ ok: true, findings: [] });
  });
});
