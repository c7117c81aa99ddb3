import type { FileStore } from "../../bytes/file-store.js";
import { baseName, joinPath } from "../../bytes/path.js";
import { CairnError } from "../../errors.js";
import { MAX_SAFETENSORS_HEADER_BYTES } from "../../limits.js";
import { HEADER_LENGTH_BYTES } from "./header.js";

/** What a model in one file is called in its directory. Source: huggingface_hub/constants.py, SAFETENSORS_SINGLE_FILE. */
export const MODEL_FILE = "model.safetensors";
/** What the index of a model in several files ends with. Source: huggingface_hub/constants.py, SAFETENSORS_INDEX_FILE. */
const INDEX_SUFFIX = ".safetensors.index.json";
/** The index of a model in several files, in its directory. */
export const MODEL_INDEX_FILE = `model${INDEX_SUFFIX}`;
/** What the files of a model are called. Source: huggingface_hub/serialization/_torch.py, existing_files_regex. */
export const MODEL_FILES: RegExp = /^model(-\d{5}-of-\d{5})?\.safetensors(\.index\.json)?$/;
const SHARD_NAME = /^(.*)-(\d{5})-of-(\d{5})\.safetensors$/;

/** The name of one of several files of a model; `index` counts from 0. */
export function shardName(index: number, count: number): string {
  const digits = (value: number) => String(value).padStart(5, "0");
  return `model-${digits(index + 1)}-of-${digits(count)}.safetensors`;
}

/** Where a model is. */
export interface SafetensorsPaths {
  /** The index, when there is one: it names the files. */
  readonly indexPath?: string | undefined;
  /** The files, when there is no index. */
  readonly filePaths: readonly string[];
  /** Files that hold a model too and are not read. */
  readonly ignored: readonly string[];
}

/** Finds the model that a path holds: a file, an index, or a directory with one of them. Undefined when there is none. */
export async function findSafetensors(files: FileStore, path: string): Promise<SafetensorsPaths | undefined> {
  const info = await files.stat(path);
  if (info === undefined) return undefined;
  if (info.kind === "directory") return findInDirectory(files, path);
  if (path.endsWith(INDEX_SUFFIX)) return { indexPath: path, filePaths: [], ignored: [] };
  // A name that promises the format keeps it: what is wrong is told when the file is opened.
  if (!path.endsWith(".safetensors") && !(await looksLikeOne(files, path))) return undefined;
  return { filePaths: [path], ignored: [] };
}

/** Whether a file whose name says nothing begins as one of the format: a possible length, then an object with a key. */
async function looksLikeOne(files: FileStore, path: string): Promise<boolean> {
  const source = await files.open(path);
  try {
    if (source.size < HEADER_LENGTH_BYTES + 2) return false;
    const head = await source.read(0, HEADER_LENGTH_BYTES + 2);
    const length = new DataView(head.buffer, head.byteOffset).getBigUint64(0, true);
    if (length > BigInt(Math.min(MAX_SAFETENSORS_HEADER_BYTES, source.size - HEADER_LENGTH_BYTES))) return false;
    const begin = String.fromCharCode(...head.subarray(HEADER_LENGTH_BYTES));
    return begin === '{"' || begin === "{}";
  } finally {
    await source.close();
  }
}

async function findInDirectory(files: FileStore, path: string): Promise<SafetensorsPaths | undefined> {
  // A single file comes first, as in transformers/modeling_utils.py.
  const [single, index] = [joinPath(path, MODEL_FILE), joinPath(path, MODEL_INDEX_FILE)];
  const hasIndex = (await files.stat(index))?.kind === "file";
  if ((await files.stat(single))?.kind === "file") {
    return { filePaths: [single], ignored: hasIndex ? [index] : [] };
  }
  if (hasIndex) return { indexPath: index, filePaths: [], ignored: [] };
  return findOtherNames(await listFiles(files, path));
}

/** A model under another name than the usual one: `diffusion_pytorch_model.safetensors`, or shards without an index. */
function findOtherNames(paths: readonly string[]): SafetensorsPaths | undefined {
  const [indexPath, ...otherIndexes] = paths.filter((one) => one.endsWith(INDEX_SUFFIX));
  if (indexPath !== undefined) return { indexPath, filePaths: [], ignored: otherIndexes };
  const filePaths = paths.filter((one) => one.endsWith(".safetensors"));
  return filePaths.length === 1 || isWholeSet(filePaths) ? { filePaths, ignored: [] } : undefined;
}

/** Whether these are all the shards of one model. */
function isWholeSet(paths: readonly string[]): boolean {
  const matches = paths.map((path) => SHARD_NAME.exec(baseName(path)));
  return (
    paths.length > 0 &&
    matches.every(
      (match, i) =>
        match !== null &&
        match[1] === matches[0]?.[1] &&
        Number(match[2]) === i + 1 &&
        Number(match[3]) === paths.length,
    )
  );
}

/** The files of a directory; none where a store cannot list them. */
export async function listFiles(files: FileStore, path: string): Promise<string[]> {
  try {
    return (await files.list(path)).filter(({ kind }) => kind === "file").map((info) => info.path);
  } catch (error) {
    if (error instanceof CairnError) return [];
    throw error;
  }
}
