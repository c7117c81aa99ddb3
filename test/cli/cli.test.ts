import { spawn, spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
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
import { create, toBinary } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { GraphDefSchema } from "../../src/proto/gen/tensorflow/core/framework/graph_pb.js";
import { TensorProtoSchema } from "../../src/proto/gen/tensorflow/core/framework/tensor_pb.js";
import { DataType } from "../../src/proto/gen/tensorflow/core/framework/types_pb.js";
import { fixturePath } from "../support/fixtures.js";

const BIN = fileURLToPath(new URL("../../dist/bin/cairn.js", import.meta.url));
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "cairn-cli-"));
  for (const name of ["tiny", "bigconst"])
    cpSync(fixturePath(`cpb/models/${name}`), join(folder, name), { recursive: true });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Run {
  status: number | null;
  stdout: string;
  stderr: string;
}

/** Runs the command line in the test's folder, as it stands when it is installed. */
function cairn(...args: string[]): Run {
  const { status, stdout, stderr } = spawnSync(process.execPath, [BIN, ...args], { cwd: folder, encoding: "utf8" });
  return { status, stdout, stderr };
}

const json = (run: Run): unknown => JSON.parse(run.stdout);

/** A GraphDef of one constant `w` of uint8 7s, one more than what is checked unasked. */
function largeModel(): Uint8Array {
  const size = 16 * 1024 * 1024 + 1;
  const tensor = create(TensorProtoSchema, {
    dtype: DataType.DT_UINT8,
    tensorShape: { dim: [{ size: BigInt(size) }] },
    tensorContent: new Uint8Array(size).fill(7),
  });
  const attr = {
    dtype: { value: { case: "type", value: DataType.DT_UINT8 } },
    value: { value: { case: "tensor", value: tensor } },
  } as const;
  return toBinary(GraphDefSchema, create(GraphDefSchema, { node: [{ name: "w", op: "Const", attr }] }));
}

describe("cairn", () => {
  it("shows help with examples for itself and for every command", () => {
    for (const command of [[], ["inspect"], ["tensors"], ["get"], ["split"], ["merge"], ["verify"], ["completion"]]) {
      const { status, stdout } = cairn(...command, "--help");
      expect(status).toBe(0);
      expect(stdout).toMatch(/Usage: cairn/);
      expect(stdout).toMatch(/Examples?:\n {2}(cairn|source)/);
    }
  });

  it("tells its version", () => {
    const { version } = JSON.parse(readFileSync(fileURLToPath(new URL("../../package.json", import.meta.url)), "utf8"));
    expect(cairn("--version").stdout).toBe(`${version}\n`);
  });

  it("exits with 2 for an unknown command, an unknown option, a missing argument and a bad value", () => {
    for (const args of [
      ["nope"],
      ["split", "tiny", "x", "--nope"],
      ["split", "tiny"],
      ["split", "tiny", "x", "--max-chunk-size", "lots"],
      ["inspect", "tiny", "--depth", "-1"],
    ]) {
      const { status, stdout, stderr } = cairn(...args);
      expect(status, args.join(" ")).toBe(2);
      expect(stdout).toBe("");
      expect(stderr).toMatch(/error/);
    }
  });

  it("exits with 3 and tells what to do when the input is missing or foreign", () => {
    writeFileSync(join(folder, "notes.txt"), "hello\n");
    expect(cairn("inspect", "nowhere")).toMatchObject({
      status: 3,
      stderr: expect.stringContaining("nowhere: no such file"),
    });
    expect(cairn("inspect", "notes.txt")).toMatchObject({
      status: 3,
      stderr: expect.stringMatching(/notes\.txt: nothing here[\s\S]*cairn reads/),
    });
    expect(cairn("inspect", "https://example.com/m")).toMatchObject({
      status: 3,
      stderr: expect.stringContaining("https"),
    });
  });

  it("gives an error as one JSON document on standard output with --json", () => {
    const run = cairn("verify", "nowhere", "--json");
    expect(run.status).toBe(3);
    expect(json(run)).toEqual({
      error: expect.objectContaining({ code: "not-found", message: expect.any(String), file: "nowhere" }),
    });
  });

  it("prints completion scripts that the shells accept", () => {
    const bash = cairn("completion", "bash");
    expect(bash.status).toBe(0);
    const script = `${bash.stdout}\nCOMP_WORDS=(cairn sp) COMP_CWORD=1; _cairn; echo "\${COMPREPLY[@]}"; COMP_WORDS=(cairn split --max) COMP_CWORD=2; _cairn; echo "\${COMPREPLY[@]}"`;
    const { stdout } = spawnSync("bash", ["-c", script], { encoding: "utf8" });
    expect(stdout).toBe("split\n--max-chunk-size\n");
    expect(cairn("completion", "zsh").stdout).toContain("#compdef cairn");
    expect(cairn("completion", "fish").stdout).toContain("complete -c cairn");
  });
});

describe("split and merge", () => {
  it("take a directory there and back, the same bytes", () => {
    expect(cairn("split", "bigconst", "out/split", "--max-chunk-size", "40kB")).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(/^out\/split\/saved_model\.cpb: \d+ chunks, 187 KiB in 154 KiB\n$/),
      stderr: expect.stringMatching(/^warning: .*tensor_content stays whole/),
    });
    expect(cairn("merge", "out/split", "out/merged")).toMatchObject({ status: 0, stderr: "" });
    expect(
      readFileSync(join(folder, "out/merged/saved_model.pb")).equals(
        readFileSync(join(folder, "bigconst/saved_model.pb")),
      ),
    ).toBe(true);
    expect(readdirSync(join(folder, "out")).sort()).toEqual(["merged", "split"]);
  });

  it("take a file, with a chosen compression, and standard output", () => {
    for (const compression of ["none", "zstd", "brotli", "snappy", "auto"]) {
      const file = `file-${compression}.cpb`;
      expect(
        cairn("split", "tiny/saved_model.pb", file, "--max-chunk-size", "5000", "--compression", compression).status,
      ).toBe(0);
      const { status, stdout } = spawnSync(process.execPath, [BIN, "merge", file, "-"], { cwd: folder });
      expect(status).toBe(0);
      expect(stdout.equals(readFileSync(join(folder, "tiny/saved_model.pb")))).toBe(true);
    }
  });

  it("write a .pb and say so when nothing needs splitting", () => {
    const run = cairn("split", "tiny/saved_model.pb", "small.cpb");
    expect(run).toMatchObject({ status: 0, stdout: expect.stringContaining("small.pb: not split") });
    expect(existsSync(join(folder, "small.cpb"))).toBe(false);
    expect(json(cairn("split", "tiny/saved_model.pb", "small2.cpb", "--json"))).toMatchObject({
      output: "small2.pb",
      split: false,
    });
  });

  it("print a plan and write nothing with --dry-run", () => {
    const run = cairn("split", "tiny", "dry", "--max-chunk-size", "3000", "--dry-run");
    expect(run.stdout).toMatch(/dry\/saved_model\.cpb: \d+ chunks\n +0 {2}message .*\(root\)\n/);
    expect(existsSync(join(folder, "dry"))).toBe(false);
    expect(json(cairn("split", "tiny", "dry", "--max-chunk-size", "3000", "--dry-run", "--json"))).toMatchObject({
      dryRun: true,
      split: true,
      chunks: expect.any(Array),
    });
  });

  it("do not overwrite without --force, nor write over the input, nor under a wrong name", () => {
    writeFileSync(join(folder, "kept.cpb"), "mine");
    const args = ["split", "tiny/saved_model.pb", "kept.cpb", "--max-chunk-size", "5000"];
    expect(cairn(...args)).toMatchObject({
      status: 2,
      stderr: expect.stringMatching(/kept\.cpb: the output exists[\s\S]*--force/),
    });
    expect(readFileSync(join(folder, "kept.cpb"), "utf8")).toBe("mine");
    expect(cairn(...args, "--force").status).toBe(0);
    expect(cairn("split", "tiny", "tiny/").status).toBe(2);
    expect(cairn("split", "tiny/saved_model.pb", "x.zip").status).toBe(2);
    expect(cairn("merge", "kept.cpb", "x.cpb").status).toBe(2);
  });

  it("keep the input that stands beside the output under the same prefix, by whatever path", () => {
    cpSync(join(folder, "tiny/saved_model.pb"), join(folder, "graph.pb"));
    symlinkSync(folder, join(folder, "link"));
    for (const input of ["graph.pb", "./graph.pb", join(folder, "graph.pb"), "link/graph.pb"]) {
      expect(cairn("split", input, "graph.cpb", "--max-chunk-size", "5000", "--force").status).toBe(0);
      expect(existsSync(join(folder, "graph.pb"))).toBe(true);
    }
    expect(cairn("split", "link/graph.pb", "graph.pb", "--force").status).toBe(2);
    expect(cairn("merge", "graph.cpb", "link/graph.cpb", "--force").status).toBe(2);
    rmSync(join(folder, "link"));
  });

  it("say that the .cpb stays, which readers of the prefix go on taking", () => {
    const note = expect.stringContaining("noted.cpb stays beside noted.pb");
    expect(cairn("split", "bigconst/saved_model.pb", "noted.cpb", "--max-chunk-size", "50kB").status).toBe(0);
    expect(cairn("merge", "noted.cpb", "noted.pb", "--dry-run")).toMatchObject({ status: 0, stderr: note });
    const merged = cairn("merge", "noted.cpb", "noted.pb", "--json");
    expect(merged).toMatchObject({ status: 0, stderr: note });
    expect(json(merged)).toMatchObject({ notes: [note] });
    expect(existsSync(join(folder, "noted.cpb"))).toBe(true);
    expect(cairn("merge", "noted.cpb", "other.pb")).toMatchObject({ status: 0, stderr: "" });
  });

  it("exit with 3 for damaged input and leave nothing behind", () => {
    const bytes = readFileSync(fixturePath("cpb/cpb/bigconst__30000_uncompressed_chunk20000/saved_model.cpb"));
    bytes[100_000]! ^= 1;
    writeFileSync(join(folder, "damaged.cpb"), bytes);
    const before = readdirSync(folder);
    expect(cairn("merge", "damaged.cpb", "damaged.pb")).toMatchObject({
      status: 3,
      stderr: expect.stringContaining("damaged.cpb@0xf989: chunk data hash"),
    });
    expect(readdirSync(folder)).toEqual(before);
  });

  it("exit with 4 when the output cannot be written", () => {
    writeFileSync(join(folder, "a-file"), "");
    expect(cairn("merge", "file-none.cpb", "a-file/x.pb")).toMatchObject({ status: 4 });
  });

  it("end at Ctrl-C with 130 and leave no half file", async () => {
    const big = join(folder, "big.pb");
    // A model whose only constant is 300 MB, so that there is time to interrupt.
    const size = 300_000_000;
    const varint = (n: number): number[] => (n < 128 ? [n] : [(n & 127) | 128, ...varint(Math.floor(n / 128))]);
    // meta_graphs.graph_def.node.attr["value"].tensor.tensor_content, from the inside out.
    let head: number[] = [];
    for (const number of [4, 8, 2, 5, 1, 2, 2]) {
      const before = number === 5 ? [0x0a, 5, ...Buffer.from("value")] : [];
      head = [...before, ...head];
      head = [number * 8 + 2, ...varint(head.length + size), ...head];
    }
    const { openSync, writeSync, closeSync } = await import("node:fs");
    const fd = openSync(big, "w");
    writeSync(fd, Uint8Array.from(head));
    for (let i = 0; i < 300; i++) writeSync(fd, new Uint8Array(1_000_000).fill(i));
    closeSync(fd);
    const child = spawn(
      process.execPath,
      [BIN, "split", "big.pb", "big.cpb", "--max-chunk-size", "1MB", "--compression", "brotli"],
      { cwd: folder },
    );
    const exit = new Promise<number | null>((resolve) => child.on("exit", resolve));
    await expect
      .poll(() => readdirSync(folder).some((name) => name.startsWith(".big.cpb.cairn-")), {
        timeout: 20_000,
        interval: 5,
      })
      .toBe(true);
    child.kill("SIGINT");
    expect(await exit).toBe(130);
    expect(readdirSync(folder).filter((name) => name.includes("big.cpb"))).toEqual([]);
    rmSync(big);
  });
});

describe("looking", () => {
  it("inspect shows signatures, graph and files as a tree, and as JSON", () => {
    const { stdout } = cairn("inspect", "tiny");
    expect(stdout).toMatch(/^tiny {2}SavedModel, TensorFlow 2\.18\.1/);
    expect(stdout).toMatch(/serving_default +tensorflow\/serving\/predict\n[\s\S]*in x +float32 \[\?, 60\]/);
    expect(json(cairn("show", "tiny", "--json"))).toMatchObject({
      format: "saved-model",
      outline: { kind: "saved-model", children: expect.any(Array) },
    });
  });

  it("tensors lists keys in order, filters and hashes", () => {
    const { stdout, stderr } = cairn("tensors", "bigconst");
    expect(stdout.split("\n")[2]).toMatch(/^Const_2 +float32 +\[4000, 8\] +125 KiB$/);
    expect(stderr).toMatch(/^18 tensors, /);
    const listed = json(cairn("ls", "bigconst", "--filter", "Const*", "--sha256", "--json")) as {
      tensors: { key: string; sha256: string }[];
    };
    expect(listed.tensors.map(({ key }) => key)).toEqual(["Const", "Const_1", "Const_2", "Const_3"]);
    expect(listed.tensors.every(({ sha256 }) => /^[0-9a-f]{64}$/.test(sha256))).toBe(true);
  });

  it("get prints a tensor, a region of it, and writes .npy, text and raw bytes", () => {
    expect(cairn("get", "bigconst", "Const_3").stdout).toMatch(/^"/);
    expect(cairn("get", "bigconst", "Const_2", "--region", "0:2,:3").stdout).toMatch(
      /^\[\[0\.\d+, 0\.\d+, 0\.\d+\],\n \[/,
    );
    expect(cairn("cat", "bigconst", "Const_2").stdout).toContain("…");
    expect(cairn("get", "bigconst", "Const_2", "-o", "c.npy").status).toBe(0);
    expect(readFileSync(join(folder, "c.npy")).length).toBe(128 + 128_000);
    expect(cairn("get", "bigconst", "Const_2", "-o", "c.bin").stdout).toContain("as raw");
    expect(readFileSync(join(folder, "c.bin")).length).toBe(128_000);
    const raw = spawnSync(
      process.execPath,
      [BIN, "get", "bigconst", "Const_2", "--region", "1", "--as", "raw", "-o", "-"],
      { cwd: folder },
    );
    expect(raw.stdout.equals(readFileSync(join(folder, "c.bin")).subarray(32, 64))).toBe(true);
    expect(cairn("get", "bigconst", "Nope")).toMatchObject({
      status: 3,
      stderr: expect.stringContaining("cairn tensors"),
    });
    expect(cairn("get", "bigconst", "Const_2", "--region", "9999")).toMatchObject({ status: 2 });
  });

  it("get checks the tensor that a part is of, and says whether it has", () => {
    for (const [name, at] of [
      ["inside", 100_000],
      ["outside", 160_000],
    ] as const) {
      expect(cairn("split", "bigconst", name, "--max-chunk-size", "130kB", "--compression", "none").status).toBe(0);
      const region = ["get", name, "Const_2", "--region", "0:2000"];
      expect(json(cairn(...region, "--json"))).toMatchObject({ verified: true });
      const path = join(folder, name, "saved_model.cpb");
      const bytes = readFileSync(path);
      bytes[at] = (bytes[at] as number) ^ 1;
      writeFileSync(path, bytes);
      const failure = { status: 3, stdout: "", stderr: expect.stringContaining("chunk data hash") };
      expect(cairn(...region)).toMatchObject(failure);
      expect(cairn(...region, "-o", "region.bin")).toMatchObject(failure);
      expect(cairn("get", name, "Const_2")).toMatchObject(failure);
      expect(cairn("get", name, "Const_1", "--region", "0")).toMatchObject({ status: 0, stderr: "" });
    }
    expect(existsSync(join(folder, "region.bin"))).toBe(false);
  });

  it("get of a part of a large tensor says that it was not checked, and checks it with --verify", () => {
    const bytes = largeModel();
    writeFileSync(join(folder, "large.pb"), bytes);
    expect(cairn("split", "large.pb", "large.cpb", "--max-chunk-size", "1MB", "--compression", "none").status).toBe(0);
    const region = ["get", "large.cpb", "w", "--region", "0:4"];
    const note = expect.stringContaining("was not checked");
    expect(cairn(...region)).toMatchObject({ status: 0, stdout: "[7, 7, 7, 7]\n", stderr: note });
    const unchecked = cairn(...region, "--json");
    expect(unchecked.stderr).toEqual(note);
    expect(json(unchecked)).toMatchObject({ verified: false });
    expect(json(cairn(...region, "--verify", "--json"))).toMatchObject({ verified: true });
    expect(cairn(...region, "--verify").stderr).toBe("");
    const path = join(folder, "large.cpb");
    const split = readFileSync(path);
    split[split.length - 1_000_000] = 8;
    writeFileSync(path, split);
    expect(cairn(...region)).toMatchObject({ status: 0, stderr: note });
    expect(cairn(...region, "--verify")).toMatchObject({ status: 3, stdout: "" });
  });

  it("verify exits with 0 when all is good and 1 when something is damaged", () => {
    expect(cairn("verify", "tiny")).toMatchObject({ status: 0, stdout: expect.stringMatching(/^tiny: good, 4 parts/) });
    const run = cairn("verify", "damaged.cpb");
    expect(run.status).toBe(1);
    expect(run.stdout).toMatch(
      /^error: damaged\.cpb@0xf989: chunk data hash: expected 0x[0-9a-f]{16}, got 0x[0-9a-f]{16} \(.*tensor_content\) \[chunk-data\]\nstill good:\n/,
    );
    expect(json(cairn("verify", "damaged.cpb", "--json"))).toMatchObject({
      ok: false,
      findings: [{ severity: "error", offset: 63_881 }],
      good: expect.any(Array),
    });
  });

  it("goes on quietly when the reader of its output stops early", () => {
    const { stdout } = spawnSync(
      "bash",
      [
        "-c",
        `"${process.execPath}" "${BIN}" tensors bigconst 2>err.txt | head -1; echo "\${PIPESTATUS[0]}"; cat err.txt`,
      ],
      { cwd: folder, encoding: "utf8" },
    );
    expect(stdout).not.toMatch(/EPIPE/);
  });
});
