// The model.json of a TF.js model, before a file of weights that are zeros.
import { readEverything, storeOf } from "./read-everything.mjs";

export const seeds = [];
export const texts = [
  '{"weightsManifest":[{"paths":["group1-shard1of1.bin"],"weights":[{"name":"a","shape":[2,3],"dtype":"float32"},{"name":"b","shape":[4],"dtype":"float32","quantization":{"dtype":"uint8","scale":0.5,"min":-1}},{"name":"s","shape":[2],"dtype":"string"}]}]}',
  '{"format":"layers-model","generatedBy":"keras v2","convertedBy":null,"modelTopology":{"model_config":{"class_name":"Sequential","config":{"layers":[]}}},"weightsManifest":[{"paths":["group1-shard1of1.bin"],"weights":[{"name":"dense/kernel","shape":[4],"dtype":"int32"}]}]}',
  '{"format":"graph-model","modelTopology":{"node":[{"name":"x","op":"Const"}]},"signature":{"inputs":{}},"weightsManifest":[]}',
];

export async function fuzz(data) {
  const files = storeOf({ "m/model.json": new Uint8Array(data), "m/group1-shard1of1.bin": new Uint8Array(4096) });
  await readEverything(files, "m/model.json");
}
