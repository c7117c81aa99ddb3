import { concatBytes } from "./byte-sink.js";
import { type ByteSource, checkRange, type ReadOptions, sliceSource } from "./byte-source.js";

/** Bytes that are read and kept as one, 64 KiB: as much as comes in one turn of a distant server. */
const BLOCK_BYTES = 64 * 1024;
/** Bytes kept in memory for all sources of a cache, 64 MiB. */
const BUDGET_BYTES = 64 * 1024 * 1024;
/** The longest read of what is streamed, 8 MiB: a turn to a server and back hardly counts then. */
const REQUEST_BYTES = 8 * 1024 * 1024;
/** From this on bytes are streamed past the blocks, 1 MiB: they would push out what is needed again. */
const STREAM_BYTES = 1024 * 1024;
/** Streams that are remembered at a time. */
const STREAMS = 4;

/** Options of {@link BlockCache}, all in bytes. */
export interface BlockCacheOptions {
  /** Read and kept as one; 64 KiB when it is not given. */
  readonly blockBytes?: number | undefined;
  /** Kept in memory at most, for all sources; 64 MiB when it is not given. Up to half of it are streams. */
  readonly budgetBytes?: number | undefined;
  /** The longest read of what is streamed; 8 MiB, or an eighth of the budget when that is less. */
  readonly requestBytes?: number | undefined;
}

interface Stream {
  readonly source: CachedSource;
  readonly start: number;
  readonly end: number;
  readonly bytes: Promise<Uint8Array>;
}

/** Memory for what was read from slow sources, shared by all of them: least recently used goes first. */
export class BlockCache {
  readonly blockBytes: number;
  readonly budgetBytes: number;
  readonly requestBytes: number;
  /** Blocks by source and number, the one used last at the end. */
  private readonly blocks = new Map<string, Uint8Array>();
  private blockTotal = 0;
  private readonly streams: Stream[] = [];
  private nextId = 0;

  /** Makes an empty cache. */
  constructor(options: BlockCacheOptions = {}) {
    this.blockBytes = options.blockBytes ?? BLOCK_BYTES;
    this.budgetBytes = options.budgetBytes ?? BUDGET_BYTES;
    this.requestBytes = options.requestBytes ?? Math.min(REQUEST_BYTES, Math.floor(this.budgetBytes / (2 * STREAMS)));
  }

  /** A source that keeps what it reads of `source` here. */
  wrap(source: ByteSource): CachedSource {
    return new CachedSource(source, this, String(this.nextId++));
  }

  /** The block of a key, which is the last to go from now on. */
  get(key: string): Uint8Array | undefined {
    const block = this.blocks.get(key);
    if (block === undefined) return undefined;
    this.blocks.delete(key);
    this.blocks.set(key, block);
    return block;
  }

  /** Keeps a block, and drops those that were not used for longest when there is no room. */
  put(key: string, block: Uint8Array): void {
    this.blockTotal += block.length - (this.blocks.get(key)?.length ?? 0);
    this.blocks.delete(key);
    this.blocks.set(key, block);
    const room = this.budgetBytes - STREAMS * this.requestBytes;
    for (const [oldest, { length }] of this.blocks) {
      if (this.blockTotal <= room) return;
      this.blocks.delete(oldest);
      this.blockTotal -= length;
    }
  }

  /** The stream that holds a byte of a source. */
  findStream(source: CachedSource, offset: number): Stream | undefined {
    return this.streams.find((one) => one.source === source && offset >= one.start && offset < one.end);
  }

  /** Remembers a stream in place of the oldest one; one that fails is forgotten. */
  addStream(stream: Stream): void {
    this.streams.push(stream);
    if (this.streams.length > STREAMS) this.streams.shift();
    stream.bytes.catch(() => {
      const at = this.streams.indexOf(stream);
      if (at >= 0) this.streams.splice(at, 1);
    });
  }

  /** Forgets all of a source. */
  forget(source: CachedSource): void {
    for (const [key, { length }] of this.blocks) {
      if (!key.startsWith(`${source.id}:`)) continue;
      this.blocks.delete(key);
      this.blockTotal -= length;
    }
    const kept = this.streams.filter((one) => one.source !== source);
    this.streams.splice(0, this.streams.length, ...kept);
  }
}

/**
 * A source that keeps blocks of what it reads from a slow one. Neighbouring blocks are read together, the same block is
 * read once however many ask for it, reading in order reads further ahead each time, and long reads are streamed past
 * the blocks in few large requests, none of which reads more than was asked for. Made by {@link BlockCache.wrap}.
 */
export class CachedSource implements ByteSource {
  readonly id: string;
  private readonly inner: ByteSource;
  private readonly cache: BlockCache;
  private readonly coming = new Map<number, Promise<Uint8Array>>();
  /** Behind the last block that was read, and how many blocks to read when the next read begins there. */
  private nextBlock = -1;
  private ahead = 1;

  /** Use {@link BlockCache.wrap}. */
  constructor(inner: ByteSource, cache: BlockCache, id: string) {
    this.inner = inner;
    this.cache = cache;
    this.id = id;
  }

  /** The name of the source that it reads. */
  get name(): string {
    return this.inner.name;
  }

  /** How many bytes there are. */
  get size(): number {
    return this.inner.size;
  }

  /** See {@link ByteSource.read}. */
  async read(offset: number, length: number, options?: ReadOptions): Promise<Uint8Array> {
    checkRange(this, offset, length);
    if (length === 0) return new Uint8Array(0);
    if (length >= STREAM_BYTES) return this.inner.read(offset, length, options);
    return concatBytes(await this.readBlocks(offset, length, options));
  }

  /** See {@link ByteSource.readPieces}. */
  async readPieces(
    offset: number,
    length: number,
    scratch: Uint8Array,
    options?: ReadOptions,
  ): Promise<readonly Uint8Array[]> {
    checkRange(this, offset, length);
    const count = Math.min(length, scratch.length);
    const shared = this.cache.findStream(this, offset);
    const stream = shared ?? this.startStream(offset, length, options);
    if (stream === undefined) return this.readBlocks(offset, count, options);
    let bytes: Uint8Array;
    try {
      bytes = await stream.bytes;
    } catch (error) {
      if (shared === undefined || options?.signal?.aborted) throw error;
      // Somebody else began it, and may have aborted it.
      return this.readPieces(offset, length, scratch, options);
    }
    return [bytes.subarray(offset - stream.start, Math.min(offset - stream.start + count, bytes.length))];
  }

  /** See {@link ByteSource.slice}. */
  slice(offset: number, length: number): ByteSource {
    return sliceSource(this, offset, length);
  }

  /** Takes bytes that are known already, such as those that came with the size. They begin a block. */
  seed(offset: number, bytes: Uint8Array): void {
    const { blockBytes } = this.cache;
    for (let at = 0; at < bytes.length; at += blockBytes) {
      const isWhole = at + blockBytes <= bytes.length || offset + bytes.length === this.size;
      if (isWhole) this.cache.put(this.keyOf((offset + at) / blockBytes), bytes.slice(at, at + blockBytes));
    }
  }

  /** Forgets what was read. */
  forget(): void {
    this.cache.forget(this);
  }

  private startStream(offset: number, length: number, options?: ReadOptions): Stream | undefined {
    if (length < STREAM_BYTES) return undefined;
    const count = Math.min(length, this.cache.requestBytes);
    const stream = { source: this, start: offset, end: offset + count, bytes: this.inner.read(offset, count, options) };
    this.cache.addStream(stream);
    return stream;
  }

  private async readBlocks(offset: number, length: number, options?: ReadOptions): Promise<Uint8Array[]> {
    if (length === 0) return [];
    const { blockBytes } = this.cache;
    const first = Math.floor(offset / blockBytes);
    const last = Math.floor((offset + length - 1) / blockBytes);
    const isShared = this.coming.size > 0;
    const blocks = await Promise.all(this.takeBlocks(first, last, options)).catch((error: unknown) => {
      if (!isShared || options?.signal?.aborted) throw error;
      // Somebody else began to read one of them, and may have aborted it.
      return Promise.all(this.takeBlocks(first, last, options));
    });
    return blocks.map((block, i) => {
      const start = (first + i) * blockBytes;
      return block.subarray(Math.max(0, offset - start), Math.min(block.length, offset + length - start));
    });
  }

  /** The blocks from `first` to `last`, some of which may be on their way. */
  private takeBlocks(first: number, last: number, options?: ReadOptions): (Uint8Array | Promise<Uint8Array>)[] {
    const taken: (Uint8Array | Promise<Uint8Array>)[] = [];
    for (let index = first; index <= last; index++) {
      const known = this.cache.get(this.keyOf(index)) ?? this.coming.get(index);
      if (known === undefined) this.fetchFrom(index, last, options);
      taken.push(known ?? (this.coming.get(index) as Promise<Uint8Array>));
    }
    return taken;
  }

  /** Reads the blocks from `index` on that are not there, at least up to `last`, as one. */
  private fetchFrom(index: number, last: number, options?: ReadOptions): void {
    const { blockBytes, requestBytes } = this.cache;
    const most = Math.max(1, Math.floor(requestBytes / blockBytes));
    this.ahead = index === this.nextBlock ? Math.min(this.ahead * 2, most) : 1;
    const blockCount = Math.ceil(this.size / blockBytes);
    const wanted = Math.min(Math.max(last + 1, index + this.ahead), blockCount);
    let end = index + 1;
    while (end < wanted && !this.coming.has(end) && this.cache.get(this.keyOf(end)) === undefined) end++;
    this.nextBlock = end;
    const start = index * blockBytes;
    const reading = this.inner.read(start, Math.min(end * blockBytes, this.size) - start, options);
    for (let i = index; i < end; i++) this.expectBlock(i, reading, (i - index) * blockBytes);
  }

  private expectBlock(index: number, reading: Promise<Uint8Array>, at: number): void {
    const block = reading.then((bytes) => {
      // A copy, so that a block does not keep its neighbours in memory.
      const copy = bytes.slice(at, at + this.cache.blockBytes);
      this.cache.put(this.keyOf(index), copy);
      return copy;
    });
    this.coming.set(index, block);
    block.catch(() => {}).finally(() => this.coming.delete(index));
  }

  private keyOf(index: number): string {
    return `${this.id}:${index}`;
  }
}
