import type { ByteSink } from "./byte-sink.js";
import { totalLength } from "./byte-sink.js";
import type { ByteSource } from "./byte-source.js";

/** Buffer of a copy, 1 MiB: 64 KiB to 1 MiB are equally fast, 4 MiB is slower (it leaves the caches). */
export const COPY_BUFFER_BYTES: number = 1024 * 1024;

/** Options of {@link copySource} and {@link readInOrder}. */
export interface CopyOptions {
  /** Called with the number of bytes just copied. */
  readonly onBytes?: ((count: number) => void) | undefined;
  /** Aborts the work. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Reads a whole source in order, one piece list at a time, and gives each to `visit`. Two buffers take turns: while
 * `visit` works on one, the next is being read. Pieces are good until the promise of `visit` is fulfilled.
 */
export async function readInOrder(
  source: ByteSource,
  visit: (pieces: readonly Uint8Array[], offset: number) => Promise<void> | void,
  options: CopyOptions = {},
): Promise<void> {
  const { signal } = options;
  if (source.size === 0) return;
  const bufferBytes = Math.min(COPY_BUFFER_BYTES, source.size);
  const buffers: Uint8Array[] = [];
  let turn = 0;
  let offset = 0;
  let next: Promise<readonly Uint8Array[]> | undefined = readFrom(0);

  function readFrom(start: number): Promise<readonly Uint8Array[]> {
    const index = turn++ & 1;
    buffers[index] ??= new Uint8Array(bufferBytes);
    const reading = source.readPieces(start, source.size - start, buffers[index], { signal });
    reading.catch(() => {}); // a failure is thrown where it is awaited
    return reading;
  }

  while (next !== undefined) {
    signal?.throwIfAborted();
    const pieces: readonly Uint8Array[] = await next;
    const count = totalLength(pieces);
    next = offset + count < source.size ? readFrom(offset + count) : undefined;
    await visit(pieces, offset);
    options.onBytes?.(count);
    offset += count;
  }
}

/** Copies a whole source to a sink; reading goes on while the piece before is written. */
export async function copySource(source: ByteSource, sink: ByteSink, options: CopyOptions = {}): Promise<void> {
  await readInOrder(source, (pieces) => sink.write(pieces), options);
}

/** Buffer of {@link streamSource}, 256 KiB. */
const STREAM_BUFFER_BYTES = 256 * 1024;

/** A whole source as a stream of pieces; each is good until the next is asked for. */
export async function* streamSource(
  source: ByteSource,
  onBytes?: ((count: number) => void) | undefined,
): AsyncGenerator<Uint8Array> {
  const scratch = new Uint8Array(Math.min(STREAM_BUFFER_BYTES, source.size));
  let offset = 0;
  while (offset < source.size) {
    for (const piece of await source.readPieces(offset, source.size - offset, scratch)) {
      yield piece;
      offset += piece.length;
      onBytes?.(piece.length);
    }
  }
}
