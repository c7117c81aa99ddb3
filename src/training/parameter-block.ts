/** Bytes of a page of a dense variable, 16 KiB: what is set aside at a time while a snapshot is being written. */
const DENSE_PAGE_BYTES = 16 * 1024;

/** Bytes that the rows of one page of an embedding table take at least, 1 KiB; a wider row is a page of its own. */
const ROW_PAGE_BYTES = 1024;

/**
 * Memory of parameters that another thread can read: the values and beside them the optimizer's slots, all of one length.
 * It is seen as pages, numbered throughout a server, which is what a snapshot keeps track of.
 */
export interface ParameterBlock {
  /** The values, then each slot in the optimizer's order; all of `byteLength` bytes. */
  readonly arrays: readonly SharedArrayBuffer[];
  /** Bytes of one array. */
  readonly byteLength: number;
  /** Bytes of a page of one array; the last page may be shorter. */
  readonly pageBytes: number;
  /** Pages of one array. */
  readonly pageCount: number;
  /** Number of the first page of the first array; those of the other arrays follow. */
  readonly firstPage: number;
}

/** Hands out page numbers, so that one table of states covers the pages of all blocks that exist at an instant. */
export class PageNumbers {
  /** How many are given out. */
  count = 0;

  /** The first of `pages` consecutive numbers. */
  take(pages: number): number {
    const first = this.count;
    this.count += pages;
    return first;
  }
}

/** Size of a new block. */
export interface BlockSize {
  /** Bytes of one array. */
  readonly byteLength: number;
  /** Bytes of a page of one array. */
  readonly pageBytes: number;
  /** How many arrays: 1 and the optimizer's slots. */
  readonly arrayCount: number;
}

/** A block of zeros. */
export function makeBlock(pages: PageNumbers, { byteLength, pageBytes, arrayCount }: BlockSize): ParameterBlock {
  const arrays = Array.from({ length: arrayCount }, () => new SharedArrayBuffer(byteLength));
  const pageCount = Math.ceil(byteLength / pageBytes);
  return { arrays, byteLength, pageBytes, pageCount, firstPage: pages.take(pageCount * arrayCount) };
}

/** Bytes of a page of a dense variable. */
export function densePageBytes(): number {
  return DENSE_PAGE_BYTES;
}

/** Rows of `rowBytes` bytes in one page: a power of two, so that pages do not cross blocks. */
export function rowsPerPage(rowBytes: number): number {
  let rows = 1;
  while (rows < 64 && rows * rowBytes < ROW_PAGE_BYTES) rows *= 2;
  return rows;
}
