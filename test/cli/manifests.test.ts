import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";

const BIN = fileURLToPath(new URL("../../dist/bin/cairn.js", import.meta.url));
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "cairn-manifests-cli-"));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

function manifests(...args: string[]) {
  return spawnSync(process.execPath, [BIN, "manifests", "/model/model.mjs", ...args], {
    cwd: folder,
    encoding: "utf8",
  });
}

const FLAGS = ["--image", "model:1", "--volume", "claim_name=c,mount_path=/data", "--checkpoint-dir", "/data/ckpt"];

describe("cairn manifests", () => {
  it("prints the same objects as YAML, as JSON and as files", () => {
    const yaml = manifests(...FLAGS);
    const objects = parseAllDocuments(yaml.stdout).map((document) => document.toJS() as { kind: string });
    expect(objects).toHaveLength(8);
    expect(JSON.parse(manifests(...FLAGS, "--json").stdout)).toEqual({
      apiVersion: "v1",
      kind: "List",
      items: objects,
    });
    const { stdout } = manifests(...FLAGS, "-o", "deploy", "-q");
    const written = stdout.trimEnd().split("\n");
    const documents = written.flatMap((path) => parseAllDocuments(readFileSync(join(folder, path), "utf8")));
    expect(documents.map((document) => document.toJS())).toEqual(objects);
  });

  it("tells the servers of the training, and where to begin", () => {
    const args = ["--num-ps", "3", "--use-async", "--opt-type", "Adam", "--checkpoint-steps", "50", "--json"];
    const { items } = JSON.parse(manifests(...FLAGS, ...args).stdout);
    const set = items.find(({ kind }: { kind: string }) => kind === "StatefulSet");
    const command = set.spec.template.spec.containers[0].args.join(" ");
    expect(set.spec.replicas).toBe(3);
    expect(command).toContain("--num-ps 3 --checkpoint-dir /data/ckpt --save-on-exit");
    expect(command).toContain("--opt-type Adam --use-async");
    expect(command).toContain("--checkpoint-steps 50");
    expect(command).toContain("--checkpoint-dir-for-init latest");
  });

  it("writes over nothing unless it is told to", () => {
    expect(manifests(...FLAGS, "-o", ".").status).toBe(0);
    const path = join(folder, "job-training-worker.yaml");
    writeFileSync(path, "mine");
    expect(manifests(...FLAGS, "-o", ".").status).toBe(2);
    expect(readFileSync(path, "utf8")).toBe("mine");
    expect(manifests(...FLAGS, "-o", ".", "--force").status).toBe(0);
    expect(readFileSync(path, "utf8")).toContain("kind: Job");
  });

  it("refuses a checkpoint directory that is where a volume begins", () => {
    const { status, stdout, stderr } = manifests(...FLAGS.slice(0, -1), "/data");
    expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
    expect(stderr).toContain("a directory below it: /data/ckpt");
  });
});
