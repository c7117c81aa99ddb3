import type { ByteSink } from "../../bytes/byte-sink.js";
import type { ByteSource } from "../../bytes/byte-source.js";
import { readInOrder } from "../../bytes/copy-source.js";
import { MemorySource } from "../../bytes/memory-source.js";
import { crc32c, prepareCrc32c } from "../../codecs/crc32c.js";
import { CheckedSource } from "./checked-source.js";

/** What goes to the sink at once, 4 MiB, and what of it is summed at once. */
const BATCH_BYTES = 4 * 1024 * 1024;
/** Pieces of one write; more are not taken by the system at once. */
const BATCH_PIECES = 512;
/** A source up to this is read as a whole, 256 KiB, and written with its neighbours. */
const WHOLE_BYTES = 256 * 1024;
/** Writes that are under way while the next bytes are summed. */
const WRITES_AHEAD = 2;

/** Options of {@link ShardStream}. */
export interface ShardStreamOptions {
  readonly onBytes?: ((count: number) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Writes many tensors to one sink and sums them on the way. Small ones are written together, and while something is
 * written, what comes next is summed.
 */
export class ShardStream {
  /** Bytes given so far. */
  position = 0;
  private readonly sink: ByteSink;
  private readonly options: ShardStreamOptions;
  private pending: Uint8Array[] = [];
  private pendingBytes = 0;
  private readonly writes: Promise<void>[] = [];

  /** Writes to `sink`; the caller closes it. */
  constructor(sink: ByteSink, options: ShardStreamOptions) {
    this.sink = sink;
    this.options = options;
  }

  /**
   * Appends bytes as {@link ShardStream.writeBytes} does, and gives their checksum, when they only have to be put beside
   * others that are waiting; else it does nothing and gives undefined.
   */
  gather(bytes: Uint8Array): number | undefined {
    const isFull = this.pendingBytes + bytes.length >= BATCH_BYTES || this.pending.length + 1 >= BATCH_PIECES;
    if (isFull) return undefined;
    if (bytes.length > 0) this.append(bytes);
    return crc32c(bytes);
  }

  /** Appends bytes, which must not change before {@link ShardStream.flush}, and gives the checksum behind them. */
  async writeBytes(bytes: Uint8Array, crc: number): Promise<number> {
    await prepareCrc32c(bytes.length);
    let sum = crc;
    for (let at = 0; at < bytes.length; at += BATCH_BYTES) {
      const part = bytes.subarray(at, at + BATCH_BYTES);
      await this.push(part);
      sum = crc32c(part, sum);
    }
    return sum;
  }

  /**
   * Appends a source, and gives the checksum behind it. One that sums itself while it is read is not summed again.
   * @throws what reading the source throws
   */
  async writeSource(source: ByteSource, crc: number): Promise<number> {
    if (source instanceof MemorySource) return this.writeBytes(source.bytes, crc);
    const own = source instanceof CheckedSource && source.checked === 0 && source.initial === crc ? source : undefined;
    if (source.size <= WHOLE_BYTES) {
      const bytes = await source.read(0, source.size, { signal: this.options.signal });
      if (own?.isVerified !== true) return this.writeBytes(bytes, crc);
      await this.push(bytes);
      return own.expected;
    }
    return this.stream(source, crc, own);
  }

  /** Hands all that was given to the sink, and waits for it. */
  async flush(): Promise<void> {
    await this.send();
    while (this.writes.length > 0) await this.writes.shift();
  }

  /** Waits for what is under way, whatever comes of it: before the sink is given up. */
  async settle(): Promise<void> {
    await Promise.allSettled(this.writes);
  }

  private async stream(source: ByteSource, crc: number, own: CheckedSource | undefined): Promise<number> {
    const { onBytes, signal } = this.options;
    await this.send();
    await prepareCrc32c(source.size);
    let sum = crc;
    await readInOrder(
      source,
      (pieces) => {
        const writing = this.sink.write(pieces);
        if (own === undefined) for (const piece of pieces) sum = crc32c(piece, sum);
        return writing;
      },
      { onBytes, signal },
    );
    this.position += source.size;
    // Read in order from its start, it has been found good.
    return own === undefined ? sum : own.expected;
  }

  private async push(bytes: Uint8Array): Promise<void> {
    if (bytes.length === 0) return;
    this.append(bytes);
    if (this.pendingBytes >= BATCH_BYTES || this.pending.length >= BATCH_PIECES) await this.send();
  }

  private append(bytes: Uint8Array): void {
    this.pending.push(bytes);
    this.pendingBytes += bytes.length;
    this.position += bytes.length;
  }

  private async send(): Promise<void> {
    this.options.signal?.throwIfAborted();
    if (this.pending.length === 0) return;
    const { pending, pendingBytes } = this;
    this.pending = [];
    this.pendingBytes = 0;
    const writing = this.sink.write(pending).then(() => this.options.onBytes?.(pendingBytes));
    writing.catch(() => {});
    this.writes.push(writing);
    if (this.writes.length > WRITES_AHEAD) await this.writes.shift();
  }
}
