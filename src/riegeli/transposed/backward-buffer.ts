import { varintLength, writeVarint } from "../../codecs/varint.js";

const FIRST_BLOCK_BYTES = 64;
const LAST_BLOCK_BYTES = 64 * 1024;
/** From this size on a value is not copied; the buffer refers to the caller's memory. */
const BORROWED_BYTES = 16 * 1024;
/** Below this a loop is faster than the call that copies. */
const SHORT_COPY_BYTES = 32;

/** A growing buffer that is filled from its end: what is put in later stands before what was put in earlier. */
export class BackwardBuffer {
  /** What the buffer is for; buffers of a kind stand together in the chunk. */
  readonly kind: number;
  /** Bytes in the buffer. */
  size = 0;
  /** Finished pieces, the last one first. */
  private readonly pieces: Uint8Array[] = [];
  private blockBytes = FIRST_BLOCK_BYTES;
  private block = new Uint8Array(FIRST_BLOCK_BYTES);
  /** The used part of the block begins here. */
  private start = FIRST_BLOCK_BYTES;

  /** Makes an empty buffer. */
  constructor(kind: number) {
    this.kind = kind;
  }

  /** Puts a range of `source` in front, which must not change until the buffer has been used. */
  prepend(source: Uint8Array, from: number, to: number): void {
    const length = to - from;
    if (length >= BORROWED_BYTES) {
      this.finishPiece();
      this.pieces.push(source.subarray(from, to));
      this.size += length;
      return;
    }
    const at = this.reserve(length);
    if (length < SHORT_COPY_BYTES) {
      for (let i = 0; i < length; i++) this.block[at + i] = source[from + i] as number;
    } else {
      this.block.set(source.subarray(from, to), at);
    }
  }

  /** Puts a varint in front without the top bits that tell where it ends. */
  prependSevenBits(source: Uint8Array, from: number, to: number): void {
    const length = to - from;
    const at = this.reserve(length);
    for (let i = 0; i < length; i++) this.block[at + i] = (source[from + i] as number) & 0x7f;
  }

  /** Puts a number in front as a varint. */
  prependVarint(value: number): void {
    const at = this.reserve(varintLength(value));
    writeVarint(this.block, at, value);
  }

  /** What is in the buffer, in order. */
  take(): Uint8Array[] {
    this.finishPiece();
    return this.pieces.reverse();
  }

  /** Makes room for `length` bytes in front and gives the place in the block. */
  private reserve(length: number): number {
    if (length > this.start) {
      this.finishPiece();
      this.blockBytes = Math.min(this.blockBytes * 2, LAST_BLOCK_BYTES);
      this.start = Math.max(length, this.blockBytes);
      this.block = new Uint8Array(this.start);
    }
    this.start -= length;
    this.size += length;
    return this.start;
  }

  private finishPiece(): void {
    if (this.start < this.block.length) this.pieces.push(this.block.subarray(this.start));
    this.block = this.block.subarray(0, this.start);
  }
}
