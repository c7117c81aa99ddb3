import { type ByteSource, checkRange, type ReadOptions } from "../../bytes/byte-source.js";
import { crc32c } from "../../codecs/crc32c.js";
import { type CheckedRange, crcOfRange } from "./shard-checksums.js";

/** Elements of a field, and what lies around them in it. */
export interface CheckedParts {
  readonly file: ByteSource;
  readonly content: ByteSource;
  /** The bytes of the field before the elements. */
  readonly head: CheckedRange;
  /** The bytes of the field behind the elements. */
  readonly tail: CheckedRange;
}

/**
 * The elements of a field, which are summed up while they are read in order, so that a checksum costs no second read.
 * Reads out of order are right as well; then there is no sum.
 */
export class CheckedSource implements ByteSource {
  readonly name: string;
  readonly size: number;
  private readonly parts: CheckedParts;
  private headSum: Promise<number> | undefined;
  private crc = 0;
  /** How many bytes have been summed up. */
  private summed = 0;

  /** Wraps the elements of a field. */
  constructor(parts: CheckedParts) {
    this.parts = parts;
    this.name = parts.content.name;
    this.size = parts.content.size;
  }

  /** See {@link ByteSource.read}. */
  async read(offset: number, length: number, options?: ReadOptions): Promise<Uint8Array> {
    checkRange(this, offset, length);
    if (offset === 0) await this.sumUpHead();
    const bytes = await this.parts.content.read(offset, length, options);
    this.sumUp(offset, [bytes]);
    return bytes;
  }

  /** See {@link ByteSource.readPieces}. */
  async readPieces(
    offset: number,
    length: number,
    scratch: Uint8Array,
    options?: ReadOptions,
  ): Promise<readonly Uint8Array[]> {
    checkRange(this, offset, length);
    if (offset === 0) await this.sumUpHead();
    const pieces = await this.parts.content.readPieces(offset, length, scratch, options);
    this.sumUp(offset, pieces);
    return pieces;
  }

  /** See {@link ByteSource.slice}; a slice is not summed up. */
  slice(offset: number, length: number): ByteSource {
    return this.parts.content.slice(offset, length);
  }

  /** The checksum of the whole field, when the elements were read in order to the end; else undefined. */
  async checksum(): Promise<number | undefined> {
    if (this.summed !== this.size) return undefined;
    return crcOfRange(this.parts.file, this.parts.tail, this.size === 0 ? await this.sumUpHead() : this.crc);
  }

  private sumUpHead(): Promise<number> {
    this.headSum ??= crcOfRange(this.parts.file, this.parts.head).then((sum) => {
      this.crc = sum;
      return sum;
    });
    return this.headSum;
  }

  private sumUp(offset: number, pieces: readonly Uint8Array[]): void {
    if (offset !== this.summed) return;
    for (const piece of pieces) {
      this.crc = crc32c(piece, this.crc);
      this.summed += piece.length;
    }
  }
}
