import { type ByteSink, totalLength } from "../bytes/byte-sink.js";
import type { ByteSource } from "../bytes/byte-source.js";
import { readInOrder, streamSource } from "../bytes/copy-source.js";
import type { ScratchFactory } from "../bytes/file-store.js";
import { joinSources } from "../bytes/joined-source.js";
import { MemorySource } from "../bytes/memory-source.js";
import { memoryScratch } from "../bytes/memory-store.js";
import { AUTO_BROTLI_LEVEL, type CompressionChoice, chooseCompression } from "../codecs/auto-compression.js";
import { type CompressionType, loadCodec } from "../codecs/compression.js";
import { createHasher } from "../codecs/hasher.js";
import { encodeVarint } from "../codecs/varint.js";
import { BLOCK_BYTES, chunkEndOf, RIEGELI_HASH_KEY, remainingInBlock } from "./blocks.js";
import { CHUNK_HEADER_BYTES, CHUNK_TYPES, type ChunkHeader, encodeChunkHeader } from "./chunk-header.js";
import { ChunkSink } from "./chunk-sink.js";
import { encodeCompressionType } from "./compression-type.js";
import { hashPieces } from "./hashed-bytes.js";
import { encodeSimpleChunk } from "./simple-chunk.js";
import { encodeTransposedChunk } from "./transposed/encoder.js";

/** Options of a {@link RecordWriter}. */
export interface RecordWriterOptions {
  /** `brotli` when it is not given, as in Riegeli; `auto` decides for each chunk by samples. */
  readonly compression?: CompressionChoice | undefined;
  /** The codec's own scale; not for `auto`. */
  readonly level?: number | undefined;
  /** Bytes of records after which a chunk is closed; 1 MiB, or 4 KiB uncompressed, as in Riegeli. */
  readonly chunkSize?: number | undefined;
  /** Write transposed chunks: smaller for many alike messages, and slower. */
  readonly transpose?: boolean | undefined;
  /** Fill up to the block boundary at the end, so that files can be concatenated. */
  readonly padToBlockBoundary?: boolean | undefined;
  /** How many chunks are compressed at the same time; 2 when it is not given. */
  readonly parallelism?: number | undefined;
  /** Where a large record's compressed form goes until its length is known. */
  readonly scratch?: ScratchFactory | undefined;
  /** Aborts the work, also within a record. */
  readonly signal?: AbortSignal | undefined;
}

/** How one record is written. */
export interface RecordPlacement {
  /** In a chunk of its own, so that it can be read alone. Records over 4 MiB are, unless they are compressed and below 32 MiB. */
  readonly alone?: boolean | undefined;
  /** Another compression for the chunk it is in; implies `alone`. */
  readonly compression?: CompressionChoice | undefined;
  /** Called with the number of record bytes just written. */
  readonly onBytes?: ((count: number) => void) | undefined;
}

/** A record from this size on gets a chunk of its own, so that it need not be in memory, 4 MiB. */
const STREAMED_STORED_BYTES = 4 * 1024 * 1024;
/** A record that has a chunk of its own anyway is streamed from this size on, 64 KiB. */
const SMALLEST_STREAMED_BYTES = 64 * 1024;
/** A record is compressed in memory, beside others, below this size, 32 MiB. */
const STREAMED_COMPRESSED_BYTES = 32 * 1024 * 1024;
/** Overhead that Riegeli counts for each record when it fills a chunk. */
const RECORD_OVERHEAD_BYTES = 8;

interface EncodedChunk {
  readonly header: Omit<ChunkHeader, "dataHash">;
  readonly pieces: readonly Uint8Array[];
}

/**
 * Writes a Riegeli/records file: the signature, then records gathered to chunks. Chunks are compressed ahead while
 * earlier ones are written; their order is that of the records.
 */
export class RecordWriter {
  /**
   * The numeric positions of the records written so far, in order. A position is known when its chunk has been laid
   * out: all are after {@link RecordWriter.flush}.
   */
  readonly positions: number[] = [];
  /** How many records have been given so far. */
  recordCount = 0;
  private readonly sink: ByteSink;
  private readonly options: RecordWriterOptions;
  private readonly chunkSize: number;
  private readonly queue: Promise<EncodedChunk>[] = [];
  private gathered: Uint8Array[] = [];
  private gatheredBytes = 0;
  /** Writes that have not ended yet, of the last records that were streamed. */
  private readonly working: Promise<void>[] = [];
  /** Headers of streamed chunks, whose hash is known only behind their data. */
  private readonly patches: { offset: number; bytes: Uint8Array }[] = [];
  private started = false;

  /** Writes to `sink` from its start; closing the sink stays the caller's. */
  constructor(sink: ByteSink, options: RecordWriterOptions = {}) {
    this.sink = sink;
    this.options = options;
    // Source: google/riegeli, doc/record_writer_options.md, chunk_size.
    this.chunkSize = options.chunkSize ?? (options.compression === "none" ? 4 * 1024 : 1024 * 1024);
  }

  /** Appends a record. The bytes must not change until {@link RecordWriter.flush}. */
  async write(record: Uint8Array | ByteSource, placement: RecordPlacement = {}): Promise<void> {
    this.options.signal?.throwIfAborted();
    this.recordCount++;
    const isBytes = record instanceof Uint8Array;
    const size = isBytes ? record.length : record.size;
    const choice = placement.compression ?? this.options.compression;
    const alone = placement.alone || placement.compression !== undefined;
    if (!isBytes && (alone || size >= STREAMED_STORED_BYTES) && size >= SMALLEST_STREAMED_BYTES) {
      if (await this.writeLarge(record, choice, placement.onBytes)) return;
    }
    const bytes = isBytes ? record : await record.read(0, size);
    if (alone || this.gatheredBytes + size + RECORD_OVERHEAD_BYTES > this.chunkSize) {
      await this.closeChunk(this.options.compression);
    }
    this.gathered.push(bytes);
    this.gatheredBytes += size + RECORD_OVERHEAD_BYTES;
    if (alone || this.gatheredBytes + RECORD_OVERHEAD_BYTES > this.chunkSize) await this.closeChunk(choice);
    placement.onBytes?.(size);
  }

  /** Lays out all that has been given so far; the next record begins a new chunk. */
  async flush(): Promise<void> {
    await this.closeChunk(this.options.compression);
    while (this.queue.length > 0) await this.writeFirstQueued();
  }

  /** Flushes and pads where that was asked for. */
  async finish(): Promise<void> {
    await this.flush();
    await this.start();
    while (this.working.length > 0) await this.working.shift();
    // All at the end: a small write would wait for the large one that is under way.
    for (const { offset, bytes } of this.patches.splice(0)) await this.sink.patch?.(offset, bytes);
    if (this.options.padToBlockBoundary) await this.padToBlock();
  }

  private async closeChunk(compression: CompressionChoice = "brotli"): Promise<void> {
    if (this.gathered.length === 0) return;
    const records = this.gathered;
    this.gathered = [];
    this.gatheredBytes = 0;
    const encoding = this.encode(records, compression);
    encoding.catch(() => {}); // thrown where the queue is written
    this.queue.push(encoding);
    while (this.queue.length >= (this.options.parallelism ?? 2)) await this.writeFirstQueued();
  }

  private async encode(records: readonly Uint8Array[], choice: CompressionChoice): Promise<EncodedChunk> {
    const { transpose } = this.options;
    const { compression, level } = await this.resolve(choice, () =>
      joinSources(
        "records",
        records.map((record) => new MemorySource(record)),
      ),
    );
    const pieces = transpose
      ? await encodeTransposedChunk(records, { compression, ...(level === undefined ? {} : { level }) })
      : await encodeSimpleChunk(records, compression, level);
    return {
      header: {
        type: transpose ? CHUNK_TYPES.transposed : CHUNK_TYPES.simple,
        dataSize: totalLength(pieces),
        recordCount: records.length,
        decodedDataSize: totalLength(records),
      },
      pieces,
    };
  }

  private async writeFirstQueued(): Promise<void> {
    const encoding = this.queue.shift();
    if (encoding === undefined) return;
    const { header, pieces } = await encoding;
    await this.start();
    await this.writeChunk(header, pieces);
  }

  /** Writes a chunk whose data is in memory. */
  private async writeChunk(header: Omit<ChunkHeader, "dataHash">, pieces: readonly Uint8Array[]): Promise<void> {
    const hasher = await createHasher(RIEGELI_HASH_KEY, header.dataSize);
    hashPieces(hasher, pieces);
    const chunk = this.beginChunk(header);
    await chunk.write([encodeChunkHeader({ ...header, dataHash: hasher.digest() }), ...pieces]);
    await chunk.finish();
  }

  private beginChunk(header: Omit<ChunkHeader, "dataHash">): ChunkSink {
    const begin = this.sink.position;
    const end = chunkEndOf(begin, CHUNK_HEADER_BYTES + header.dataSize, header.recordCount);
    for (let i = 0; i < header.recordCount; i++) this.positions.push(begin + i);
    return new ChunkSink(this.sink, begin, end);
  }

  /**
   * Writes a large record as a chunk of its own, piece by piece. False when it is to be compressed and fits in memory,
   * where it is compressed beside others.
   */
  private async writeLarge(
    record: ByteSource,
    choice: CompressionChoice = "brotli",
    onBytes: RecordPlacement["onBytes"],
  ): Promise<boolean> {
    const { compression, level } = await this.resolveStreamed(choice, record);
    if (compression !== "none" && record.size < STREAMED_COMPRESSED_BYTES) return false;
    await this.flush();
    await this.start();
    while (this.working.length > 1) await this.working.shift();
    if (compression === "none") {
      await this.writeStoredValues([], record, { compression, decodedSize: record.size, onBytes });
      return true;
    }
    const codec = await loadCodec(compression);
    if (codec.compressStream === undefined) throw new TypeError(`${compression} cannot be streamed`);
    const scratch = await (this.options.scratch ?? memoryScratch)(record.size);
    try {
      const input = streamSource(record, { onBytes, signal: this.options.signal });
      for await (const piece of codec.compressStream(input, record.size, level)) await scratch.sink.write(piece);
      const start = [encodeVarint(record.size)];
      await this.writeStoredValues(start, scratch.source(), { compression, decodedSize: record.size });
    } finally {
      await scratch.dispose();
    }
    return true;
  }

  /** The compression of a chunk; `auto` looks at its records. */
  private async resolve(
    choice: CompressionChoice,
    records: () => ByteSource,
  ): Promise<{ compression: CompressionType; level: number | undefined }> {
    if (choice !== "auto") return { compression: choice, level: this.options.level };
    return { compression: await chooseCompression(records()), level: AUTO_BROTLI_LEVEL };
  }

  /** The same for a record that is streamed: Brotli where the codec asked for cannot (Zstd before Node 22.15). */
  private async resolveStreamed(
    choice: CompressionChoice,
    record: ByteSource,
  ): Promise<{ compression: CompressionType; level: number | undefined }> {
    const resolved = await this.resolve(choice, () => record);
    if (resolved.compression === "none") return resolved;
    const codec = await loadCodec(resolved.compression);
    return codec.compressStream === undefined ? { compression: "brotli", level: AUTO_BROTLI_LEVEL } : resolved;
  }

  /** Writes one record whose stored form is `start` and then `values`; the header is patched in last where it can be. */
  private async writeStoredValues(
    start: readonly Uint8Array[],
    values: ByteSource,
    info: { compression: CompressionType; decodedSize: number; onBytes?: RecordPlacement["onBytes"] },
  ): Promise<void> {
    const { compression, decodedSize, onBytes } = info;
    const sizes = await encodeSimpleChunkStart(compression, decodedSize);
    const prelude = [...sizes, ...start];
    const dataSize = totalLength(prelude) + values.size;
    const header = { type: CHUNK_TYPES.simple, dataSize, recordCount: 1, decodedDataSize: decodedSize };
    const hasher = await createHasher(RIEGELI_HASH_KEY, dataSize);
    hashPieces(hasher, prelude);
    const canPatch = this.sink.patch !== undefined;
    const { signal } = this.options;
    if (!canPatch) await readInOrder(values, (pieces) => hashPieces(hasher, pieces), { signal });
    const chunk = this.beginChunk(header);
    const known = canPatch
      ? new Uint8Array(CHUNK_HEADER_BYTES)
      : encodeChunkHeader({ ...header, dataHash: hasher.digest() });
    let before: readonly Uint8Array[] = [known, ...prelude];
    const visit = (pieces: readonly Uint8Array[]) => {
      if (canPatch) hashPieces(hasher, pieces);
      const work = chunk.write([...before, ...pieces]);
      before = [];
      return work;
    };
    await readInOrder(values, visit, { onBytes, signal, takeOver: (work) => this.working.push(work) });
    await chunk.finish();
    if (canPatch) this.patches.push(...chunk.placesOf(encodeChunkHeader({ ...header, dataHash: hasher.digest() })));
  }

  /** Writes the file signature before the first chunk. */
  private async start(): Promise<void> {
    if (this.started) return;
    this.started = true;
    await this.writeChunk({ type: CHUNK_TYPES.signature, dataSize: 0, recordCount: 0, decodedDataSize: 0 }, []);
  }

  /** Writes a padding chunk up to the next block boundary, as long as there is room for its header. */
  private async padToBlock(): Promise<void> {
    const position = this.sink.position;
    let room = remainingInBlock(position);
    if (room === 0) return;
    if (room < CHUNK_HEADER_BYTES) room += BLOCK_BYTES - 24;
    const dataSize = room - CHUNK_HEADER_BYTES;
    const header = { type: CHUNK_TYPES.padding, dataSize, recordCount: 0, decodedDataSize: 0 };
    await this.writeChunk(header, [new Uint8Array(dataSize)]);
  }
}

/** The type and the sizes part of a simple chunk with one record. */
async function encodeSimpleChunkStart(compression: CompressionType, recordSize: number): Promise<Uint8Array[]> {
  const size = encodeVarint(recordSize);
  let sizes: readonly Uint8Array[] = [size];
  if (compression !== "none") sizes = [encodeVarint(size.length), await (await loadCodec(compression)).compress(size)];
  return [Uint8Array.of(encodeCompressionType(compression)), encodeVarint(totalLength(sizes)), ...sizes];
}
