import { MemoryStore } from "../../src/bytes/memory-store.js";
import { CairnError } from "../../src/errors.js";
import { TfjsModel } from "../../src/formats/tfjs/model.js";
import type { TensorInfo } from "../../src/tensor/tensor-source.js";
import { layers, tf } from "../tracking/tfjs-models.js";
import { readAll } from "./safetensors.js";

/** A model of TF.js as it saves it, put into files: the weights cut in files of so many bytes. */
export async function savedFiles(
  model: { save(handler: tf.io.IOHandler, config?: tf.io.SaveConfig): Promise<unknown> },
  maxFileBytes = 100,
  config: tf.io.SaveConfig = {},
): Promise<MemoryStore> {
  let artifacts: tf.io.ModelArtifacts = {};
  const handler = tf.io.withSaveHandler(async (saved) => {
    artifacts = saved;
    return { modelArtifactsInfo: { dateSaved: new Date(0), modelTopologyType: "JSON" } };
  });
  await model.save(handler, config);
  const data = new Uint8Array(tf.io.CompositeArrayBuffer.join(artifacts.weightData as ArrayBuffer));
  const { weightData: _, weightSpecs = [], ...fields } = artifacts;
  return manifestFiles(weightSpecs, data, { maxFileBytes, fields });
}

/** Files of one group of weights. */
export function manifestFiles(
  weights: readonly object[],
  data: Uint8Array,
  { maxFileBytes = 100, fields = {} }: { maxFileBytes?: number; fields?: object } = {},
): MemoryStore {
  const count = Math.ceil(data.length / maxFileBytes);
  const paths = Array.from({ length: count }, (_, i) => `group1-shard${i + 1}of${count}.bin`);
  const json = JSON.stringify({ ...fields, weightsManifest: [{ paths, weights }] });
  return new MemoryStore([
    ["m/model.json", new TextEncoder().encode(json)],
    ...paths.map((path, i) => [`m/${path}`, data.slice(i * maxFileBytes, (i + 1) * maxFileBytes)] as const),
  ]);
}

/** Loads a model from files with TF.js alone. */
export function loadWithTfjs(files: MemoryStore, path: string): Promise<layers.LayersModel> {
  return layers.loadLayersModel(tf.io.fromMemory(fromFiles(files, path)) as tf.io.IOHandler);
}

/** What a handler of TF.js would load from files. */
export function fromFiles(files: MemoryStore, path: string): tf.io.ModelArtifacts {
  const bytes = filesOf(files);
  const json = JSON.parse(new TextDecoder().decode(bytes.get(`${path}/model.json`))) as tf.io.ModelJSON;
  const { weightsManifest, ...rest } = json;
  const parts = weightsManifest.flatMap(({ paths }) => paths.map((name) => bytes.get(`${path}/${name}`) as Uint8Array));
  return {
    ...rest,
    weightSpecs: weightsManifest.flatMap(({ weights }) => weights),
    weightData: parts.map((part) => part.slice().buffer as ArrayBuffer),
  };
}

/** All files of a store. */
export function filesOf(store: MemoryStore): Map<string, Uint8Array> {
  return (store as unknown as { files: Map<string, Uint8Array> }).files;
}

/** What cairn reads of a model, or the error that it gives; anything but a typed error with a file fails. */
export async function readOrError(
  files: MemoryStore,
  path = "m",
): Promise<(TensorInfo & { bytes: Uint8Array })[] | CairnError> {
  let model: TfjsModel | undefined;
  try {
    model = await TfjsModel.open(files, path);
    return await readAll(model);
  } catch (error) {
    if (error instanceof CairnError && error.file !== undefined) return error;
    throw error;
  } finally {
    await model?.close();
  }
}
