import { TruncatedError } from "../errors.js";

/** Options of a read. */
export interface ReadOptions {
  /** Aborts the read. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * One readable extent of bytes: a file, a slice of one, a joined list of slices, a part of an archive.
 * Sizes and offsets are in bytes. Reading changes nothing, and reads may overlap in time.
 */
export interface ByteSource {
  /** What errors print: a path or URL. */
  readonly name: string;
  /** How many bytes there are. */
  readonly size: number;
  /**
   * Reads exactly `length` bytes from `offset`. The result may be a view of shared memory: do not write to it.
   * @throws {@link TruncatedError} (`truncated`) when the range passes the end.
   */
  read(offset: number, length: number, options?: ReadOptions): Promise<Uint8Array>;
  /**
   * Reads as many bytes as fit in `scratch`, or up to `length`, and gives them as a list of pieces in order,
   * which lie in `scratch` or in memory of the source's own. At least one byte is given. Pieces are good until
   * `scratch` is used again. This is how bytes are streamed without a copy.
   */
  readPieces(
    offset: number,
    length: number,
    scratch: Uint8Array,
    options?: ReadOptions,
  ): Promise<readonly Uint8Array[]>;
  /** A part of this source, as a source; does no I/O. */
  slice(offset: number, length: number): ByteSource;
}

/** A source over something that has to be given back. */
export interface OpenedSource extends ByteSource {
  /** Gives back the file handle or connection. Slices of the source end with it. */
  close(): Promise<void>;
}

/**
 * Checks that `[offset, offset + length)` lies inside `source`.
 * @throws {@link TruncatedError} (`truncated`) when it does not.
 */
export function checkRange(source: { name: string; size: number }, offset: number, length: number): void {
  if (!(offset >= 0 && length >= 0 && offset + length <= source.size)) {
    throw new TruncatedError("truncated", "range passes the end", {
      file: source.name,
      offset,
      expected: `${length} bytes`,
      actual: `${Math.max(0, source.size - offset)} bytes left of ${source.size}`,
    });
  }
}

/** The parts of {@link ByteSource} that follow from a way to fill a buffer. */
export abstract class BaseSource implements ByteSource {
  abstract readonly name: string;
  abstract readonly size: number;

  /** Fills `target` with the bytes from `offset`; the range has been checked. */
  protected abstract fill(offset: number, target: Uint8Array, options?: ReadOptions): Promise<void>;

  /** See {@link ByteSource.read}. */
  async read(offset: number, length: number, options?: ReadOptions): Promise<Uint8Array> {
    checkRange(this, offset, length);
    const target = new Uint8Array(length);
    if (length > 0) await this.fill(offset, target, options);
    return target;
  }

  /** See {@link ByteSource.readPieces}. */
  async readPieces(
    offset: number,
    length: number,
    scratch: Uint8Array,
    options?: ReadOptions,
  ): Promise<readonly Uint8Array[]> {
    checkRange(this, offset, length);
    const target = scratch.subarray(0, Math.min(length, scratch.length));
    await this.fill(offset, target, options);
    return [target];
  }

  /** See {@link ByteSource.slice}. */
  slice(offset: number, length: number): ByteSource {
    return sliceSource(this, offset, length);
  }
}

/**
 * A part of `parent` as a source. A slice of the whole is the parent itself.
 * @throws {@link TruncatedError} (`truncated`) when the range passes the end.
 */
export function sliceSource(parent: ByteSource, offset: number, length: number): ByteSource {
  checkRange(parent, offset, length);
  return offset === 0 && length === parent.size ? parent : new SlicedSource(parent, offset, length);
}

/** A contiguous part of another source. `origin` and `start` tell where it lies, so that neighbours can be joined. */
export class SlicedSource implements ByteSource {
  readonly origin: ByteSource;
  readonly start: number;
  readonly size: number;

  /** Use {@link sliceSource}; the range must be inside `origin`. */
  constructor(origin: ByteSource, start: number, size: number) {
    this.origin = origin;
    this.start = start;
    this.size = size;
  }

  /** The name of the source it is a part of. */
  get name(): string {
    return this.origin.name;
  }

  /** See {@link ByteSource.read}. */
  async read(offset: number, length: number, options?: ReadOptions): Promise<Uint8Array> {
    checkRange(this, offset, length);
    return this.origin.read(this.start + offset, length, options);
  }

  /** See {@link ByteSource.readPieces}. */
  async readPieces(
    offset: number,
    length: number,
    scratch: Uint8Array,
    options?: ReadOptions,
  ): Promise<readonly Uint8Array[]> {
    checkRange(this, offset, length);
    return this.origin.readPieces(this.start + offset, length, scratch, options);
  }

  /** See {@link ByteSource.slice}. */
  slice(offset: number, length: number): ByteSource {
    checkRange(this, offset, length);
    return sliceSource(this.origin, this.start + offset, length);
  }
}
