import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import type { ByteSink } from "../bytes/byte-sink.js";
import { copySource } from "../bytes/copy-source.js";
import type { FileStore, ScratchFactory } from "../bytes/file-store.js";
import type { CompressionChoice } from "../codecs/auto-compression.js";
import { UsageError } from "../errors.js";
import {
  ChunkInfo_Type,
  ChunkInfoSchema,
  ChunkMetadataSchema,
} from "../proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
import type { VersionDefSchema } from "../proto/gen/tensorflow/tools/proto_splitter/versions_pb.js";
import { RecordWriter } from "../riegeli/record-writer.js";
import type { Chunk } from "./chunk.js";
import type { SplitOutput } from "./composable-splitter.js";

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
  /** Called when all is written and before it becomes visible; a failure of it throws the output away. */
  readonly beforeCommit?: (() => Promise<void>) | undefined;
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
  const hasStale = await refuseExisting(files, other, overwrite);
  const expectedBytes = output.chunks.reduce((sum, { source }) => sum + source.size, 0);
  const sink = await files.create(path, { overwrite, expectedBytes });
  try {
    if (isSplit) await writeChunkedProto(sink, output, version, { ...options, scratch: (size) => files.scratch(size) });
    else if (output.chunks[0] !== undefined) await copySource(output.chunks[0].source, sink, options);
    await options.beforeCommit?.();
    await sink.close();
  } catch (error) {
    await sink.abort();
    throw error;
  }
  if (hasStale) await files.remove(other);
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

/** Writes the chunks as Riegeli records and the ChunkMetadata as the last one. */
export async function writeChunkedProto(
  sink: ByteSink,
  output: SplitOutput,
  version: MessageInitShape<typeof VersionDefSchema>,
  options: WriteOptions & { readonly scratch?: ScratchFactory | undefined },
): Promise<void> {
  const compression = options.compression ?? "auto";
  const writer = new RecordWriter(sink, { ...options, compression, chunkSize: 1024 * 1024 });
  for (const chunk of output.chunks) {
    options.signal?.throwIfAborted();
    await writer.write(chunk.source, { alone: standsAlone(chunk), onBytes: options.onBytes });
  }
  await writer.flush();
  const metadata = create(ChunkMetadataSchema, {
    version,
    chunks: output.chunks.map(({ type, source }, index) =>
      create(ChunkInfoSchema, {
        type: type === "bytes" ? ChunkInfo_Type.BYTES : ChunkInfo_Type.MESSAGE,
        size: BigInt(source.size),
        offset: BigInt(writer.positions[index] ?? 0),
      }),
    ),
    message: output.chunkedMessage,
  });
  await writer.write(toBinary(ChunkMetadataSchema, metadata));
  await writer.finish();
}

function standsAlone({ type, source }: Chunk): boolean {
  return type === "bytes" && source.size >= ALONE_BYTES;
}
