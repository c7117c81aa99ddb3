import type { ByteSink } from "./byte-sink.js";
import { totalLength } from "./byte-sink.js";
import type { ByteSource } from "./byte-source.js";

/** Buffer of a copy, 1 MiB: 64 KiB to 1 MiB are equally fast, 4 MiB is slower (it leaves the caches). */
export const COPY_BUFFER_BYTES: number = 1024 * 1024;

/** Buffers that are kept for the next use: memory that was never touched costs more than the copy into it. */
const SPARE_BUFFERS = 8;
const spare: Uint8Array[] = [];

function takeBuffer(): Uint8Array {
  return spare.pop() ?? new Uint8Array(COPY_BUFFER_BYTES);
}

function giveBuffer(buffer: Uint8Array): void {
  if (spare.length < SPARE_BUFFERS) spare.push(buffer);
}

/** Options of {@link streamSource}. */
export interface StreamOptions {
  /** Called with the number of bytes just copied. */
  readonly onBytes?: ((count: number) => void) | undefined;
  /** Aborts the work. */
  readonly signal?: AbortSignal | undefined;
}

/** Options of {@link copySource} and {@link readInOrder}. */
export interface CopyOptions extends StreamOptions {
  /** Takes over the work of the last visits, which then need not have ended when the function returns. */
  readonly takeOver?: ((work: Promise<void>) => void) | undefined;
}

/**
 * Reads a whole source in order, one list of pieces after another, and gives each to `visit`. The next pieces are read,
 * and `visit` is called with them, while the work of the visit before still goes on. Visits begin in order. Pieces are
 * good until the promise of `visit` is fulfilled.
 */
export async function readInOrder(
  source: ByteSource,
  visit: (pieces: readonly Uint8Array[], offset: number) => Promise<void> | void,
  options: CopyOptions = {},
): Promise<void> {
  const { signal, onBytes, takeOver } = options;
  const last: (Promise<void> | undefined)[] = [undefined, undefined];
  let offset = 0;
  let next = readFrom(source, 0, signal);
  try {
    while (next !== undefined) {
      signal?.throwIfAborted();
      const { pieces, buffer } = await next;
      const count = totalLength(pieces);
      next = readFrom(source, offset + count, signal);
      const work = visit(pieces, offset);
      if (work === undefined) giveBuffer(buffer);
      else last.push(handled(work.then(() => giveBuffer(buffer))));
      await last.shift();
      onBytes?.(count);
      offset += count;
    }
  } catch (error) {
    await Promise.allSettled([next, ...last]);
    throw error;
  }
  const rest = Promise.all(last).then(() => {});
  if (takeOver === undefined) await rest;
  else takeOver(handled(rest));
}

function readFrom(
  source: ByteSource,
  start: number,
  signal: AbortSignal | undefined,
): Promise<{ pieces: readonly Uint8Array[]; buffer: Uint8Array }> | undefined {
  if (start >= source.size) return undefined;
  const buffer = takeBuffer();
  const reading = source.readPieces(start, source.size - start, buffer, { signal });
  return handled(reading.then((pieces) => ({ pieces, buffer })));
}

/** A promise whose failure is thrown where it is awaited, and not reported before. */
function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}

/** Copies a whole source to a sink; reading goes on while the piece before is written. */
export async function copySource(source: ByteSource, sink: ByteSink, options: CopyOptions = {}): Promise<void> {
  await readInOrder(source, (pieces) => sink.write(pieces), options);
}

/** Buffer of {@link streamSource}, 256 KiB. */
const STREAM_BUFFER_BYTES = 256 * 1024;

/** A whole source as a stream of pieces; each is good until the next is asked for. */
export async function* streamSource(source: ByteSource, options: StreamOptions = {}): AsyncGenerator<Uint8Array> {
  const { signal, onBytes } = options;
  const scratch = new Uint8Array(Math.min(STREAM_BUFFER_BYTES, source.size));
  let offset = 0;
  while (offset < source.size) {
    for (const piece of await source.readPieces(offset, source.size - offset, scratch, { signal })) {
      signal?.throwIfAborted();
      yield piece;
      offset += piece.length;
      onBytes?.(piece.length);
    }
  }
}
