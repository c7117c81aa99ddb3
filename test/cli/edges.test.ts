import { spawn, spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { stripVTControlCharacters } from "node:util";
import { create } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MemorySink } from "../../src/bytes/byte-sink.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { ChunkedMessageSchema } from "../../src/proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
import { writeChunkedProto } from "../../src/splitter/write-proto.js";
import { fixturePath } from "../support/fixtures.js";

const BIN = fileURLToPath(new URL("../../dist/bin/cairn.js", import.meta.url));
let folder: string;
const at = (...path: string[]) => join(folder, ...path);
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "cairn-cli-edges-"));
  cpSync(fixturePath("cpb/models/tiny"), at("tiny"), { recursive: true });
  cpSync(fixturePath("cpb/models/bigconst"), at("bigconst"), { recursive: true });
  cairn("split", "tiny/saved_model.pb", "tiny.cpb", "--max-chunk-size", "5000");
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Run {
  status: number | null;
  stdout: string;
  stderr: string;
}

function cairn(...args: string[]): Run {
  const { status, stdout, stderr } = spawnSync(process.execPath, [BIN, ...args], { cwd: folder, encoding: "utf8" });
  return { status, stdout, stderr };
}

/** Runs a line in a shell, in which `$CAIRN` is the command. */
function shell(line: string): Run {
  const { status, stdout, stderr } = spawnSync("bash", ["-c", line], {
    cwd: folder,
    encoding: "utf8",
    env: { ...process.env, CAIRN: `${process.execPath} ${BIN}` },
  });
  return { status, stdout, stderr };
}

/** All paths in the test's folder. */
const everything = () => readdirSync(folder, { recursive: true, encoding: "utf8" }).sort();

/** A run that writes nothing. */
function refused(...args: string[]): Run {
  const before = everything();
  const run = cairn(...args);
  expect(everything(), args.join(" ")).toEqual(before);
  return run;
}

describe("--json", () => {
  const KEYS = ["code", "message", "file", "offset", "expected", "actual"];
  it.each<[string, string[], number, object]>([
    ["a missing file", ["inspect", "nowhere"], 3, { code: "not-found", file: "nowhere", offset: null, expected: null }],
    [
      "a missing argument",
      ["split", "tiny"],
      2,
      { code: "usage", file: null, message: "missing required argument 'out'" },
    ],
    ["a bad value", ["split", "tiny", "x", "--max-chunk-size", "-1"], 2, { code: "usage", actual: null }],
    ["an option of no command", [], 2, { code: "usage", message: "unknown option '--json'" }],
    ["an unknown command", ["splt"], 2, { code: "usage" }],
    ["a bad region", ["get", "bigconst", "Const_2", "--region", "4000"], 2, { expected: "0:4000", actual: "4000" }],
    ["an output that exists", ["merge", "tiny.cpb", "tiny/saved_model.pb"], 2, { code: "exists" }],
  ])("tells of %s with the six facts of an error, unknown ones null", (_, args, status, facts) => {
    const run = refused(...args, "--json");
    expect(run.status).toBe(status);
    const document = JSON.parse(run.stdout);
    expect(Object.keys(document)).toEqual(["error"]);
    expect(Object.keys(document.error)).toEqual(KEYS);
    expect(document.error).toMatchObject(facts);
    expect(run.stderr).not.toBe("");
  });

  it("gives findings with all their facts", () => {
    writeFileSync(at("cut.cpb"), readFileSync(at("tiny.cpb")).subarray(0, 700));
    const run = cairn("verify", "cut.cpb", "--json");
    expect(run.status).toBe(1);
    const report = JSON.parse(run.stdout);
    expect(report).toMatchObject({ ok: false, format: "saved-model", good: expect.any(Array) });
    for (const finding of report.findings) {
      expect(Object.keys(finding)).toEqual(["severity", "code", "file", "offset", "key", "message"]);
    }
  });
});

describe("an output", () => {
  it.each<[string, string[], RegExp]>([
    ["the input by another name", ["split", "tiny", "link"], /the output is the input/],
    ["a directory in the input", ["split", "tiny", "tiny/variables/out"], /the output lies in the input/],
    ["the directory around the input", ["split", "tiny", ".", "--force"], /the output holds the input/],
    ["the same by another name", ["split", "tiny", "tiny/..", "--force"], /the output holds the input/],
    ["a directory of other things", ["split", "tiny", "notes", "--force"], /holds other things/],
    ["a directory for a file", ["merge", "tiny.cpb", "notes", "--force"], /the output is a directory/],
    ["a directory for a tensor", ["get", "bigconst", "Const_3", "-o", "notes", "--force"], /the output is a directory/],
    ["no name", ["get", "bigconst", "Const_3", "-o", ""], /no file name/],
    ["a file's name for a directory", ["split", "tiny", "out.cpb"], /is a directory/],
    ["a file's name for a merged directory", ["merge", "tiny", "out.pb"], /is a directory/],
    ["a file where a directory is to be", ["split", "tiny", "tiny.cpb", "--force"], /is a directory/],
    ["a file without suffix for a directory", ["split", "tiny", "plain", "--force"], /the output is a file/],
  ])("that is %s is refused, and nothing is touched", (_, args, message) => {
    mkdirSync(at("notes"), { recursive: true });
    writeFileSync(at("notes/mine.txt"), "mine");
    writeFileSync(at("plain"), "mine");
    if (!existsSync(at("link"))) symlinkSync(at("tiny"), at("link"));
    const run = refused(...args);
    expect(run.status).toBe(2);
    expect(run.stderr).toMatch(message);
    expect(readFileSync(at("notes/mine.txt"), "utf8")).toBe("mine");
  });

  it("that exists is refused before the work, in a dry run too, with what to do", () => {
    writeFileSync(at("kept.npy"), "mine");
    writeFileSync(at("kept.pb"), "mine");
    mkdirSync(at("kept"), { recursive: true });
    for (const args of [
      ["get", "bigconst", "Const_2", "-o", "kept.npy"],
      ["merge", "tiny.cpb", "kept.pb"],
      ["merge", "tiny.cpb", "kept.pb", "--dry-run"],
      ["split", "tiny", "kept", "--dry-run"],
      ["split", "tiny", "kept", "--max-chunk-size", "1000"],
    ]) {
      const run = refused(...args);
      expect(run).toMatchObject({ status: 2, stdout: "", stderr: expect.stringContaining("Pass --force") });
      expect(run.stderr).not.toContain("warning");
    }
    expect(cairn("merge", "tiny.cpb", "kept.pb", "--force").status).toBe(0);
    // An empty directory, and a model, may be replaced.
    expect(cairn("split", "tiny", "kept", "--force").status).toBe(0);
    expect(cairn("split", "tiny", "kept", "--force", "--max-chunk-size", "5000").status).toBe(0);
    expect(readdirSync(at("kept"))).toContain("saved_model.cpb");
  });

  it("in folders that are missing has them made", () => {
    expect(cairn("split", "tiny", "new/of/all", "--max-chunk-size", "5000").status).toBe(0);
    expect(cairn("get", "bigconst", "Const_2", "-o", "new/tensors/x.npy").status).toBe(0);
    expect(existsSync(at("new/of/all/saved_model.cpb"))).toBe(true);
  });

  it("is standard output for a split, too, which merges to the same bytes", () => {
    for (const input of ["bigconst/saved_model.pb", "bigconst"]) {
      const line = `set -o pipefail; $CAIRN split ${input} - --max-chunk-size 50kB -q 2>/dev/null > piped.cpb`;
      expect(shell(`${line} && $CAIRN merge piped.cpb - | cmp - bigconst/saved_model.pb`)).toMatchObject({
        status: 0,
        stdout: "",
      });
    }
    expect(shell("$CAIRN split tiny/saved_model.pb - -q | cmp - tiny/saved_model.pb").status).toBe(0);
    expect(existsSync(at("-"))).toBe(false);
    expect(existsSync(at("-.cpb"))).toBe(false);
  });

  it.skipIf(!existsSync("/dev/full"))("that has no room left is an error with exit code 4", () => {
    for (const command of [
      "inspect tiny",
      "tensors bigconst --json",
      "merge tiny.cpb -",
      "get bigconst Const_2 -o -",
    ]) {
      const run = shell(`$CAIRN ${command} > /dev/full`);
      expect(run, command).toMatchObject({ status: 4, stderr: expect.stringMatching(/cannot write/) });
      expect(run.stderr).not.toMatch(/ {4}at /);
    }
  });

  it("that nobody reads to its end is no error for text, and one for data", () => {
    const large = "split bigconst/saved_model.pb big.cpb --max-chunk-size 50kB --force -q";
    const run = shell(
      `$CAIRN ${large} >/dev/null 2>&1; for c in "inspect bigconst --json" "merge big.cpb -" "get bigconst Const_2 -o -"; do $CAIRN $c | head -c 5 >/dev/null; echo "\${PIPESTATUS[0]}"; done`,
    );
    expect(run.stdout).toBe("0\n4\n4\n");
    expect(run.stderr).toBe("");
  });
});

describe("an input", () => {
  it("of the other kind than its name says is told so", () => {
    cpSync(at("tiny/saved_model.pb"), at("wrong.cpb"));
    cpSync(at("tiny.cpb"), at("wrong.pb"));
    expect(refused("inspect", "wrong.cpb")).toMatchObject({
      status: 3,
      stderr: expect.stringContaining("Name it .pb."),
    });
    expect(refused("merge", "wrong.cpb", "x.pb")).toMatchObject({
      status: 3,
      stderr: expect.stringContaining("Name it .pb."),
    });
    expect(refused("merge", "wrong.pb", "x.pb")).toMatchObject({
      status: 3,
      stderr: expect.stringContaining("Name it .cpb."),
    });
  });

  it("that is empty is no good model", () => {
    writeFileSync(at("empty.pb"), "");
    writeFileSync(at("empty.cpb"), "");
    expect(cairn("verify", "empty.pb")).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(/warning: .*empty file/),
    });
    expect(cairn("verify", "empty.cpb").status).toBe(1);
    expect(cairn("merge", "empty.cpb", "x.pb").status).toBe(3);
  });

  it("may have a name in any script, and both forms of the proto", () => {
    cpSync(at("tiny"), at("mödel 日本"), { recursive: true });
    cpSync(at("tiny.cpb"), at("mödel 日本/saved_model.cpb"));
    const run = cairn("inspect", "mödel 日本", "--depth", "0");
    expect(run).toMatchObject({ status: 0, stderr: expect.stringContaining("saved_model.pb is not read") });
    expect(run.stdout).toMatch(/^mödel 日本 {2}SavedModel, .*saved_model\.cpb/);
    expect(cairn("inspect", "mödel 日本", "--depth", "0", "-q").stderr).toBe("");
  });

  it("of a newer version is refused with the version it needs, ours, and what to do", async () => {
    const sink = new MemorySink("newer");
    const root = {
      source: new MemorySource(readFileSync(at("tiny/saved_model.pb"))),
      type: "message",
      path: "",
    } as const;
    const chunkedMessage = create(ChunkedMessageSchema, { chunkIndex: 0n });
    await writeChunkedProto(sink, { chunks: [root], chunkedMessage, warnings: [] }, { joinVersion: 7 }, {});
    writeFileSync(at("newer.cpb"), sink.bytes);
    for (const command of ["inspect", "tensors"]) {
      const run = refused(command, "newer.cpb");
      expect(run.status).toBe(3);
      expect(run.stderr).toMatch(
        /expected a merger of version 7, got versions 0 and 1000\n {2}Update cairn, .*--ignore-version/,
      );
    }
    expect(refused("merge", "newer.cpb", "newer.pb").status).toBe(3);
    expect(shell("$CAIRN merge newer.cpb - --ignore-version | cmp - tiny/saved_model.pb").status).toBe(0);
    expect(cairn("verify", "newer.cpb")).toMatchObject({
      status: 1,
      stdout: expect.stringContaining("[unsupported-version]"),
    });
  });
});

describe("warnings", () => {
  it("by the thousand are counted, not listed, except in JSON", () => {
    const run = cairn("split", "tiny", "x", "--max-chunk-size", "1", "--dry-run", "--json");
    expect(run.status).toBe(0);
    const { warnings } = JSON.parse(run.stdout);
    expect(warnings.length).toBeGreaterThan(100);
    const lines = run.stderr.trimEnd().split("\n");
    expect(lines).toHaveLength(9);
    expect(lines[8]).toBe(`warning: and ${warnings.length - 8} more like these (--json lists all)`);
  });
});

describe("what is printed", () => {
  it("breaks lines of many strings", () => {
    const { stdout } = cairn("get", "bigconst", "Const");
    const lines = stdout.trimEnd().split("\n");
    expect(lines.length).toBeGreaterThan(50);
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
    expect(lines.join("\n").replace(/,\n /g, ", ")).toBe(`[${stdout.match(/"(?:[^"\\]|\\.)*"/g)!.join(", ")}]`);
  });

  it.skipIf(spawnSync("script", ["--version"]).status !== 0)("keeps a tree within the columns of a terminal", () => {
    cairn("split", "bigconst", "wide", "--max-chunk-size", "20kB", "--compression", "none");
    for (const columns of [60, 80, 200]) {
      const { stdout } = shell(`script -qec "stty cols ${columns}; $CAIRN inspect wide --all" /dev/null`);
      const lines = stripVTControlCharacters(stdout).trimEnd().split(/\r?\n/);
      expect(lines.length).toBeGreaterThan(30);
      for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(columns);
    }
  });

  it("shows of each chunk its bytes, its kind, its size, its compression and what it holds", () => {
    cairn("split", "bigconst", "wide2", "--max-chunk-size", "20kB");
    const { stdout } = cairn("inspect", "wide2");
    expect(stdout).toMatch(/├─ 0 +\[64, \d+\) +message +[\d.]+ KiB {2}(stored|brotli).* \(root\)\n/);
    expect(stdout).toMatch(
      / \[\d+, \d+\) +bytes +125 KiB {2}stored {2}.*node\[2\]\.attr\["value"\]\.tensor\.tensor_content\n/,
    );
    expect(stdout).toMatch(/└─ metadata {2}\[\d+, \d+\) +record +\d+ B {2}.*ChunkMetadata\n/);
  });

  it("lists the largest of many chunks first", () => {
    const { stdout } = cairn("inspect", fixturePath("cpb/trees/manyfns_1/saved_model.cpb"), "--depth", "3");
    expect(stdout).toMatch(/├─ largest\n +│ {2}├─ 137 {2}62\.3 KiB {2}meta_graphs\[0\]\.graph_def\.library\n/);
  });
});

describe("an interrupt", () => {
  it("that comes twice at once, as npm passes it on, leaves no half file all the same", async () => {
    const head = Buffer.from("0a", "hex");
    // A GraphDef whose only node has a name of 120 MB.
    const size = 120_000_000;
    const varint = (n: number): number[] => (n < 128 ? [n] : [(n & 127) | 128, ...varint(Math.floor(n / 128))]);
    const name = Buffer.concat([Buffer.from([0x0a, ...varint(size)]), Buffer.alloc(size, "abcdefgh0123")]);
    writeFileSync(at("big.pb"), Buffer.concat([head, Buffer.from(varint(name.length)), name]));
    const args = [BIN, "split", "big.pb", "twice.cpb", "--max-chunk-size", "1MB", "--compression", "brotli"];
    const child = spawn(process.execPath, args, { cwd: folder });
    const exit = new Promise<number | null>((resolve) => child.on("exit", resolve));
    await expect
      .poll(() => readdirSync(folder).some((one) => one.startsWith(".twice.cpb.cairn-")), {
        timeout: 20_000,
        interval: 5,
      })
      .toBe(true);
    child.kill("SIGINT");
    child.kill("SIGINT");
    child.kill("SIGTERM");
    expect(await exit).toBe(130);
    expect(readdirSync(folder).filter((one) => one.includes("twice"))).toEqual([]);
    rmSync(at("big.pb"));
  });
});
