import type { ImagePool } from "./image-pool.js";
import type { ParameterBlock } from "./parameter-block.js";

/**
 * What is known of a page in a snapshot. Two threads change it, each in one atomic step: the one that trains puts a page's
 * old content aside before the first change to it, the one that writes copies pages as it comes to them.
 *
 * | state | who made it | what the snapshot's content of the page is |
 * | --- | --- | --- |
 * | UNTOUCHED | – | the page itself |
 * | COPYING | writer | the page itself; the writer is copying it |
 * | COPIED | writer | with the writer; the page may change |
 * | SAVED | trainer | in the pool of images; the page may change |
 */
const UNTOUCHED = 0;
const COPYING = 1;
const COPIED = 2;
const SAVED = 3;

/** What the two threads share of a snapshot. */
export interface SnapshotPages {
  /** The state of each page. */
  readonly states: Uint8Array;
  /** Where the image of each page with state SAVED is; see {@link ImagePool}. */
  readonly images: Uint32Array;
}

/** The pages of a snapshot: those of all blocks that there are, none touched. */
export function makeSnapshotPages(pageCount: number): SnapshotPages {
  return {
    states: new Uint8Array(new SharedArrayBuffer(pageCount)),
    images: new Uint32Array(new SharedArrayBuffer(4 * pageCount)),
  };
}

/** The training thread: puts aside the bytes from `start` to `end` of each array of a block, page by page. */
export function savePages(
  pages: SnapshotPages,
  pool: ImagePool,
  block: ParameterBlock,
  start: number,
  end: number,
): void {
  const { arrays, byteLength, pageBytes, pageCount, firstPage } = block;
  // A block that is younger than the snapshot has no part in it.
  if (firstPage >= pages.states.length) return;
  for (let page = Math.floor(start / pageBytes); page * pageBytes < end; page++) {
    const from = page * pageBytes;
    const length = Math.min(pageBytes, byteLength - from);
    for (let k = 0; k < arrays.length; k++) {
      const number = firstPage + k * pageCount + page;
      if (Atomics.load(pages.states, number) < COPIED) {
        savePage(pages, pool, number, new Uint8Array(arrays[k] as SharedArrayBuffer, from, length));
      }
    }
  }
}

function savePage({ states, images }: SnapshotPages, pool: ImagePool, number: number, bytes: Uint8Array): void {
  const image = pool.save(bytes);
  Atomics.store(images, number, image);
  for (let state = Atomics.load(states, number); state < COPIED; ) {
    const found = Atomics.compareExchange(states, number, state, SAVED);
    if (found === state) return;
    state = found;
  }
  // The writer has copied it in the meantime.
  pool.takeBack(bytes.length);
}

/** The writing thread: the content that a page had at the snapshot's instant, into `target` from `offset` on. */
export function readPage(
  { states, images }: SnapshotPages,
  number: number,
  bytes: Uint8Array,
  target: Uint8Array,
  offset: number,
  imageAt: (image: number, byteLength: number) => Uint8Array,
): void {
  if (Atomics.compareExchange(states, number, UNTOUCHED, COPYING) === UNTOUCHED) {
    target.set(bytes, offset);
    if (Atomics.compareExchange(states, number, COPYING, COPIED) === COPYING) return;
  }
  target.set(imageAt(Atomics.load(images, number), bytes.length), offset);
}
