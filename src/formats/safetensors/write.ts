import { fillSink } from "../../bytes/byte-sink.js";
import { copySource } from "../../bytes/copy-source.js";
import { copyTree } from "../../bytes/copy-tree.js";
import { recoverDirectory, replaceDirectory } from "../../bytes/directory.js";
import type { FileStore } from "../../bytes/file-store.js";
import { joinSources } from "../../bytes/joined-source.js";
import { baseName, joinPath } from "../../bytes/path.js";
import { writeFile } from "../../bytes/write-file.js";
import { CorruptionError, PlanError, UsageError } from "../../errors.js";
import type { PlannedShard, PlannedSlice, ShardPlan } from "../../sharding/shard-plan.js";
import { elementBytes } from "../../tensor/dtype.js";
import type { LazyTensor } from "../../tensor/lazy-tensor.js";
import { elementCount, formatShape } from "../../tensor/shape.js";
import type { WriteOptions } from "../format.js";
import { encodeHeader, type SafetensorsMetadata, sortForFile, type TensorToWrite } from "./header.js";
import { listFiles, MODEL_FILE, MODEL_FILES, MODEL_INDEX_FILE, shardName } from "./locate.js";
import { encodeShardIndex } from "./shard-index.js";

/** What loaders look for: some refuse a file without it. Source: huggingface_hub/serialization/_torch.py. */
const DEFAULT_METADATA: SafetensorsMetadata = { format: "pt" };
/** Tensors whose data is written in one go: small ones share a buffer. */
const TENSORS_PER_COPY = 256;

interface Tensor extends TensorToWrite {
  readonly value: LazyTensor;
}

/**
 * Writes a plan to a `.safetensors` file, or to a directory under the names that the hub has for them. Within a file the
 * tensors are sorted as the reference library sorts them, whatever the order of the plan.
 * @throws {@link PlanError} (`invalid-plan`) for a tensor that is cut or comes twice; UnsupportedError
 * (`unsupported-dtype`, `unsupported-operation`); {@link UsageError} (`exists`); StorageError (`write-failed`)
 */
export async function writeSafetensors(
  files: FileStore,
  path: string,
  plan: ShardPlan,
  options: WriteOptions = {},
): Promise<void> {
  checkPlan(plan);
  const { overwrite = false } = options;
  if (path.endsWith(".safetensors")) return writeSingle(files, path, plan, options);
  await recoverDirectory(files, path);
  if ((await files.stat(path)) === undefined) {
    return replaceDirectory(files, path, false, (temporary) => writeDirectory(files, temporary, plan, options));
  }
  const old = (await listFiles(files, path)).filter((one) => MODEL_FILES.test(baseName(one)));
  const main = old.find((one) => [MODEL_FILE, MODEL_INDEX_FILE].includes(baseName(one)));
  // Without one of them, files of a model are what a crash left of it.
  if (main === undefined) return writeDirectory(files, path, plan, { ...options, overwrite: true });
  if (!overwrite) {
    const hint = "Pass --force to replace it, or choose another name.";
    throw new UsageError("exists", "the directory holds a model already", { file: main, hint });
  }
  // The names are those of the old files, so that only a new directory can hold the new model beside the old one.
  await replaceDirectory(files, path, true, async (temporary) => {
    for (const info of await files.list(path)) {
      const name = baseName(info.path);
      if (!MODEL_FILES.test(name)) await copyTree(files, info, files, joinPath(temporary, name), options);
    }
    await writeDirectory(files, temporary, plan, options);
  });
}

async function writeSingle(files: FileStore, path: string, plan: ShardPlan, options: WriteOptions): Promise<void> {
  if (plan.shards.length > 1) {
    const hint = "Give a directory, or plan a single shard.";
    throw new PlanError("invalid-plan", "several shards for one file", {
      file: path,
      actual: plan.shards.length,
      hint,
    });
  }
  const [shard = { task: "", slices: [] }] = plan.shards;
  await writeShard(files, path, shard, { ...options, metadata: { ...DEFAULT_METADATA, ...options.metadata } });
}

/** Writes the files of a directory that holds none of these names. The index, which names the others, comes last. */
async function writeDirectory(files: FileStore, path: string, plan: ShardPlan, options: WriteOptions): Promise<void> {
  const { shards } = plan;
  if (shards.length <= 1) return writeSingle(files, joinPath(path, MODEL_FILE), plan, options);
  const { format = "pt", ...metadata } = options.metadata ?? {};
  const weightMap = new Map<string, string>();
  const written: string[] = [];
  let totalSize = 0;
  try {
    for (const [i, shard] of shards.entries()) {
      const name = shardName(i, shards.length);
      await writeShard(files, joinPath(path, name), shard, {
        ...options,
        beforeCommit: undefined,
        metadata: { format },
      });
      written.push(joinPath(path, name));
      for (const { key, tensor } of shard.slices) {
        weightMap.set(key, name);
        totalSize += tensor.byteLength;
      }
    }
    await options.beforeCommit?.();
    const index = encodeShardIndex({ totalSize, metadata, weightMap });
    await writeFile(files, joinPath(path, MODEL_INDEX_FILE), index, options);
  } catch (error) {
    for (const one of written) await files.remove(one);
    throw error;
  }
}

async function writeShard(files: FileStore, path: string, shard: PlannedShard, options: WriteOptions): Promise<void> {
  const tensors = sortForFile(shard.slices.map(tensorOf));
  const header = encodeHeader(tensors, options.metadata);
  const dataBytes = tensors.reduce((sum, { value }) => sum + value.byteLength, 0);
  const { overwrite, signal, onBytes, beforeCommit } = options;
  const sink = await files.create(path, { overwrite, expectedBytes: header.length + dataBytes });
  await fillSink(sink, async () => {
    await sink.write(header);
    for (let i = 0; i < tensors.length; i += TENSORS_PER_COPY) {
      const group = await Promise.all(tensors.slice(i, i + TENSORS_PER_COPY).map((tensor) => dataOf(tensor, path)));
      await copySource(joinSources(path, group), sink, { signal, onBytes });
    }
    await beforeCommit?.();
  });
}

function tensorOf({ key, tensor }: PlannedSlice): Tensor {
  return { key, dtype: tensor.dtype, shape: tensor.shape, value: tensor };
}

async function dataOf({ key, dtype, shape, value }: Tensor, file: string) {
  const data = await value.data();
  const expected = elementCount(shape) * elementBytes(dtype);
  if (data.size === expected) return data;
  const what = `data of "${key}", ${dtype} ${formatShape(shape)}`;
  throw new CorruptionError("tensor-data", what, { file, expected: `${expected} bytes`, actual: `${data.size} bytes` });
}

/** The format knows whole tensors only, and each once. */
function checkPlan(plan: ShardPlan): void {
  const keys = new Set<string>();
  for (const { key, region, fullShape } of plan.shards.flatMap(({ slices }) => slices)) {
    const isWhole = region.every(({ start, end }, i) => start === 0 && end === fullShape[i]);
    if (!isWhole) {
      const hint = "Plan with a policy that cuts no tensors, such as by-task.";
      throw new PlanError("invalid-plan", `"${key}" is cut, and safetensors holds whole tensors only`, { hint });
    }
    if (keys.has(key)) throw new PlanError("invalid-plan", `"${key}" comes twice`);
    keys.add(key);
  }
}
