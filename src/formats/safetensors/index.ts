import type { FileStore } from "../../bytes/file-store.js";
import type { ShardPlan } from "../../sharding/shard-plan.js";
import type { TensorSource } from "../../tensor/tensor-source.js";
import type { Detection, Format, Outline, VerifyEvent, VerifyOptions, WriteOptions } from "../format.js";
import { formatCount } from "../text.js";
import { alignmentRank } from "./dtypes.js";
import { findSafetensors, type SafetensorsPaths } from "./locate.js";
import { SafetensorsModel } from "./model.js";
import { outlineSafetensors } from "./outline.js";
import { planSafetensors } from "./plan.js";
import { verifySafetensors } from "./verify.js";
import { writeSafetensors } from "./write.js";

/** safetensors: single files, and directories of several with an index, as on the Hugging Face hub. */
export const safetensorsFormat: Format = {
  id: "safetensors",

  async detect(files: FileStore, path: string): Promise<Detection | undefined> {
    const paths = await findSafetensors(files, path);
    if (paths === undefined) return undefined;
    return { format: "safetensors", files, path, description: describe(paths), notes: notesOn(paths) };
  },

  async outline({ files, path }: Detection): Promise<Outline> {
    const model = await SafetensorsModel.open(files, path);
    try {
      return { root: await outlineSafetensors(model), close: () => model.close() };
    } catch (error) {
      await model.close();
      throw error;
    }
  },

  verify(detection: Detection, options?: VerifyOptions): AsyncIterable<VerifyEvent> {
    return verifySafetensors(detection, options);
  },

  openTensors({ files, path }: Detection): Promise<TensorSource> {
    return SafetensorsModel.open(files, path);
  },

  ownsName(path: string): boolean {
    return path.endsWith(".safetensors");
  },

  refuses({ dtype }): string | undefined {
    return alignmentRank(dtype) < 0 ? `safetensors has no name for ${dtype}` : undefined;
  },

  planTensors(path, tensors, maxShardSize): ShardPlan {
    const isOneFile = path.endsWith(".safetensors") && maxShardSize === undefined;
    return planSafetensors(tensors, isOneFile ? Number.POSITIVE_INFINITY : maxShardSize);
  },

  writeTensors(files: FileStore, path: string, plan: ShardPlan, options?: WriteOptions): Promise<void> {
    return writeSafetensors(files, path, plan, options);
  },
};

function describe({ indexPath, filePaths }: SafetensorsPaths): string {
  if (indexPath !== undefined) return "safetensors model with an index";
  return filePaths.length === 1 ? "safetensors file" : `safetensors model in ${formatCount(filePaths.length, "file")}`;
}

function notesOn({ indexPath, filePaths, ignored }: SafetensorsPaths): string[] {
  const read = indexPath ?? filePaths[0] ?? "";
  const notes = ignored.map((path) => `${path} is not read: ${read} comes first`);
  if (filePaths.length > 1) notes.push("there is no index: the files are taken by their names");
  return notes;
}
