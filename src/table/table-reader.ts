import { ByteCursor } from "../bytes/byte-cursor.js";
import type { ByteSource } from "../bytes/byte-source.js";
import { MemorySource } from "../bytes/memory-source.js";
import { crc32c, prepareCrc32c, unmaskCrc } from "../codecs/crc32c.js";
import { decompressSnappy } from "../codecs/snappy.js";
import { CairnError, CorruptionError, formatCrc, LimitError, TruncatedError } from "../errors.js";
import { MAX_TABLE_BLOCK_BYTES } from "../limits.js";
import { Block, type BlockCursor } from "./block.js";
import {
  BLOCK_TYPE,
  type BlockHandle,
  checkHandle,
  decodeFooter,
  FOOTER_BYTES,
  readHandle,
  TRAILER_BYTES,
} from "./table-format.js";

/** A file up to this is read as a whole, 4 MiB: one read instead of three. */
const WHOLE_FILE_BYTES = 4 * 1024 * 1024;
/** Of a larger file so much is read from its end at first, 128 KiB: footer and index block, as a rule. */
const TAIL_BYTES = 128 * 1024;
/** Decoded blocks that are kept. */
const KEPT_BLOCKS = 8;

/** An entry of a table. */
export interface TableEntry {
  /** One character a byte. */
  readonly key: string;
  /** A view of the block. */
  readonly value: Uint8Array;
  /** Where the value stands in the file; in a compressed block, where the block begins. */
  readonly offset: number;
}

/** A data block, and what its keys are at most. */
export interface IndexedBlock {
  readonly lastKey: string;
  readonly handle: BlockHandle;
}

/**
 * A sorted string table, LevelDB's file, as TensorFlow's checkpoints have it. Reads the index, and then only the blocks
 * that are asked for; each is checked against its checksum when it is read.
 */
export class TableReader {
  readonly name: string;
  /** The data blocks in order. */
  readonly blocks: readonly IndexedBlock[];
  /** Where the metaindex block lies; nothing is in it, and nothing reads it. */
  readonly metaindex: BlockHandle;
  private readonly source: ByteSource;
  private readonly kept = new Map<number, Block>();

  private constructor(source: ByteSource, metaindex: BlockHandle, blocks: readonly IndexedBlock[]) {
    this.source = source;
    this.name = source.name;
    this.metaindex = metaindex;
    this.blocks = blocks;
  }

  /**
   * Reads footer and index block.
   * @throws TruncatedError (`truncated`), CorruptionError (`table-footer`, `table-block`, `table-entry`)
   */
  static async open(source: ByteSource): Promise<TableReader> {
    const { name, size } = source;
    if (size < FOOTER_BYTES) {
      throw new TruncatedError("truncated", "too short for a sorted string table", {
        file: name,
        expected: `at least ${FOOTER_BYTES} bytes`,
        actual: `${size} bytes`,
      });
    }
    const cached = new TailCache(source);
    const footer = decodeFooter(await cached.read(size - FOOTER_BYTES, FOOTER_BYTES), name, size);
    const index = await readBlock(cached, name, footer.index);
    return new TableReader(cached.whole ?? source, footer.metaindex, decodeIndex(index, size - FOOTER_BYTES));
  }

  /** The value of a key, or undefined when there is none. @throws CorruptionError (`table-block`, `table-entry`) */
  async get(key: string): Promise<TableEntry | undefined> {
    const index = this.blockOf(key);
    if (index === this.blocks.length) return undefined;
    const block = await this.block(index);
    const cursor = block.seek(key);
    return cursor.next() && cursor.key === key ? this.entryAt(index, block, cursor) : undefined;
  }

  /** All entries from `from` on, in order. @throws CorruptionError (`table-block`, `table-entry`) */
  async *entries(from = ""): AsyncGenerator<TableEntry> {
    for (let index = this.blockOf(from); index < this.blocks.length; index++) {
      for (const entry of await this.blockEntries(index)) if (entry.key >= from) yield entry;
    }
  }

  /** The entries of one block; the keys are held against those of the index. */
  async blockEntries(index: number): Promise<TableEntry[]> {
    const block = await this.block(index);
    const entries: TableEntry[] = [];
    const cursor = block.entries();
    while (cursor.next()) entries.push(this.entryAt(index, block, cursor));
    const [first, last] = [entries[0]?.key, entries.at(-1)?.key];
    const before = this.blocks[index - 1]?.lastKey;
    if (
      (first !== undefined && before !== undefined && first <= before) ||
      (last !== undefined && last > (this.blocks[index]?.lastKey ?? ""))
    ) {
      throw new CorruptionError("table-entry", "keys of a table block are out of order with the index", block.place);
    }
    return entries;
  }

  /** Checks a block that is not used otherwise. @throws CorruptionError (`table-block`) */
  async check(handle: BlockHandle): Promise<void> {
    await readBlock(this.source, this.name, handle);
  }

  /** The first block that may hold `key`. */
  private blockOf(key: string): number {
    let low = 0;
    let high = this.blocks.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.blocks[middle] as IndexedBlock).lastKey < key) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  private entryAt(index: number, block: Block, cursor: BlockCursor): TableEntry {
    const { handle } = this.blocks[index] as IndexedBlock;
    const isRaw = block.bytes.length === handle.size;
    return { key: cursor.key, value: cursor.value, offset: handle.offset + (isRaw ? cursor.valueStart : 0) };
  }

  private async block(index: number): Promise<Block> {
    const kept = this.kept.get(index);
    if (kept !== undefined) return kept;
    const block = await readBlock(this.source, this.name, (this.blocks[index] as IndexedBlock).handle);
    this.kept.set(index, block);
    for (const oldest of this.kept.keys()) {
      if (this.kept.size <= KEPT_BLOCKS) break;
      this.kept.delete(oldest);
    }
    return block;
  }
}

function decodeIndex(index: Block, end: number): IndexedBlock[] {
  const { place } = index;
  const blocks: IndexedBlock[] = [];
  const cursor = index.entries();
  while (cursor.next()) {
    const handle = readHandle(new ByteCursor(cursor.value, place.file, place.offset + cursor.valueStart));
    checkHandle(handle, end, { file: place.file, offset: place.offset + cursor.valueStart });
    blocks.push({ lastKey: cursor.key, handle });
  }
  return blocks;
}

/** What a block is read from. */
interface BlockSource {
  read(offset: number, length: number): Promise<Uint8Array>;
}

async function readBlock(source: BlockSource, file: string, { offset, size }: BlockHandle): Promise<Block> {
  const place = { file, offset };
  if (size > MAX_TABLE_BLOCK_BYTES) {
    throw new LimitError("limit", "table block", {
      ...place,
      expected: `at most ${MAX_TABLE_BLOCK_BYTES} bytes`,
      actual: size,
    });
  }
  const bytes = await source.read(offset, size + TRAILER_BYTES);
  await prepareCrc32c(bytes.length);
  const type = bytes[size] as number;
  const expected = unmaskCrc(new DataView(bytes.buffer, bytes.byteOffset).getUint32(size + 1, true));
  const actual = crc32c(bytes.subarray(0, size + 1));
  if (actual !== expected) {
    throw new CorruptionError("table-block", "table block checksum", {
      ...place,
      expected: formatCrc(expected),
      actual: formatCrc(actual),
    });
  }
  return new Block(decodeBlock(bytes.subarray(0, size), type, place), place);
}

function decodeBlock(bytes: Uint8Array, type: number, place: { file: string; offset: number }): Uint8Array {
  if (type === BLOCK_TYPE.raw) return bytes;
  if (type !== BLOCK_TYPE.snappy) {
    throw new CorruptionError("table-block", "type of a table block", { ...place, expected: "0 or 1", actual: type });
  }
  try {
    return decompressSnappy(bytes, MAX_TABLE_BLOCK_BYTES);
  } catch (cause) {
    if (!(cause instanceof CairnError)) throw cause;
    throw new CorruptionError("table-block", "a compressed table block does not decompress", { ...place, cause });
  }
}

/** Reads the end of a file once, or the whole of a small one. */
class TailCache implements BlockSource {
  /** The whole file in memory, when it is small. */
  whole: ByteSource | undefined;
  private readonly source: ByteSource;
  private readonly start: number;
  private tail: Uint8Array | undefined;

  constructor(source: ByteSource) {
    this.source = source;
    this.start = source.size <= WHOLE_FILE_BYTES ? 0 : source.size - TAIL_BYTES;
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    this.tail ??= await this.readTail();
    if (offset < this.start) return this.source.read(offset, length);
    return this.tail.subarray(offset - this.start, offset - this.start + length);
  }

  private async readTail(): Promise<Uint8Array> {
    const { source, start } = this;
    const tail = await source.read(start, source.size - start);
    if (start === 0) this.whole = new MemorySource(tail, source.name);
    return tail;
  }
}
