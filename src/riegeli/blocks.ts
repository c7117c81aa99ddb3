import { hash64, shortHash } from "../codecs/hasher.js";
import { CorruptionError, formatHash } from "../errors.js";
import { MAX_OFFSET } from "../limits.js";

/**
 * The block grid of a Riegeli/records file: every 64 KiB a block header interrupts whatever chunk is there.
 * Source: google/riegeli, doc/riegeli_records_file_format.md, "Block header" and "Conventions".
 */

/** Bytes from one block header to the next. */
export const BLOCK_BYTES = 65_536;
/** Bytes of a block header. */
export const BLOCK_HEADER_BYTES = 24;
/** Bytes of a block that belong to chunks. */
export const USABLE_BLOCK_BYTES: number = BLOCK_BYTES - BLOCK_HEADER_BYTES;

/** The key of all hashes in a Riegeli file. Source: riegeli_records_file_format.md, "Conventions". */
export const RIEGELI_HASH_KEY: Uint8Array = new TextEncoder().encode("Riegeli/records\nRiegeli/records\n");

/** Bytes from `position` to the next block begin; 0 at one. */
export function remainingInBlock(position: number): number {
  const within = position % BLOCK_BYTES;
  return within === 0 ? 0 : BLOCK_BYTES - within;
}

/** Whether a chunk may begin at `position`: not inside a block header, nor just behind one. */
export function isChunkBoundary(position: number): boolean {
  return remainingInBlock(position) < USABLE_BLOCK_BYTES;
}

/** The first possible chunk boundary at or after `position`. */
export function roundUpToBoundary(position: number): number {
  return position + Math.max(0, remainingInBlock(position) - (USABLE_BLOCK_BYTES - 1));
}

/**
 * The position behind the `count`-th byte of a chunk that begins at `chunkBegin`, block headers counted in. The chunk's
 * own header bytes count too.
 */
export function positionAfter(chunkBegin: number, count: number): number {
  const usedInBlock = (chunkBegin + USABLE_BLOCK_BYTES - 1) % BLOCK_BYTES;
  return chunkBegin + count + BLOCK_HEADER_BYTES * Math.floor((count + usedInBlock) / USABLE_BLOCK_BYTES);
}

/** The position of byte `index` of a chunk that begins at `chunkBegin`; the chunk's header is bytes 0 to 39. */
export function positionOfByte(chunkBegin: number, index: number): number {
  return positionAfter(chunkBegin, index + 1) - 1;
}

/** Where a chunk ends. A chunk has at least as many bytes as records, so that each record has a position of its own. */
export function chunkEndOf(chunkBegin: number, byteCount: number, recordCount: number): number {
  return Math.max(positionAfter(chunkBegin, byteCount), roundUpToBoundary(chunkBegin + recordCount));
}

/** What a block header says: distances in bytes from the block's begin. */
export interface BlockHeader {
  /** From the begin of the interrupted chunk to the block's begin. */
  readonly previousChunk: number;
  /** From the block's begin to the end of that chunk. */
  readonly nextChunk: number;
}

/*
 * Block header
 * offset size name
 *      0    8 header_hash     of the 16 bytes that follow
 *      8    8 previous_chunk
 *     16    8 next_chunk
 */

const hashHeader = shortHash(RIEGELI_HASH_KEY);

/** Writes the 24 bytes of a block header to `target`, which is so long. */
export function encodeBlockHeader(header: BlockHeader, target: Uint8Array): void {
  writeUint64(target, 8, header.previousChunk);
  writeUint64(target, 16, header.nextChunk);
  hashHeader(target.subarray(8), target, 0);
}

/** Writes a whole number below 2^53, little-endian, without the cost of a bigint: there is a header every 64 KiB. */
function writeUint64(bytes: Uint8Array, offset: number, value: number): void {
  let rest = value;
  for (let i = 0; i < 8; i++) {
    bytes[offset + i] = rest % 256;
    rest = Math.floor(rest / 256);
  }
}

/**
 * Decodes a block header and checks its hash and the rules on its distances.
 * @throws {@link CorruptionError} (`block-header`)
 */
export function decodeBlockHeader(bytes: Uint8Array, file: string, blockBegin: number): BlockHeader {
  const view = new DataView(bytes.buffer, bytes.byteOffset, BLOCK_HEADER_BYTES);
  const stored = view.getBigUint64(0, true);
  const computed = hash64(RIEGELI_HASH_KEY, bytes.subarray(8, BLOCK_HEADER_BYTES));
  if (stored !== computed) {
    throw new CorruptionError("block-header", "block header hash", {
      file,
      offset: blockBegin,
      expected: formatHash(computed),
      actual: formatHash(stored),
    });
  }
  const previousChunk = Number(view.getBigUint64(8, true));
  const nextChunk = Number(view.getBigUint64(16, true));
  // Source: google/riegeli, riegeli/chunk_encoding/... "records/block.h", BlockHeader validity.
  const possible =
    previousChunk <= MAX_OFFSET &&
    nextChunk <= MAX_OFFSET &&
    previousChunk % BLOCK_BYTES < USABLE_BLOCK_BYTES &&
    nextChunk > 0 &&
    (nextChunk - 1) % BLOCK_BYTES >= BLOCK_HEADER_BYTES;
  if (possible) return { previousChunk, nextChunk };
  throw new CorruptionError("block-header", "distances of a block header", {
    file,
    offset: blockBegin,
    actual: `previous_chunk ${previousChunk}, next_chunk ${nextChunk}`,
  });
}

const expectedBytes = new Uint8Array(BLOCK_HEADER_BYTES);

/**
 * Checks that a block header belongs to the chunk it stands in.
 * @throws {@link CorruptionError} (`block-header`)
 */
export function checkBlockHeader(
  bytes: Uint8Array,
  blockBegin: number,
  chunk: { readonly file: string; readonly begin: number; readonly end: number },
): void {
  const expected = { previousChunk: blockBegin - chunk.begin, nextChunk: chunk.end - blockBegin };
  encodeBlockHeader(expected, expectedBytes);
  if (sameBytes(bytes, expectedBytes)) return;
  const { previousChunk, nextChunk } = decodeBlockHeader(bytes, chunk.file, blockBegin);
  throw new CorruptionError("block-header", "distances of a block header", {
    file: chunk.file,
    offset: blockBegin,
    expected: `previous_chunk ${expected.previousChunk}, next_chunk ${expected.nextChunk}`,
    actual: `previous_chunk ${previousChunk}, next_chunk ${nextChunk}`,
  });
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  for (let i = 0; i < b.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
