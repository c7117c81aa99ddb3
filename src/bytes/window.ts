import { concatBytes } from "./byte-sink.js";
import type { ByteSource } from "./byte-source.js";

/** The first window, 4 KiB: most looks are at a few headers. */
const FIRST_WINDOW_BYTES = 4 * 1024;
/** The largest window, 256 KiB, reached when reading goes on in order. */
const LARGEST_WINDOW_BYTES = 256 * 1024;

/** Buffers that are kept for the next window: most windows live for a few microseconds. */
const SPARE_BUFFERS = 8;
const spare: Uint8Array[] = [];

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
  private scratch: Uint8Array = new Uint8Array(0);

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
    // What lies a little behind the view is in order too: the value of the last field was skipped.
    const inOrder = offset >= this.start && offset <= this.end + this.bytes.length;
    this.nextSize = inOrder ? Math.min(this.nextSize * 4, LARGEST_WINDOW_BYTES) : FIRST_WINDOW_BYTES;
    const count = Math.min(this.source.size - offset, Math.max(length, this.nextSize));
    this.reserve(count);
    const pieces = await this.source.readPieces(offset, count, this.scratch.subarray(0, count));
    const joined = this.joinPieces(pieces);
    // What a source gives may be less than there is room for, but seldom less than is needed.
    this.bytes = joined.length >= Math.min(length, count) ? joined : await this.source.read(offset, count);
    this.start = offset;
  }

  /** Gives the memory back for the next window; nothing is in view then. */
  release(): void {
    if (this.scratch.length === LARGEST_WINDOW_BYTES && spare.length < SPARE_BUFFERS) spare.push(this.scratch);
    this.scratch = new Uint8Array(0);
    this.bytes = this.scratch;
  }

  private reserve(count: number): void {
    if (this.scratch.length >= count) return;
    if (count <= LARGEST_WINDOW_BYTES) this.scratch = spare.pop() ?? new Uint8Array(LARGEST_WINDOW_BYTES);
    else this.scratch = new Uint8Array(count);
  }

  /** Several pieces as one; those that lie in the scratch memory in their order are moved together there. */
  private joinPieces(pieces: readonly Uint8Array[]): Uint8Array {
    const [first] = pieces;
    if (pieces.length === 1 && first !== undefined) return first;
    const { scratch } = this;
    if (!lieInOrder(pieces, scratch)) return concatBytes(pieces);
    let end = 0;
    for (const piece of pieces) {
      scratch.copyWithin(
        end,
        piece.byteOffset - scratch.byteOffset,
        piece.byteOffset - scratch.byteOffset + piece.length,
      );
      end += piece.length;
    }
    return scratch.subarray(0, end);
  }
}

function lieInOrder(pieces: readonly Uint8Array[], scratch: Uint8Array): boolean {
  let end = 0;
  for (const piece of pieces) {
    if (piece.buffer !== scratch.buffer || piece.byteOffset < end) return false;
    end = piece.byteOffset + piece.length;
  }
  return true;
}
