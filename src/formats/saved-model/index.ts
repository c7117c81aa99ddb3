import type { FileStore } from "../../bytes/file-store.js";
import { CairnError } from "../../errors.js";
import { inferRootSchema } from "../../splitter/infer-root.js";
import type { TensorSource } from "../../tensor/tensor-source.js";
import type { Detection, Format, Outline, VerifyEvent, VerifyOptions } from "../format.js";
import { ModelConstants } from "./constants.js";
import { findModel, ModelFile } from "./model-file.js";
import { outlineModel } from "./outline.js";
import { verifyModel } from "./verify.js";

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

  async openTensors({ files, path }: Detection): Promise<TensorSource> {
    return new ModelConstants(await ModelFile.open(files, path));
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
