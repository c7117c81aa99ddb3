// A SavedModel of several GiB that never was one file: its constants are sources of pseudo-random bytes, joined with the
// bytes around them. It is split, looked into, verified and merged to a stream whose hash must be that of the parts.
// Prints what it took as JSON.
//
// node large-model.mjs GIB FOLDER
import { createHash } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { getTensor, inspect, openTensors, verify } from "cairn";
import { BaseSource, joinSources, MemorySource, readInOrder } from "cairn/bytes";
import { localFiles } from "cairn/node";
import { openSavedModel } from "cairn/saved-model";
import { Merger, SavedModelSplitter } from "cairn/splitter";
import { SavedModelSchema } from "cairn/tensorflow";

const [, , gib, folder] = process.argv;
const total = Number(gib) * 2 ** 30;
const CONSTANTS = 12;

/** Bytes that follow from their offset, so that there are as many as one likes and none is kept. */
class PseudoRandom extends BaseSource {
  constructor(name, size, seed) {
    super();
    Object.assign(this, { name, size, seed });
  }

  async fill(offset, target) {
    // A block of 4 KiB depends on its index alone; inside it a cheap generator runs.
    for (let at = 0; at < target.length; ) {
      const block = Math.floor((offset + at) / 4096);
      const words = blockOf(this.seed, block);
      const from = (offset + at) % 4096;
      const count = Math.min(4096 - from, target.length - at);
      target.set(words.subarray(from, from + count), at);
      at += count;
    }
  }
}

const scratch = new Uint32Array(1024);
const scratchBytes = new Uint8Array(scratch.buffer);
function blockOf(seed, block) {
  let state = (Math.imul(seed + 1, 0x9e3779b1) ^ Math.imul(block + 1, 0x85ebca6b)) | 1;
  for (let i = 0; i < 1024; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    scratch[i] = state;
  }
  return scratchBytes;
}

const utf8 = new TextEncoder();
const varint = (value) => {
  const bytes = [];
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 0x80);
  return Uint8Array.from([...bytes, rest]);
};
const memory = (bytes) => new MemorySource(typeof bytes === "string" ? utf8.encode(bytes) : bytes, "parts");
const message = (...parts) => joinSources("model of parts", parts);
const field = (number, value) => message(memory(varint(number * 8 + 2)), memory(varint(value.size)), value);
const number = (fieldNumber, value) => message(memory(varint(fieldNumber * 8)), memory(varint(value)));

function constant(i) {
  const elements = Math.floor(total / CONSTANTS / 4) + i;
  const shape = field(2, number(1, elements));
  const tensor = message(number(1, 1), field(2, shape), field(4, new PseudoRandom(`constant ${i}`, elements * 4, i)));
  const attr = (key, value) => field(5, message(field(1, memory(key)), field(2, value)));
  return message(
    field(1, memory(`weights_${i}`)),
    field(2, memory("Const")),
    attr("dtype", number(6, 1)),
    attr("value", field(8, tensor)),
  );
}

const nodes = Array.from({ length: CONSTANTS }, (_, i) => field(1, constant(i)));
const metaGraph = message(field(1, field(4, memory("serve"))), field(2, message(...nodes)));
const model = message(number(1, 1), field(2, metaGraph));

async function hashOf(source) {
  const hash = createHash("sha256");
  await readInOrder(source, (pieces) => pieces.forEach((piece) => void hash.update(piece)));
  return hash.digest("hex");
}

const times = {};
async function timed(name, work) {
  const startMs = performance.now();
  const result = await work();
  times[name] = Math.round(performance.now() - startMs);
  return result;
}

const prefix = join(folder, "saved_model");
const wanted = await timed("hash of the parts", () => hashOf(model));
const splitter = new SavedModelSplitter(model);
const written = await timed("split", () => splitter.write(prefix, { files: localFiles, compression: "none" }));
const signatures = await timed("open", async () => {
  const opened = await openSavedModel(folder, { files: localFiles });
  const [graph] = await opened.metaGraphs();
  const tags = await graph.tags();
  await opened.close();
  return tags;
});
const outline = await timed("inspect", async () => {
  const { root, close } = await inspect(localFiles, folder);
  const [graph] = await root.children();
  const detail = (await graph.children()).map((child) => child.detail).join("; ");
  await close();
  return detail;
});
const row = await timed("read 100 elements", async () => {
  const { tensors } = await openTensors(localFiles, folder);
  const { data } = await getTensor(tensors, "weights_7", "1000000:1000100");
  const bytes = await data.read(0, data.size);
  await tensors.close();
  const expected = await new PseudoRandom("", 2 ** 40, 7).read(4_000_000, 400);
  return Buffer.compare(bytes, expected) === 0;
});
const report = await timed("verify", () => verify(localFiles, folder));
const got = await timed("merge to a stream", async () => {
  const merged = await Merger.read(prefix, SavedModelSchema, { files: localFiles, check: true });
  const hash = await hashOf(await merged.toSource());
  await merged.verify();
  await merged.close();
  return hash;
});
const peakMB = Number(/VmHWM:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]) / 1024;
console.log(
  JSON.stringify({
    modelBytes: model.size,
    fileBytes: statSync(written.path).size,
    chunkCount: written.chunkCount,
    same: got === wanted,
    row,
    tags: signatures,
    outline,
    verified: report.ok,
    peakMB,
    times,
  }),
);
