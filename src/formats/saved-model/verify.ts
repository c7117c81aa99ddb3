import type { DescMessage } from "@bufbuild/protobuf";
import type { ByteSource, OpenedSource } from "../../bytes/byte-source.js";
import type { FileStore } from "../../bytes/file-store.js";
import { baseName, parentPath, withoutSuffix } from "../../bytes/path.js";
import { type CairnError, isCairnError } from "../../errors.js";
import { SavedModelSchema } from "../../proto/gen/tensorflow/core/protobuf/saved_model_pb.js";
import { ChunkInfo_Type } from "../../proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
import { MessageRules } from "../../proto/message-rules.js";
import { checkWire } from "../../proto/wire-check.js";
import { ChunkedFile } from "../../splitter/chunked-file.js";
import { inferRootSchema } from "../../splitter/infer-root.js";
import { mergeLazily } from "../../splitter/merge-tree.js";
import { isPartName, openRelatedTo } from "../../splitter/related-file.js";
import { findShards, indexPath } from "../checkpoint/bundle-paths.js";
import { verifyCheckpoint } from "../checkpoint/verify.js";
import { finding, findingOf } from "../finding.js";
import type { Detection, VerifyEvent, VerifyOptions } from "../format.js";
import { type DescribeRecords, verifyRiegeli } from "../riegeli-check.js";
import { chunkPaths } from "./chunk-outline.js";
import { findModel, ModelFile, type ModelPaths } from "./model-file.js";
import { variablesPrefix } from "./variables.js";

/** Checks a model to the last byte, and goes on after each finding. */
export async function* verifyModel(detection: Detection, options: VerifyOptions = {}): AsyncGenerator<VerifyEvent> {
  const { files, path } = detection;
  const paths = await findModel(files, path);
  if (paths === undefined) {
    yield finding("error", "not-found", "no saved_model.cpb, .pb or .pbtxt here", { file: path });
    return;
  }
  for (const ignored of paths.ignored) {
    yield finding("warning", "ignored-file", `not read: ${paths.protoPath} stands beside it and comes first`, {
      file: ignored,
    });
  }
  if (paths.protoPath.endsWith(".cpb")) yield* verifyChunked(files, paths, options);
  else yield* verifyPlain(files, path, paths);
  if (paths.directory !== undefined) yield* verifyVariables(files, paths.directory, options);
}

/** Checks the checkpoint that holds the variables of a SavedModel directory. */
async function* verifyVariables(
  files: FileStore,
  directory: string,
  options: VerifyOptions,
): AsyncGenerator<VerifyEvent> {
  const path = variablesPrefix(directory);
  const hasIndex = (await files.stat(indexPath(path)))?.kind === "file";
  if (!hasIndex && (await findShards(files, path)).length === 0) return;
  yield* verifyCheckpoint({ format: "checkpoint", files, path, description: "", notes: [] }, options);
}

async function* verifyPlain(files: FileStore, path: string, paths: ModelPaths): AsyncGenerator<VerifyEvent> {
  let model: ModelFile | undefined;
  try {
    model = await ModelFile.open(files, path);
    const source = await model.proto.toSource();
    await checkWire(source, model.view.rules);
    if (source.size === 0) {
      yield finding("warning", "empty-file", "an empty file, which is a model with nothing in it", {
        file: paths.protoPath,
      });
    }
    yield {
      kind: "good",
      what: `${paths.protoPath}: a ${model.typeName}, down to the innermost message`,
      byteLength: source.size,
    };
  } catch (error) {
    yield findingOf(error, paths.protoPath);
  } finally {
    await model?.close();
  }
}

async function* verifyChunked(
  files: FileStore,
  paths: ModelPaths,
  options: VerifyOptions,
): AsyncGenerator<VerifyEvent> {
  let source: OpenedSource;
  try {
    source = await files.open(paths.protoPath);
  } catch (error) {
    yield findingOf(error, paths.protoPath);
    return;
  }
  try {
    const opened = await openChunks(files, source, paths);
    let isDamaged = false;
    for await (const event of verifyRecords(files, source, opened, options)) {
      isDamaged ||= event.kind === "finding" && event.finding.severity === "error";
      yield event;
    }
    // Damage of the records was told of there; what is new is what concerns the metadata itself.
    const { error } = opened;
    if (error !== undefined && (!isDamaged || METADATA_CODES.includes(error.code))) yield findingOf(error, source.name);
    if (opened.file !== undefined) yield* verifyMetadata({ ...opened, file: opened.file }, isDamaged);
  } catch (error) {
    yield findingOf(error, paths.protoPath);
  } finally {
    await source.close();
  }
}

/** Checks the records of the file, and of those that it names. */
async function* verifyRecords(
  files: FileStore,
  source: ByteSource,
  { file, describe }: OpenedChunks,
  options: VerifyOptions,
): AsyncGenerator<VerifyEvent> {
  yield* verifyRiegeli(files, source, options, describe(""));
  if (file === undefined) return;
  const openRelated = openRelatedTo(files, source.name);
  const known = new Set<string>([source.name]);
  for (const name of file.relatedNames) {
    try {
      const related = await openRelated(name);
      known.add(related.name);
      yield* closing(related, verifyRiegeli(files, related, options, describe(name)));
    } catch (error) {
      yield findingOf(error, source.name, undefined, describe(name)(0, Number.POSITIVE_INFINITY));
    }
  }
  yield* verifyNoStrayParts(files, source.name, known);
}

async function* closing(source: OpenedSource, events: AsyncIterable<VerifyEvent>): AsyncGenerator<VerifyEvent> {
  try {
    yield* events;
  } finally {
    await source.close();
  }
}

/** Warns of chunk files of the same prefix that the metadata does not name: an earlier write left them. */
async function* verifyNoStrayParts(
  files: FileStore,
  path: string,
  known: ReadonlySet<string>,
): AsyncGenerator<VerifyEvent> {
  const prefix = withoutSuffix(baseName(path), ".cpb") ?? "";
  const beside = await files.list(parentPath(path)).catch((error: unknown) => {
    if (isCairnError(error)) return []; // a store that has no directories
    throw error;
  });
  for (const { path: other, kind } of beside) {
    if (kind !== "file" || !isPartName(prefix, baseName(other)) || known.has(other)) continue;
    yield finding("warning", "ignored-file", `not read: ${path} does not name it`, { file: other });
  }
}

/** Codes that tell of the metadata, not of the bytes of its record. */
const METADATA_CODES: readonly string[] = ["chunk-metadata", "unsupported-version", "limit"];

interface OpenedChunks {
  readonly file?: ChunkedFile;
  readonly schema: DescMessage;
  /** Where the chunks belong, as far as that can be told. */
  readonly named: ReadonlyMap<number, readonly string[]>;
  /** Says what the records of a file are, by its name in the metadata; the file itself is "". */
  readonly describe: (name: string) => DescribeRecords;
  /** Why the metadata cannot be read. */
  readonly error?: CairnError;
}

/** Opens the metadata as far as that can be done, to say what the chunks are. */
async function openChunks(files: FileStore, source: ByteSource, paths: ModelPaths): Promise<OpenedChunks> {
  try {
    const scratch = (size?: number) => files.scratch(size);
    const file = await ChunkedFile.open(source, { scratch, openRelated: openRelatedTo(files, source.name) });
    const { message } = file.metadata;
    const isSavedModel = paths.directory !== undefined || /(^|\/)saved_model\.cpb$/.test(paths.protoPath);
    const schema = isSavedModel ? SavedModelSchema : await inferRootSchema(file, message).catch(() => SavedModelSchema);
    // What is wrong with the tree shows itself when all is merged.
    const named = await chunkPaths(file, MessageRules.of(schema)).catch((error: unknown) => {
      if (isCairnError(error)) return new Map<number, string[]>();
      throw error;
    });
    return { file, schema, named, describe: (name) => describeChunks(file, named, name) };
  } catch (error) {
    if (!isCairnError(error)) throw error;
    return { error, schema: SavedModelSchema, named: new Map(), describe: () => () => undefined };
  }
}

/** Says which parts of the message lie in a range of record positions of a file. */
function describeChunks(file: ChunkedFile, named: OpenedChunks["named"], name: string): DescribeRecords {
  const chunks = file.metadata.chunks.map(({ offset, cairnFile }, index) => ({
    position: cairnFile === name ? Number(offset) : -1,
    path: named.get(index)?.[0] ?? `chunk ${index}`,
  }));
  if (name === "") chunks.push({ position: file.metadataRecord.position, path: "ChunkMetadata" });
  return (begin, end) => {
    const inside = chunks
      .filter(({ position }) => position >= begin && position < end)
      .map(({ path }) => path || "(root)");
    if (inside.length === 0) return undefined;
    const shown = inside.slice(0, 3).join(", ");
    return inside.length > 3 ? `${shown}, and ${inside.length - 3} more` : shown;
  };
}

/** Checks each chunk of the metadata by itself, and then that all can be merged. */
async function* verifyMetadata(
  { file, schema, named }: OpenedChunks & { readonly file: ChunkedFile },
  isDamaged: boolean,
): AsyncGenerator<VerifyEvent> {
  const { metadata, name } = file;
  let bad = 0;
  try {
    for (const [index, info] of metadata.chunks.entries()) {
      const key = named.get(index)?.[0] || `chunk ${index}`;
      try {
        const record = await file.record(index, true);
        if (info.type !== ChunkInfo_Type.UNSET && BigInt(record.size) !== info.size) {
          const message = `chunk ${index} has ${record.size} bytes, not the ${info.size} that the metadata says`;
          yield finding("warning", "record-size", message, { file: name, offset: record.chunk.begin, key });
        }
      } catch (error) {
        bad++;
        if (!isDamaged) yield findingOf(error, name, undefined, key);
      }
    }
    if (bad > 0 || isDamaged || metadata.message === undefined) return;
    const view = mergeLazily(schema, metadata.message, file, { sort: true, check: true });
    const merged = await view.toSource();
    yield { kind: "good", what: `all chunks merge to a ${schema.name}`, byteLength: merged.size };
  } catch (error) {
    yield findingOf(error, name);
  } finally {
    await file.close();
  }
}
