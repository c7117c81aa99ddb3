// How long it takes to save and restore a checkpoint of many or few tensors, and to read one of them, beside a plain write
// and read of the same bytes, and beside the safetensors library where a Python with it is given.
//
// node bench/checkpoint.mjs [--bytes 1e9] [--rounds 5] [--dir /dev/shm] [--tensors 4,20000] [--python PATH]
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { MemorySource } from "cairn/bytes";
import { openCheckpoint, writeCheckpoint } from "cairn/checkpoint";
import { localFiles as files } from "cairn/node";
import { printTable } from "./support/measure.mjs";

const { values: options } = parseArgs({
  options: {
    bytes: { type: "string", default: "1e9" },
    rounds: { type: "string", default: "5" },
    dir: { type: "string", default: existsSync("/dev/shm") ? "/dev/shm" : tmpdir() },
    tensors: { type: "string", default: "4,20000" },
    python: { type: "string" },
  },
});
const bytes = Number(options.bytes);
const rounds = Number(options.rounds);
const counts = options.tensors.split(",").map(Number);
if (!(bytes >= 1e6 && rounds >= 1 && counts.every((count) => count >= 1))) {
  console.error("--bytes is a number from 1e6 on, --rounds and --tensors are whole numbers from 1 on");
  process.exit(2);
}

const SAFETENSORS = `
import sys, time, os, numpy as np
from safetensors.numpy import save_file, load_file
path, count, size, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
tensors = {f"layer_{i:05d}/kernel": np.full(size // 4, i, np.float32) for i in range(count)}
for _ in range(rounds):
    if os.path.exists(path): os.remove(path)
    t = time.perf_counter(); save_file(tensors, path); s = time.perf_counter() - t
    t = time.perf_counter(); loaded = load_file(path); r = time.perf_counter() - t
    del loaded
    print(s * 1000, r * 1000)
os.remove(path)
`;

const STEP = 4 * 1024 * 1024;
const folder = join(options.dir, `cairn-bench-${process.pid}`);
const at = (name) => join(folder, name);

async function plainWrite(memory) {
  const file = await open(at("plain"), "w");
  for (let offset = 0; offset < memory.length; offset += STEP) await file.write(memory.subarray(offset, offset + STEP));
  await file.close();
}

async function plainRead(length) {
  const file = await open(at("plain"), "r");
  const target = new Uint8Array(length);
  for (let offset = 0; offset < length; offset += STEP)
    await file.read(target, offset, Math.min(STEP, length - offset));
  await file.close();
}

function planOf(memory, count) {
  const size = memory.length / count;
  const slices = Array.from({ length: count }, (_, i) => {
    const data = new MemorySource(memory.subarray(i * size, (i + 1) * size));
    const shape = [size / 4];
    const tensor = { dtype: "float32", shape, byteLength: size, data: async () => data };
    const key = `layer_${String(i).padStart(5, "0")}/kernel`;
    return { key, sliceSpec: "", fullShape: shape, region: [{ start: 0, end: size / 4 }], tensor };
  });
  return { description: "bench", shards: [{ task: "", slices }], warnings: [] };
}

async function restore() {
  const reader = await openCheckpoint(at("c"), { files });
  const kept = [];
  for await (const { bytes: value } of reader.readAll()) kept.push(value);
  await reader.close();
  return kept.length;
}

async function readOne(key) {
  const reader = await openCheckpoint(at("c"), { files });
  const data = await reader.data(key);
  await data.read(0, Math.min(data.size, 65536));
  await reader.close();
}

async function time(times, name, work) {
  const startMs = performance.now();
  const cpu = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(cpu);
  const took = { ms: performance.now() - startMs, cpuMs: (user + system) / 1000 };
  times.set(name, [...(times.get(name) ?? []), took]);
}

const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

async function bench(count) {
  const memory = new Uint8Array(Math.floor(bytes / count / 64) * 64 * count);
  for (let i = 0; i < memory.length; i += 64) memory[i] = i >>> 6;
  const plan = planOf(memory, count);
  const times = new Map();
  for (let round = 0; round < rounds; round++) {
    await time(times, "plain write", () => plainWrite(memory));
    await time(times, "save", () => writeCheckpoint(files, at("c"), plan));
    await time(times, "plain read", () => plainRead(memory.length));
    rmSync(at("plain"));
    await time(times, "restore", restore);
    await time(times, "one tensor", () => readOne(plan.shards[0].slices[count >> 1].key));
    for (const name of ["c.index", "c.data-00000-of-00001", "c.cairn.json"]) rmSync(at(name));
  }
  const rows = [...times].map(([name, list]) => ({
    [`${count} tensors`]: name,
    "median ms": median(list.map(({ ms }) => ms)).toFixed(1),
    "best ms": Math.min(...list.map(({ ms }) => ms)).toFixed(1),
    "cpu ms": median(list.map(({ cpuMs }) => cpuMs)).toFixed(1),
  }));
  if (options.python !== undefined) rows.push(...safetensorsRows(count, memory.length / count));
  printTable(rows);
}

function safetensorsRows(count, size) {
  const { status, stdout, stderr } = spawnSync(
    options.python,
    ["-c", SAFETENSORS, at("s.safetensors"), String(count), String(size), String(rounds)],
    { encoding: "utf8" },
  );
  if (status !== 0) throw new Error(stderr);
  const runs = stdout
    .trim()
    .split("\n")
    .map((line) => line.split(" ").map(Number));
  return ["save", "load"].map((what, i) => ({
    [`${count} tensors`]: `safetensors ${what}`,
    "median ms": median(runs.map((run) => run[i])).toFixed(1),
    "best ms": Math.min(...runs.map((run) => run[i])).toFixed(1),
    "cpu ms": "",
  }));
}

mkdirSync(folder, { recursive: true });
try {
  for (const count of counts) await bench(count);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
