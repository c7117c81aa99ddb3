import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { copyTree } from "../../bytes/copy-tree.js";
import { replaceDirectory } from "../../bytes/directory.js";
import type { FileStore } from "../../bytes/file-store.js";
import { baseName, joinPath } from "../../bytes/path.js";
import { writeFile } from "../../bytes/write-file.js";
import { fingerprint64 } from "../../codecs/farmhash.js";
import { UsageError } from "../../errors.js";
import { MAX_IN_MEMORY_BYTES } from "../../limits.js";
import { FingerprintDefSchema } from "../../proto/gen/tensorflow/core/protobuf/fingerprint_pb.js";
import type { PlannedSlice, ShardPlan } from "../../sharding/shard-plan.js";
import { wholeRegion } from "../../tensor/region.js";
import { formatShape } from "../../tensor/shape.js";
import type { TensorInfo } from "../../tensor/tensor-source.js";
import { indexPath } from "../checkpoint/bundle-paths.js";
import type { CheckpointReader } from "../checkpoint/checkpoint-reader.js";
import { writeCheckpoint } from "../checkpoint/checkpoint-writer.js";
import type { Place, TemplateTensors, WriteOptions } from "../format.js";
import { findModel } from "./model-file.js";
import { checkModelDirectory } from "./save.js";
import { FINGERPRINT_FILE, openVariables, VARIABLES_DIRECTORY, variablesPrefix } from "./variables.js";

/** Names in the message of an error. */
const SHOWN_NAMES = 10;
/** What TensorFlow calls the proto and the parts of a split one. */
const PROTO_FILE = /^saved_model\b.*\.(c?pb|pbtxt)$/;

/**
 * The keys that tensors have among the variables of a template: a tensor goes by its key, or by the path of its object.
 * @throws {@link UsageError} (`not-consumed`) when a variable has no tensor, (`tensor-mismatch`), (`usage`)
 */
export async function fitModelTemplate(
  template: Place,
  { tensors }: TemplateTensors,
): Promise<ReadonlyMap<string, string>> {
  const directory = await templateDirectory(template);
  const byKey = new Map(tensors.map((tensor) => [tensor.key, tensor]));
  const names = new Map<string, string>();
  const missing: string[] = [];
  for (const info of await variablesOf(template.files, directory)) {
    if (info.role === "structure") continue;
    const tensor = byKey.get(info.key) ?? byKey.get(info.name ?? info.key);
    if (tensor === undefined) missing.push(info.name ?? info.key);
    else {
      checkFit(info, tensor, directory);
      names.set(tensor.key, info.key);
    }
  }
  if (missing.length === 0) return names;
  const shown = missing.slice(0, SHOWN_NAMES).join(", ");
  throw new UsageError("not-consumed", `${missing.length} variables of the template have no tensor`, {
    file: directory,
    actual: missing.length > SHOWN_NAMES ? `${shown} and ${missing.length - SHOWN_NAMES} more` : shown,
    hint: "Give the tensors the names of the variables with --rename.",
  });
}

function checkFit(variable: TensorInfo, tensor: TemplateTensors["tensors"][number], file: string): void {
  const form = ({ dtype, shape }: Pick<TensorInfo, "dtype" | "shape">) => `${dtype} ${formatShape(shape)}`;
  if (form(variable) === form(tensor)) return;
  throw new UsageError("tensor-mismatch", `"${tensor.key}" does not fit the variable "${variable.key}"`, {
    file,
    expected: form(variable),
    actual: form(tensor),
  });
}

/** @throws {@link UsageError} (`usage`) when it is no SavedModel directory */
async function templateDirectory({ files, path }: Place): Promise<string> {
  const directory = (await findModel(files, path))?.directory;
  if (directory !== undefined) return directory;
  throw new UsageError("usage", "the template is no SavedModel directory", {
    file: path,
    hint: "Name a directory with saved_model.pb and variables/.",
  });
}

async function variablesOf(files: FileStore, directory: string): Promise<TensorInfo[]> {
  const infos: TensorInfo[] = [];
  const reader = await openVariables(files, directory);
  try {
    for await (const info of reader?.tensors() ?? []) infos.push(info);
  } finally {
    await reader?.close();
  }
  return infos;
}

/**
 * Writes a SavedModel with the variables of a plan and all else of a template: the proto is copied as it is, and so are the
 * object graph of the variables, assets and other files. The fingerprint is that of the new variables. The directory
 * appears whole or not at all.
 * @throws {@link UsageError} (`exists`, `usage`), and what reading the tensors throws
 */
export async function writeVariables(
  files: FileStore,
  path: string,
  plan: ShardPlan,
  options: WriteOptions,
): Promise<void> {
  const { template, overwrite = false, onBytes, signal, beforeCommit } = options;
  if (template === undefined) throw new UsageError("usage", "a SavedModel is written with a template", { file: path });
  const directory = await templateDirectory(template);
  await checkModelDirectory(files, path, overwrite);
  const reader = await openVariables(template.files, directory);
  try {
    await replaceDirectory(files, path, overwrite, async (temporary) => {
      const entries = await template.files.list(directory);
      const copy = async (isProto: boolean) => {
        for (const info of entries) {
          const name = baseName(info.path);
          if (name === VARIABLES_DIRECTORY || name === FINGERPRINT_FILE || PROTO_FILE.test(name) !== isProto) continue;
          await copyTree(template.files, info, files, joinPath(temporary, name), { signal });
        }
      };
      await copy(false);
      if (reader !== undefined) {
        const whole = await withStructure(plan, reader);
        const verifyAll = async () => {
          await reader.verify();
          await beforeCommit?.();
        };
        await writeCheckpoint(files, variablesPrefix(temporary), whole, { onBytes, signal, beforeCommit: verifyAll });
      }
      await writeFingerprint({ files, path: temporary }, template.files, directory);
      // The proto makes it a model, so it comes last.
      await copy(true);
    });
  } finally {
    await reader?.close();
  }
}

/** A plan with what else the template's variables have: the object graph, by which TensorFlow finds them. */
async function withStructure(plan: ShardPlan, reader: CheckpointReader): Promise<ShardPlan> {
  const structure: PlannedSlice[] = [];
  for await (const { key, role } of reader.tensors()) {
    if (role !== "structure") continue;
    const tensor = await reader.lazyTensor(key);
    structure.push({ key, sliceSpec: "", fullShape: tensor.shape, region: wholeRegion(tensor.shape), tensor });
  }
  const [first = { task: "", slices: [] }, ...rest] = plan.shards;
  const slices = [...first.slices, ...structure];
  return { ...plan, shards: slices.length === 0 ? rest : [{ ...first, slices }, ...rest] };
}

/**
 * The fingerprint of the template, but for the part that is of the variables: TensorFlow hashes their index.
 * Source: tensorflow/cc/saved_model/fingerprinting_utils, HashCheckpointIndexFile.
 */
async function writeFingerprint(target: Place, files: FileStore, directory: string): Promise<void> {
  const old = await readSmall(files, joinPath(directory, FINGERPRINT_FILE));
  const index = await readSmall(target.files, indexPath(variablesPrefix(target.path)));
  const checkpointHash = index === undefined ? undefined : fingerprint64(index);
  if (old === undefined || checkpointHash === undefined) return;
  const fingerprint = fromBinary(FingerprintDefSchema, old);
  const bytes = toBinary(FingerprintDefSchema, { ...fingerprint, checkpointHash });
  await writeFile(target.files, joinPath(target.path, FINGERPRINT_FILE), bytes);
}

/** A file that fits in memory; undefined for another, without which a model is still one. */
async function readSmall(files: FileStore, path: string): Promise<Uint8Array | undefined> {
  if ((await files.stat(path))?.kind !== "file") return undefined;
  const source = await files.open(path);
  try {
    return source.size > MAX_IN_MEMORY_BYTES ? undefined : await source.read(0, source.size);
  } finally {
    await source.close();
  }
}
