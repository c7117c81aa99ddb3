import { BaseSource, type ByteSource, type ReadOptions } from "../../bytes/byte-source.js";
import { crc32c, maskCrc, prepareCrc32c, unmaskCrc } from "../../codecs/crc32c.js";
import { CorruptionError, LimitError } from "../../errors.js";
import { MAX_STRING_ELEMENTS } from "../../limits.js";
import { CheckedSource, checksumError, type TensorPlace } from "./checked-source.js";

/** Up to this a string tensor is read at once, 1 MiB; of a larger one the lengths are read first. */
const WHOLE_BYTES = 1024 * 1024;
const WINDOW_BYTES = 256 * 1024;
/** Of the checksum of the lengths. */
const CHECKSUM_BYTES = 4;

/** What is known of a stored string tensor before its data are read. */
export interface StringEntry {
  readonly elementCount: number;
  /** Masked; of lengths, their checksum, and the strings. */
  readonly crc32c: number;
  readonly isBigEndian: boolean;
  readonly place: TensorPlace;
}

/**
 * A string tensor as a checkpoint stores it, in the form that cairn gives out.
 *
 * | stored | form |
 * | --- | --- |
 * | lengths | varint each |
 * | their checksum | uint32, masked; over each length as uint32, or uint64 when it needs that |
 * | strings | one after another |
 *
 * Source: tensorflow/core/util/tensor_bundle/tensor_bundle.cc, WriteStringTensor and ReadStringTensor.
 */
export class StringSource extends BaseSource {
  readonly name: string;
  readonly size: number;
  /** The checked bytes of the strings. */
  readonly strings: CheckedSource;
  /** ends[i] is where string `i - 1` ends, in `strings`; ends[0] is 0. */
  private readonly ends: Float64Array;

  private constructor(strings: CheckedSource, ends: Float64Array) {
    super();
    this.name = strings.name;
    this.strings = strings;
    this.ends = ends;
    this.size = strings.size + 8 * (ends.length - 1);
  }

  /**
   * Reads the lengths of a stored tensor.
   * @throws CorruptionError (`bundle-entry`, `tensor-checksum`), LimitError (`limit`)
   */
  static async open(stored: ByteSource, entry: StringEntry, onVerified: () => void): Promise<StringSource> {
    const { place, elementCount } = entry;
    const whole = stored.size <= WHOLE_BYTES ? await stored.read(0, stored.size) : undefined;
    const { ends, headerBytes } = await readLengths(stored, whole, entry);
    await prepareCrc32c(8 * elementCount);
    const crcOfLengths = checksumOfLengths(ends);
    let crc = crcOfLengths;
    // An empty tensor may have no checksum at all.
    if (stored.size > 0) {
      const bytes = await stored.read(headerBytes - CHECKSUM_BYTES, CHECKSUM_BYTES);
      const view = new DataView(bytes.buffer, bytes.byteOffset);
      const expected = unmaskCrc(view.getUint32(0, !entry.isBigEndian));
      if (expected !== crcOfLengths) {
        throw checksumError({ ...place, key: `${place.key}" (lengths of its strings)` }, expected, crcOfLengths);
      }
      crc = crc32c(bytes, crc);
    }
    const bytes = stored.slice(headerBytes, stored.size - headerBytes);
    const at = { ...place, offset: place.offset };
    const checksum = { expected: unmaskCrc(entry.crc32c), initial: crc };
    const held = whole === undefined ? bytes : new HeldSource(bytes, whole.subarray(headerBytes));
    return new StringSource(new CheckedSource(held, at, checksum, onVerified), ends);
  }

  /** Of each element, in bytes. */
  get byteLengths(): number[] {
    return Array.from({ length: this.ends.length - 1 }, (_, i) => this.end(i + 1) - this.end(i));
  }

  /** Elements from `start` to `end`. */
  elements(start: number, end: number): ByteSource {
    const from = this.end(start) + 8 * start;
    return this.slice(from, this.end(end) + 8 * end - from);
  }

  protected async fill(offset: number, target: Uint8Array, options?: ReadOptions): Promise<void> {
    const stop = offset + target.length;
    const first = this.bytesBefore(offset);
    const bytes = await this.strings.read(first, this.bytesBefore(stop) - first, options);
    const header = new Uint8Array(8);
    const view = new DataView(header.buffer);
    let taken = 0;
    let at = offset;
    for (let i = this.elementAt(offset); at < stop; i++) {
      const start = this.end(i) + 8 * i;
      const length = this.end(i + 1) - this.end(i);
      view.setBigUint64(0, BigInt(length), true);
      for (; at < stop && at < start + 8; at++) target[at - offset] = header[at - start] as number;
      const count = Math.min(stop, start + 8 + length) - at;
      if (count <= 0) continue;
      target.set(bytes.subarray(taken, taken + count), at - offset);
      taken += count;
      at += count;
    }
  }

  private end(index: number): number {
    return this.ends[index] as number;
  }

  /** The element in whose length or string the byte at `offset` stands. */
  private elementAt(offset: number): number {
    let low = 0;
    let high = this.ends.length - 2;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (this.end(middle) + 8 * middle <= offset) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** How many bytes of strings stand before `offset`. */
  private bytesBefore(offset: number): number {
    const i = this.elementAt(offset);
    const within = offset - this.end(i) - 8 * i - 8;
    return this.end(i) + Math.max(0, Math.min(within, this.end(i + 1) - this.end(i)));
  }
}

/** A source whose bytes have been read already; errors have its name. */
class HeldSource extends BaseSource {
  readonly name: string;
  readonly size: number;
  private readonly bytes: Uint8Array;

  constructor(source: ByteSource, bytes: Uint8Array) {
    super();
    this.name = source.name;
    this.size = source.size;
    this.bytes = bytes;
  }

  protected async fill(offset: number, target: Uint8Array): Promise<void> {
    target.set(this.bytes.subarray(offset, offset + target.length));
  }
}

interface Lengths {
  readonly ends: Float64Array;
  /** Of lengths and checksum. */
  readonly headerBytes: number;
}

async function readLengths(stored: ByteSource, whole: Uint8Array | undefined, entry: StringEntry): Promise<Lengths> {
  const { elementCount, place } = entry;
  if (elementCount === 0 && stored.size === 0) return { ends: new Float64Array(1), headerBytes: 0 };
  if (elementCount > stored.size - CHECKSUM_BYTES) throw sizeError(place, `at least ${elementCount + 4}`, stored.size);
  if (elementCount > MAX_STRING_ELEMENTS) {
    const details = { ...place, expected: `at most ${MAX_STRING_ELEMENTS}`, actual: elementCount };
    throw new LimitError("limit", `strings of "${place.key}"`, details);
  }
  const ends = new Float64Array(elementCount + 1);
  let [bytes, start, at] = [whole ?? new Uint8Array(0), 0, 0];
  for (let i = 0; i < elementCount; i++) {
    if (whole === undefined && at + 10 > start + bytes.length) {
      start = at;
      bytes = await stored.read(start, Math.min(WINDOW_BYTES, stored.size - start));
    }
    let [value, factor] = [0, 1];
    for (;;) {
      const byte = bytes[at++ - start];
      if (byte === undefined || factor > 2 ** 56) throw sizeError(place, "a length that can be", "none");
      value += (byte & 0x7f) * factor;
      factor *= 128;
      if (byte < 0x80) break;
    }
    ends[i + 1] = (ends[i] as number) + value;
    if ((ends[i + 1] as number) > stored.size) throw sizeError(place, `strings within ${stored.size} bytes`, value);
  }
  const total = at + CHECKSUM_BYTES + (ends[elementCount] as number);
  if (total !== stored.size) throw sizeError(place, `${total} bytes`, `${stored.size} bytes`);
  return { ends, headerBytes: at + CHECKSUM_BYTES };
}

function sizeError(place: TensorPlace, expected: string, actual: string | number): CorruptionError {
  const { file, offset, key } = place;
  return new CorruptionError("tensor-data", `strings of "${key}"`, { file, offset, expected, actual });
}

/** Lengths that fit are summed as 32-bit numbers. Source: tensor_bundle.cc, WriteStringTensor. */
function checksumOfLengths(ends: Float64Array): number {
  const bytes = new Uint8Array(8 * (ends.length - 1));
  const view = new DataView(bytes.buffer);
  let size = 0;
  for (let i = 1; i < ends.length; i++) {
    const length = (ends[i] as number) - (ends[i - 1] as number);
    view.setUint32(size, length % 2 ** 32, true);
    size += 4;
    if (length <= 0xffffffff) continue;
    view.setUint32(size, Math.floor(length / 2 ** 32), true);
    size += 4;
  }
  return crc32c(bytes.subarray(0, size));
}

/** What stands before the strings of a tensor, and the checksum of all that so far. */
export function encodeStringHeader(byteLengths: readonly number[]): { bytes: Uint8Array; crc: number } {
  const ends = new Float64Array(byteLengths.length + 1);
  const varints: number[] = [];
  for (const [i, length] of byteLengths.entries()) {
    ends[i + 1] = (ends[i] as number) + length;
    let rest = length;
    for (; rest >= 128; rest = Math.floor(rest / 128)) varints.push((rest % 128) | 0x80);
    varints.push(rest);
  }
  const bytes = new Uint8Array(varints.length + CHECKSUM_BYTES);
  bytes.set(varints);
  const crc = checksumOfLengths(ends);
  new DataView(bytes.buffer).setUint32(varints.length, maskCrc(crc), true);
  return { bytes, crc: crc32c(bytes.subarray(varints.length), crc) };
}
