/**
 * Somewhere to write bytes, from the start to the end. Nothing is visible under its name until {@link ByteSink.close}.
 */
export interface ByteSink {
  /** What errors print: a path or URL. */
  readonly name: string;
  /** How many bytes have been given to write. */
  readonly position: number;
  /**
   * Appends bytes, or several pieces in order. The memory may be used again when the promise is fulfilled. A call may
   * come before the one before has ended: the bytes stand in the order of the calls, and {@link ByteSink.position} counts
   * them at once.
   */
  write(bytes: Uint8Array | readonly Uint8Array[]): Promise<void>;
  /** Replaces bytes that have been written already. Absent where a store can only append. */
  patch?(offset: number, bytes: Uint8Array): Promise<void>;
  /** Makes what was written durable and visible under its name. */
  close(): Promise<void>;
  /** Throws away what was written; nothing becomes visible. Does nothing after {@link ByteSink.close}. */
  abort(): Promise<void>;
}

/** Does the writing of a sink and closes it, so that it appears; what was written is thrown away when that fails. */
export async function fillSink(sink: ByteSink, write: () => Promise<void>): Promise<void> {
  try {
    await write();
    await sink.close();
  } catch (error) {
    await sink.abort();
    throw error;
  }
}

/** Total length of a list of pieces, in bytes. */
export function totalLength(pieces: readonly Uint8Array[]): number {
  let total = 0;
  for (const piece of pieces) total += piece.length;
  return total;
}

/** Joins pieces to one array; a single piece is given back as it is. */
export function concatBytes(pieces: readonly Uint8Array[]): Uint8Array {
  if (pieces.length === 1) return pieces[0] as Uint8Array;
  const joined = new Uint8Array(totalLength(pieces));
  let offset = 0;
  for (const piece of pieces) {
    joined.set(piece, offset);
    offset += piece.length;
  }
  return joined;
}

/** A sink that keeps what is written in memory; {@link MemorySink.bytes} gives it. */
export class MemorySink implements ByteSink {
  readonly name: string;
  position = 0;
  private buffer = new Uint8Array(1024);

  /** Makes an empty sink. */
  constructor(name = "memory") {
    this.name = name;
  }

  /** What has been written so far, as a view. */
  get bytes(): Uint8Array {
    return this.buffer.subarray(0, this.position);
  }

  /** See {@link ByteSink.write}. */
  async write(bytes: Uint8Array | readonly Uint8Array[]): Promise<void> {
    for (const piece of bytes instanceof Uint8Array ? [bytes] : bytes) {
      this.reserve(piece.length);
      this.buffer.set(piece, this.position);
      this.position += piece.length;
    }
  }

  /** See {@link ByteSink.patch}. */
  async patch(offset: number, bytes: Uint8Array): Promise<void> {
    this.buffer.set(bytes, offset);
  }

  /** Does nothing: memory is always visible. */
  async close(): Promise<void> {}

  /** Forgets what was written. */
  async abort(): Promise<void> {
    this.position = 0;
  }

  private reserve(count: number): void {
    if (this.position + count <= this.buffer.length) return;
    const larger = new Uint8Array(Math.max(this.position + count, this.buffer.length * 2));
    larger.set(this.bytes);
    this.buffer = larger;
  }
}
