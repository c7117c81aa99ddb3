import { type ByteSink, totalLength } from "../bytes/byte-sink.js";
import { BLOCK_BYTES, BLOCK_HEADER_BYTES, encodeBlockHeader, positionOfByte, USABLE_BLOCK_BYTES } from "./blocks.js";

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
    const headers = new HeaderSlab(totalLength(pieces));
    let at = this.sink.position;
    for (const piece of pieces) {
      let taken = 0;
      while (taken < piece.length) {
        if (at % BLOCK_BYTES === 0) {
          output.push(this.blockHeader(at, headers));
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
    const missing = this.end - this.sink.position;
    if (missing === 0) return;
    const headers = new HeaderSlab(missing);
    const output: Uint8Array[] = [];
    let at = this.sink.position;
    while (at < this.end) {
      if (at % BLOCK_BYTES === 0) {
        output.push(this.blockHeader(at, headers));
        at += BLOCK_HEADER_BYTES;
      }
      const count = Math.min(BLOCK_BYTES - (at % BLOCK_BYTES), this.end - at);
      output.push(new Uint8Array(count));
      at += count;
    }
    await this.sink.write(output);
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

  private blockHeader(blockBegin: number, headers: HeaderSlab): Uint8Array {
    const bytes = headers.next();
    encodeBlockHeader({ previousChunk: blockBegin - this.begin, nextChunk: this.end - blockBegin }, bytes);
    return bytes;
  }
}

/** Memory for the block headers of one write: small arrays of their own would cost more than what is written. */
class HeaderSlab {
  private readonly bytes: Uint8Array;
  private used = 0;

  constructor(dataBytes: number) {
    const count = Math.ceil(dataBytes / USABLE_BLOCK_BYTES) + 2;
    this.bytes = new Uint8Array(count * BLOCK_HEADER_BYTES);
  }

  next(): Uint8Array {
    this.used += BLOCK_HEADER_BYTES;
    return this.bytes.subarray(this.used - BLOCK_HEADER_BYTES, this.used);
  }
}
