import { BaseSource, type ByteSource, checkRange, type ReadOptions } from "../../bytes/byte-source.js";
import { crc32c, prepareCrc32c } from "../../codecs/crc32c.js";
import { CorruptionError, formatCrc } from "../../errors.js";

/** Up to this much is read as a whole and checked before any of it is given out, 64 KiB. */
const WHOLE_BYTES = 64 * 1024;
/** What is left to check is read so much at a time, 1 MiB. */
const CHECK_BYTES = 1024 * 1024;

/** What the bytes of a source have to sum up to. */
export interface Checksum {
  /** Not masked. */
  readonly expected: number;
  /** That of what comes before the bytes. */
  readonly initial: number;
}

/** Whose bytes they are, for errors. */
export interface TensorPlace {
  readonly file: string;
  /** Of the first byte in the file. */
  readonly offset: number;
  readonly key: string;
}

/** The error for bytes that do not match their checksum. Offsets are those of the tensor in its data file. */
export function checksumError(place: TensorPlace, expected: number, actual: number): CorruptionError {
  return new CorruptionError("tensor-checksum", `checksum of "${place.key}"`, {
    file: place.file,
    offset: place.offset,
    expected: formatCrc(expected),
    actual: formatCrc(actual),
  });
}

/**
 * Bytes of a data file with their checksum. A small source is checked before any of it is given out; of a large one the
 * checksum is kept up while it is read in order, and the read that reaches the end fails when it is wrong. What was read
 * otherwise is checked by {@link CheckedSource.verify}.
 */
export class CheckedSource extends BaseSource {
  readonly place: TensorPlace;
  /** How many bytes from the start are in the checksum so far. */
  checked = 0;
  /** What the checksum of all has to be. */
  readonly expected: number;
  /** The checksum of what comes before. */
  readonly initial: number;
  private crc: number;
  private readonly inner: ByteSource;
  private readonly onVerified: () => void;
  private failure: CorruptionError | undefined;
  private whole: Promise<Uint8Array> | undefined;

  /** Checks `inner`; `onVerified` is called when all of it is found good. */
  constructor(inner: ByteSource, place: TensorPlace, checksum: Checksum, onVerified: () => void = () => {}) {
    super();
    this.inner = inner;
    this.place = place;
    this.expected = checksum.expected;
    this.initial = checksum.initial;
    this.crc = checksum.initial;
    this.onVerified = onVerified;
    if (inner.size === 0) this.finish();
  }

  /** What errors print. */
  get name(): string {
    return this.inner.name;
  }

  /** How many bytes there are. */
  get size(): number {
    return this.inner.size;
  }

  /** Whether all of it was found good. */
  get isVerified(): boolean {
    return this.checked === this.size && this.failure === undefined;
  }

  /** See {@link ByteSource.read}. @throws CorruptionError (`tensor-checksum`) */
  override async read(offset: number, length: number, options?: ReadOptions): Promise<Uint8Array> {
    checkRange(this, offset, length);
    if (this.size <= WHOLE_BYTES) return (await this.readWhole(options)).subarray(offset, offset + length);
    this.refuse();
    const bytes = await this.inner.read(offset, length, options);
    await this.take(offset, [bytes]);
    return bytes;
  }

  /** See {@link ByteSource.readPieces}. @throws CorruptionError (`tensor-checksum`) */
  override async readPieces(
    offset: number,
    length: number,
    scratch: Uint8Array,
    options?: ReadOptions,
  ): Promise<readonly Uint8Array[]> {
    checkRange(this, offset, length);
    if (this.size <= WHOLE_BYTES) return [(await this.readWhole(options)).subarray(offset, offset + length)];
    this.refuse();
    const pieces = await this.inner.readPieces(offset, length, scratch, options);
    await this.take(offset, pieces);
    return pieces;
  }

  /** Reads what was not read in order yet. @throws CorruptionError (`tensor-checksum`) */
  async verify(options?: ReadOptions): Promise<void> {
    this.refuse();
    if (this.isVerified) return;
    if (this.size <= WHOLE_BYTES) return void (await this.readWhole(options));
    const scratch = new Uint8Array(Math.min(CHECK_BYTES, this.size - this.checked));
    while (this.checked < this.size) {
      options?.signal?.throwIfAborted();
      await this.readPieces(this.checked, this.size - this.checked, scratch, options);
    }
  }

  protected override async fill(offset: number, target: Uint8Array, options?: ReadOptions): Promise<void> {
    target.set(await this.read(offset, target.length, options));
  }

  private readWhole(options?: ReadOptions): Promise<Uint8Array> {
    this.refuse();
    this.whole ??= this.inner.read(0, this.size, options).then(async (bytes) => {
      await this.take(0, [bytes]);
      return bytes;
    });
    this.whole.catch(() => {
      this.whole = undefined;
    });
    return this.whole;
  }

  /** Adds pieces to the checksum when they are the next in order. */
  private async take(offset: number, pieces: readonly Uint8Array[]): Promise<void> {
    if (offset !== this.checked) return;
    await prepareCrc32c(this.size);
    if (offset !== this.checked) return;
    for (const piece of pieces) {
      this.crc = crc32c(piece, this.crc);
      this.checked += piece.length;
    }
    if (this.checked === this.size && this.size > 0) this.finish();
  }

  private finish(): void {
    if (this.crc === this.expected) {
      this.onVerified();
      return;
    }
    this.failure = checksumError(this.place, this.expected, this.crc);
    throw this.failure;
  }

  private refuse(): void {
    if (this.failure !== undefined) throw this.failure;
  }
}
