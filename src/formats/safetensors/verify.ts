import type { FileStore } from "../../bytes/file-store.js";
import { baseName, parentPath } from "../../bytes/path.js";
import { finding, findingOf } from "../finding.js";
import type { Detection, VerifyEvent, VerifyOptions } from "../format.js";
import { formatCount } from "../text.js";
import { readHeader } from "./file.js";
import { checkTensors, HEADER_LENGTH_BYTES, type HeaderTensor } from "./header.js";
import { findSafetensors, listFiles } from "./locate.js";
import { SafetensorsModel } from "./model.js";
import type { ShardIndex } from "./shard-index.js";

/**
 * Checks all that can be checked of a model: headers, the places of its tensors to the last byte of each file, and that
 * index and files agree. Values cannot be checked, since the format has no checksums, and so no data is read.
 */
export async function* verifySafetensors(
  { files, path }: Detection,
  options: VerifyOptions = {},
): AsyncGenerator<VerifyEvent> {
  let model: SafetensorsModel;
  try {
    const paths = await findSafetensors(files, path);
    for (const ignored of paths?.ignored ?? []) {
      yield finding("warning", "ignored-file", "not read: another file of the model comes first", { file: ignored });
    }
    model = await SafetensorsModel.open(files, path);
  } catch (error) {
    yield findingOf(error, path);
    return;
  }
  const seen = new Map<string, string>();
  let totalSize = 0;
  for (const [name, shardPath] of model.shardPaths) {
    options.signal?.throwIfAborted();
    const tensors: HeaderTensor[] = [];
    yield* verifyFile(files, shardPath, tensors);
    for (const { key, begin, end } of tensors) {
      totalSize += end - begin;
      const other = seen.get(key);
      if (other !== undefined && model.index === undefined) {
        yield finding("error", "weight-map", `is in ${other} too, and no index says which counts`, {
          file: shardPath,
          key,
        });
      }
      seen.set(key, name);
    }
    if (model.index !== undefined) yield* compareToIndex(model.index, name, shardPath, tensors);
  }
  if (model.index !== undefined) yield* verifyIndex(files, model, model.index, totalSize);
}

/** Checks one file. Its tensors are put in `tensors`; all are told to be good in one when there is no finding. */
async function* verifyFile(files: FileStore, path: string, tensors: HeaderTensor[]): AsyncGenerator<VerifyEvent> {
  try {
    const source = await files.open(path);
    try {
      const header = await readHeader(source);
      tensors.push(...header.tensors);
      const bad = new Set<string | undefined>();
      for (const { key, error } of checkTensors(header.tensors, path, header.dataStart, source.size)) {
        bad.add(key);
        yield findingOf(error, path, undefined, key);
      }
      yield* verifySpec(source.name, (await source.read(HEADER_LENGTH_BYTES, 1))[0]);
      if (bad.size === 0) {
        const what = `${path}: header and places of ${formatCount(tensors.length, "tensor")}; values have no checksum`;
        yield { kind: "good", what, byteLength: source.size };
        return;
      }
      for (const { key, begin, end } of tensors) {
        if (!bad.has(key)) yield { kind: "good", what: `place of ${key}`, byteLength: end - begin };
      }
    } finally {
      await source.close();
    }
  } catch (error) {
    yield findingOf(error, path);
  }
}

/** What the text of the specification asks for and the reference library does not. */
function* verifySpec(file: string, first: number | undefined): Generator<VerifyEvent> {
  if (first === 0x7b) return;
  const message = "the header begins with space; the specification asks for {, though the reference library reads it";
  yield finding("warning", "invalid-json", message, { file, offset: HEADER_LENGTH_BYTES });
}

/** Tensors that a file has and the index does not give to it, and the other way round. */
function* compareToIndex(
  index: ShardIndex,
  name: string,
  path: string,
  tensors: readonly HeaderTensor[],
): Generator<VerifyEvent> {
  const keys = new Set(tensors.map(({ key }) => key));
  for (const key of keys) {
    if (index.weightMap.get(key) === name) continue;
    yield finding("warning", "weight-map", "is in the file, but the index does not name it there", { file: path, key });
  }
  if (keys.size === 0) return;
  for (const [key, shard] of index.weightMap) {
    if (shard !== name || keys.has(key)) continue;
    yield finding("error", "weight-map", "the index says that it is in the file, but it is not", { file: path, key });
  }
}

async function* verifyIndex(
  files: FileStore,
  model: SafetensorsModel,
  index: ShardIndex,
  totalSize: number,
): AsyncGenerator<VerifyEvent> {
  if (index.totalSize !== undefined && index.totalSize !== totalSize) {
    const message = `total_size is ${index.totalSize}, but the tensors have ${totalSize} bytes`;
    yield finding("warning", "weight-map", message, { file: model.path });
  }
  const [first] = model.shardPaths.values();
  if (first === undefined) return;
  const named = new Set(model.shardPaths.values());
  const siblings = await listFiles(files, parentPath(first));
  for (const path of siblings.filter((one) => one.endsWith(".safetensors") && !named.has(one))) {
    yield finding("warning", "orphan-file", `${baseName(path)} is not named in the index`, { file: path });
  }
}
