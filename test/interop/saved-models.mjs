// SavedModels whose variables cairn wrote, for TensorFlow to load and run; see saved_models.py.
import { join } from "node:path";
import { listTensors, openTensors, planConversion } from "cairn";
import { localFiles } from "cairn/node";
import { saveSafetensors } from "cairn/safetensors";

const place = (path) => ({ files: localFiles, path });

async function convert(from, to, options) {
  const conversion = await planConversion(place(from), place(to), options);
  try {
    await conversion.write();
  } finally {
    await conversion.close();
  }
}

/** The variables of a model with the sign of every float turned, and their values. */
async function negated(source, path) {
  const { tensors } = await openTensors(localFiles, source);
  const saved = [];
  const values = {};
  for await (const { key, name, role, dtype, shape } of listTensors(tensors)) {
    if (role !== undefined) continue;
    const data = await tensors.data(key);
    const bytes = (await data.read(0, data.size)).slice();
    if (dtype === "float32") {
      const floats = new Float32Array(bytes.buffer);
      for (const [i, value] of floats.entries()) floats[i] = -value;
      values[name] = [...floats];
    }
    saved.push([name, { dtype, shape, data: bytes }]);
  }
  await tensors.close();
  await saveSafetensors(path, saved, { files: localFiles });
  return values;
}

/** SavedModels by way of safetensors: the same variables give the same outputs, others are found where they belong. */
export async function savedModelCases(cases, fixtures, work) {
  for (const name of ["cpb/models/keras", "cpb/models/tiny", "cpb/models/manyfns", "checkpoints/saved_model/sm"]) {
    const source = join(fixtures, name);
    const label = name.split("/").at(-1);
    const at = (what) => join(work, `saved-${label}-${what}`);
    const options = { to: "saved-model", template: place(source) };
    await convert(source, at("same.safetensors"));
    await convert(at("same.safetensors"), at("same"), options);
    cases.push({ kind: "same_model", name: `TensorFlow runs ${label} with its variables`, path: at("same"), source });
    const values = await negated(source, at("other.safetensors"));
    await convert(at("other.safetensors"), at("other"), { ...options, maxShardSize: 64 });
    cases.push({
      kind: "other_variables",
      name: `TensorFlow finds other variables of ${label}`,
      path: at("other"),
      values,
    });
  }
}
