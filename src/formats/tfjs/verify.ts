import type { FileStore } from "../../bytes/file-store.js";
import { baseName, joinPath, parentPath } from "../../bytes/path.js";
import { finding, findingOf } from "../finding.js";
import type { Detection, VerifyEvent, VerifyOptions } from "../format.js";
import { formatCount } from "../text.js";
import type { GroupLayout } from "./group-layout.js";
import { findModelJson, MODEL_FILES } from "./locate.js";
import { TfjsModel } from "./model.js";
import { rangesOf } from "./outline.js";
import type { ShardFile } from "./shard-files.js";

/**
 * Checks all that can be checked of a model: its manifest, and that its files are there and have the bytes of the weights.
 * Values cannot be checked, since the format has no checksums, and so only the lengths of strings are read.
 */
export async function* verifyTfjs(
  { files, path }: Detection,
  options: VerifyOptions = {},
): AsyncGenerator<VerifyEvent> {
  let model: TfjsModel;
  try {
    model = await TfjsModel.open(files, path);
  } catch (error) {
    yield findingOf(error, (await findModelJson(files, path)) ?? path);
    return;
  }
  try {
    for (const i of model.json.groups.keys()) {
      options.signal?.throwIfAborted();
      yield* verifyGroup(model, i);
    }
    yield* findOrphans(files, model);
  } finally {
    await model.close();
  }
}

async function* verifyGroup(model: TfjsModel, index: number): AsyncGenerator<VerifyEvent> {
  const paths = model.shardPaths(index);
  const found = await model.shards.look(paths);
  const missing = paths.filter((_, i) => found[i] === undefined);
  for (const file of missing) yield finding("error", "not-found", "a file of weights is missing", { file });
  let layout: GroupLayout;
  try {
    layout = await model.layout(index);
  } catch (error) {
    // Where strings stand, what lies behind them is found by reading them.
    if (missing.length === 0) yield findingOf(error, model.json.path);
    return;
  }
  if (missing.length > 0) {
    yield* tellGood(layout, found);
    return;
  }
  yield* verifySize(model, index, { layout, found });
}

async function* verifySize(
  model: TfjsModel,
  index: number,
  { layout, found }: { layout: GroupLayout; found: readonly (ShardFile | undefined)[] },
): AsyncGenerator<VerifyEvent> {
  const size = found.reduce((sum, file) => sum + (file?.size ?? 0), 0);
  const last = found.at(-1);
  const file = last?.path ?? model.json.path;
  const what = `group ${index + 1}: expected ${layout.end} bytes, got ${size}`;
  if (size < layout.end) {
    yield finding("error", "truncated", `the files end before the weights of ${what}`, { file, offset: last?.size });
    // Of several files any may be the one that was cut, and then all weights behind stand elsewhere.
    if (found.length === 1) yield* tellGood(layout, found);
  } else if (size > layout.end) {
    const offset = (last?.size ?? 0) - (size - layout.end);
    const place = { file, offset: offset < 0 ? undefined : offset };
    yield finding("error", "weight-map", `the files go on behind the weights of ${what}`, place);
  } else {
    const count = formatCount(layout.weights.length, "weight");
    const good = `${model.json.path}: places of ${count} of group ${index + 1}; values have no checksum`;
    yield { kind: "good", what: good, byteLength: size };
  }
}

/** The weights whose bytes are all there. */
function* tellGood({ weights }: GroupLayout, found: readonly (ShardFile | undefined)[]): Generator<VerifyEvent> {
  for (const { spec, offset, byteLength } of weights) {
    const there = rangesOf(offset, byteLength, found).reduce((sum, { start, end }) => sum + end - start, 0);
    if (there === byteLength) yield { kind: "good", what: `place of ${spec.name}`, byteLength };
  }
}

/** Files that are named as those of a model and that the manifest does not name. */
async function* findOrphans(files: FileStore, model: TfjsModel): AsyncGenerator<VerifyEvent> {
  const directory = parentPath(model.json.path);
  const named = new Set(model.json.groups.flatMap(({ paths }) => paths));
  const entries = await files.list(directory).catch(() => []);
  for (const { path, kind } of entries) {
    const name = baseName(path);
    if (kind !== "file" || !MODEL_FILES.test(name) || joinPath(directory, name) === model.json.path) continue;
    if (named.has(name) || name === baseName(model.json.path)) continue;
    yield finding("warning", "orphan-file", `${name} is not named in the manifest`, { file: path });
  }
}
