import type { BufferPool } from "./buffer-pool.js";
import type { Allocate } from "./encode-messages.js";
import { GRPC, type GrpcFailure, PREFIX_BYTES } from "./grpc-status.js";

/** Gathers the one message of a unary call from the pieces in which it comes, into a buffer of a pool. */
export class MessageReceiver {
  /** What is wrong with what came; nothing more is taken then. */
  failure: GrpcFailure | undefined;
  private readonly pool: BufferPool;
  private readonly maxBytes: number;
  private readonly prefix = new Uint8Array(PREFIX_BYTES);
  private prefixBytes = 0;
  private buffer: ArrayBuffer | undefined;
  private length = 0;
  private received = 0;

  /** Takes a message of at most `maxBytes`. */
  constructor(pool: BufferPool, maxBytes: number) {
    this.pool = pool;
    this.maxBytes = maxBytes;
  }

  /** Takes a piece of the stream. */
  push(chunk: Uint8Array): void {
    if (this.failure !== undefined) return;
    let at = 0;
    while (this.prefixBytes < PREFIX_BYTES && at < chunk.length)
      this.prefix[this.prefixBytes++] = chunk[at++] as number;
    if (this.prefixBytes === PREFIX_BYTES && this.buffer === undefined) this.start();
    if (this.failure !== undefined || this.buffer === undefined) return;
    const rest = chunk.length - at;
    if (rest > this.length - this.received) {
      this.failure = { status: GRPC.unimplemented, message: "more than one message in a unary call" };
      return;
    }
    new Uint8Array(this.buffer, this.received, rest).set(at === 0 ? chunk : chunk.subarray(at));
    this.received += rest;
  }

  /** The whole message: a view that is good until {@link MessageReceiver.release}. Undefined when it is not whole. */
  message(): Uint8Array | undefined {
    if (this.failure === undefined && (this.buffer === undefined || this.received < this.length)) {
      this.failure = { status: GRPC.internal, message: "the message is cut" };
    }
    return this.failure === undefined ? new Uint8Array(this.buffer as ArrayBuffer, 0, this.length) : undefined;
  }

  /** Gives the buffer back. */
  release(): void {
    if (this.buffer !== undefined) this.pool.release(this.buffer);
    this.buffer = undefined;
    this.failure ??= { status: GRPC.cancelled, message: "the call is over" };
  }

  private start(): void {
    const isCompressed = this.prefix[0] !== 0;
    this.length = new DataView(this.prefix.buffer).getUint32(1);
    if (isCompressed) this.failure = { status: GRPC.unimplemented, message: "compressed messages are not supported" };
    else if (this.length > this.maxBytes) {
      const message = `a message of ${this.length} bytes is larger than ${this.maxBytes}`;
      this.failure = { status: GRPC.resourceExhausted, message };
    } else this.buffer = this.pool.take(this.length);
  }
}

/** A message with its prefix, in a buffer of a pool. */
export interface FramedMessage {
  readonly bytes: Uint8Array;
  release(): void;
}

/** Makes a message by `encode`, with its prefix before it, where it is to be sent from. */
export function frameMessage(pool: BufferPool, encode: (allocate: Allocate) => Uint8Array): FramedMessage {
  let buffer: ArrayBuffer | undefined;
  let start = 0;
  const allocate: Allocate = (byteLength) => {
    buffer = pool.take(PREFIX_BYTES + 3 + byteLength);
    // The end of the message is aligned, and with it floats that are the last of it.
    start = (4 - ((PREFIX_BYTES + byteLength) % 4)) % 4;
    return new Uint8Array(buffer, start + PREFIX_BYTES, byteLength);
  };
  const { length } = encode(allocate);
  if (buffer === undefined) throw new TypeError("the message is not where it was to be");
  const bytes = new Uint8Array(buffer, start, PREFIX_BYTES + length);
  const view = new DataView(buffer, start, PREFIX_BYTES);
  view.setUint8(0, 0);
  view.setUint32(1, length);
  const framed = buffer;
  return { bytes, release: () => pool.release(framed) };
}
