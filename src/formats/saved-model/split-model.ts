import type { ByteSink } from "../../bytes/byte-sink.js";
import { copySource } from "../../bytes/copy-source.js";
import type { FileStore } from "../../bytes/file-store.js";
import { checkOutputFile } from "../../bytes/output.js";
import { baseName, joinPath, withoutSuffix } from "../../bytes/path.js";
import { UsageError } from "../../errors.js";
import { MessageSplitter } from "../../splitter/splitters.js";
import { type WriteOptions, type WrittenProto, writeChunkedProto } from "../../splitter/write-proto.js";
import { ModelFile } from "./model-file.js";
import { checkModelDirectory, refuseSamePath, writeModelDirectory } from "./save.js";

/** A chunk of a {@link SplitPlan}. */
export interface PlannedChunk {
  readonly type: "message" | "bytes";
  /** Where it belongs; empty for the root. */
  readonly path: string;
  /** In bytes. */
  readonly size: number;
}

/** How a model is going to be split. Close it in the end. */
export interface SplitPlan {
  readonly isSplit: boolean;
  readonly chunks: readonly PlannedChunk[];
  readonly outputPath: string;
  /** Bytes of the proto before it is split. */
  readonly protoBytes: number;
  /** Bytes that will be written, before compression, other files of a directory included. */
  readonly byteLength: number;
  /** Parts that stay larger than asked for, and why. */
  readonly warnings: readonly string[];
  readonly notes: readonly string[];
  /** Writes the output, which appears whole or not at all. */
  write(options: Omit<WriteOptions, "overwrite">): Promise<WrittenProto>;
  /** Gives back the input. */
  close(): Promise<void>;
}

/** Options of {@link splitModel}. */
export interface SplitModelOptions {
  readonly source: FileStore;
  readonly target: FileStore;
  /** In bytes. */
  readonly maxChunkSize: number;
  /** Where to write the proto instead of a file of the target: standard output. */
  readonly sink?: ByteSink | undefined;
  /** Whether an output that exists may be replaced; otherwise it is an error before the work begins. */
  readonly overwrite?: boolean | undefined;
}

/**
 * Plans how the model at `src` is split to `out`: a directory for a SavedModel directory, a `.cpb` for a file.
 * @throws {@link UsageError} (`usage`) when the output's name does not fit, and what damaged files give
 */
export async function splitModel(src: string, out: string, options: SplitModelOptions): Promise<SplitPlan> {
  const { target, sink, overwrite = false } = options;
  if (sink === undefined) await refuseSamePath(target, src, out);
  const model = await ModelFile.open(options.source, src, { check: true });
  try {
    const { directory: from, protoPath, ignored } = model.paths;
    const directory = sink === undefined ? from : undefined;
    if (directory !== undefined) await checkModelDirectory(target, out, overwrite);
    const source = await model.proto.toSource();
    const splitter = new MessageSplitter(model.proto.schema, source, { maxChunkSize: options.maxChunkSize });
    const { chunks, chunkedMessage, warnings } = await splitter.split();
    const isSplit = chunkedMessage.chunkedFields.length > 0;
    const suffix = isSplit ? ".cpb" : ".pb";
    const prefix = directory === undefined ? prefixOf(out) : joinPath(out, "saved_model");
    if (directory === undefined && sink === undefined) await checkOutputFile(target, prefix + suffix, overwrite);
    const write = async (writeOptions: WriteOptions): Promise<WrittenProto> => {
      const all = { ...writeOptions, overwrite, files: target };
      if (sink !== undefined) {
        if (isSplit) await writeChunkedProto(sink, { chunks, chunkedMessage, warnings }, splitter.versionDef, all);
        else await copySource(source, sink, all);
        await model.proto.verify();
        return { path: out, isSplit, chunkCount: chunks.length, byteLength: sink.position };
      }
      if (directory !== undefined) return writeModelDirectory(out, model, splitter, all);
      return splitter.write(prefix, { ...all, keep: protoPath, beforeCommit: () => model.proto.verify() });
    };
    return {
      isSplit,
      chunks: chunks.map(({ type, path, source: chunk }) => ({ type, path, size: chunk.size })),
      outputPath: sink === undefined ? prefix + suffix : out,
      protoBytes: source.size,
      byteLength: source.size + (directory === undefined ? 0 : await otherBytes(options.source, directory)),
      warnings,
      notes: ignored.map((path) => `${path} is not read: ${protoPath} stands beside it and comes first`),
      write,
      close: () => model.close(),
    };
  } catch (error) {
    await model.close();
    throw error;
  }
}

/** The prefix that an output names: its suffix has to be the one of what is written. */
function prefixOf(out: string): string {
  const prefix = withoutSuffix(out, ".cpb");
  if (prefix !== undefined) return prefix;
  if (!/\.\w+$/.test(baseName(out))) return out;
  throw new UsageError("usage", "the output of a split is a .cpb", {
    file: out,
    hint: "Name it .cpb, or leave the suffix away.",
  });
}

async function otherBytes(files: FileStore, directory: string): Promise<number> {
  let total = 0;
  for (const info of await files.list(directory)) {
    if (info.kind === "directory") total += await otherBytes(files, info.path);
    else if (!/^saved_model\.(c?pb|pbtxt)$/.test(baseName(info.path))) total += info.size;
  }
  return total;
}
