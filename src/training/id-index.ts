/** Where the words of a row's id are found. */
export interface IdWords {
  /** Whether the row has this id. */
  hasId(row: number, low: number, high: number): boolean;
  /** The hash of the row's id; see {@link hashId}. */
  hashOf(row: number): number;
}

/** Smallest number of places. */
const MIN_CAPACITY = 16;

/** Part of the places that may be taken, as 3/4, before there are twice as many. */
const [FULL_NUMERATOR, FULL_DENOMINATOR] = [3, 4];

/**
 * Finds the row of an id: an open-addressing hash table that holds row numbers alone, 4 bytes a place; the ids stand
 * beside the rows. Rows are never taken out.
 */
export class IdIndex {
  private readonly ids: IdWords;
  /** Row number and 1; 0 is a free place. */
  private places = new Int32Array(MIN_CAPACITY);
  private count = 0;

  /** An empty index over ids that are kept elsewhere. */
  constructor(ids: IdWords) {
    this.ids = ids;
  }

  /** The row of an id, or -1. */
  find(low: number, high: number): number {
    const { places, ids } = this;
    const mask = places.length - 1;
    for (let at = hashId(low, high) & mask; ; at = (at + 1) & mask) {
      const row = (places[at] as number) - 1;
      if (row < 0 || ids.hasId(row, low, high)) return row;
    }
  }

  /** Adds a row whose id is known by {@link IdWords} and is not in the index yet. */
  add(row: number): void {
    if ((this.count + 1) * FULL_DENOMINATOR > this.places.length * FULL_NUMERATOR) this.grow();
    this.place(row);
    this.count++;
  }

  private place(row: number): void {
    const { places } = this;
    const mask = places.length - 1;
    let at = this.ids.hashOf(row) & mask;
    while (places[at] !== 0) at = (at + 1) & mask;
    places[at] = row + 1;
  }

  private grow(): void {
    this.places = new Int32Array(this.places.length * 2);
    for (let row = 0; row < this.count; row++) this.place(row);
  }
}

/** Mixes the words of an id to 32 bits. Source: MurmurHash3, fmix32 (public domain), applied to each word. */
export function hashId(low: number, high: number): number {
  return mix32(mix32(low) ^ (high + 0x9e3779b9));
}

/** Mixes 32 bits so that each depends on all. Source: MurmurHash3, fmix32. */
export function mix32(value: number): number {
  let h = value | 0;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}
