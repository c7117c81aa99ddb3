import { type ByteSource, SlicedSource } from "../bytes/byte-source.js";
import { MemorySource } from "../bytes/memory-source.js";
import { CorruptionError } from "../errors.js";
import { MAX_OFFSET } from "../limits.js";
import { WIRE } from "./message-rules.js";

/** A tag and a length take at most 20 bytes: so many have to be in view to read a head, or all up to the end. */
export const LONGEST_HEAD_BYTES = 20;

/**
 * Reads the heads of fields: the tag, and the length of a length-delimited value. One object is used for many heads,
 * and its properties are those of the last one; this is the innermost loop of every look into a message.
 */
export class WireHead {
  number = 0;
  wireType = 0;
  /** Offset of the value in the source. */
  valueStart = 0;
  /** Bytes of the value; 0 for the start or end of a group. */
  valueSize = 0;
  private readonly source: ByteSource;
  private behindVarint = 0;

  /** Reads heads of `source`. */
  constructor(source: ByteSource) {
    this.source = source;
  }

  /**
   * Reads the head at `offset` of the source; `bytes` are in view and begin at offset `base`. `end` is where the
   * enclosing message ends.
   * @throws {@link CorruptionError} (`invalid-wire`)
   */
  read(bytes: Uint8Array, base: number, offset: number, end: number): void {
    let at = offset - base;
    let tag = bytes[at++] ?? -1;
    if (tag >= 0x80 || tag < 0) {
      tag = this.longVarint(bytes, at - 1, base);
      at = this.behindVarint;
      if (tag > 0xffffffff) throw this.invalid(offset, "tag over 32 bits");
    }
    this.number = tag >>> 3;
    this.wireType = tag & 7;
    if (this.number === 0) throw this.invalid(offset, "field number 0");
    let size = 0;
    if (this.wireType === WIRE.bytes) {
      size = bytes[at++] ?? -1;
      if (size >= 0x80 || size < 0) {
        size = this.longVarint(bytes, at - 1, base);
        at = this.behindVarint;
      }
    } else if (this.wireType === WIRE.varint) size = this.varintSize(bytes, at, base);
    else if (this.wireType === WIRE.fixed64) size = 8;
    else if (this.wireType === WIRE.fixed32) size = 4;
    else if (this.wireType > WIRE.fixed32) throw this.invalid(offset, `wire type ${this.wireType}`);
    this.valueStart = base + at;
    this.valueSize = size;
    if (this.valueStart + size > end) {
      throw new CorruptionError("invalid-wire", `value of field ${this.number} passes the end of its message`, {
        ...placeOf(this.source, offset),
        expected: `at most ${Math.max(0, end - this.valueStart)} bytes`,
        actual: `${size} bytes`,
      });
    }
  }

  /** An error for bytes at `offset` of the source that are no message. */
  invalid(offset: number, what: string): CorruptionError {
    return new CorruptionError("invalid-wire", `not a protobuf message: ${what}`, placeOf(this.source, offset));
  }

  /** Reads a varint that has to be below 2^53. */
  private longVarint(bytes: Uint8Array, from: number, base: number): number {
    let value = 0;
    let factor = 1;
    for (let at = from; at < from + 10; at++) {
      const byte = bytes[at];
      if (byte === undefined) throw this.invalid(base + from, "it ends inside a varint");
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) {
        if (value > MAX_OFFSET) break;
        this.behindVarint = at + 1;
        return value;
      }
      factor *= 128;
    }
    throw this.invalid(base + from, "varint is too long");
  }

  private varintSize(bytes: Uint8Array, from: number, base: number): number {
    for (let at = from; at < from + 10; at++) {
      const byte = bytes[at];
      if (byte === undefined) throw this.invalid(base + from, "it ends inside a varint");
      if (byte < 0x80) return at + 1 - from;
    }
    throw this.invalid(base + from, "varint is too long");
  }
}

/** The file and the offset there of a place in a source, as far as the source is a plain part of the file. */
export function placeOf(source: ByteSource, offset: number): { file: string; offset: number } {
  if (source instanceof SlicedSource) return placeOf(source.origin, source.start + offset);
  if (source instanceof MemorySource) return { file: source.name, offset: source.base + offset };
  return { file: source.name, offset };
}
