import { type DescMessage, fromBinary, type MessageShape, toBinary } from "@bufbuild/protobuf";
import type { FileStore } from "../../bytes/file-store.js";
import { MemorySource } from "../../bytes/memory-source.js";
import { joinPath } from "../../bytes/path.js";
import { CorruptionError, isCairnError, LimitError, NotFoundError } from "../../errors.js";
import { MAX_TEXT_BYTES } from "../../limits.js";
import { GraphDefSchema } from "../../proto/gen/tensorflow/core/framework/graph_pb.js";
import { SavedModelSchema } from "../../proto/gen/tensorflow/core/protobuf/saved_model_pb.js";
import { MessageView } from "../../proto/message-view.js";
import { RecordReader } from "../../riegeli/record-reader.js";
import { inferRootSchema } from "../../splitter/infer-root.js";
import { MergedProto, Merger, type MergerOptions } from "../../splitter/merger.js";

/** The name that the proto of a SavedModel directory has, before its suffix. Source: saved_model/constants.py. */
export const SAVED_MODEL_PREFIX = "saved_model";

/** Where the proto of a model is. */
export interface ModelPaths {
  /** The proto's file. */
  readonly protoPath: string;
  /** The SavedModel directory, when the proto stands in one. */
  readonly directory: string | undefined;
  /** Files that hold the proto in another form and are not read. */
  readonly ignored: readonly string[];
}

/**
 * Finds the proto of a SavedModel directory, a prefix or a file: `.cpb` before `.pb` before `.pbtxt`, as TensorFlow's
 * merger takes them. A file is taken as it is, whatever its name. Undefined when there is none.
 */
export async function findModel(files: FileStore, path: string): Promise<ModelPaths | undefined> {
  const info = await files.stat(path);
  if (info?.kind === "file") return { protoPath: path, directory: undefined, ignored: [] };
  const directory = info === undefined ? undefined : path;
  const prefix = directory === undefined ? path : joinPath(directory, SAVED_MODEL_PREFIX);
  const found: string[] = [];
  for (const suffix of [".cpb", ".pb", ".pbtxt"]) {
    if ((await files.stat(prefix + suffix))?.kind === "file") found.push(prefix + suffix);
  }
  const [protoPath, ...ignored] = found;
  return protoPath === undefined ? undefined : { protoPath, directory, ignored };
}

/** A model that was opened. Close it when it is no longer needed. */
export class ModelFile {
  readonly files: FileStore;
  readonly paths: ModelPaths;
  /** The proto, lazily. */
  readonly proto: MergedProto;

  private constructor(files: FileStore, paths: ModelPaths, proto: MergedProto) {
    this.files = files;
    this.paths = paths;
    this.proto = proto;
  }

  /**
   * Opens the model at a path: a SavedModel directory, a prefix, or a `.pb`, `.cpb` or `.pbtxt` file of a SavedModel,
   * GraphDef, MetaGraphDef, FunctionDef or NodeDef.
   * @throws {@link NotFoundError} (`not-found`), and what damaged files give
   */
  static async open(files: FileStore, path: string, options: Omit<MergerOptions, "files"> = {}): Promise<ModelFile> {
    const paths = await findModel(files, path);
    if (paths === undefined) {
      throw new NotFoundError("not-found", "no saved_model.cpb, .pb or .pbtxt here", {
        file: path,
        hint: "Give a SavedModel directory, or a .pb, .cpb or .pbtxt file.",
      });
    }
    const isSavedModel = paths.directory !== undefined || /(^|\/)saved_model\.\w+$/.test(paths.protoPath);
    const schema = isSavedModel ? SavedModelSchema : undefined;
    const proto = paths.protoPath.endsWith(".pbtxt")
      ? await openText(files, paths.protoPath, schema)
      : await openProto(paths.protoPath, schema, { ...options, files });
    return new ModelFile(files, paths, proto);
  }

  /** The root message, lazily. */
  get view(): MessageView {
    return this.proto.view;
  }

  /** The short name of the root's type, such as `SavedModel`. */
  get typeName(): string {
    return this.proto.schema.name;
  }

  /** Gives back the file. */
  close(): Promise<void> {
    return this.proto.close();
  }
}

/** Opens a `.pb` or `.cpb`; when it is no such file, but the other kind under a wrong name, the error says so. */
async function openProto(path: string, schema: DescMessage | undefined, options: MergerOptions): Promise<MergedProto> {
  try {
    return await Merger.read(path, schema, options);
  } catch (error) {
    const isForeign = path.endsWith(".cpb")
      ? isCairnError(error, "block-header") && error.offset === 0
      : isCairnError(error, "invalid-wire");
    const other = isForeign ? await otherSuffix(path, options.files) : undefined;
    if (other === undefined || !isCairnError(error)) throw error;
    const { code, summary, offset, expected, actual, cause } = error;
    const hint = `The file holds a proto of the other kind. Name it ${other}.`;
    throw new CorruptionError(code, summary, { file: path, offset, expected, actual, cause, hint });
  }
}

/** The suffix that a `.pb` or `.cpb` file should have, when it is not the one that it has. */
async function otherSuffix(path: string, files: FileStore): Promise<string | undefined> {
  const source = await files.open(path);
  try {
    if (!path.endsWith(".cpb")) {
      await RecordReader.open(source);
      return ".cpb";
    }
    if (source.size === 0) return undefined;
    await inferRootSchema(source, undefined);
    return ".pb";
  } catch (error) {
    if (isCairnError(error)) return undefined;
    throw error;
  } finally {
    await source.close();
  }
}

/** A text-format proto is parsed as a whole: it is read by people, and small. */
async function openText(files: FileStore, path: string, schema: DescMessage | undefined): Promise<MergedProto> {
  const source = await files.open(path);
  try {
    if (source.size > MAX_TEXT_BYTES) {
      throw new LimitError("limit", "text-format proto", {
        file: path,
        expected: `at most ${MAX_TEXT_BYTES} bytes`,
        actual: source.size,
      });
    }
    const text = new TextDecoder().decode(await source.read(0, source.size));
    const { schema: found, bytes } = await parseText(
      text,
      schema === undefined ? [SavedModelSchema, GraphDefSchema] : [schema],
      path,
    );
    return new MergedProto({ view: MessageView.of(found, new MemorySource(bytes, path)), schema: found, source });
  } catch (error) {
    await source.close();
    throw error;
  }
}

async function parseText(
  text: string,
  schemas: readonly DescMessage[],
  file: string,
): Promise<{ schema: DescMessage; bytes: Uint8Array }> {
  const { fromText } = await import("@bufbuild/protobuf/txtpb");
  let cause: unknown;
  for (const schema of schemas) {
    try {
      return { schema, bytes: toBinary(schema, fromText(schema, text)) };
    } catch (error) {
      cause = error;
    }
  }
  const what = `the text is no ${schemas.map(({ name }) => name).join(" or ")}: ${(cause as Error).message}`;
  throw new CorruptionError("invalid-text", what, { file, cause });
}

/** A part of a message that is small enough to be parsed as a whole, 64 MiB. */
const MAX_PARSED_BYTES = 64 * 1024 * 1024;

/** Parses a message that a view stands for. @throws {@link LimitError} (`limit`) */
export async function parseView<Desc extends DescMessage>(
  schema: Desc,
  view: MessageView,
): Promise<MessageShape<Desc>> {
  const source = await view.toSource();
  if (source.size > MAX_PARSED_BYTES) {
    throw new LimitError("limit", `${schema.name} to parse as a whole`, {
      file: view.name,
      expected: `at most ${MAX_PARSED_BYTES} bytes`,
      actual: source.size,
    });
  }
  try {
    return fromBinary(schema, await source.read(0, source.size));
  } catch (cause) {
    throw new CorruptionError("invalid-wire", `not a ${schema.name}: ${(cause as Error).message}`, {
      file: view.name,
      cause,
    });
  }
}
