// One job on a checkpoint in a process of its own. Prints what the work took, without the start and without making the
// data, and the peak of memory beyond what was there before.
//
// node checkpoint-child.mjs JOB PATH COUNT BYTES [FIRST]
import { closeSync, openSync, readFileSync, readSync, writeFileSync, writeSync } from "node:fs";

const [, , job, path, countText, bytesText, firstText = "0"] = process.argv;
const count = Number(countText);
const bytes = Number(bytesText);
/** The number of the first tensor. */
const first = Number(firstText);
/** What is written and read at once where Node alone works. */
const STEP = 4 << 20;

const keyOf = (i) => `layer_${String(i).padStart(5, "0")}/kernel`;

/** The memory of all tensors, with every page of it in use, and views of each. */
function makeTensors() {
  const size = Math.floor(bytes / count / 64) * 64;
  const memory = new Float32Array((size / 4) * count);
  for (let i = 0; i < memory.length; i++) memory[i] = (i % 1021) * 0.37;
  const arrays = Array.from({ length: count }, (_, i) => memory.subarray((i * size) / 4, ((i + 1) * size) / 4));
  return { memory: new Uint8Array(memory.buffer), arrays };
}

const jobs = {
  /** From arrays to a checkpoint, as a program saves: plan, checksums, data, index. */
  save: async () => {
    const { arrays } = makeTensors();
    const { numberTensor, planShards, ShardableTensor, ShardByTaskPolicy, writeCheckpoint } = await import(
      "cairn/checkpoint"
    );
    const { localFiles } = await import("cairn/node");
    return async () => {
      const tensors = arrays.map(
        (array, i) => new ShardableTensor({ checkpointKey: keyOf(first + i), tensor: numberTensor(array) }),
      );
      await writeCheckpoint(localFiles, path, await planShards(tensors, new ShardByTaskPolicy()));
    };
  },

  "plain write": async () => {
    const { memory } = makeTensors();
    return () => {
      const file = openSync(path, "w");
      for (let at = 0; at < memory.length; ) at += writeSync(file, memory, at, Math.min(STEP, memory.length - at));
      closeSync(file);
    };
  },

  /** All tensors, checked, in memory. */
  restore: async () => {
    const { openCheckpoint } = await import("cairn/checkpoint");
    const { localFiles: files } = await import("cairn/node");
    return async () => {
      const reader = await openCheckpoint(path, { files });
      const tensors = new Map();
      for await (const { info, bytes: value } of reader.readAll()) tensors.set(info.key, value);
      await reader.close();
      if (tensors.size !== count) throw new Error(`${tensors.size} tensors`);
    };
  },

  "plain read": async () => {
    return () => {
      const file = openSync(path, "r");
      const memory = Buffer.allocUnsafeSlow(Math.floor(bytes / count / 64) * 64 * count);
      for (let at = 0; at < memory.length; ) at += readSync(file, memory, at, Math.min(STEP, memory.length - at), at);
      closeSync(file);
    };
  },

  /** One tensor of a checkpoint that was not open; reads are those of its files. */
  "one tensor": async () => {
    const { openCheckpoint } = await import("cairn/checkpoint");
    const { LocalFiles } = await import("cairn/node");
    const files = new LocalFiles();
    const work = async () => {
      const reader = await openCheckpoint(path, { files });
      const data = await reader.data(keyOf(count >> 1));
      await data.read(0, data.size);
      await reader.close();
    };
    work.countReads = async () => {
      const source = await files.open(`${path}.index`);
      const prototype = Object.getPrototypeOf(source);
      await source.close();
      const { fill } = prototype;
      let reads = 0;
      prototype.fill = function (...args) {
        reads++;
        return fill.apply(this, args);
      };
      await work();
      prototype.fill = fill;
      return reads;
    };
    return work;
  },
};

/** Resident memory in MB: now, or at its peak since it was last set back. */
function residentMB(field) {
  try {
    return Number(new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync("/proc/self/status", "utf8"))[1]) / 1024;
  } catch {
    return Number.NaN;
  }
}

const work = await jobs[job]();
try {
  writeFileSync("/proc/self/clear_refs", "5"); // the peak counts from here
} catch {}
const beforeMB = residentMB("VmRSS");
const cpu = process.cpuUsage();
const startMs = performance.now();
await work();
const ms = performance.now() - startMs;
const { user, system } = process.cpuUsage(cpu);
const took = { ms, cpuMs: (user + system) / 1000, peakMB: residentMB("VmHWM") - beforeMB };
if (work.countReads !== undefined) took.reads = await work.countReads();
process.stderr.write(JSON.stringify(took));
