import { type ByteSource, checkRange, type ReadOptions, SlicedSource, sliceSource } from "./byte-source.js";
import { MemorySource } from "./memory-source.js";

/**
 * Several sources one after another as one source. Empty parts are left out, and parts that are neighbours in the
 * same source become one, so a merged message is as few extents as it can be.
 */
export function joinSources(name: string, parts: Iterable<ByteSource>): ByteSource {
  const joined: ByteSource[] = [];
  for (const given of parts) {
    for (const part of given instanceof JoinedSource ? given.parts : [given]) {
      if (part.size === 0) continue;
      const last = joined.at(-1);
      const neighbour = last === undefined ? undefined : joinNeighbours(last, part);
      if (neighbour === undefined) joined.push(part);
      else joined[joined.length - 1] = neighbour;
    }
  }
  if (joined.length === 1) return joined[0] as ByteSource;
  if (joined.length === 0) return new MemorySource(new Uint8Array(0), name);
  return new JoinedSource(name, joined);
}

function joinNeighbours(a: ByteSource, b: ByteSource): ByteSource | undefined {
  if (!(a instanceof SlicedSource) || !(b instanceof SlicedSource)) return undefined;
  if (a.origin !== b.origin || a.start + a.size !== b.start) return undefined;
  return sliceSource(a.origin, a.start, a.size + b.size);
}

/** Below this what is left of the scratch memory is not worth another read. */
const SMALLEST_SCRATCH_BYTES = 4 * 1024;

/** What is left of scratch memory behind a piece, when the piece lies in it. */
function behind(scratch: Uint8Array, piece: Uint8Array): Uint8Array {
  if (piece.buffer !== scratch.buffer) return scratch;
  return scratch.subarray(Math.max(0, piece.byteOffset + piece.byteLength - scratch.byteOffset));
}

/** A list of sources read as one; made by {@link joinSources}. */
export class JoinedSource implements ByteSource {
  readonly name: string;
  readonly size: number;
  readonly parts: readonly ByteSource[];
  private readonly starts: Float64Array;

  /** Joins `parts`, none of which may be empty. */
  constructor(name: string, parts: readonly ByteSource[]) {
    this.name = name;
    this.parts = parts;
    this.starts = new Float64Array(parts.length + 1);
    let total = 0;
    for (const [i, part] of parts.entries()) {
      this.starts[i] = total;
      total += part.size;
    }
    this.starts[parts.length] = total;
    this.size = total;
  }

  /** See {@link ByteSource.read}. */
  async read(offset: number, length: number, options?: ReadOptions): Promise<Uint8Array> {
    checkRange(this, offset, length);
    let index = this.partAt(offset);
    const within = offset - this.startOf(index);
    if (length === 0 || within + length <= this.part(index).size) return this.part(index).read(within, length, options);
    const target = new Uint8Array(length);
    let done = 0;
    while (done < length) {
      const from = offset + done - this.startOf(index);
      const part = this.part(index++);
      const count = Math.min(part.size - from, length - done);
      target.set(await part.read(from, count, options), done);
      done += count;
    }
    return target;
  }

  /** See {@link ByteSource.readPieces}; goes on over several parts until `scratch` is full. */
  async readPieces(
    offset: number,
    length: number,
    scratch: Uint8Array,
    options?: ReadOptions,
  ): Promise<readonly Uint8Array[]> {
    checkRange(this, offset, length);
    const pieces: Uint8Array[] = [];
    let index = this.partAt(offset);
    let done = 0;
    // Pieces may lie anywhere in the scratch memory given for them, so what is free begins behind the last.
    let free = scratch;
    while (done < length && (free.length >= SMALLEST_SCRATCH_BYTES || done === 0)) {
      const from = offset + done - this.startOf(index);
      const part = this.part(index);
      const count = Math.min(part.size - from, length - done);
      let got = 0;
      if (part instanceof MemorySource) {
        // The rewritten heads of a merged message: many and tiny, so not worth a promise each.
        pieces.push(part.bytes.subarray(from, from + count));
        got = count;
      } else {
        for (const piece of await part.readPieces(from, count, free, options)) {
          pieces.push(piece);
          got += piece.length;
          free = behind(free, piece);
        }
      }
      done += got;
      if (from + got === part.size) index++;
    }
    return pieces;
  }

  /** See {@link ByteSource.slice}. */
  slice(offset: number, length: number): ByteSource {
    checkRange(this, offset, length);
    if (length === 0) return new MemorySource(new Uint8Array(0), this.name);
    const parts: ByteSource[] = [];
    let index = this.partAt(offset);
    let done = 0;
    while (done < length) {
      const from = offset + done - this.startOf(index);
      const part = this.part(index++);
      const count = Math.min(part.size - from, length - done);
      parts.push(part.slice(from, count));
      done += count;
    }
    return joinSources(this.name, parts);
  }

  private part(index: number): ByteSource {
    return this.parts[index] as ByteSource;
  }

  private startOf(index: number): number {
    return this.starts[index] as number;
  }

  /** The last part that starts at or before `offset`. */
  private partAt(offset: number): number {
    let low = 0;
    let high = this.parts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (this.startOf(middle) <= offset) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}
