import { copyTree } from "../../bytes/copy-tree.js";
import { replaceDirectory } from "../../bytes/directory.js";
import type { FileStore } from "../../bytes/file-store.js";
import { checkOutputDirectory, liesIn } from "../../bytes/output.js";
import { baseName, joinPath } from "../../bytes/path.js";
import { UsageError } from "../../errors.js";
import type { SplitterInput, SplitterOptions } from "../../splitter/composable-splitter.js";
import { MessageSplitter, SavedModelSplitter } from "../../splitter/splitters.js";
import type { WriteOptions, WrittenProto } from "../../splitter/write-proto.js";
import { ModelFile, SAVED_MODEL_PREFIX } from "./model-file.js";

/** Options of {@link saveSavedModel}. */
export interface SaveOptions extends WriteOptions {
  readonly files: FileStore;
  /**
   * Split the model when it is larger than `maxChunkSize`, as TensorFlow's `experimental_image_format` does; otherwise
   * it is written as one `.pb`.
   */
  readonly imageFormat?: boolean | undefined;
  /** In bytes; 1 GiB when it is not given. */
  readonly maxChunkSize?: number | undefined;
}

/** A SavedModel to save: one that was opened, whose other files are carried over, or a proto alone. */
export type SavableModel = ModelFile | { readonly savedModel: SplitterInput };

/**
 * Writes a SavedModel directory: the proto, and beside it what stood beside it where it comes from: `variables/`,
 * `assets/`, `assets.extra/`, `debug/`, `fingerprint.pb`. The directory appears whole or not at all.
 * @throws {@link UsageError} (`exists`) when it is there and `overwrite` is not set
 */
export async function saveSavedModel(
  directory: string,
  model: SavableModel,
  options: SaveOptions,
): Promise<WrittenProto> {
  return writeModelDirectory(directory, model, await splitterOf(model, options), options);
}

/** The same with a splitter that may have been at work already. */
export async function writeModelDirectory(
  directory: string,
  model: SavableModel,
  splitter: MessageSplitter,
  options: WriteOptions & { readonly files: FileStore },
): Promise<WrittenProto> {
  const { files, overwrite = false } = options;
  await checkModelDirectory(files, directory, overwrite);
  return replaceDirectory(files, directory, overwrite, async (temporary) => {
    if (model instanceof ModelFile && model.paths.directory !== undefined) {
      await carryOver(model.files, model.paths.directory, files, temporary, options);
    }
    const written = await splitter.write(joinPath(temporary, SAVED_MODEL_PREFIX), options);
    if (model instanceof ModelFile) await model.proto.verify();
    return { ...written, path: joinPath(directory, baseName(written.path)) };
  });
}

/**
 * Looks whether a SavedModel directory may be written: one that is replaced has to be one, or empty, since all in it goes.
 * @throws {@link UsageError} (`exists`, `usage`)
 */
export function checkModelDirectory(files: FileStore, directory: string, overwrite: boolean): Promise<void> {
  if (/\.(c?pb|pbtxt)$/.test(directory)) {
    throw new UsageError("usage", "the output for a SavedModel directory is a directory", {
      file: directory,
      hint: "Leave the suffix away, or give the file in the directory as input.",
    });
  }
  const isModel = (names: readonly string[]) =>
    names.length === 0 || names.some((name) => /^saved_model\.(c?pb|pbtxt)$/.test(name));
  return checkOutputDirectory(files, directory, overwrite, isModel);
}

/** A splitter of a model, which leaves it whole where the image format is not asked for. */
async function splitterOf(
  model: SavableModel,
  options: Pick<SaveOptions, "imageFormat" | "maxChunkSize">,
): Promise<MessageSplitter> {
  const maxChunkSize = options.imageFormat === true ? options.maxChunkSize : Number.MAX_SAFE_INTEGER;
  const splitterOptions: SplitterOptions = { maxChunkSize };
  if (!(model instanceof ModelFile)) return new SavedModelSplitter(model.savedModel, splitterOptions);
  return new MessageSplitter(model.proto.schema, await model.proto.toSource(), splitterOptions);
}

/** Copies all files of a SavedModel directory but the proto. */
async function carryOver(
  from: FileStore,
  directory: string,
  to: FileStore,
  target: string,
  options: WriteOptions,
): Promise<void> {
  for (const info of await from.list(directory)) {
    if (/^saved_model\.(c?pb|pbtxt)$/.test(baseName(info.path))) continue;
    await copyTree(from, info, to, joinPath(target, baseName(info.path)), options);
  }
}

/**
 * Refuses to write where one reads from: over the input, or a directory in it or around it, which would be replaced.
 * @throws {@link UsageError} (`usage`)
 */
export async function refuseSamePath(files: FileStore, source: string, target: string): Promise<void> {
  const normal = (path: string) => path.replace(/\/+$/, "").replace(/^(\.\/)+/, "");
  let what: string | undefined;
  if (normal(source) === normal(target) || (await files.isSame(source, target))) what = "the output is the input";
  else if ((await files.stat(source))?.kind === "directory") {
    if (await liesIn(files, target, source)) what = "the output lies in the input";
    else if (await liesIn(files, source, target)) what = "the output holds the input";
  }
  if (what !== undefined) throw new UsageError("usage", what, { file: target, hint: "Choose another output." });
}
