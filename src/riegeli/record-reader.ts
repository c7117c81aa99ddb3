import type { ByteSource } from "../bytes/byte-source.js";
import { DelegatingSource } from "../bytes/deferred-source.js";
import type { ScratchFactory } from "../bytes/file-store.js";
import { memoryScratch } from "../bytes/memory-store.js";
import { CorruptionError, NotFoundError } from "../errors.js";
import { BLOCK_BYTES, BLOCK_HEADER_BYTES, decodeBlockHeader, isChunkBoundary } from "./blocks.js";
import { type DecodedChunk, decodeChunk, recordOf } from "./chunk-decoder.js";
import { CHUNK_TYPES, type ChunkLocation, readChunkHeader } from "./chunk-header.js";

/** Decoded chunks that a reader keeps, 16 MiB. */
const CACHE_BYTES = 16 * 1024 * 1024;

/** Options of {@link RecordReader.open}. */
export interface RecordReaderOptions {
  /** Where large decompressed chunks go; memory when it is not given. */
  readonly scratch?: ScratchFactory | undefined;
  /** Aborts the decoding of large chunks. */
  readonly signal?: AbortSignal | undefined;
}

/** One record of a file, as a source that can be read again and again while memory stays bounded. */
export interface RiegeliRecord extends ByteSource {
  /** Begin of its chunk plus its index there; unique in the file and ascending. */
  readonly position: number;
  /** The chunk it is in. */
  readonly chunk: ChunkLocation;
}

/** How a record is going to be used. */
export interface RecordOptions {
  /**
   * It will be read in order and once. A large uncompressed record is then not verified before, but while it is read:
   * the read that reaches the end of its chunk fails when the hash is wrong. {@link RecordReader.verifyRecord} makes
   * sure in any case.
   */
  readonly streaming?: boolean | undefined;
  /** Called before bytes of the record are read. */
  readonly onRead?: (() => void) | undefined;
}

/** A chunk in the cache of a reader. */
interface CachedChunk {
  readonly decoding: Promise<DecodedChunk>;
  /** What {@link CachedChunk.decoding} gave. */
  chunk?: DecodedChunk;
}

/**
 * Reads a Riegeli/records file: in order, by position, or chunk by chunk. Strict: the first fault is an error. See
 * `recoverRecords` for reading past damage.
 */
export class RecordReader {
  readonly source: ByteSource;
  private readonly scratch: ScratchFactory;
  private readonly signal: AbortSignal | undefined;
  private readonly cache = new Map<number, CachedChunk>();
  private readonly headers = new Map<number, Promise<ChunkLocation>>();
  private cachedBytes = 0;

  private constructor(source: ByteSource, options: RecordReaderOptions) {
    this.source = source;
    this.scratch = options.scratch ?? memoryScratch;
    this.signal = options.signal;
  }

  /**
   * Opens a file after checking its signature. The source stays the caller's; {@link RecordReader.close} gives back
   * scratch storage only.
   * @throws {@link CorruptionError} (`missing-signature`, `block-header`, `chunk-header`), {@link TruncatedError}
   */
  static async open(source: ByteSource, options: RecordReaderOptions = {}): Promise<RecordReader> {
    if (source.size === 0) {
      throw new CorruptionError("missing-signature", "empty file, not Riegeli/records", {
        file: source.name,
        offset: 0,
      });
    }
    const reader = new RecordReader(source, options);
    const first = await reader.chunkAt(0);
    if (first.type !== CHUNK_TYPES.signature) {
      throw new CorruptionError("missing-signature", "first chunk is not the file signature", {
        file: source.name,
        offset: 0,
        expected: `type 0x${CHUNK_TYPES.signature.toString(16)}`,
        actual: `type 0x${first.type.toString(16)}`,
      });
    }
    await reader.decoded(first, {});
    return reader;
  }

  /** Opens a file without checking its signature: for reading past damage. */
  static unchecked(source: ByteSource, options: RecordReaderOptions = {}): RecordReader {
    return new RecordReader(source, options);
  }

  /** The chunk that begins at `begin`; reads its header only. */
  chunkAt(begin: number): Promise<ChunkLocation> {
    let header = this.headers.get(begin);
    if (header === undefined) {
      if (this.headers.size >= 1024) this.headers.clear();
      header = readChunkHeader(this.source, begin);
      this.headers.set(begin, header);
      header.catch(() => this.headers.delete(begin)); // a failed read may succeed when it is tried again
    }
    return header;
  }

  /** All chunks in order, from the one that begins at `begin`; reads headers only. */
  async *chunks(begin = 0): AsyncGenerator<ChunkLocation> {
    let at = begin;
    while (at < this.source.size) {
      const chunk = await readChunkHeader(this.source, at);
      yield chunk;
      at = chunk.end;
    }
  }

  /** All records in order, each verified before it is given. Chunks without records are checked too. */
  async *records(options: RecordOptions = {}): AsyncGenerator<RiegeliRecord> {
    for await (const chunk of this.chunks()) yield* this.recordsIn(chunk, options);
  }

  /** The records of one chunk in order. A chunk without records is checked all the same. */
  async *recordsIn(chunk: ChunkLocation, options: RecordOptions = {}): AsyncGenerator<RiegeliRecord> {
    await this.decoded(chunk, options);
    for (let i = 0; i < chunk.recordCount; i++) yield await this.recordIn(chunk, i, options);
  }

  /**
   * The record at a numeric position. A position behind the last record of its chunk means the first record after it,
   * as Riegeli's own reader seeks.
   * @throws {@link NotFoundError} (`no-such-record`) when the file has none there or later
   */
  async record(position: number, options: RecordOptions = {}): Promise<RiegeliRecord> {
    let chunk = await this.chunkContaining(position);
    let index = chunk === undefined ? 0 : position - chunk.begin;
    while (chunk !== undefined && index >= chunk.recordCount) {
      chunk = chunk.end < this.source.size ? await this.chunkAt(chunk.end) : undefined;
      index = 0;
    }
    if (chunk === undefined) {
      throw new NotFoundError("no-such-record", "no record at or after the position", {
        file: this.source.name,
        offset: position,
        actual: `a file of ${this.source.size} bytes`,
      });
    }
    return this.recordIn(chunk, index, options);
  }

  /** The last record, or undefined when there is none. */
  async lastRecord(): Promise<RiegeliRecord | undefined> {
    let position = this.source.size - 1;
    while (position >= 0) {
      const chunk = await this.chunkContaining(position);
      if (chunk === undefined) return undefined;
      if (chunk.recordCount > 0) return this.recordIn(chunk, chunk.recordCount - 1, {});
      await this.decoded(chunk, {});
      position = chunk.begin - 1;
    }
    return undefined;
  }

  /**
   * The chunk whose bytes hold `position`, found by the block headers: two or three small reads.
   * @throws {@link TruncatedError}, {@link CorruptionError} (`block-header`, `chunk-header`)
   */
  async chunkContaining(position: number): Promise<ChunkLocation | undefined> {
    if (position < 0 || position >= this.source.size) return undefined;
    let begin = await this.chunkBeginNear(position);
    for (;;) {
      const chunk = await this.chunkAt(begin);
      if (position < chunk.end) return chunk;
      if (chunk.end >= this.source.size) return undefined;
      begin = chunk.end;
    }
  }

  /**
   * Makes sure that the chunk of a record matches its hash.
   * @throws {@link CorruptionError} (`chunk-data`)
   */
  async verifyRecord(record: RiegeliRecord): Promise<void> {
    const chunk = await this.decoded(record.chunk, { streaming: true });
    await chunk.verify();
  }

  /** Decodes a chunk, or gives the cached one. */
  async decoded(location: ChunkLocation, options: RecordOptions): Promise<DecodedChunk> {
    const { begin } = location;
    const cached = this.cache.get(begin) ?? this.decode(location, options);
    // Behind the others, as the one used last.
    this.cache.delete(begin);
    this.cache.set(begin, cached);
    const chunk = await cached.decoding;
    if (!options.streaming && !chunk.isVerified) await chunk.verify();
    return chunk;
  }

  /** Gives back scratch storage. */
  async close(): Promise<void> {
    const chunks = await Promise.allSettled(Array.from(this.cache.values(), ({ decoding }) => decoding));
    this.cache.clear();
    for (const chunk of chunks) if (chunk.status === "fulfilled") await chunk.value.dispose();
  }

  /** A record of a chunk; the only one of its chunk is not decoded before it is read. */
  private async recordIn(chunk: ChunkLocation, index: number, options: RecordOptions): Promise<RiegeliRecord> {
    const isAlone =
      chunk.recordCount === 1 && (chunk.type === CHUNK_TYPES.simple || chunk.type === CHUNK_TYPES.transposed);
    const size = isAlone ? chunk.decodedDataSize : recordOf(await this.decoded(chunk, options), index).size;
    return new CachedRecord(this, chunk, index, size, options);
  }

  private decode(location: ChunkLocation, options: RecordOptions): CachedChunk {
    const { scratch, signal } = this;
    const decoding = decodeChunk(this.source, location, { ...options, scratch, signal });
    const cached: CachedChunk = { decoding };
    decoding.then(
      (chunk) => {
        cached.chunk = chunk;
        this.cachedBytes += chunk.memoryBytes;
        this.evict(location.begin);
      },
      () => this.cache.delete(location.begin),
    );
    return cached;
  }

  /** Forgets the chunks in memory used longest ago, until what is kept fits. */
  private evict(keep: number): void {
    for (const [begin, { chunk }] of this.cache) {
      if (this.cachedBytes <= CACHE_BYTES) return;
      if (begin === keep || !chunk?.inMemory) continue;
      this.cache.delete(begin);
      this.cachedBytes -= chunk.memoryBytes;
    }
  }

  /** A chunk begin at or before `position`, by the header of the block that holds it. */
  private async chunkBeginNear(position: number): Promise<number> {
    const blockBegin = position - (position % BLOCK_BYTES);
    const bytes = await this.source.read(blockBegin, Math.min(BLOCK_HEADER_BYTES, this.source.size - blockBegin));
    if (bytes.length < BLOCK_HEADER_BYTES) return blockBegin === 0 ? 0 : this.chunkBeginNear(blockBegin - 1);
    const header = decodeBlockHeader(bytes, this.source.name, blockBegin);
    if (header.previousChunk === 0) return blockBegin;
    const next = blockBegin + header.nextChunk;
    const begin = position >= next ? next : blockBegin - header.previousChunk;
    if (begin >= 0 && isChunkBoundary(begin)) return begin;
    throw new CorruptionError("block-header", "distances of a block header point to no chunk boundary", {
      file: this.source.name,
      offset: blockBegin,
      actual: `previous_chunk ${header.previousChunk}, next_chunk ${header.nextChunk}`,
    });
  }
}

/** A record that finds its chunk again in the reader's cache, or has it decoded again, at each read. */
class CachedRecord extends DelegatingSource implements RiegeliRecord {
  readonly chunk: ChunkLocation;
  readonly size: number;
  private readonly reader: RecordReader;
  private readonly index: number;
  private readonly options: RecordOptions;

  constructor(reader: RecordReader, chunk: ChunkLocation, index: number, size: number, options: RecordOptions) {
    super();
    this.reader = reader;
    this.chunk = chunk;
    this.index = index;
    this.size = size;
    this.options = options;
  }

  get name(): string {
    return this.reader.source.name;
  }

  get position(): number {
    return this.chunk.begin + this.index;
  }

  protected async source(): Promise<ByteSource> {
    this.options.onRead?.();
    return recordOf(await this.reader.decoded(this.chunk, this.options), this.index);
  }
}
