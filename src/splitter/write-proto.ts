import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import type { ByteSink } from "../bytes/byte-sink.js";
import { copySource } from "../bytes/copy-source.js";
import type { FileStore, ScratchFactory } from "../bytes/file-store.js";
import { baseName, parentPath } from "../bytes/path.js";
import type { CompressionChoice } from "../codecs/auto-compression.js";
import { UsageError } from "../errors.js";
import {
  type ChunkedMessage,
  ChunkInfo_Type,
  ChunkInfoSchema,
  ChunkMetadataSchema,
} from "../proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
import type { VersionDefSchema } from "../proto/gen/tensorflow/tools/proto_splitter/versions_pb.js";
import { RecordWriter } from "../riegeli/record-writer.js";
import type { Chunk } from "./chunk.js";
import { chunkTree } from "./chunk-tree.js";
import type { SplitOutput } from "./composable-splitter.js";
import { isPartName } from "./related-file.js";
import { EXTENDED_JOIN_VERSION } from "./version.js";

/** Options of writing a split proto. */
export interface WriteOptions {
  /** How the chunks are compressed; `auto` when it is not given. */
  readonly compression?: CompressionChoice | undefined;
  /** The codec's own scale. */
  readonly level?: number | undefined;
  /** Replace what is there, and remove a file of the other suffix, which would hide or contradict the new one. */
  readonly overwrite?: boolean | undefined;
  /** Write the message chunks in transposed Riegeli chunks: smaller, and slower. */
  readonly transpose?: boolean | undefined;
  /** Called with the number of chunk bytes just written. */
  readonly onBytes?: ((count: number) => void) | undefined;
  /** Aborts the work; nothing is left behind. */
  readonly signal?: AbortSignal | undefined;
  /** A file that is not to be removed though it has the other suffix, since it is what was split. */
  readonly keep?: string | undefined;
  /** Called when all is written and before it becomes visible; a failure of it throws the output away. */
  readonly beforeCommit?: (() => Promise<void>) | undefined;
  /** Use what TensorFlow's files do not have. */
  readonly extended?: ExtendedOptions | undefined;
}

/**
 * What goes beyond the files of TensorFlow, on request only: the file is then of join version 1000, which TensorFlow does
 * not look at, and would read wrongly.
 */
export interface ExtendedOptions {
  /**
   * Spread the chunks over files of at most about this size, in bytes: `PREFIX.ID.00001.cpb` and so on, with an ID of
   * their own for each time that the proto is written, so that an older file never names newer chunks.
   */
  readonly maxFileSize?: number | undefined;
  /** Move the tree of chunks into chunks when it is larger, in bytes; the protobuf limit is 2 GiB. */
  readonly maxTreeSize?: number | undefined;
  /** Chunks that are there already, as the record at `offset` of another Riegeli file: a relative path or a URL. */
  readonly external?:
    | ((chunk: Chunk, index: number) => { readonly file: string; readonly offset: number } | undefined)
    | undefined;
}

/** What was written. */
export interface WrittenProto {
  /** The path, with its suffix. */
  readonly path: string;
  /** Whether the message was split, and the path ends in `.cpb`. */
  readonly isSplit: boolean;
  readonly chunkCount: number;
  /** Size of the file in bytes. */
  readonly byteLength: number;
}

/** Records are gathered to Riegeli chunks of this size, 1 MiB, whatever the compression. */
const CHUNK_SIZE_BYTES = 1024 * 1024;
/** Chunks of raw bytes from this size on stand alone in the file, so that they can be read alone, 64 KiB. */
const ALONE_BYTES = 64 * 1024;

/**
 * Writes a split proto under a prefix: `PREFIX.pb` when there is one chunk only, else `PREFIX.cpb`. A file of the other
 * suffix is removed last, so that a crash leaves the old state or the new one.
 * @throws {@link UsageError} (`exists`) when either file is there and `overwrite` is not set
 */
export async function writeProto(
  prefix: string,
  output: SplitOutput,
  version: MessageInitShape<typeof VersionDefSchema>,
  options: WriteOptions & { readonly files: FileStore },
): Promise<WrittenProto> {
  const { files, overwrite = false } = options;
  const isSplit = output.chunkedMessage.chunkedFields.length > 0;
  const path = `${prefix}${isSplit ? ".cpb" : ".pb"}`;
  const other = `${prefix}${isSplit ? ".pb" : ".cpb"}`;
  await refuseExisting(files, path, overwrite);
  const isKept = options.keep !== undefined && (await files.isSame(options.keep, other));
  const hasStale = !isKept && (await refuseExisting(files, other, overwrite));
  const expectedBytes = output.chunks.reduce((sum, { source }) => sum + source.size, 0);
  const sinks = new SinkList(files, prefix, overwrite);
  const sink = await sinks.open(path, expectedBytes);
  try {
    if (isSplit) await writeChunkedProto(sink, output, version, { ...options, openNext: () => sinks.openNext() });
    else if (output.chunks[0] !== undefined) await copySource(output.chunks[0].source, sink, options);
    await options.beforeCommit?.();
    await sinks.closeAll();
  } catch (error) {
    await sinks.abortAll();
    throw error;
  }
  if (hasStale) await files.remove(other);
  if (overwrite) await sinks.removeStale();
  return { path, isSplit, chunkCount: output.chunks.length, byteLength: sink.position };
}

async function refuseExisting(files: FileStore, path: string, overwrite: boolean): Promise<boolean> {
  if ((await files.stat(path)) === undefined) return false;
  if (overwrite) return true;
  throw new UsageError("exists", "the output exists already", {
    file: path,
    hint: "Pass --force to replace it, or choose another name.",
  });
}

/** Options of {@link writeChunkedProto}. */
export interface ChunkedProtoOptions extends WriteOptions {
  readonly files?: FileStore | undefined;
  /** Opens another file for chunks and says what it is called beside the first. */
  readonly openNext?: (() => Promise<{ sink: ByteSink; name: string }>) | undefined;
}

/** Writes the chunks as Riegeli records and the ChunkMetadata as the last one. */
export async function writeChunkedProto(
  sink: ByteSink,
  output: SplitOutput,
  version: MessageInitShape<typeof VersionDefSchema>,
  options: ChunkedProtoOptions,
): Promise<void> {
  const { extended, files } = options;
  const tree =
    extended?.maxTreeSize === undefined
      ? { message: output.chunkedMessage, chunks: output.chunks }
      : chunkTree(output.chunkedMessage, output.chunks, extended.maxTreeSize);
  const scratch: ScratchFactory | undefined = files === undefined ? undefined : (size) => files.scratch(size);
  const newWriter = (to: ByteSink) =>
    new RecordWriter(to, {
      ...options,
      scratch,
      compression: options.compression ?? "auto",
      chunkSize: CHUNK_SIZE_BYTES,
    });
  const main = newWriter(sink);
  let current: { writer: RecordWriter; sink: ByteSink; name: string } = { writer: main, sink, name: "" };
  const places: (() => { file: string; offset: number })[] = [];
  for (const [index, chunk] of tree.chunks.entries()) {
    const elsewhere = extended?.external?.(chunk, index);
    if (elsewhere !== undefined) {
      places.push(() => elsewhere);
      continue;
    }
    if (extended?.maxFileSize !== undefined && options.openNext !== undefined && index > 0) {
      const isFull = current.sink.position > 0 && current.sink.position + chunk.source.size > extended.maxFileSize;
      if (current.writer === main || isFull) {
        if (current.writer !== main) await current.writer.finish();
        const next = await options.openNext();
        current = { ...next, writer: newWriter(next.sink) };
      }
    }
    const { writer, name } = current;
    const record = writer.recordCount;
    places.push(() => ({ file: name, offset: writer.positions[record] ?? 0 }));
    await writer.write(chunk.source, { alone: standsAlone(chunk), onBytes: options.onBytes });
  }
  if (current.writer !== main) await current.writer.finish();
  await main.flush();
  await main.write(
    encodeMetadata(
      tree.message,
      tree.chunks,
      places,
      extended === undefined ? version : { ...version, joinVersion: EXTENDED_JOIN_VERSION },
    ),
  );
  await main.finish();
}

function encodeMetadata(
  message: ChunkedMessage,
  chunks: readonly Chunk[],
  places: readonly (() => { file: string; offset: number })[],
  version: MessageInitShape<typeof VersionDefSchema>,
): Uint8Array {
  const infos = chunks.map(({ type, source }, index) => {
    const { file, offset } = places[index]?.() ?? { file: "", offset: 0 };
    return create(ChunkInfoSchema, {
      type: type === "bytes" ? ChunkInfo_Type.BYTES : ChunkInfo_Type.MESSAGE,
      size: BigInt(source.size),
      offset: BigInt(offset),
      cairnFile: file,
    });
  });
  return toBinary(ChunkMetadataSchema, create(ChunkMetadataSchema, { version, chunks: infos, message }));
}

function standsAlone({ type, source }: Chunk): boolean {
  return type === "bytes" && source.size >= ALONE_BYTES;
}

/** The files of one proto: the one that names the others is closed last. */
class SinkList {
  private readonly files: FileStore;
  private readonly prefix: string;
  private readonly overwrite: boolean;
  private readonly sinks: ByteSink[] = [];
  private readonly id = Math.floor(Math.random() * 2 ** 40).toString(36);

  constructor(files: FileStore, prefix: string, overwrite: boolean) {
    this.files = files;
    this.prefix = prefix;
    this.overwrite = overwrite;
  }

  async open(path: string, expectedBytes: number): Promise<ByteSink> {
    const sink = await this.files.create(path, { overwrite: this.overwrite, expectedBytes });
    this.sinks.push(sink);
    return sink;
  }

  async openNext(): Promise<{ sink: ByteSink; name: string }> {
    const path = `${this.prefix}.${this.id}.${String(this.sinks.length).padStart(5, "0")}.cpb`;
    return { sink: await this.open(path, 0), name: baseName(path) };
  }

  async closeAll(): Promise<void> {
    const [first, ...rest] = this.sinks;
    for (const sink of rest) await sink.close();
    await first?.close();
  }

  /** Removes the chunk files of this prefix that an earlier write made. */
  async removeStale(): Promise<void> {
    const kept = new Set(this.sinks.map(({ name }) => baseName(name)));
    for (const { path, kind } of await this.files.list(parentPath(this.prefix))) {
      const name = baseName(path);
      const isPart = kind === "file" && isPartName(baseName(this.prefix), name);
      if (isPart && !kept.has(name)) await this.files.remove(path);
    }
  }

  async abortAll(): Promise<void> {
    for (const sink of this.sinks) await sink.abort();
  }
}
