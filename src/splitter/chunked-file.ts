import { fromBinary } from "@bufbuild/protobuf";
import type { ByteSource, OpenedSource } from "../bytes/byte-source.js";
import { DeferredSource } from "../bytes/deferred-source.js";
import type { ScratchFactory } from "../bytes/file-store.js";
import { CairnError, CorruptionError, LimitError, UnsupportedError } from "../errors.js";
import { MAX_CHUNK_METADATA_BYTES } from "../limits.js";
import {
  type ChunkedMessage,
  ChunkedMessageSchema,
  type ChunkInfo,
  type ChunkMetadata,
  ChunkMetadataSchema,
} from "../proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
import { MessageRules } from "../proto/message-rules.js";
import { checkWire } from "../proto/wire-check.js";
import { RecordReader, type RiegeliRecord } from "../riegeli/record-reader.js";
import type { ChunkProvider } from "./merge-tree.js";
import { checkVersion } from "./version.js";

/** Options of {@link ChunkedFile.open}. */
export interface ChunkedFileOptions {
  /** Where large decompressed chunks go; memory when it is not given. */
  readonly scratch?: ScratchFactory | undefined;
  /** Do not look at the version, as TensorFlow does not. */
  readonly ignoreVersion?: boolean | undefined;
  /**
   * Opens another file that holds chunks, by the path or URL that stands in the metadata. What it gives is closed with the
   * `.cpb`.
   */
  readonly openRelated?: ((name: string) => Promise<OpenedSource>) | undefined;
}

/** A `.cpb` file: its metadata, and its chunks by their indexes. */
export class ChunkedFile implements ChunkProvider {
  readonly reader: RecordReader;
  readonly metadata: ChunkMetadata;
  /** The record of the metadata, the last of the file. */
  readonly metadataRecord: RiegeliRecord;
  private readonly options: ChunkedFileOptions;
  private readonly related = new Map<string, Promise<RecordReader>>();
  private readonly opened: OpenedSource[] = [];
  private readonly streamed = new Map<RiegeliRecord, RecordReader>();

  private constructor(
    reader: RecordReader,
    record: RiegeliRecord,
    metadata: ChunkMetadata,
    options: ChunkedFileOptions,
  ) {
    this.reader = reader;
    this.metadataRecord = record;
    this.metadata = metadata;
    this.options = options;
  }

  /**
   * Opens a `.cpb` file and reads its metadata. The source stays the caller's.
   * @throws {@link CorruptionError} (`chunk-metadata` and what Riegeli can have), {@link UnsupportedError}
   * (`unsupported-version`), {@link TruncatedError}
   */
  static async open(source: ByteSource, options: ChunkedFileOptions = {}): Promise<ChunkedFile> {
    const reader = await RecordReader.open(source, { scratch: options.scratch });
    const record = await reader.lastRecord();
    if (record === undefined) {
      throw new CorruptionError("chunk-metadata", "no ChunkMetadata: the file has no records", {
        file: source.name,
        offset: 0,
      });
    }
    const metadata = await readMetadata(record);
    if (!options.ignoreVersion) checkVersion(metadata.version, source.name);
    return new ChunkedFile(reader, record, metadata, options);
  }

  /** The file's name, for errors. */
  get name(): string {
    return this.reader.source.name;
  }

  /** How many chunks the metadata lists. */
  get chunkCount(): number {
    return this.metadata.chunks.length;
  }

  /**
   * The bytes of a chunk. Raw bytes are looked for when they are first read, since the metadata tells their size, and
   * streamed: they are verified when they are read in order, or by `verifyUsed`.
   */
  async chunk(index: number, type: "message" | "bytes"): Promise<ByteSource> {
    const info = this.metadata.chunks[index];
    const size = Number(info?.size ?? 0);
    if (type === "message" || size === 0) return this.record(index, type === "bytes");
    return new DeferredSource(this.name, size, async () => {
      const record = await this.record(index, true);
      if (record.size === size) return record;
      throw new CorruptionError("record-size", `chunk ${index}`, {
        file: record.name,
        offset: record.position,
        expected: `${size} bytes`,
        actual: `${record.size} bytes`,
      });
    });
  }

  /** The record of a chunk. @throws {@link CorruptionError} (`chunk-index`) when its offset is no record */
  async record(index: number, streaming = false): Promise<RiegeliRecord> {
    const info = this.metadata.chunks[index];
    if (info === undefined) throw new RangeError(`no chunk ${index}`);
    const reader = await this.readerOf(info);
    const offset = Number(info.offset);
    try {
      if (!streaming) return await reader.record(offset);
      const onRead = () => this.streamed.set(record, reader);
      const record: RiegeliRecord = await reader.record(offset, { streaming, onRead });
      return record;
    } catch (cause) {
      if (!(cause instanceof CairnError) || cause.code !== "no-such-record") throw cause;
      throw new CorruptionError("chunk-index", `offset of chunk ${index} is beyond the records`, {
        file: reader.source.name,
        offset,
        cause,
      });
    }
  }

  /** The other files that hold chunks, as the metadata names them. */
  get relatedNames(): readonly string[] {
    const names = new Set(this.metadata.chunks.map(({ cairnFile }) => cairnFile));
    names.delete("");
    return [...names];
  }

  /** The file that a chunk stands in: this one, or one that it names. */
  async sourceOf(index: number): Promise<ByteSource> {
    const info = this.metadata.chunks[index];
    if (info === undefined) throw new RangeError(`no chunk ${index}`);
    return (await this.readerOf(info)).source;
  }

  /** See {@link ChunkProvider.tree}. */
  async tree(index: number): Promise<ChunkedMessage> {
    const record = await this.record(index);
    return parseChecked(record, ChunkedMessageSchema, "part of the tree of chunks");
  }

  /**
   * Makes sure that every chunk of which bytes were read as a stream matches its hash; for those that were read in order
   * that is known already.
   */
  async verifyUsed(): Promise<void> {
    for (const [record, reader] of this.streamed) await reader.verifyRecord(record);
  }

  /** Gives back scratch storage. */
  async close(): Promise<void> {
    await this.reader.close();
    for (const reader of await Promise.allSettled(this.related.values())) {
      if (reader.status === "fulfilled") await reader.value.close();
    }
    for (const source of this.opened) await source.close();
  }

  private readerOf(info: ChunkInfo): Promise<RecordReader> {
    const name = info.cairnFile;
    if (name === "") return Promise.resolve(this.reader);
    let reader = this.related.get(name);
    if (reader === undefined) {
      if (this.options.openRelated === undefined) {
        throw new UnsupportedError("unsupported-operation", `chunks in another file, ${name}`, { file: this.name });
      }
      reader = this.options.openRelated(name).then((source) => {
        this.opened.push(source);
        return RecordReader.open(source, { scratch: this.options.scratch });
      });
      this.related.set(name, reader);
    }
    return reader;
  }
}

async function readMetadata(record: RiegeliRecord): Promise<ChunkMetadata> {
  const metadata = await parseChecked(record, ChunkMetadataSchema, "ChunkMetadata");
  if (metadata.message !== undefined && metadata.$unknown === undefined) return metadata;
  throw new CorruptionError("chunk-metadata", "the last record is no ChunkMetadata", {
    file: record.name,
    offset: record.chunk.begin,
  });
}

/** Parses a record after checking it down to the innermost, so that the parser meets neither damage nor deep nesting. */
async function parseChecked<Desc extends typeof ChunkMetadataSchema | typeof ChunkedMessageSchema>(
  record: RiegeliRecord,
  schema: Desc,
  what: string,
) {
  const place = { file: record.name, offset: record.chunk.begin };
  if (record.size > MAX_CHUNK_METADATA_BYTES) {
    throw new LimitError("limit", what, {
      ...place,
      expected: `at most ${MAX_CHUNK_METADATA_BYTES} bytes`,
      actual: record.size,
    });
  }
  try {
    await checkWire(record, MessageRules.of(schema));
    return fromBinary<Desc>(schema, await record.read(0, record.size));
  } catch (cause) {
    if (cause instanceof CairnError && cause.code !== "invalid-wire") throw cause;
    throw new CorruptionError("chunk-metadata", `the record cannot be parsed as ${what}`, { ...place, cause });
  }
}
