import { fillSink } from "../../bytes/byte-sink.js";
import type { ByteSource } from "../../bytes/byte-source.js";
import { copySource } from "../../bytes/copy-source.js";
import { copyTree } from "../../bytes/copy-tree.js";
import { recoverDirectory, replaceDirectory } from "../../bytes/directory.js";
import type { FileStore } from "../../bytes/file-store.js";
import { joinSources } from "../../bytes/joined-source.js";
import { baseName, joinPath } from "../../bytes/path.js";
import { writeFile } from "../../bytes/write-file.js";
import { PlanError, UsageError } from "../../errors.js";
import type { PlannedSlice, ShardPlan } from "../../sharding/shard-plan.js";
import type { WriteOptions } from "../format.js";
import { directoryOf, MODEL_FILES, MODEL_JSON, shardName } from "./locate.js";
import { locateModelJson } from "./model.js";
import { isObject, type ModelJson, readModelJson, type WeightSpec } from "./model-json.js";
import { fileBytesOf } from "./plan.js";
import { refusedWeight } from "./refuse.js";
import { storedData } from "./stored-data.js";

/** A weight as the manifest has it. */
interface ManifestEntry {
  readonly name: string;
  readonly shape: readonly number[];
  readonly dtype: string;
  readonly group?: string;
}

/**
 * Writes a plan to a directory as `model.json` and its files of weights: a group for each shard of the plan, cut into
 * files between any two bytes. `model.json`, which names the others, comes last.
 * @throws {@link PlanError} (`invalid-plan`), {@link UsageError} (`exists`, `usage`), CorruptionError (`tensor-data`),
 * StorageError (`write-failed`)
 */
export async function writeTfjs(
  files: FileStore,
  path: string,
  plan: ShardPlan,
  options: WriteOptions = {},
): Promise<void> {
  checkPlan(plan);
  const { template, overwrite = false } = options;
  const model =
    template === undefined
      ? undefined
      : await readModelJson(template.files, await locateModelJson(template.files, template.path));
  const directory = directoryOf(path);
  await recoverDirectory(files, directory);
  if ((await files.stat(directory)) === undefined) {
    return replaceDirectory(files, directory, false, (temporary) =>
      writeModel(files, temporary, plan, { ...options, model }),
    );
  }
  const main = joinPath(directory, MODEL_JSON);
  // Without it, files of weights are what a crash left of a model.
  if ((await files.stat(main)) === undefined) {
    return writeModel(files, directory, plan, { ...options, overwrite: true, model });
  }
  if (!overwrite) {
    const hint = "Pass --force to replace it, or choose another name.";
    throw new UsageError("exists", "the directory holds a model already", { file: main, hint });
  }
  if (/^\.{1,2}$/.test(baseName(directory))) {
    const hint = "Name the directory itself, as in ../web_model, or write elsewhere.";
    throw new UsageError("usage", "the directory is replaced as a whole, and has no name here", { file: path, hint });
  }
  // The names are those of the old files, so that only a new directory can hold the new model beside the old one.
  await replaceDirectory(files, directory, true, async (temporary) => {
    for (const info of await files.list(directory)) {
      const name = baseName(info.path);
      if (!MODEL_FILES.test(name)) await copyTree(files, info, files, joinPath(temporary, name), options);
    }
    await writeModel(files, temporary, plan, { ...options, model });
  });
}

type ModelOptions = WriteOptions & { readonly model: ModelJson | undefined };

async function writeModel(files: FileStore, directory: string, plan: ShardPlan, options: ModelOptions): Promise<void> {
  const written: string[] = [];
  try {
    const groups: { paths: string[]; weights: ManifestEntry[] }[] = [];
    const specs = specsOf(options.model);
    for (const [i, shard] of plan.shards.entries()) {
      const slices = inOrder(shard.slices, specs);
      const data = joinSources(directory, await Promise.all(slices.map(({ key, tensor }) => storedData(key, tensor))));
      const paths = await writeGroup(files, { directory, group: i, maxFileBytes: fileBytesOf(plan) }, data, {
        ...options,
        onFile: (path) => written.push(path),
      });
      groups.push({ paths, weights: slices.map((slice) => entryOf(slice, specs)) });
    }
    await options.beforeCommit?.();
    const json = JSON.stringify({ ...headOf(options), weightsManifest: groups });
    await writeFile(files, joinPath(directory, MODEL_JSON), json, { overwrite: options.overwrite });
  } catch (error) {
    for (const path of written) await files.remove(path);
    throw error;
  }
}

/** What stands before the manifest: that of the template, or who wrote it. */
function headOf({ model, metadata }: ModelOptions): Record<string, unknown> {
  const { weightsManifest: _, ...fields } = model?.fields ?? { generatedBy: "cairn" };
  const head: Record<string, unknown> = { ...fields, convertedBy: "cairn" };
  if (metadata !== undefined && Object.keys(metadata).length > 0) {
    const own = isObject(head.userDefinedMetadata) ? head.userDefinedMetadata : {};
    head.userDefinedMetadata = { ...own, ...metadata };
  }
  return head;
}

/** The weights of the template by name, in their order. */
function specsOf(model: ModelJson | undefined): ReadonlyMap<string, WeightSpec> {
  return new Map(model?.groups.flatMap(({ weights }) => weights.map((spec) => [spec.name, spec] as const)));
}

/** TF.js gives an optimizer its state in the order of the manifest, so that of the template is kept. */
function inOrder(slices: readonly PlannedSlice[], specs: ReadonlyMap<string, WeightSpec>): readonly PlannedSlice[] {
  const ranks = new Map(Array.from(specs.keys(), (name, rank) => [name, rank]));
  const rankOf = ({ key }: PlannedSlice) => ranks.get(key) ?? ranks.size;
  return slices.toSorted((a, b) => rankOf(a) - rankOf(b));
}

/** A weight of the state of an optimizer stays one. */
function entryOf({ key, tensor }: PlannedSlice, specs: ReadonlyMap<string, WeightSpec>): ManifestEntry {
  const entry = { name: key, shape: tensor.shape, dtype: tensor.dtype };
  const group = specs.get(key)?.group;
  return group === undefined ? entry : { ...entry, group };
}

async function writeGroup(
  files: FileStore,
  { directory, group, maxFileBytes }: { directory: string; group: number; maxFileBytes: number },
  data: ByteSource,
  options: WriteOptions & { readonly onFile: (path: string) => void },
): Promise<string[]> {
  const { overwrite, signal, onBytes, onFile } = options;
  const count = Math.ceil(data.size / maxFileBytes);
  const names: string[] = [];
  for (let i = 0; i < count; i++) {
    const name = shardName(group, i, count);
    const start = i * maxFileBytes;
    const part = data.slice(start, Math.min(maxFileBytes, data.size - start));
    // Room for all that is still to come, so that a full disk is known before the work starts.
    const sink = await files.create(joinPath(directory, name), { overwrite, expectedBytes: data.size - start });
    await fillSink(sink, () => copySource(part, sink, { signal, onBytes }));
    onFile(joinPath(directory, name));
    names.push(name);
  }
  return names;
}

/** The format knows whole tensors only, and each once. */
function checkPlan(plan: ShardPlan): void {
  const keys = new Set<string>();
  for (const { key, region, fullShape, tensor } of plan.shards.flatMap(({ slices }) => slices)) {
    const isWhole = region.every(({ start, end }, i) => start === 0 && end === fullShape[i]);
    if (!isWhole) {
      const hint = "Plan with a policy that cuts no tensors, such as by-task.";
      throw new PlanError("invalid-plan", `"${key}" is cut, and TF.js holds whole tensors only`, { hint });
    }
    const refusal = refusedWeight({ dtype: tensor.dtype });
    if (refusal !== undefined) throw new PlanError("invalid-plan", `"${key}": ${refusal}`);
    if (keys.has(key)) throw new PlanError("invalid-plan", `"${key}" comes twice`);
    keys.add(key);
  }
}
