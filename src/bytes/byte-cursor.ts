import { CorruptionError, type ErrorCode, TruncatedError } from "../errors.js";
import { MAX_OFFSET } from "../limits.js";

/**
 * Reads numbers and bytes from memory, in order. It knows in which file and at which offset the memory lies, so a
 * decoder deep inside reports the file's offset without being told it.
 */
export class ByteCursor {
  readonly bytes: Uint8Array;
  readonly file: string;
  readonly base: number;
  /** Place of the next byte, from the start of `bytes`. */
  position = 0;
  private readonly view: DataView;

  /** Reads `bytes`, which lie at offset `base` of `file`. */
  constructor(bytes: Uint8Array, file: string, base = 0) {
    this.bytes = bytes;
    this.file = file;
    this.base = base;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** Offset of the next byte in the file. */
  get offset(): number {
    return this.base + this.position;
  }

  /** How many bytes are left. */
  get left(): number {
    return this.bytes.length - this.position;
  }

  /** The next byte. @throws {@link TruncatedError} (`truncated`) at the end. */
  readByte(): number {
    this.need(1);
    return this.bytes[this.position++] as number;
  }

  /** The next `length` bytes as a view. @throws {@link TruncatedError} (`truncated`) when fewer are left. */
  readBytes(length: number): Uint8Array {
    this.need(length);
    this.position += length;
    return this.bytes.subarray(this.position - length, this.position);
  }

  /** A little-endian 32-bit number. @throws {@link TruncatedError} (`truncated`) */
  readUint32(): number {
    this.need(4);
    this.position += 4;
    return this.view.getUint32(this.position - 4, true);
  }

  /** A little-endian 64-bit number. @throws {@link TruncatedError} (`truncated`) */
  readUint64(): bigint {
    this.need(8);
    this.position += 8;
    return this.view.getBigUint64(this.position - 8, true);
  }

  /**
   * A varint of up to 64 bits that has to be at most 2^53 - 1: a size, a count, an index.
   * @throws {@link TruncatedError} (`truncated`), {@link CorruptionError} (`code`) when it is longer or larger
   */
  readVarint(code: ErrorCode = "invalid-wire"): number {
    let value = 0;
    let factor = 1;
    for (let i = 0; i < 10; i++) {
      const byte = this.readByte();
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) {
        if (value <= MAX_OFFSET) return value;
        break;
      }
      factor *= 128;
    }
    throw new CorruptionError(code, "varint over 2^53", { file: this.file, offset: this.offset });
  }

  private need(length: number): void {
    if (length <= this.left) return;
    throw new TruncatedError("truncated", "data ends early", {
      file: this.file,
      offset: this.offset,
      expected: `${length} bytes`,
      actual: `${this.left} bytes`,
    });
  }
}
