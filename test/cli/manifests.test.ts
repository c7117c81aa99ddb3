import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { makeProgram } from "../../src/cli/program.js";

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

/** By role, the command line of its container. */
function commandsOf(...args: string[]): Record<"ps" | "master" | "worker", string> {
  const { stdout, stderr } = manifests(...args, "--json");
  if (stdout === "") throw new Error(stderr);
  const { items } = JSON.parse(stdout) as {
    items: { spec: { template?: { spec: { containers: { args: string[] }[] } } } }[];
  };
  const commands = items.flatMap(({ spec }) => spec.template?.spec.containers.map(({ args: words }) => words) ?? []);
  return Object.fromEntries(commands.map((words) => [words[0], words.join(" ")])) as ReturnType<typeof commandsOf>;
}

describe("cairn manifests", () => {
  it("prints the same objects as YAML, as JSON and as files", () => {
    const yaml = manifests(...FLAGS);
    const objects = parseAllDocuments(yaml.stdout).map((document) => document.toJS() as { kind: string });
    expect(objects).toHaveLength(7);
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

  it("tells servers and master of the training, and where to begin", () => {
    const servers = ["--num-ps", "3", "--opt-type", "Adam", "--use-async", "--seed", "5", "--checkpoint-steps", "50"];
    const commands = commandsOf(...FLAGS, ...servers, "--num-workers", "4", "--num-epochs", "7");
    expect(commands.ps).toContain("--num-ps 3 --checkpoint-dir /data/ckpt --save-on-exit");
    for (const setting of servers.join(" ").split(/ (?=--)/)) expect(commands.ps).toContain(setting);
    for (const command of [commands.ps, commands.master]) {
      expect(command).toContain("--checkpoint-steps 50");
      expect(command).toContain("--checkpoint-dir-for-init latest");
    }
    expect(commands.master).toContain("--num-workers 4 --num-epochs 7");
  });

  it("gives each command options that it has, once each", () => {
    const all = [
      "--shuffle",
      "--lr-staleness-modulation",
      "--use-async",
      "--best-metric",
      "auc:max",
      "--patience",
      "2",
    ];
    const more = [
      "--checkpoint-steps",
      "10",
      "--evaluation-steps",
      "20",
      "--keep-checkpoint-max",
      "3",
      "--opt-args",
      "a=1",
    ];
    const program = makeProgram("0.0.0");
    const commands = commandsOf(...FLAGS, ...all, ...more);
    for (const [role, line] of Object.entries(commands)) {
      const options = program.commands.find((command) => command.name() === role)?.options.map(({ long }) => long);
      const flags = line.split(" ").filter((word) => word.startsWith("--"));
      expect(flags.filter((flag) => !options?.includes(flag))).toEqual([]);
      expect(new Set(flags).size).toBe(flags.length);
      expect(flags.length).toBeGreaterThan(1);
    }
  });

  it.each([
    ["--evaluation-steps", "5"],
    ["--strategy", "allreduce"],
    ["--num-ps", "0"],
  ])("refuses %s %s", (...flags) => {
    expect(manifests(...FLAGS, ...flags).status).toBe(2);
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
