import type { ByteSource, ReadOptions } from "../../src/bytes/byte-source.js";
import { sliceSource } from "../../src/bytes/byte-source.js";

/** Counts the reads and bytes that reach a source. */
export class CountingSource implements ByteSource {
  readonly name: string;
  readonly size: number;
  reads = 0;
  bytes = 0;
  private readonly inner: ByteSource;

  constructor(inner: ByteSource) {
    this.inner = inner;
    this.name = inner.name;
    this.size = inner.size;
  }

  reset(): void {
    this.reads = 0;
    this.bytes = 0;
  }

  read(offset: number, length: number, options?: ReadOptions): Promise<Uint8Array> {
    this.reads++;
    this.bytes += length;
    return this.inner.read(offset, length, options);
  }

  async readPieces(offset: number, length: number, scratch: Uint8Array): Promise<readonly Uint8Array[]> {
    const pieces = await this.inner.readPieces(offset, length, scratch);
    this.reads++;
    for (const piece of pieces) this.bytes += piece.length;
    return pieces;
  }

  slice(offset: number, length: number): ByteSource {
    return sliceSource(this, offset, length);
  }
}
