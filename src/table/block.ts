import { decodeLatin1 } from "../codecs/latin1.js";
import { CorruptionError } from "../errors.js";

/** Where the bytes of a block come from, for errors: offsets are those of the block in the file. */
export interface BlockPlace {
  readonly file: string;
  readonly offset: number;
}

/**
 * One block of a table, decompressed: entries, whose keys share their beginnings with the keys before them, then the
 * offsets of the restart points, where keys stand in full.
 *
 * | part | form |
 * | --- | --- |
 * | entry | varint `shared`, varint `unshared`, varint `valueLength`, rest of the key, value |
 * | restarts | uint32 each |
 * | their count | uint32, at least 1 |
 *
 * Source: google/leveldb, doc/table_format.md and table/block_builder.cc.
 */
export class Block {
  readonly bytes: Uint8Array;
  readonly place: BlockPlace;
  /** Behind the last entry. */
  readonly entriesEnd: number;
  readonly restartCount: number;
  private readonly view: DataView;

  /** Looks at the restart points. @throws CorruptionError (`table-block`) when there is no room for them */
  constructor(bytes: Uint8Array, place: BlockPlace) {
    this.bytes = bytes;
    this.place = place;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.restartCount = bytes.length < 4 ? 0 : this.view.getUint32(bytes.length - 4, true);
    this.entriesEnd = bytes.length - 4 - 4 * this.restartCount;
    if (this.restartCount === 0 || this.entriesEnd < 0) {
      throw new CorruptionError("table-block", "restart points of a table block", {
        ...place,
        expected: `1 to ${Math.max(1, Math.floor((bytes.length - 4) / 4))}`,
        actual: this.restartCount,
      });
    }
  }

  /** A cursor before the first entry. */
  entries(): BlockCursor {
    return new BlockCursor(this, 0);
  }

  /** A cursor before the first entry whose key is `key` or comes behind it. */
  seek(key: string): BlockCursor {
    let low = 0;
    let high = this.restartCount - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      const cursor = new BlockCursor(this, this.restartAt(middle));
      if (cursor.next() && cursor.key < key) low = middle;
      else high = middle - 1;
    }
    const cursor = new BlockCursor(this, this.restartAt(low));
    cursor.skipTo(key);
    return cursor;
  }

  private restartAt(index: number): number {
    const offset = this.view.getUint32(this.entriesEnd + 4 * index, true);
    if (offset <= this.entriesEnd) return offset;
    throw new CorruptionError("table-block", "a restart point passes the block", {
      ...this.place,
      expected: `at most ${this.entriesEnd}`,
      actual: offset,
    });
  }
}

/** Walks over the entries of a block. */
export class BlockCursor {
  /** The key of the entry, one character a byte. */
  key = "";
  /** Where the value stands in the block. */
  valueStart = 0;
  valueEnd = 0;
  private readonly block: Block;
  private position: number;
  private isPeeked = false;
  private isFirst = true;

  /** Begins at a restart point; use {@link Block.entries} or {@link Block.seek}. */
  constructor(block: Block, position: number) {
    this.block = block;
    this.position = position;
  }

  /** The value of the entry, as a view. */
  get value(): Uint8Array {
    return this.block.bytes.subarray(this.valueStart, this.valueEnd);
  }

  /** Stands before the first entry with a key not less than `key`. */
  skipTo(key: string): void {
    while (this.next()) {
      if (this.key < key) continue;
      this.isPeeked = true;
      return;
    }
  }

  /**
   * Goes to the next entry; false at the end.
   * @throws CorruptionError (`table-entry`) when it passes the block, or its key does not come behind the one before
   */
  next(): boolean {
    if (this.isPeeked) {
      this.isPeeked = false;
      return true;
    }
    const { bytes, entriesEnd } = this.block;
    const start = this.position;
    if (start >= entriesEnd) return false;
    const shared = this.readLength(start);
    const unshared = this.readLength(start);
    const valueLength = this.readLength(start);
    const keyEnd = this.position + unshared;
    if (shared > this.key.length || keyEnd + valueLength > entriesEnd) this.fail("an entry passes its block", start);
    const previous = this.key;
    const rest = decodeLatin1(bytes, this.position, keyEnd);
    this.key = shared === 0 ? rest : previous.slice(0, shared) + rest;
    if (!this.isFirst && !(previous < this.key)) this.fail("keys are out of order", start);
    this.isFirst = false;
    this.valueStart = keyEnd;
    this.valueEnd = keyEnd + valueLength;
    this.position = this.valueEnd;
    return true;
  }

  /** A varint of at most 32 bits. */
  private readLength(start: number): number {
    const { bytes, entriesEnd } = this.block;
    let value = 0;
    let factor = 1;
    for (let i = 0; i < 5 && this.position < entriesEnd; i++) {
      const byte = bytes[this.position++] as number;
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
      factor *= 128;
    }
    return this.fail("a length cannot be read", start);
  }

  private fail(what: string, position: number): never {
    const { file, offset } = this.block.place;
    throw new CorruptionError("table-entry", `table block: ${what}`, { file, offset: offset + position });
  }
}
