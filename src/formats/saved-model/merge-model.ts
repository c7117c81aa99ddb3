import type { ByteSink } from "../../bytes/byte-sink.js";
import { type CopyOptions, copySource } from "../../bytes/copy-source.js";
import type { FileStore } from "../../bytes/file-store.js";
import { checkOutputFile } from "../../bytes/output.js";
import { baseName, joinPath, withoutSuffix } from "../../bytes/path.js";
import { UsageError } from "../../errors.js";
import { ModelFile, SAVED_MODEL_PREFIX } from "./model-file.js";
import { checkModelDirectory, refuseSamePath, saveSavedModel } from "./save.js";

/** No protobuf library reads a message from this size on, 2 GiB. */
const PROTOBUF_LIMIT_BYTES = 2 ** 31;

/** How a model is going to be merged. Close it in the end. */
export interface MergePlan {
  /** The type of the proto, such as `SavedModel`. */
  readonly typeName: string;
  readonly outputPath: string;
  /** How many chunks it comes from; 0 when it was not split. */
  readonly chunkCount: number;
  /** Bytes of the merged proto. */
  readonly byteLength: number;
  readonly warnings: readonly string[];
  readonly notes: readonly string[];
  /** Writes the output, and makes it visible when every chunk has been found good. */
  write(options?: CopyOptions): Promise<void>;
  /** Gives back the input. */
  close(): Promise<void>;
}

/** Options of {@link mergeModel}. */
export interface MergeModelOptions {
  readonly source: FileStore;
  readonly target: FileStore;
  /** Where to write instead of a file of the target: standard output. */
  readonly sink?: ByteSink | undefined;
  /** Do not look at the version of the file, as TensorFlow does not. */
  readonly ignoreVersion?: boolean | undefined;
  /** Whether an output that exists may be replaced; otherwise it is an error before the work begins. */
  readonly overwrite?: boolean | undefined;
}

/**
 * Plans how the split model at `src` is merged to `out`: a directory for a SavedModel directory, a `.pb` for a file.
 * Every message chunk is checked, and every chunk's hash before the output becomes visible.
 * @throws {@link UsageError} (`usage`) when the output's name does not fit, and what damaged files give
 */
export async function mergeModel(src: string, out: string, options: MergeModelOptions): Promise<MergePlan> {
  const { source: sourceFiles, target, sink, ignoreVersion } = options;
  if (sink === undefined) await refuseSamePath(target, src, out);
  const model = await ModelFile.open(sourceFiles, src, { check: true, ignoreVersion });
  try {
    const { directory, protoPath, ignored } = model.paths;
    const toDirectory = directory !== undefined && sink === undefined;
    const notes = ignored.map((path) => `${path} is not read: ${protoPath} stands beside it and comes first`);
    if (toDirectory) await checkModelDirectory(target, out, options.overwrite ?? false);
    else if (sink === undefined) {
      checkOutputName(out);
      await checkOutputFile(target, out, options.overwrite);
      notes.push(...(await notesOnOutput(target, out)));
    }
    const merged = await model.proto.toSource();
    const isLarge = merged.size >= PROTOBUF_LIMIT_BYTES;
    return {
      typeName: model.typeName,
      outputPath: toDirectory ? joinPath(out, `${SAVED_MODEL_PREFIX}.pb`) : out,
      chunkCount: model.proto.chunks?.chunkCount ?? 0,
      byteLength: merged.size,
      warnings: isLarge ? [`the merged proto has ${merged.size} bytes: no protobuf library reads 2 GiB or more`] : [],
      notes,
      close: () => model.close(),
      async write(writeOptions = {}) {
        const { overwrite } = options;
        if (toDirectory) {
          await saveSavedModel(out, model, { ...writeOptions, overwrite, files: target });
          return;
        }
        const output = sink ?? (await target.create(out, { overwrite, expectedBytes: merged.size }));
        try {
          await copySource(merged, output, writeOptions);
          await model.proto.verify();
          await output.close();
        } catch (error) {
          await output.abort();
          throw error;
        }
      },
    };
  } catch (error) {
    await model.close();
    throw error;
  }
}

/** What a reader of the prefix will not see: it takes the `.cpb`. That is mostly what was merged, so it is left alone. */
async function notesOnOutput(files: FileStore, out: string): Promise<string[]> {
  const prefix = withoutSuffix(out, ".pb");
  if (prefix === undefined || (await files.stat(`${prefix}.cpb`)) === undefined) return [];
  return [`${prefix}.cpb stays beside ${out}: whoever opens ${prefix} by its prefix goes on reading the .cpb`];
}

function checkOutputName(out: string): void {
  if (out.endsWith(".pb") || !/\.\w+$/.test(baseName(out))) return;
  throw new UsageError("usage", "the output of a merge is a .pb", { file: out, hint: "Name it .pb." });
}
