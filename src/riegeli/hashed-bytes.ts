import type { ByteSource, ReadOptions } from "../bytes/byte-source.js";
import { checkRange, sliceSource } from "../bytes/byte-source.js";
import { readInOrder, type StreamOptions } from "../bytes/copy-source.js";
import { createHasher } from "../codecs/hasher.js";
import type { Hasher64 } from "../codecs/highwayhash.js";
import { CorruptionError, formatHash } from "../errors.js";
import { RIEGELI_HASH_KEY } from "./blocks.js";
import type { ChunkBytes } from "./chunk-bytes.js";

/**
 * The data of a chunk, hashed while it is read. Whoever reads all of it in order has it verified at no cost: the last
 * piece is not given out when the hash is wrong. Other reads are not verified until {@link HashedBytes.verify}.
 */
export class HashedBytes implements ByteSource {
  readonly name: string;
  readonly size: number;
  readonly bytes: ChunkBytes;
  private hasher: Promise<Hasher64> | undefined;
  private hashedBytes = 0;
  private verified = false;
  private mismatch: CorruptionError | undefined;

  /** Wraps the data of a chunk. */
  constructor(bytes: ChunkBytes) {
    this.bytes = bytes;
    this.name = bytes.name;
    this.size = bytes.size;
  }

  /** Whether all the data has been hashed and found right. */
  get isVerified(): boolean {
    return this.verified;
  }

  /** See {@link ByteSource.read}. */
  async read(offset: number, length: number, options?: ReadOptions): Promise<Uint8Array> {
    const bytes = await this.bytes.read(offset, length, options);
    await this.observe(offset, [bytes]);
    return bytes;
  }

  /** See {@link ByteSource.readPieces}. */
  async readPieces(
    offset: number,
    length: number,
    scratch: Uint8Array,
    options?: ReadOptions,
  ): Promise<readonly Uint8Array[]> {
    const pieces = await this.bytes.readPieces(offset, length, scratch, options);
    await this.observe(offset, pieces);
    return pieces;
  }

  /** See {@link ByteSource.slice}. */
  slice(offset: number, length: number): ByteSource {
    checkRange(this, offset, length);
    return sliceSource(this, offset, length);
  }

  /**
   * Makes sure that all the data matches its hash; reads it again where it was not read in order.
   * @throws {@link CorruptionError} (`chunk-data`)
   */
  async verify(options: StreamOptions = {}): Promise<void> {
    if (this.verified) return;
    if (this.mismatch !== undefined) throw this.mismatch;
    const hasher = await createHasher(RIEGELI_HASH_KEY, this.size);
    await readInOrder(this.bytes, (pieces) => hashPieces(hasher, pieces), options);
    this.finish(hasher);
  }

  private async observe(offset: number, pieces: readonly Uint8Array[]): Promise<void> {
    if (this.verified || offset > this.hashedBytes) return;
    if (this.mismatch !== undefined) throw this.mismatch;
    // The promise is kept, not the hasher, so that reads that begin together have one; behind it nothing waits.
    this.hasher ??= createHasher(RIEGELI_HASH_KEY, this.size);
    const hasher = await this.hasher;
    let at = offset;
    for (const piece of pieces) {
      const known = Math.max(0, this.hashedBytes - at);
      at += piece.length;
      if (at <= this.hashedBytes) continue;
      hasher.update(piece.subarray(known));
      this.hashedBytes = at;
      if (at === this.size) this.finish(hasher);
    }
    if (this.mismatch !== undefined) throw this.mismatch;
  }

  private finish(hasher: Hasher64): void {
    const { chunk } = this.bytes;
    const computed = hasher.digest();
    this.hasher = undefined;
    this.verified = computed === chunk.dataHash;
    if (this.verified) return;
    this.mismatch = new CorruptionError("chunk-data", "chunk data hash", {
      file: this.name,
      offset: chunk.begin,
      expected: formatHash(chunk.dataHash),
      actual: formatHash(computed),
    });
    throw this.mismatch;
  }
}

/** Adds pieces to a hash, in order. */
export function hashPieces(hasher: Hasher64, pieces: readonly Uint8Array[]): void {
  for (const piece of pieces) hasher.update(piece);
}
