import type { ByteSink } from "../bytes/byte-sink.js";
import { BLOCK_BYTES, BLOCK_HEADER_BYTES, encodeBlockHeader, positionOfByte } from "./blocks.js";

/**
 * Writes the bytes of one chunk, its header first, and puts the block headers in between. Bytes are passed on without a
 * copy.
 */
export class ChunkSink {
  private readonly sink: ByteSink;
  private readonly begin: number;
  private readonly end: number;

  /** A chunk from `begin`, which is the sink's position, to `end`. */
  constructor(sink: ByteSink, begin: number, end: number) {
    this.sink = sink;
    this.begin = begin;
    this.end = end;
  }

  /** Appends bytes of the chunk. */
  async write(pieces: readonly Uint8Array[]): Promise<void> {
    const output: Uint8Array[] = [];
    let at = this.sink.position;
    for (const piece of pieces) {
      let taken = 0;
      while (taken < piece.length) {
        if (at % BLOCK_BYTES === 0) {
          output.push(this.blockHeader(at));
          at += BLOCK_HEADER_BYTES;
        }
        const room = BLOCK_BYTES - (at % BLOCK_BYTES);
        const count = Math.min(room, piece.length - taken);
        output.push(piece.subarray(taken, taken + count));
        taken += count;
        at += count;
      }
    }
    await this.sink.write(output);
  }

  /** Fills up to the end of the chunk with zeros: a chunk has at least as many bytes as records. */
  async finish(): Promise<void> {
    const output: Uint8Array[] = [];
    let at = this.sink.position;
    while (at < this.end) {
      if (at % BLOCK_BYTES === 0) {
        output.push(this.blockHeader(at));
        at += BLOCK_HEADER_BYTES;
      }
      const count = Math.min(BLOCK_BYTES - (at % BLOCK_BYTES), this.end - at);
      output.push(new Uint8Array(count));
      at += count;
    }
    if (output.length > 0) await this.sink.write(output);
  }

  /** Where the first bytes of the chunk lie, which a block header may interrupt: to be written there later. */
  placesOf(bytes: Uint8Array): { offset: number; bytes: Uint8Array }[] {
    const places: { offset: number; bytes: Uint8Array }[] = [];
    let index = 0;
    while (index < bytes.length) {
      const offset = positionOfByte(this.begin, index);
      const count = Math.min(bytes.length - index, BLOCK_BYTES - (offset % BLOCK_BYTES));
      places.push({ offset, bytes: bytes.subarray(index, index + count) });
      index += count;
    }
    return places;
  }

  private blockHeader(blockBegin: number): Uint8Array {
    return encodeBlockHeader({ previousChunk: blockBegin - this.begin, nextChunk: this.end - blockBegin });
  }
}
