import type { FileStore } from "../../bytes/file-store.js";
import { CairnError } from "../../errors.js";
import type { ShardPlan } from "../../sharding/shard-plan.js";
import { inferRootSchema } from "../../splitter/infer-root.js";
import type { TensorSource } from "../../tensor/tensor-source.js";
import { refusedDType } from "../checkpoint/write-shard.js";
import type { Detection, Format, Outline, VerifyEvent, VerifyOptions, WriteOptions } from "../format.js";
import { findModel, ModelFile } from "./model-file.js";
import { ModelTensors } from "./model-tensors.js";
import { outlineModel } from "./outline.js";
import { verifyModel } from "./verify.js";
import { fitModelTemplate, writeVariables } from "./write-variables.js";

/** SavedModel directories, and single files of their protos: `.pb`, `.cpb`, `.pbtxt`. */
export const savedModelFormat: Format = {
  id: "saved-model",

  async detect(files: FileStore, path: string): Promise<Detection | undefined> {
    const paths = await findModel(files, path);
    if (paths === undefined) return undefined;
    if (!/\.(c?pb|pbtxt)$/.test(paths.protoPath) && !(await holdsModel(files, path))) return undefined;
    const notes = paths.ignored.map(
      (ignored) => `${ignored} is not read: ${paths.protoPath} stands beside it and comes first`,
    );
    const description = paths.directory === undefined ? "model proto" : "SavedModel directory";
    return { format: "saved-model", files, path, description, notes };
  },

  async outline({ files, path }: Detection): Promise<Outline> {
    const model = await ModelFile.open(files, path);
    return closingOnError(model, async () => ({ root: await outlineModel(model), close: () => model.close() }));
  },

  verify(detection: Detection, options?: VerifyOptions): AsyncIterable<VerifyEvent> {
    return verifyModel(detection, options);
  },

  openTensors({ files, path }: Detection): Promise<TensorSource> {
    return ModelTensors.open(files, path);
  },

  refuses: refusedDType,

  needsTemplate: true,

  fitTemplate: fitModelTemplate,

  writeTensors(files: FileStore, path: string, plan: ShardPlan, options: WriteOptions = {}): Promise<void> {
    return writeVariables(files, path, plan, options);
  },
};

/** Closes a model when what is done with it fails. */
async function closingOnError<Result>(model: ModelFile, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    await model.close();
    throw error;
  }
}

/** Whether a file whose name says nothing holds a model: a proto is known by its fields. */
async function holdsModel(files: FileStore, path: string): Promise<boolean> {
  const source = await files.open(path);
  try {
    if (source.size === 0) return false;
    await inferRootSchema(source, undefined);
    return true;
  } catch (error) {
    if (error instanceof CairnError) return false;
    throw error;
  } finally {
    await source.close();
  }
}
