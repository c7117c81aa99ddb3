import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const SCRIPT = fileURLToPath(new URL("./large-model.mjs", import.meta.url));
/** What Node takes by itself, and what cairn may take beside it. */
const NODE_MB = 60;
const ALLOWED_MB = 200;

describe("a model that no protobuf can hold", () => {
  it("of 6 GiB is split from its parts, looked into, verified and merged in bounded memory", () => {
    const folder = mkdtempSync(join(process.env.CAIRN_LONG_DIR ?? tmpdir(), "cairn-long-"));
    try {
      const output = execFileSync(process.execPath, [SCRIPT, process.env.CAIRN_LONG_GIB ?? "6", folder], {
        encoding: "utf8",
      });
      const result = JSON.parse(output);
      console.log(JSON.stringify(result, null, 1));
      expect(result).toMatchObject({ same: true, row: true, verified: true, tags: ["serve"] });
      expect(result.modelBytes).toBeGreaterThan(2 ** 31);
      expect(result.peakMB).toBeLessThan(NODE_MB + ALLOWED_MB);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
