import type { ByteSink } from "../bytes/byte-sink.js";
import { crc32c, maskCrc, prepareCrc32c } from "../codecs/crc32c.js";
import { writeVarint } from "../codecs/varint.js";
import { UsageError } from "../errors.js";
import { BLOCK_TYPE, type BlockHandle, encodeFooter, encodeHandle, TRAILER_BYTES } from "./table-format.js";

// Source: tensorflow/core/lib/io/table_options.h: block_size (256 KiB, not LevelDB's 4) and block_restart_interval.
const BLOCK_BYTES = 262_144;
const RESTART_INTERVAL = 16;

/**
 * Writes a sorted string table as TensorFlow's writer does, byte for byte. Source: tensorflow/core/lib/io/
 * table_builder.cc.
 */
export class TableBuilder {
  private readonly sink: ByteSink;
  private readonly data = new BlockBuilder(RESTART_INTERVAL);
  private readonly index = new BlockBuilder(1);
  private pending: BlockHandle | undefined;
  private lastKey: string | undefined;

  /** Writes to `sink`, from its start; the caller closes it. */
  constructor(sink: ByteSink) {
    this.sink = sink;
  }

  /**
   * Adds an entry; the key has one character a byte. The value is copied. Gives a promise where something has to be written
   * first, which is before the next entry is added.
   * @throws UsageError (`duplicate-key`, `usage`) for a key that does not come behind the one before
   */
  add(key: string, value: Uint8Array): Promise<void> | undefined {
    if (this.lastKey !== undefined && key <= this.lastKey) {
      if (key === this.lastKey) throw new UsageError("duplicate-key", `the key ${JSON.stringify(key)} stands twice`);
      throw new UsageError("usage", "keys are added in order", { expected: `behind ${this.lastKey}`, actual: key });
    }
    // A large entry gets a block of its own.
    if (key.length + value.length >= 2 * BLOCK_BYTES && !this.data.isEmpty) {
      const copy = value.slice();
      return this.flush().then(() => this.append(key, copy));
    }
    return this.append(key, value);
  }

  private append(key: string, value: Uint8Array): Promise<void> | undefined {
    if (this.pending !== undefined) {
      this.index.add(shortestSeparator(this.lastKey ?? "", key), encodeHandle(this.pending));
      this.pending = undefined;
    }
    this.data.add(key, value);
    this.lastKey = key;
    return this.data.estimatedSize >= BLOCK_BYTES ? this.flush() : undefined;
  }

  /** Writes what is left, the index and the footer. */
  async finish(): Promise<void> {
    await this.flush();
    const metaindex = await this.writeBlock(new BlockBuilder(1));
    if (this.pending !== undefined) this.index.add(shortSuccessor(this.lastKey ?? ""), encodeHandle(this.pending));
    const index = await this.writeBlock(this.index);
    await this.sink.write(encodeFooter({ metaindex, index }));
  }

  private async flush(): Promise<void> {
    if (!this.data.isEmpty) this.pending = await this.writeBlock(this.data);
  }

  private async writeBlock(block: BlockBuilder): Promise<BlockHandle> {
    const bytes = block.finish();
    const size = bytes.length - TRAILER_BYTES;
    bytes[size] = BLOCK_TYPE.raw;
    await prepareCrc32c(bytes.length);
    const crc = maskCrc(crc32c(bytes.subarray(0, size + 1)));
    new DataView(bytes.buffer, bytes.byteOffset).setUint32(size + 1, crc, true);
    const handle = { offset: this.sink.position, size };
    await this.sink.write(bytes);
    return handle;
  }
}

/** Collects the entries of one block. */
class BlockBuilder {
  private readonly interval: number;
  private bytes = new Uint8Array(4096);
  private length = 0;
  private restarts = [0];
  private sinceRestart = 0;
  private lastKey = "";

  constructor(interval: number) {
    this.interval = interval;
  }

  get isEmpty(): boolean {
    return this.length === 0;
  }

  /** Source: tensorflow/core/lib/io/block_builder.cc, CurrentSizeEstimate. */
  get estimatedSize(): number {
    return this.length + 4 * this.restarts.length + 4;
  }

  add(key: string, value: Uint8Array): void {
    let shared = 0;
    if (this.sinceRestart < this.interval) shared = commonLength(this.lastKey, key);
    else this.restart();
    const unshared = key.length - shared;
    this.reserve(15 + unshared + value.length);
    const { bytes } = this;
    let at = writeVarint(bytes, this.length, shared);
    at = writeVarint(bytes, at, unshared);
    at = writeVarint(bytes, at, value.length);
    for (let i = shared; i < key.length; i++) bytes[at++] = key.charCodeAt(i);
    bytes.set(value, at);
    this.length = at + value.length;
    this.lastKey = key;
    this.sinceRestart++;
  }

  /** The block, with room for its trailer; the builder is empty then. */
  finish(): Uint8Array {
    const size = this.estimatedSize;
    const block = new Uint8Array(size + TRAILER_BYTES);
    block.set(this.bytes.subarray(0, this.length));
    const view = new DataView(block.buffer);
    for (const [i, restart] of this.restarts.entries()) view.setUint32(this.length + 4 * i, restart, true);
    view.setUint32(size - 4, this.restarts.length, true);
    this.length = 0;
    this.restarts = [0];
    this.sinceRestart = 0;
    this.lastKey = "";
    return block;
  }

  private restart(): void {
    this.restarts.push(this.length);
    this.sinceRestart = 0;
  }

  private reserve(count: number): void {
    if (this.length + count <= this.bytes.length) return;
    const larger = new Uint8Array(Math.max(this.length + count, this.bytes.length * 2));
    larger.set(this.bytes.subarray(0, this.length));
    this.bytes = larger;
  }
}

function commonLength(a: string, b: string): number {
  const end = Math.min(a.length, b.length);
  let length = 0;
  while (length < end && a.charCodeAt(length) === b.charCodeAt(length)) length++;
  return length;
}

/**
 * A short key that is at least `last` and less than `next`.
 * Source: google/leveldb, util/comparator.cc, BytewiseComparatorImpl::FindShortestSeparator.
 */
export function shortestSeparator(last: string, next: string): string {
  const common = commonLength(last, next);
  if (common >= Math.min(last.length, next.length)) return last;
  const byte = last.charCodeAt(common);
  if (byte < 0xff && byte + 1 < next.charCodeAt(common)) return last.slice(0, common) + String.fromCharCode(byte + 1);
  return last;
}

/** A short key that is at least `last`. Source: the same, FindShortSuccessor. */
export function shortSuccessor(last: string): string {
  for (let i = 0; i < last.length; i++) {
    const byte = last.charCodeAt(i);
    if (byte !== 0xff) return last.slice(0, i) + String.fromCharCode(byte + 1);
  }
  return last;
}
