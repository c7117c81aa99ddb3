import { ByteCursor } from "../bytes/byte-cursor.js";
import { varintLength, writeVarint } from "../codecs/varint.js";
import { CorruptionError } from "../errors.js";
import { MAX_OFFSET } from "../limits.js";

/** Where a block lies. `size` is without the trailer behind it. */
export interface BlockHandle {
  readonly offset: number;
  readonly size: number;
}

/**
 * The end of a table file, 48 bytes: two block handles as varints, zeros up to byte 40, and the magic number.
 * Source: google/leveldb, doc/table_format.md, "Footer"; tensorflow/core/lib/io/format.h.
 */
export const FOOTER_BYTES = 48;

/** Source: tensorflow/core/lib/io/format.h, kTableMagicNumber. */
const MAGIC = 0xdb4775248b80fb57n;

/** Bytes behind each block: its type, and the masked CRC-32C of block and type. Source: format.h, kBlockTrailerSize. */
export const TRAILER_BYTES = 5;

/** How a block is stored. Source: tensorflow/core/lib/io/table_options.h, CompressionType. */
export const BLOCK_TYPE = { raw: 0, snappy: 1 } as const;

/** The two blocks that the footer names. */
export interface Footer {
  readonly metaindex: BlockHandle;
  readonly index: BlockHandle;
}

/**
 * The footer from the last 48 bytes of a file of `fileSize` bytes.
 * @throws CorruptionError (`table-footer`) when it is none, or names blocks outside of the file
 */
export function decodeFooter(bytes: Uint8Array, file: string, fileSize: number): Footer {
  const base = fileSize - FOOTER_BYTES;
  const magic = new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(FOOTER_BYTES - 8, true);
  if (magic !== MAGIC) {
    throw new CorruptionError("table-footer", "not a sorted string table: magic number", {
      file,
      offset: fileSize - 8,
      expected: `0x${MAGIC.toString(16)}`,
      actual: `0x${magic.toString(16).padStart(16, "0")}`,
    });
  }
  const cursor = new ByteCursor(bytes.subarray(0, FOOTER_BYTES - 8), file, base);
  const metaindex = readHandle(cursor);
  const index = readHandle(cursor);
  for (const handle of [metaindex, index]) checkHandle(handle, base, { file, offset: base });
  return { metaindex, index };
}

/** A block handle at a cursor. @throws CorruptionError (`table-footer`), TruncatedError (`truncated`) */
export function readHandle(cursor: ByteCursor): BlockHandle {
  const offset = cursor.readVarint("table-footer");
  const size = cursor.readVarint("table-footer");
  return { offset, size };
}

/** Checks that a block with its trailer ends before `end`. @throws CorruptionError (`table-footer`) */
export function checkHandle(handle: BlockHandle, end: number, place: { file: string; offset: number }): void {
  const blockEnd = handle.offset + handle.size + TRAILER_BYTES;
  if (blockEnd <= end && blockEnd <= MAX_OFFSET) return;
  throw new CorruptionError("table-footer", "a block passes the end of the table", {
    ...place,
    expected: `at most ${end}`,
    actual: blockEnd,
  });
}

/** A block handle as it stands in the index block and the footer. */
export function encodeHandle({ offset, size }: BlockHandle): Uint8Array {
  const bytes = new Uint8Array(varintLength(offset) + varintLength(size));
  writeVarint(bytes, writeVarint(bytes, 0, offset), size);
  return bytes;
}

/** The last 48 bytes of a table. */
export function encodeFooter({ metaindex, index }: Footer): Uint8Array {
  const bytes = new Uint8Array(FOOTER_BYTES);
  const first = encodeHandle(metaindex);
  bytes.set(first);
  bytes.set(encodeHandle(index), first.length);
  new DataView(bytes.buffer).setBigUint64(FOOTER_BYTES - 8, MAGIC, true);
  return bytes;
}
