import type { FileStore } from "../../bytes/file-store.js";
import { baseName, joinPath, parentPath } from "../../bytes/path.js";
import { CairnError } from "../../errors.js";
import { MAX_TFJS_JSON_BYTES } from "../../limits.js";
import { looksLikeManifest } from "./model-json.js";

/** What TF.js calls the file that names the others. */
export const MODEL_JSON = "model.json";
/** The files of a model. Source: tfjs-converter/python/tensorflowjs/write_weights.py. */
export const MODEL_FILES: RegExp = /^(model\.json|group\d+-shard\d+of\d+(\.bin)?)$/;

/** The name of a file of weights; `index` counts from 0. Source: write_weights.py, _shard_group_bytes_to_disk. */
export function shardName(group: number, index: number, count: number): string {
  return `group${group + 1}-shard${index + 1}of${count}.bin`;
}

/** The directory that an output path means: itself, or that of the `model.json` that it names. */
export function directoryOf(path: string): string {
  return baseName(path) === MODEL_JSON ? parentPath(path) : path;
}

/** The `model.json` that a path means: itself, or the one in a directory. Undefined when there is none. */
export async function findModelJson(files: FileStore, path: string): Promise<string | undefined> {
  const info = await files.stat(path);
  if (info?.kind === "file") return (await isModelJson(files, path)) ? path : undefined;
  const inside = joinPath(path, MODEL_JSON);
  if ((await files.stat(inside).catch(ignoreRefusal))?.kind !== "file") return undefined;
  return (await isModelJson(files, inside)) ? inside : undefined;
}

/** Whether a file is JSON with a manifest of weights. */
async function isModelJson(files: FileStore, path: string): Promise<boolean> {
  if (!path.split("?")[0]?.endsWith(".json")) return false;
  try {
    const source = await files.open(path);
    try {
      if (source.size > MAX_TFJS_JSON_BYTES) return false;
      const text = new TextDecoder().decode(await source.read(0, source.size));
      // Parsing other large files of JSON would be for nothing.
      if (!text.includes('"weightsManifest"') && !text.includes('"paths"')) return false;
      return looksLikeManifest(JSON.parse(text));
    } finally {
      await source.close();
    }
  } catch (error) {
    if (error instanceof SyntaxError) return isNamedSo(path);
    return ignoreRefusal(error) ?? false;
  }
}

/** A damaged `model.json` that tells of weights is still one, and its damage is told when it is opened. */
function isNamedSo(path: string): boolean {
  return baseName(path) === MODEL_JSON;
}

function ignoreRefusal(error: unknown): undefined {
  if (error instanceof CairnError) return undefined;
  throw error;
}
