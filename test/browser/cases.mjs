// What is opened in the browser, with what Node reads from the same files.
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { create, toBinary } from "@bufbuild/protobuf";
import { listTensors, openTensors } from "cairn";
import { localFiles } from "cairn/node";
import { GraphDefSplitter, SavedModelSplitter } from "cairn/splitter";
import { DataType, GraphDefSchema } from "cairn/tensorflow";

/** Fixtures that real systems wrote: name, path under test/fixtures, and the folder whose files are dropped. */
const FIXTURES = [
  ["a SavedModel directory", "cpb/models/bigconst", "cpb/models/bigconst"],
  ["a .cpb of TensorFlow, Brotli", "cpb/cpb/manyfns__3000_default/saved_model.cpb"],
  ["a .cpb of TensorFlow, Zstd", "cpb/cpb/bigconst__40000_zstd3/saved_model.cpb"],
  ["a .cpb of TensorFlow, Snappy", "cpb/cpb/bigconst__120000_snappy/saved_model.cpb"],
  ["a GraphDef of TensorFlow, split", "cpb/graphdef/large_nodes.cpb"],
  ["transposed records", "cpb/transposed/manyfns_brotli_groups/saved_model.cpb"],
  ["a checkpoint of Keras", "checkpoints/keras_model/ckpt-1"],
  ["a checkpoint of all dtypes", "checkpoints/all_dtypes/all"],
  ["a checkpoint in shards", "checkpoints/max_shard_size/max100"],
  ["a safetensors file", "safetensors/all_dtypes.safetensors"],
  ["safetensors in shards", "safetensors/sharded", "safetensors/sharded"],
  ["a version of two parameter servers", "elasticdl/model_a/ps2", "elasticdl/model_a/ps2"],
];
/** Those that are opened from the server by their address too. */
const REMOTE = [
  "cpb/models/bigconst/saved_model.pb",
  "cpb/cpb/bigconst__30000_uncompressed_chunk20000/saved_model.cpb",
  "cpb/cpb/bigconst__40000_zstd3/saved_model.cpb",
  "checkpoints/max_shard_size/max100",
  "safetensors/all_dtypes.safetensors",
];

/**
 * All cases: their name, the path to open, the files to drop as [path, address] or none where it is opened by its
 * address, and what Node reads. `/fixtures/` and `/work/` are the two folders on the server. Files are made in `work`.
 */
export async function makeCases(fixtures, work) {
  const cases = [];
  for (const [name, path, folder = dirname(path)] of FIXTURES) {
    cases.push(await droppedCase(name, { root: fixtures, url: "/fixtures" }, path, folder));
  }
  for (const path of REMOTE) {
    cases.push({ name: `${path}, by its address`, remote: `/fixtures/${path}`, ...(await expectedOf(fixtures, path)) });
  }
  await makeFiles(fixtures, work);
  for (const [name, path] of [
    ["none", "none/m.cpb"],
    ["brotli", "brotli/m.cpb"],
    ["zstd", "zstd/m.cpb"],
    ["snappy", "snappy/m.cpb"],
    ["several files", "several/m.cpb"],
    ["a chunk of 40 MB in Brotli", "large/m.cpb"],
  ]) {
    cases.push(await droppedCase(`a .cpb of cairn: ${name}`, { root: work, url: "/work" }, path, dirname(path)));
  }
  return cases;
}

async function droppedCase(name, { root, url }, path, folder) {
  const files = readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
    .map((file) => [file, `${url}/${file}`]);
  return { name, path, files, look: true, ...(await expectedOf(root, path)) };
}

/** What Node reads: the tensors with their hashes, and the hash of the last one's bytes, null when there is none. */
async function expectedOf(root, path) {
  const { detection, tensors } = await openTensors(localFiles, join(root, path));
  const list = [];
  for await (const { key, dtype, shape, sha256 } of listTensors(tensors, { sha256: true })) {
    list.push({ key, dtype, shape, sha256 });
  }
  let last = null;
  if (list.length > 0) {
    const data = await tensors.data(list.at(-1).key);
    const hash = createHash("sha256").update(await data.read(0, data.size));
    last = hash.digest("hex");
  }
  await tensors.close();
  return { expected: { format: detection.format, tensors: list, last } };
}

async function makeFiles(fixtures, work) {
  const model = readFileSync(join(fixtures, "cpb/models/bigconst/saved_model.pb"));
  const split = (name, splitter, options) => splitter.write(join(work, name, "m"), { files: localFiles, ...options });
  for (const compression of ["none", "brotli", "zstd", "snappy"]) {
    await split(compression, new SavedModelSplitter(model, { maxChunkSize: 20_000 }), { compression });
  }
  const extended = { maxFileSize: 60_000 };
  await split("several", new SavedModelSplitter(model, { maxChunkSize: 20_000 }), { compression: "none", extended });
  await split("large", new GraphDefSplitter(largeGraph(), { maxChunkSize: 1_000_000 }), { compression: "brotli" });
  const damaged = readFileSync(join(work, "none/m.cpb"));
  damaged[damaged.length - 30_000] ^= 1;
  mkdirSync(join(work, "damaged"));
  writeFileSync(join(work, "damaged/m.cpb"), damaged);
  mkdirSync(join(work, "chosen/assets"), { recursive: true });
  copyFileSync(join(work, "brotli/m.cpb"), join(work, "chosen/saved_model.cpb"));
}

/** A GraphDef of a constant that is larger than what is decompressed in memory. */
function largeGraph() {
  const size = 40_000_000;
  const tensorContent = Uint8Array.from({ length: size }, (_, i) => (i >> 10) & 255);
  const tensor = { dtype: DataType.DT_UINT8, tensorShape: { dim: [{ size: BigInt(size) }] }, tensorContent };
  const attr = {
    dtype: { value: { case: "type", value: DataType.DT_UINT8 } },
    value: { value: { case: "tensor", value: tensor } },
  };
  return toBinary(GraphDefSchema, create(GraphDefSchema, { node: [{ name: "w", op: "Const", attr }] }));
}
