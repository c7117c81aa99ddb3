import { type DescMessage, fromBinary, type MessageShape } from "@bufbuild/protobuf";
import type { ByteSource, OpenedSource } from "../bytes/byte-source.js";
import type { FileStore } from "../bytes/file-store.js";
import { MemorySource } from "../bytes/memory-source.js";
import { CorruptionError, NotFoundError, UnsupportedError } from "../errors.js";
import type { ChunkedMessage, ChunkMetadata } from "../proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
import type { MessageRules } from "../proto/message-rules.js";
import { MessageView } from "../proto/message-view.js";
import type { Chunk } from "./chunk.js";
import { ChunkedFile } from "./chunked-file.js";
import { inferRootSchema } from "./infer-root.js";
import { mergeLazily } from "./merge-tree.js";
import { openRelatedTo } from "./related-file.js";

/** Options of reading a proto that may be split. */
export interface MergerOptions {
  readonly files: FileStore;
  /** Do not look at the version of a `.cpb`, as TensorFlow does not. */
  readonly ignoreVersion?: boolean | undefined;
  /**
   * Check every message chunk to the innermost when it is merged, as a whole merge should; else what is looked at. A
   * plain `.pb` is one message, of which only what is looked at is checked.
   */
  readonly check?: boolean | undefined;
}

/** Puts a split proto together again. */
export const Merger = {
  /**
   * Merges chunks in memory. The fields are taken in the order of the list, as TensorFlow's in-memory form does. The
   * result is lazy; {@link MessageView.toSource} gives its bytes.
   */
  merge(
    chunks: readonly (Chunk | Uint8Array | ByteSource)[],
    chunkedMessage: ChunkedMessage,
    schema: DescMessage | MessageRules,
  ): MessageView {
    const sources = chunks.map(toSource);
    const provider = {
      name: "chunks",
      chunkCount: sources.length,
      chunk: async (index: number) => sources[index] as ByteSource,
    };
    return mergeLazily(schema, chunkedMessage, provider, { sort: false, check: true });
  },

  /**
   * Opens the proto of a prefix: `PREFIX.cpb` when there is one, else `PREFIX.pb`. A path that is a file is that file.
   * Without a schema the root type is found from the contents: SavedModel, GraphDef, MetaGraphDef, FunctionDef or NodeDef.
   * @throws {@link NotFoundError} (`not-found`) and what damaged files give
   */
  async read(prefix: string, schema: DescMessage | undefined, options: MergerOptions): Promise<MergedProto> {
    const { path, ignoredPath } = await findProto(prefix, options.files);
    const source = await options.files.open(path);
    try {
      if (!path.endsWith(".cpb")) return await openPlain(source, schema, ignoredPath);
      return await openChunked(source, schema, options, { ignoredPath });
    } catch (error) {
      await source.close();
      throw error;
    }
  },

  /**
   * The same for a part: `metadata` is that of the file, from whose `message` fields were dropped. Its `chunks` have to
   * be whole, so that the indexes hold.
   */
  async readPartial(
    prefix: string,
    metadata: ChunkMetadata,
    schema: DescMessage | undefined,
    options: MergerOptions,
  ): Promise<MergedProto> {
    const { path, ignoredPath } = await findProto(prefix, options.files);
    if (!path.endsWith(".cpb")) {
      throw new UnsupportedError("unsupported-operation", "a part of a proto that is not split", { file: path });
    }
    const source = await options.files.open(path);
    try {
      return await openChunked(source, schema, options, { ignoredPath, metadata });
    } catch (error) {
      await source.close();
      throw error;
    }
  },
};

/** A proto that was opened, split or not. Close it when it is no longer needed. */
export class MergedProto {
  /** The message, lazily: only what is looked at is read. */
  readonly view: MessageView;
  readonly schema: DescMessage;
  /** The file it was read from. */
  readonly source: OpenedSource;
  /** The chunks; undefined for a plain `.pb`. */
  readonly chunks: ChunkedFile | undefined;
  /** A file of the other suffix that stands beside and was not read. */
  readonly ignoredPath: string | undefined;

  /** Made by {@link Merger.read}. */
  constructor(facts: {
    view: MessageView;
    schema: DescMessage;
    source: OpenedSource;
    chunks?: ChunkedFile | undefined;
    ignoredPath?: string | undefined;
  }) {
    this.view = facts.view;
    this.schema = facts.schema;
    this.source = facts.source;
    this.chunks = facts.chunks;
    this.ignoredPath = facts.ignoredPath;
  }

  /** Whether it came from a `.cpb`. */
  get isSplit(): boolean {
    return this.chunks !== undefined;
  }

  /** The bytes of the whole message as a stream of extents. Call {@link MergedProto.verify} after reading them. */
  toSource(): Promise<ByteSource> {
    return this.view.toSource();
  }

  /** The whole message, parsed into memory. */
  async toMessage<Desc extends DescMessage>(schema: Desc): Promise<MessageShape<Desc>> {
    const source = await this.toSource();
    const message = fromBinary(schema, await source.read(0, source.size));
    await this.verify();
    return message;
  }

  /** Makes sure that all chunks that were used match their hashes. @throws {@link CorruptionError} (`chunk-data`) */
  async verify(): Promise<void> {
    await this.chunks?.verifyUsed();
  }

  /** Gives back the file and scratch storage. */
  async close(): Promise<void> {
    await this.chunks?.close();
    await this.source.close();
  }
}

async function openPlain(
  source: OpenedSource,
  schema: DescMessage | undefined,
  ignoredPath: string | undefined,
): Promise<MergedProto> {
  const found = schema ?? (await inferRootSchema(source, undefined));
  return new MergedProto({ view: MessageView.of(found, source), schema: found, source, ignoredPath });
}

async function openChunked(
  source: OpenedSource,
  schema: DescMessage | undefined,
  options: MergerOptions,
  facts: { ignoredPath: string | undefined; metadata?: ChunkMetadata },
): Promise<MergedProto> {
  const { files, ignoreVersion } = options;
  const chunks = await ChunkedFile.open(source, {
    scratch: (size) => files.scratch(size),
    ignoreVersion,
    openRelated: openRelatedTo(files, source.name),
  });
  const { message } = facts.metadata ?? chunks.metadata;
  if (message === undefined)
    throw new CorruptionError("chunk-metadata", "ChunkMetadata without a message", { file: source.name });
  const found = schema ?? (await inferRootSchema(chunks, message));
  const view = mergeLazily(found, message, chunks, { sort: true, check: options.check ?? false });
  return new MergedProto({ view, schema: found, source, chunks, ignoredPath: facts.ignoredPath });
}

async function findProto(prefix: string, files: FileStore): Promise<{ path: string; ignoredPath: string | undefined }> {
  if (/\.c?pb$/.test(prefix) && (await files.stat(prefix))?.kind === "file")
    return { path: prefix, ignoredPath: undefined };
  const cpb = (await files.stat(`${prefix}.cpb`)) !== undefined;
  const pb = (await files.stat(`${prefix}.pb`)) !== undefined;
  if (cpb) return { path: `${prefix}.cpb`, ignoredPath: pb ? `${prefix}.pb` : undefined };
  if (pb) return { path: `${prefix}.pb`, ignoredPath: undefined };
  throw new NotFoundError("not-found", "neither .cpb nor .pb of this prefix", { file: prefix });
}

function toSource(chunk: Chunk | Uint8Array | ByteSource): ByteSource {
  if (chunk instanceof Uint8Array) return new MemorySource(chunk, "chunk");
  return "source" in chunk ? chunk.source : chunk;
}
