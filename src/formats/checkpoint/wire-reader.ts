import { CorruptionError, type ErrorCode } from "../../errors.js";
import type { EntryPlace } from "./bundle-proto.js";

// Source: protobuf, "Encoding": wire types.
const WIRE = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const;

/** Reads the fields of one small message that is in memory. Every failure names file, key and offset. */
export class WireReader {
  /** Of the next byte. */
  position = 0;
  private readonly bytes: Uint8Array;
  private readonly place: EntryPlace;
  private readonly code: ErrorCode;

  /** Reads `bytes`, which stand at `place`; failures get the code `code`. */
  constructor(bytes: Uint8Array, place: EntryPlace, code: ErrorCode) {
    this.bytes = bytes;
    this.place = place;
    this.code = code;
  }

  /** Bytes that are left. */
  get left(): number {
    return this.bytes.length - this.position;
  }

  /** A varint as a signed 64-bit number, which has to be within ±2^53. */
  varint(): number {
    const first = this.bytes[this.position];
    if (first !== undefined && first < 0x80) {
      this.position++;
      return first;
    }
    return this.longVarint();
  }

  /** A little-endian 32-bit number. */
  fixed32(): number {
    const at = this.advance(4);
    const { bytes } = this;
    return (
      ((bytes[at] as number) |
        ((bytes[at + 1] as number) << 8) |
        ((bytes[at + 2] as number) << 16) |
        ((bytes[at + 3] as number) << 24)) >>>
      0
    );
  }

  /** The length of a message that begins here; gives where it ends. */
  message(): number {
    const length = this.varint();
    if (length < 0 || length > this.left) this.fail("a message passes its end");
    return this.position + length;
  }

  /** Skips the value of a field that is not known. */
  skip(tag: number): void {
    const type = tag % 8;
    if (tag < 8) this.fail("a field number");
    if (type === WIRE.varint) this.longVarint();
    else if (type === WIRE.fixed64) this.advance(8);
    else if (type === WIRE.fixed32) this.advance(4);
    else if (type === WIRE.bytes) this.position = this.message();
    else this.fail("a wire type");
  }

  private longVarint(): number {
    let low = 0;
    let factor = 1;
    for (let i = 0; i < 10; i++) {
      const byte = this.bytes[this.advance(1)] as number;
      if (i === 9) return this.negative(byte);
      low += (byte & 0x7f) * factor;
      if (byte < 0x80) return low <= Number.MAX_SAFE_INTEGER ? low : this.fail("a number over 2^53");
      factor *= 128;
    }
    return this.fail("a varint");
  }

  /** Ten bytes are a number with the highest bit set: read again, exactly. */
  private negative(last: number): number {
    if (last > 1) this.fail("a varint over 64 bits");
    let value = 0n;
    for (let i = 1; i <= 10; i++) value = (value << 7n) | BigInt((this.bytes[this.position - i] as number) & 0x7f);
    const signed = Number(BigInt.asIntN(64, value));
    return Number.isSafeInteger(signed) ? signed : this.fail("a number under -2^53");
  }

  private advance(count: number): number {
    if (count > this.left) this.fail("ends early");
    this.position += count;
    return this.position - count;
  }

  private fail(what: string): never {
    const { file, offset, key } = this.place;
    throw new CorruptionError(this.code, `entry of "${key}" cannot be read: ${what}`, {
      file,
      offset: offset + this.position,
    });
  }
}
