import type { ByteSource } from "./byte-source.js";

/** The first window, 4 KiB: most looks are at a few headers. */
const FIRST_WINDOW_BYTES = 4 * 1024;
/** The largest window, 256 KiB, reached when reading goes on in order. */
const LARGEST_WINDOW_BYTES = 256 * 1024;

/**
 * A moving view of a source for decoders that walk through it: bytes near the last place are in memory already. It
 * grows while reading goes on in order and shrinks after a jump, so little is read that is not looked at.
 */
export class Window {
  readonly source: ByteSource;
  /** The bytes in view; {@link Window.start} is the offset of the first. */
  bytes: Uint8Array = new Uint8Array(0);
  start = 0;
  private nextSize = FIRST_WINDOW_BYTES;
  private scratch = new Uint8Array(0);

  /** Views `source`, nothing of which is read yet. */
  constructor(source: ByteSource) {
    this.source = source;
  }

  /** Offset behind the last byte in view. */
  get end(): number {
    return this.start + this.bytes.length;
  }

  /** Whether `length` bytes from `offset`, or all up to the end of the source, are in view. */
  holds(offset: number, length: number): boolean {
    return offset >= this.start && Math.min(offset + length, this.source.size) <= this.end;
  }

  /**
   * Brings `length` bytes from `offset` into view, or all up to the end of the source. Views taken before are no longer
   * good.
   */
  async move(offset: number, length: number): Promise<void> {
    const inOrder = offset >= this.start && offset <= this.end;
    this.nextSize = inOrder ? Math.min(this.nextSize * 4, LARGEST_WINDOW_BYTES) : FIRST_WINDOW_BYTES;
    const count = Math.min(this.source.size - offset, Math.max(length, this.nextSize));
    if (this.scratch.length < count) this.scratch = new Uint8Array(count);
    const pieces = await this.source.readPieces(offset, count, this.scratch.subarray(0, count));
    const [only] = pieces;
    if (pieces.length === 1 && only !== undefined && only.length >= Math.min(length, count)) this.bytes = only;
    else this.bytes = await this.source.read(offset, count);
    this.start = offset;
  }
}
