import { CorruptionError, LimitError } from "../errors.js";
import { MAX_MESSAGE_DEPTH, MAX_RANK } from "../limits.js";
import { decodeKey } from "../tensor/key.js";
import { idWords } from "./ids.js";

/** Protobuf's wire types. Source: protobuf encoding specification. */
const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const GROUP_START = 3;
const GROUP_END = 4;
const FIXED32 = 5;

/** A varint takes at most so many bytes. */
const LONGEST_VARINT_BYTES = 10;

/** Reads a field of a number and wire type; false when it is not one that is known, and is to be skipped. */
export type FieldHandler = (field: number, wireType: number) => boolean;

/** Reads protobuf's wire format from memory. What it gives as bytes are views of the message. */
export class MessageReader {
  private readonly bytes: Uint8Array;
  private readonly view: DataView;
  private at: number;
  private end: number;

  /** Reads a whole message. */
  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = 0;
    this.end = bytes.length;
  }

  /** Reads the fields up to the end of this message. @throws {@link CorruptionError} (`invalid-wire`) */
  fields(handler: FieldHandler): void {
    while (this.at < this.end) {
      const tag = this.low();
      const field = tag >>> 3;
      if (field === 0) this.fail("field number 0");
      if (!handler(field, tag & 7)) this.skip(field, tag & 7, 0);
    }
  }

  /** Reads the fields of a message in a field. */
  message(wireType: number, handler: FieldHandler): boolean {
    if (wireType !== BYTES) return false;
    const outer = this.end;
    const end = this.announced();
    this.end = end;
    this.fields(handler);
    this.at = end;
    this.end = outer;
    return true;
  }

  /** An int32, enum or bool: the low 32 bits of a varint, so that a negative one in ten bytes is right. */
  int32(wireType: number, take: (value: number) => void): boolean {
    if (wireType !== VARINT) return false;
    take(this.low() | 0);
    return true;
  }

  /** A size or number of elements. @throws {@link CorruptionError} (`invalid-wire`) below 0 and above 2^53 */
  size(wireType: number, take: (value: number) => void): boolean {
    if (wireType !== VARINT) return false;
    const words = new Int32Array(2);
    this.at = this.varint(this.at, words, 0);
    const value = (words[1] as number) * 4294967296 + ((words[0] as number) >>> 0);
    if (value < 0 || !Number.isSafeInteger(value)) this.fail("a size below 0 or above 2^53");
    take(value);
    return true;
  }

  /** A float. */
  float(wireType: number, take: (value: number) => void): boolean {
    if (wireType !== FIXED32) return false;
    if (this.end - this.at < 4) this.fail("cut");
    take(this.view.getFloat32(this.at, true));
    this.at += 4;
    return true;
  }

  /** Bytes, as a view. */
  data(wireType: number, take: (bytes: Uint8Array) => void): boolean {
    if (wireType !== BYTES) return false;
    const end = this.announced();
    const start = this.at;
    this.at = end;
    take(this.bytes.subarray(start, end));
    return true;
  }

  /** A text. */
  text(wireType: number, take: (text: string) => void): boolean {
    return this.data(wireType, (bytes) => take(decodeKey(bytes)));
  }

  /** Numbers of int64, packed or one; they come behind those that are there. */
  ids(wireType: number, known: BigInt64Array, take: (ids: BigInt64Array) => void): boolean {
    if (wireType !== VARINT && wireType !== BYTES) return false;
    const end = wireType === BYTES ? this.announced() : this.endOfVarint();
    const count = this.countVarints(end);
    const ids = new BigInt64Array(known.length + count);
    ids.set(known);
    const words = idWords(ids);
    let at = this.at;
    for (let i = known.length; i < ids.length; i++) at = this.varint(at, words, 2 * i);
    this.at = end;
    take(ids);
    return true;
  }

  private skip(field: number, wireType: number, depth: number): void {
    if (wireType === VARINT) this.at = this.endOfVarint();
    else if (wireType === FIXED64) this.at += 8;
    else if (wireType === FIXED32) this.at += 4;
    else if (wireType === BYTES) this.at = this.announced();
    else if (wireType === GROUP_START) this.skipGroup(field, depth + 1);
    else this.fail(`wire type ${wireType}`);
    if (this.at > this.end) this.fail("cut");
  }

  private skipGroup(field: number, depth: number): void {
    if (depth > MAX_MESSAGE_DEPTH) throw new LimitError("limit", "groups are nested too deeply", { actual: depth });
    for (;;) {
      if (this.at >= this.end) this.fail("cut");
      const tag = this.low();
      if ((tag & 7) === GROUP_END) {
        if (tag >>> 3 !== field) this.fail("a group ends that has not begun");
        return;
      }
      this.skip(tag >>> 3, tag & 7, depth);
    }
  }

  /** The end of what a length announces, held against what is there. */
  private announced(): number {
    const words = new Int32Array(2);
    this.at = this.varint(this.at, words, 0);
    const length = (words[0] as number) >>> 0;
    if (words[1] !== 0 || length > this.end - this.at) this.fail("cut");
    return this.at + length;
  }

  /** The low 32 bits of a varint. */
  private low(): number {
    const first = this.bytes[this.at] as number;
    if (this.at < this.end && first < 0x80) {
      this.at++;
      return first;
    }
    const words = new Int32Array(2);
    this.at = this.varint(this.at, words, 0);
    return (words[0] as number) >>> 0;
  }

  /** Decodes a varint at `from` into two words and gives its end. Long and flat: every id goes through it. */
  private varint(from: number, words: Int32Array, index: number): number {
    const { bytes, end } = this;
    let at = from;
    let low = 0;
    let high = 0;
    for (let shift = 0; ; shift += 7) {
      if (at >= end || shift >= 7 * LONGEST_VARINT_BYTES) this.fail(at >= end ? "cut" : "a varint is too long");
      const byte = bytes[at++] as number;
      const bits = byte & 0x7f;
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= bits << 28;
        high = bits >>> 4;
      } else high |= bits << (shift - 32);
      if (byte < 0x80) break;
    }
    words[index] = low;
    words[index + 1] = high;
    return at;
  }

  private endOfVarint(): number {
    let at = this.at;
    while (at < this.end && (this.bytes[at] as number) >= 0x80) at++;
    if (at >= this.end || at - this.at >= LONGEST_VARINT_BYTES) this.fail("a varint is cut or too long");
    return at + 1;
  }

  private countVarints(end: number): number {
    let count = 0;
    for (let at = this.at; at < end; at++) if ((this.bytes[at] as number) < 0x80) count++;
    if (end > this.at && (this.bytes[end - 1] as number) >= 0x80) this.fail("cut");
    return count;
  }

  /** A shape's number of dimensions is held against {@link MAX_RANK}. */
  checkRank(rank: number): void {
    if (rank > MAX_RANK) throw new LimitError("limit", "too many dimensions", { expected: `at most ${MAX_RANK}` });
  }

  private fail(what: string): never {
    throw new CorruptionError("invalid-wire", `the message is damaged: ${what}`, { offset: this.at });
  }
}
