// How long it takes to save, restore, reshard, merge and convert checkpoints of few and of many tensors, beside a plain
// write, read or copy of the same bytes, and beside safetensors and TensorFlow where a Python has them.
//
// node bench/checkpoints.mjs [--bytes 1e9] [--tensors 4,20000] [--rounds 5] [--dir /dev/shm] [--only save,restore,…]
//   [--tensorflow] [--json FILE]
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { measure, printTable, runOnce } from "./support/measure.mjs";
import { pythonWith, runPeer } from "./support/peers.mjs";

const { values: options } = parseArgs({
  options: {
    bytes: { type: "string", default: "1e9" },
    tensors: { type: "string", default: "4,20000" },
    rounds: { type: "string", default: "5" },
    dir: { type: "string", default: existsSync("/dev/shm") ? "/dev/shm" : tmpdir() },
    only: { type: "string", default: "save,restore,one,files" },
    tensorflow: { type: "boolean", default: false },
    json: { type: "string" },
    // bench/run.mjs gives every benchmark the same options.
    compression: { type: "string" },
  },
});
const bytes = Number(options.bytes);
const rounds = Number(options.rounds);
const counts = options.tensors.split(",").map(Number);
const only = new Set(options.only.split(","));
const isWhole = (number) => Number.isInteger(number) && number >= 1;
if (!(bytes >= 1e6 && isWhole(rounds) && counts.every((count) => isWhole(count) && bytes / count >= 64))) {
  console.error("--bytes is a number from 1e6 on, --rounds and --tensors are whole numbers from 1 on");
  process.exit(2);
}

const CHILD = fileURLToPath(new URL("./support/checkpoint-child.mjs", import.meta.url));
const folder = join(options.dir, `cairn-bench-${process.pid}`);
const at = (name) => join(folder, name);
const PARTS = 4;

const python = pythonWith("safetensors");
const peers = python === undefined ? [] : [{ library: "safetensors", python }];
const tensorflow = options.tensorflow ? pythonWith("tensorflow") : undefined;
if (tensorflow !== undefined) peers.push({ library: "tensorflow", python: tensorflow });
if (python === undefined) console.log("no safetensors to compare with: node bench/setup-peers.mjs makes it");

/** Removes a file, or all files of a checkpoint. */
function remove(path) {
  const name = basename(path);
  for (const found of readdirSync(dirname(path))) {
    if (found === name || found.startsWith(`${name}.`)) rmSync(join(dirname(path), found), { recursive: true });
  }
}

function runChild({ job, path, count, bytes: size = bytes, first = 0 }) {
  const args = [CHILD, job, path, String(count), String(size), String(first)];
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: "utf8", maxBuffer: 2 ** 28 });
  if (status !== 0) throw new Error(`${job} failed with ${status}: ${stderr}`);
  return JSON.parse(stderr.slice(stderr.lastIndexOf("{")));
}

/** A job whose output is removed before each run, so that each writes new pages. */
const writing = (name, path, run) => ({
  name,
  run: () => {
    remove(path);
    const took = run();
    remove(path);
    return took;
  },
});

const number = (value, digits = 0) => (Number.isFinite(value) ? value.toFixed(digits) : "");

/** What was done in a process that was there already. */
function insideRows(medians, base) {
  const peer = medians.safetensors;
  return Object.entries(medians).map(([name, { ms, minMs, cpuMs, peakMB, reads }]) => ({
    work: name,
    ms: number(ms, ms < 100 ? 1 : 0),
    "best ms": number(minMs, minMs < 100 ? 1 : 0),
    "cpu ms": number(cpuMs, cpuMs < 100 ? 1 : 0),
    "/ plain": number(ms / medians[base]?.ms, 2),
    "/ safetensors": number(ms / peer?.ms, 2),
    "cpu / safetensors": number(cpuMs / peer?.cpuMs, 2),
    "MB beyond": number(peakMB),
    ...(Object.values(medians).some((one) => one.reads > 0) ? { reads: reads > 0 ? String(reads) : "" } : {}),
  }));
}

/** What a command did: whole processes, less the start of Node. */
function commandRows(medians) {
  const { node, cp, plain } = medians;
  return Object.entries(medians)
    .filter(([name]) => name !== "node")
    .map(([name, { ms, minMs, cpuMs, peakMB }]) => {
      const less = name === "cp" ? 0 : node.ms;
      return {
        work: name,
        "less start ms": number(ms - less),
        "best ms": number(minMs - less),
        "cpu ms": number(cpuMs),
        "/ plain": number((ms - less) / (plain.ms - node.ms), 2),
        "/ cp": number((ms - less) / cp.ms, 2),
        "MB beyond node": number(peakMB - node.peakMB),
      };
    });
}

const libraryPath = (library) => at(`${library}.peer`);

function save(count) {
  return {
    jobs: [
      writing("cairn", at("out"), () => runChild({ job: "save", path: at("out"), count })),
      writing("plain write", at("out"), () => runChild({ job: "plain write", path: at("out"), count })),
      ...peers.map(({ library, python: own }) =>
        writing(library, at("out"), () => runPeer(own, library, { job: "save", path: at("out"), count, bytes })),
      ),
    ],
    rows: (medians) => insideRows(medians, "plain write"),
  };
}

function restore(count) {
  const job = "restore";
  const data = at("source.data-00000-of-00001");
  return {
    jobs: [
      { name: "cairn", run: () => runChild({ job, path: at("source"), count }) },
      { name: "plain read", run: () => runChild({ job: "plain read", path: data, count }) },
      ...peers.map(({ library, python: own }) => ({
        name: library,
        run: () => runPeer(own, library, { job, path: libraryPath(library), count, bytes }),
      })),
    ],
    rows: (medians) => insideRows(medians, "plain read"),
  };
}

function one(count) {
  return {
    jobs: [
      { name: "cairn", run: () => runChild({ job: "one tensor", path: at("source"), count }) },
      ...peers.map(({ library, python: own }) => ({
        name: library,
        run: () => runPeer(own, library, { job: "one tensor", path: libraryPath(library), count, bytes }),
      })),
    ],
    rows: (medians) => insideRows(medians),
  };
}

function files() {
  const data = at("source.data-00000-of-00001");
  const chunkSize = String(Math.floor(Math.min(100e6, bytes / 4)));
  const parts = Array.from({ length: PARTS }, (_, i) => at(`part-${i}`)).join(",");
  const command = (name, job, source, output, option) =>
    writing(name, output, () => runOnce({ job, source, output, option, chunkSize }));
  return {
    jobs: [
      { name: "node", job: "node" },
      command("cp", "cp", data, at("copy")),
      command("plain", "plain", data, at("copy")),
      command("reshard", "reshard", at("source"), at("out")),
      command("merge-checkpoints", "merge-checkpoints", parts, at("out")),
      command("to safetensors", "convert", at("source"), at("out.safetensors"), "safetensors"),
      command("to checkpoint", "convert", at("model.safetensors"), at("out"), "checkpoint"),
    ],
    rows: commandRows,
  };
}

/** Makes what the benchmarks read. */
function prepare(count) {
  runChild({ job: "save", path: at("source"), count });
  for (const { library, python: own } of peers) {
    if (only.has("restore") || only.has("one"))
      runPeer(own, library, { job: "save", path: libraryPath(library), count, bytes });
  }
  if (!only.has("files")) return;
  const size = Math.ceil(count / PARTS);
  for (let i = 0; i < PARTS; i++) {
    const path = at(`part-${i}`);
    runChild({ job: "save", path, count: size, bytes: (bytes / count) * size, first: i * size });
  }
  runOnce({ job: "convert", source: at("source"), output: at("model.safetensors"), option: "safetensors" });
}

mkdirSync(folder, { recursive: true });
try {
  const results = [];
  for (const count of counts) {
    console.log(`\nmaking checkpoints of ${bytes / 1e6} MB in ${count} tensors in ${options.dir} …`);
    prepare(count);
    for (const [name, make] of Object.entries({ save, restore, one, files })) {
      if (!only.has(name)) continue;
      const { jobs, rows } = make(count);
      const medians = measure(jobs, rounds);
      console.log(`\n${name === "one" ? "read one tensor" : name}, ${count} tensors`);
      printTable(rows(medians));
      results.push({ work: name, count, bytes, medians });
    }
    for (const found of readdirSync(folder)) rmSync(at(found), { recursive: true });
  }
  if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(results, null, 2)}\n`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
