import { type ByteSource, checkRange } from "./byte-source.js";

/** Bytes in memory as a {@link ByteSource}. The bytes are used as they are, not copied. */
export class MemorySource implements ByteSource {
  readonly bytes: Uint8Array;
  readonly name: string;
  /** Offset of `bytes` in the file called `name`, for errors. */
  readonly base: number;

  /** Wraps `bytes`; `name` and `base` are what errors print. */
  constructor(bytes: Uint8Array, name = "memory", base = 0) {
    this.bytes = bytes;
    this.name = name;
    this.base = base;
  }

  /** How many bytes there are. */
  get size(): number {
    return this.bytes.length;
  }

  /** The bytes as a view; no copy. */
  async read(offset: number, length: number): Promise<Uint8Array> {
    checkRange(this, offset, length);
    return this.bytes.subarray(offset, offset + length);
  }

  /** One piece, a view of the bytes. */
  async readPieces(offset: number, length: number): Promise<readonly Uint8Array[]> {
    checkRange(this, offset, length);
    return [this.bytes.subarray(offset, offset + length)];
  }

  /** A view of a part; no copy. */
  slice(offset: number, length: number): MemorySource {
    checkRange(this, offset, length);
    return new MemorySource(this.bytes.subarray(offset, offset + length), this.name, this.base + offset);
  }
}
