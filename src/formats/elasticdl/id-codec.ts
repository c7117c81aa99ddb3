import type { ByteSource } from "../../bytes/byte-source.js";
import { CorruptionError } from "../../errors.js";
import { placeOf } from "../../proto/wire-head.js";
import { wordsOf } from "./partition.js";

/** A varint of 64 bits takes at most so many bytes. */
const LONGEST_VARINT_BYTES = 10;
/** Bytes of ids that are read at once, 256 KiB. */
const READ_BYTES = 256 * 1024;

/** Where decoding stands: how many ids are there, and how many bytes they took. */
interface Progress {
  readonly count: number;
  readonly offset: number;
}

/**
 * Reads ids, varints one after another, as they are asked for. Packed and single ones look the same once the heads of
 * their fields are left out.
 */
export class IdReader {
  private readonly source: ByteSource;
  private offset = 0;
  private bytes: Uint8Array = new Uint8Array(0);
  private bytesOffset = 0;

  /** Reads the varints that make up `source`. */
  constructor(source: ByteSource) {
    this.source = source;
  }

  /** Whether all ids have been read. */
  get isAtEnd(): boolean {
    return this.offset === this.source.size;
  }

  /**
   * The next ids, at most `limit`; fewer only at the end.
   * @throws {@link CorruptionError} (`invalid-wire`) for bytes that are no varints
   */
  async next(limit: number): Promise<BigInt64Array> {
    // An id takes a byte at least, so a limit from a file is held against what is there.
    const ids = new BigInt64Array(Math.min(limit, this.source.size - this.offset));
    const words = wordsOf(ids);
    let count = 0;
    while (count < ids.length && !this.isAtEnd) {
      await this.bringIntoView();
      const from = this.offset - this.bytesOffset;
      const isLast = this.bytesOffset + this.bytes.length === this.source.size;
      const stop = isLast ? this.bytes.length : this.bytes.length - LONGEST_VARINT_BYTES;
      const progress = decodeVarints(this.bytes, from, stop, words, count);
      if (progress === undefined) throw this.invalid();
      count = progress.count;
      this.offset = this.bytesOffset + progress.offset;
    }
    return count === ids.length ? ids : ids.slice(0, count);
  }

  private async bringIntoView(): Promise<void> {
    const { source, offset, bytes, bytesOffset } = this;
    const inView = bytesOffset + bytes.length;
    if (bytes.length > 0 && (inView === source.size || inView - offset > LONGEST_VARINT_BYTES)) return;
    this.bytes = await source.read(offset, Math.min(READ_BYTES, source.size - offset));
    this.bytesOffset = offset;
  }

  private invalid(): CorruptionError {
    return new CorruptionError("invalid-wire", "ids are no varints", placeOf(this.source, this.offset));
  }
}

/** All ids of a source. @throws {@link CorruptionError} (`invalid-wire`) */
export async function readIds(source: ByteSource): Promise<BigInt64Array> {
  const reader = new IdReader(source);
  return reader.next(source.size);
}

/**
 * Decodes varints that begin in `[from, stop)` until `words`, two for each id, is full. Undefined when one is cut or too
 * long. Long and flat: every id of a restore goes through it.
 */
function decodeVarints(
  bytes: Uint8Array,
  from: number,
  stop: number,
  words: Uint32Array,
  firstIndex: number,
): Progress | undefined {
  let at = from;
  let index = firstIndex;
  const limit = words.length >> 1;
  while (at < stop && index < limit) {
    let byte = bytes[at++] as number;
    let low = byte & 0x7f;
    let high = 0;
    let shift = 7;
    while (byte >= 0x80) {
      if (shift > 63 || at >= bytes.length) return undefined;
      byte = bytes[at++] as number;
      const bits = byte & 0x7f;
      if (shift < 32) low |= bits << shift;
      if (shift > 24) high |= shift < 32 ? bits >>> (32 - shift) : bits << (shift - 32);
      shift += 7;
    }
    words[2 * index] = low;
    words[2 * index + 1] = high;
    index++;
  }
  return { count: index, offset: at };
}

/** Bytes that ids take as varints. */
export function encodedIdsLength(ids: BigInt64Array): number {
  const words = wordsOf(ids);
  let total = 0;
  for (let i = 0; i < words.length; i += 2) total += varintLength64(words[i] as number, words[i + 1] as number);
  return total;
}

/** Ids as varints, one after another. */
export function encodeIds(ids: BigInt64Array): Uint8Array {
  const words = wordsOf(ids);
  const bytes = new Uint8Array(encodedIdsLength(ids));
  let at = 0;
  for (let i = 0; i < words.length; i += 2) {
    let low = words[i] as number;
    let high = words[i + 1] as number;
    while (high !== 0 || low >= 0x80) {
      bytes[at++] = (low & 0x7f) | 0x80;
      low = ((low >>> 7) | (high << 25)) >>> 0;
      high >>>= 7;
    }
    bytes[at++] = low;
  }
  return bytes;
}

function varintLength64(low: number, high: number): number {
  if (high === 0) {
    if (low < 0x80) return 1;
    if (low < 0x4000) return 2;
    return low < 0x200000 ? 3 : low < 0x10000000 ? 4 : 5;
  }
  return Math.ceil((64 - Math.clz32(high)) / 7);
}
