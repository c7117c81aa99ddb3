import { type ByteSource, checkRange, type ReadOptions, sliceSource } from "./byte-source.js";

/** A source that is opened when it is first read; only its size is known before. */
export class DeferredSource implements ByteSource {
  readonly name: string;
  readonly size: number;
  private readonly open: () => Promise<ByteSource>;
  private opened: Promise<ByteSource> | undefined;

  /** `open` gives the source, and fails when that has not `size` bytes. It is called again when it failed. */
  constructor(name: string, size: number, open: () => Promise<ByteSource>) {
    this.name = name;
    this.size = size;
    this.open = open;
  }

  /** See {@link ByteSource.read}. @throws what opening gives */
  async read(offset: number, length: number, options?: ReadOptions): Promise<Uint8Array> {
    checkRange(this, offset, length);
    return (await this.source()).read(offset, length, options);
  }

  /** See {@link ByteSource.readPieces}. @throws what opening gives */
  async readPieces(
    offset: number,
    length: number,
    scratch: Uint8Array,
    options?: ReadOptions,
  ): Promise<readonly Uint8Array[]> {
    checkRange(this, offset, length);
    return (await this.source()).readPieces(offset, length, scratch, options);
  }

  /** See {@link ByteSource.slice}. */
  slice(offset: number, length: number): ByteSource {
    return sliceSource(this, offset, length);
  }

  private source(): Promise<ByteSource> {
    if (this.opened === undefined) {
      this.opened = this.open();
      this.opened.catch(() => {
        this.opened = undefined;
      });
    }
    return this.opened;
  }
}
