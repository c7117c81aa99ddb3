/** Smallest and largest size of a kept buffer: 2^12, 4 KiB, and 2^28, 256 MiB, the largest message. */
const [MIN_BITS, MAX_BITS] = [12, 28];

/** Bytes that are kept for later, 256 MiB. */
const DEFAULT_KEPT_BYTES = 256 * 1024 * 1024;

/**
 * Large buffers that are used again and again: memory that has never been touched costs more than what is done with it.
 * What a buffer holds at first is what its last user left.
 */
export class BufferPool {
  private readonly free: ArrayBuffer[][] = Array.from({ length: MAX_BITS + 1 }, () => []);
  private readonly maxKeptBytes: number;
  private keptBytes = 0;

  /** A pool that keeps at most so many bytes. */
  constructor(maxKeptBytes: number = DEFAULT_KEPT_BYTES) {
    this.maxKeptBytes = maxKeptBytes;
  }

  /** A buffer of `byteLength` bytes or more, a power of two. */
  take(byteLength: number): ArrayBuffer {
    const bits = sizeBits(byteLength);
    if (bits > MAX_BITS) return Buffer.allocUnsafeSlow(byteLength).buffer as ArrayBuffer;
    const kept = this.free[bits]?.pop();
    if (kept === undefined) return Buffer.allocUnsafeSlow(2 ** bits).buffer as ArrayBuffer;
    this.keptBytes -= kept.byteLength;
    return kept;
  }

  /** Gives a buffer back; nobody may use it any more. */
  release(buffer: ArrayBuffer): void {
    const bits = sizeBits(buffer.byteLength);
    if (bits > MAX_BITS || this.keptBytes + buffer.byteLength > this.maxKeptBytes) return;
    this.free[bits]?.push(buffer);
    this.keptBytes += buffer.byteLength;
  }
}

function sizeBits(byteLength: number): number {
  return Math.max(MIN_BITS, 32 - Math.clz32(Math.max(0, byteLength - 1)));
}
