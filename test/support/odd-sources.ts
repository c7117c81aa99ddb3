import { BaseSource, type ByteSource, checkRange, type ReadOptions, sliceSource } from "../../src/bytes/byte-source.js";

/** A small generator of repeatable numbers, so that a failure can be run again. */
export function randomNumbers(seed: number): (below: number) => number {
  let state = (seed | 0) + 0x9e3779b9;
  return (below) => {
    state = Math.imul(state ^ (state >>> 15), 0x85ebca6b);
    state = Math.imul(state ^ (state >>> 13), 0xc2b2ae35);
    state = (state ^ (state >>> 16)) + 0x9e3779b9;
    return (state >>> 0) % below;
  };
}

/** Bytes that look random, the same for the same seed. */
export function randomBytes(length: number, seed = 1): Uint8Array<ArrayBuffer> {
  const next = randomNumbers(seed);
  return Uint8Array.from({ length }, () => next(256));
}

/** Plain bytes behind the default methods of a source, as a file is: what is read is always a copy. */
export class PlainSource extends BaseSource {
  readonly name: string;
  readonly size: number;
  private readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array, name = "plain") {
    super();
    this.bytes = bytes;
    this.name = name;
    this.size = bytes.length;
  }

  protected async fill(offset: number, target: Uint8Array): Promise<void> {
    target.set(this.bytes.subarray(offset, offset + target.length));
  }
}

/** Where the pieces of a {@link ScatteredSource} lie: in the scratch memory one behind the other, the other way round, or in memory of its own. */
export type Scatter = "ascending" | "descending" | "own" | "mixed";

/**
 * Gives its bytes as several pieces with gaps between them, anywhere in the scratch memory, and fewer than there is room for:
 * all that the contract of a source allows.
 */
export class ScatteredSource implements ByteSource {
  readonly name: string;
  readonly size: number;
  private readonly bytes: Uint8Array;
  private readonly scatter: Scatter;
  private readonly next: (below: number) => number;

  constructor(bytes: Uint8Array, scatter: Scatter, seed = 1, name = "scattered") {
    this.bytes = bytes;
    this.size = bytes.length;
    this.scatter = scatter;
    this.next = randomNumbers(seed);
    this.name = name;
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    checkRange(this, offset, length);
    await Promise.resolve();
    return this.bytes.slice(offset, offset + length);
  }

  async readPieces(offset: number, length: number, scratch: Uint8Array): Promise<readonly Uint8Array[]> {
    checkRange(this, offset, length);
    await Promise.resolve();
    const all = Math.min(length, scratch.length);
    // At times all is given that there is room for, at times only a part.
    const wanted = this.next(3) === 0 ? all : Math.min(all, 1 + this.next(Math.max(1, all)));
    const counts: number[] = [];
    for (let left = wanted; left > 0; ) {
      const count = Math.min(left, 1 + this.next(Math.max(1, Math.ceil(wanted / 3))));
      counts.push(count);
      left -= count;
    }
    const places = this.placesFor(counts, scratch.length - wanted);
    let from = offset;
    return counts.map((count, i) => {
      const part = this.bytes.slice(from, from + count);
      from += count;
      const own = this.scatter === "own" || (this.scatter === "mixed" && this.next(2) === 0);
      if (own) return part;
      const piece = scratch.subarray(places[i], places[i]! + count);
      piece.set(part);
      return piece;
    });
  }

  slice(offset: number, length: number): ByteSource {
    return sliceSource(this, offset, length);
  }

  /** Where pieces of these lengths go, `spare` bytes being left over. */
  private placesFor(counts: readonly number[], spare: number): number[] {
    const order = counts.map((_, i) => i);
    if (this.scatter === "descending") order.reverse();
    const places: number[] = [];
    let at = 0;
    let left = spare;
    for (const i of order) {
      const gap = this.next(left + 1);
      left -= gap;
      places[i] = at + gap;
      at += gap + counts[i]!;
    }
    return places;
  }
}

/** Gives at most so many bytes of scratch memory to the source below, whatever it is given. */
export class TinyScratchSource implements ByteSource {
  readonly name: string;
  readonly size: number;
  private readonly inner: ByteSource;
  private readonly scratchBytes: number;

  constructor(inner: ByteSource, scratchBytes: number) {
    this.inner = inner;
    this.scratchBytes = scratchBytes;
    this.name = inner.name;
    this.size = inner.size;
  }

  read(offset: number, length: number, options?: ReadOptions): Promise<Uint8Array> {
    return this.inner.read(offset, length, options);
  }

  readPieces(offset: number, length: number, scratch: Uint8Array, options?: ReadOptions) {
    return this.inner.readPieces(offset, length, scratch.subarray(0, this.scratchBytes), options);
  }

  slice(offset: number, length: number): ByteSource {
    return sliceSource(this, offset, length);
  }
}

/** Fails at every read that touches a byte from `failsFrom` on. */
export class FailingSource extends BaseSource {
  readonly name = "failing";
  readonly size: number;
  reads = 0;
  private readonly failsFrom: number;

  constructor(size: number, failsFrom: number) {
    super();
    this.size = size;
    this.failsFrom = failsFrom;
  }

  protected async fill(offset: number, target: Uint8Array): Promise<void> {
    this.reads++;
    await Promise.resolve();
    if (offset + target.length > this.failsFrom) throw new Error("the read failed");
    target.fill(7);
  }
}
