// Takes a model that TensorFlow saved through everything that cairn does with it: split, inspect, verify, read one
// constant, merge. Run it with `npm start`.
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { getTensor, inspect, openTensors, verify } from "cairn";
import { localFiles } from "cairn/node";
import { mergeModel, splitModel } from "cairn/saved-model";

const model = fileURLToPath(new URL("../test/fixtures/cpb/models/bigconst", import.meta.url));
const folder = await mkdtemp(join(tmpdir(), "cairn-quick-start-"));
const split = join(folder, "split");
const merged = join(folder, "merged");

try {
  console.log("1. Split a SavedModel of TensorFlow 2.18 into chunks of at most 40 kB");
  const plan = await splitModel(model, split, { source: localFiles, target: localFiles, maxChunkSize: 40_000 });
  for (const { type, size, path } of plan.chunks) {
    console.log(`   ${type.padEnd(7)} ${String(size).padStart(6)} B  ${path || "(root)"}`);
  }
  for (const warning of plan.warnings) console.log(`   note: ${warning}`);
  const written = await plan.write({ compression: "auto" });
  await plan.close();
  console.log(
    `   wrote saved_model.cpb, ${written.chunkCount} chunks, ${plan.protoBytes} B in ${written.byteLength} B`,
  );

  console.log("\n2. Look into it");
  const { root, close } = await inspect(localFiles, split);
  console.log(`   ${root.detail}`);
  for (const child of await root.children()) console.log(`   ${child.label.padEnd(12)} ${child.detail}`);
  await close();

  console.log("\n3. Verify it");
  const report = await verify(localFiles, split);
  console.log(`   ${report.ok ? "good" : "damaged"}: ${report.good.length} parts checked to the last byte`);

  console.log("\n4. Read two rows of one constant, and only their bytes");
  const counter = { bytes: 0 };
  const { tensors } = await openTensors(countReads(localFiles, counter), split);
  const { info, shape, data } = await getTensor(tensors, "Const_2", "1000:1002,:");
  const before = counter.bytes;
  const bytes = await data.read(0, data.size);
  const values = new Float32Array(bytes.slice().buffer);
  console.log(
    `   Const_2 is ${info.dtype} [${info.shape.join(", ")}]; rows 1000 and 1001, [${shape.join(", ")}], begin ${values[0].toFixed(4)}, ${values[1].toFixed(4)}`,
  );
  console.log(`   ${before} B read to find it, ${counter.bytes - before} B for the rows, of ${written.byteLength} B`);
  await tensors.close();

  console.log("\n5. Merge it back");
  const merge = await mergeModel(split, merged, { source: localFiles, target: localFiles });
  await merge.write({});
  await merge.close();
  const [original, again] = await Promise.all([model, merged].map((path) => readFile(join(path, "saved_model.pb"))));
  if (!original.equals(again)) throw new Error("the merged model differs");
  console.log(`   saved_model.pb is the same again, byte for byte (${again.length} B)`);
} finally {
  await rm(folder, { recursive: true });
}

/** The same files, counting the bytes that are read from them. */
function countReads(files, counter) {
  const open = async (path) => {
    const source = await files.open(path);
    const read = async (...args) => {
      const bytes = await source.read(...args);
      counter.bytes += bytes.length;
      return bytes;
    };
    const readPieces = async (...args) => {
      const pieces = await source.readPieces(...args);
      for (const piece of pieces) counter.bytes += piece.length;
      return pieces;
    };
    return override(source, { read, readPieces });
  };
  return override(files, { open });
}

/** An object with some of its methods replaced. */
function override(object, methods) {
  return new Proxy(object, {
    get(target, name) {
      const value = methods[name] ?? target[name];
      return typeof value === "function" && !(name in methods) ? value.bind(target) : value;
    },
  });
}
