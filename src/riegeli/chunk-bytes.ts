import { BaseSource, type ByteSource, checkRange, type ReadOptions } from "../bytes/byte-source.js";
import { BLOCK_BYTES, BLOCK_HEADER_BYTES, checkBlockHeader, positionOfByte } from "./blocks.js";
import { CHUNK_HEADER_BYTES, type ChunkLocation } from "./chunk-header.js";

/** Below this a read is done in memory of its own, since block headers need room beside the bytes. */
const SMALL_SCRATCH_BYTES = 1024;

/**
 * The data of one chunk as a source: the block headers in between are checked and taken out. The data hash is not
 * checked here, since it needs all the data.
 */
export class ChunkBytes extends BaseSource {
  readonly name: string;
  readonly size: number;
  readonly chunk: ChunkLocation;
  private readonly file: ByteSource;

  /** The data of `chunk` in `file`. */
  constructor(file: ByteSource, chunk: ChunkLocation) {
    super();
    this.file = file;
    this.chunk = chunk;
    this.name = file.name;
    this.size = chunk.dataSize;
  }

  /** The file's offset of a byte of the data. */
  fileOffset(offset: number): number {
    return positionOfByte(this.chunk.begin, CHUNK_HEADER_BYTES + offset);
  }

  /** See {@link ByteSource.read}. */
  override async read(offset: number, length: number, options?: ReadOptions): Promise<Uint8Array> {
    checkRange(this, offset, length);
    if (length === 0) return new Uint8Array(0);
    const { begin, end } = this.physicalRange(offset, length);
    const raw = await this.file.read(begin, end - begin, options);
    const pieces = this.takeOutHeaders(raw, begin);
    if (pieces.length === 1) return pieces[0] as Uint8Array;
    const joined = new Uint8Array(length);
    let at = 0;
    for (const piece of pieces) {
      joined.set(piece, at);
      at += piece.length;
    }
    return joined;
  }

  /** See {@link ByteSource.readPieces}. */
  override async readPieces(
    offset: number,
    length: number,
    scratch: Uint8Array,
    options?: ReadOptions,
  ): Promise<readonly Uint8Array[]> {
    checkRange(this, offset, length);
    if (scratch.length < SMALL_SCRATCH_BYTES)
      return [await this.read(offset, Math.min(length, scratch.length), options)];
    const { begin, end } = this.physicalRange(offset, length);
    const [raw, ...more] = await this.file.readPieces(begin, end - begin, scratch, options);
    if (raw === undefined || more.length > 0)
      return [await this.read(offset, Math.min(length, scratch.length), options)];
    return this.takeOutHeaders(raw, begin);
  }

  protected async fill(offset: number, target: Uint8Array, options?: ReadOptions): Promise<void> {
    target.set(await this.read(offset, target.length, options));
  }

  /** The part of the file that holds a range of the data; a block header just before it is taken in, to be checked. */
  private physicalRange(offset: number, length: number): { begin: number; end: number } {
    const first = this.fileOffset(offset);
    const end = this.fileOffset(offset + length - 1) + 1;
    const behindHeader = first % BLOCK_BYTES === BLOCK_HEADER_BYTES && first - BLOCK_HEADER_BYTES >= this.chunk.begin;
    return { begin: behindHeader ? first - BLOCK_HEADER_BYTES : first, end };
  }

  private takeOutHeaders(raw: Uint8Array, begin: number): Uint8Array[] {
    const pieces: Uint8Array[] = [];
    const end = begin + raw.length;
    let at = begin;
    while (at < end) {
      if (at % BLOCK_BYTES === 0) {
        // Only a read that stops short can end inside a block header; what is missing is read again then.
        if (at + BLOCK_HEADER_BYTES >= end) break;
        checkBlockHeader(raw.subarray(at - begin, at - begin + BLOCK_HEADER_BYTES), at, {
          file: this.name,
          begin: this.chunk.begin,
          end: this.chunk.end,
        });
        at += BLOCK_HEADER_BYTES;
      }
      const stop = Math.min(end, (Math.floor(at / BLOCK_BYTES) + 1) * BLOCK_BYTES);
      pieces.push(raw.subarray(at - begin, stop - begin));
      at = stop;
    }
    return pieces;
  }
}
