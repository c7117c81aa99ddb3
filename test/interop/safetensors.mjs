// What cairn writes as safetensors, for the reference library to read.
import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { localFiles } from "cairn/node";
import { openSafetensors, saveSafetensors } from "cairn/safetensors";

/** Files to write again: every dtype, packed ones, names that need escapes, tensors without bytes. */
const FILES = ["all_dtypes", "six_bits", "names", "scalar_and_empty", "any_order", "empty", "model"];

/** Writes each fixture again, as one file and as several, and adds a case for each. */
export async function safetensorsCases(cases, fixtures, work) {
  const { files } = JSON.parse(readFileSync(join(fixtures, "expected.json"), "utf8"));
  for (const name of FILES) {
    const { tensors, metadata } = files[`${name}.safetensors`];
    for (const path of [join(work, `${name}.safetensors`), join(work, `${name}-shards`)]) {
      await writeAgain(join(fixtures, `${name}.safetensors`), path);
      const texts = { format: "pt", ...metadata };
      cases.push({ kind: "safetensors", name: `safetensors reads ${basename(path)}`, path, tensors, metadata: texts });
    }
  }
}

async function writeAgain(source, target) {
  const model = await openSafetensors(source, { files: localFiles });
  const tensors = [];
  for await (const { key, dtype, shape } of model.tensors()) {
    tensors.push([key, { dtype, shape, data: await model.data(key) }]);
  }
  const metadata = await model.metadata();
  await saveSafetensors(target, tensors, { files: localFiles, metadata, maxShardSize: 500 });
  await model.close();
}
