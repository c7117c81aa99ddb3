import { type ByteSource, checkRange, type ReadOptions, sliceSource } from "./byte-source.js";

/** A source whose bytes another one has, which is found anew at each read. */
export abstract class DelegatingSource implements ByteSource {
  abstract readonly name: string;
  abstract readonly size: number;

  /** The source that has the bytes: as many as {@link DelegatingSource.size}. */
  protected abstract source(): Promise<ByteSource>;

  /** See {@link ByteSource.read}. @throws what finding the source gives */
  async read(offset: number, length: number, options?: ReadOptions): Promise<Uint8Array> {
    checkRange(this, offset, length);
    return (await this.source()).read(offset, length, options);
  }

  /** See {@link ByteSource.readPieces}. @throws what finding the source gives */
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
}

/** A source that is opened when it is first read; only its size is known before. */
export class DeferredSource extends DelegatingSource {
  readonly name: string;
  readonly size: number;
  private readonly open: () => Promise<ByteSource>;
  private opened: Promise<ByteSource> | undefined;

  /** `open` gives the source, and fails when that has not `size` bytes. It is called again when it failed. */
  constructor(name: string, size: number, open: () => Promise<ByteSource>) {
    super();
    this.name = name;
    this.size = size;
    this.open = open;
  }

  protected source(): Promise<ByteSource> {
    if (this.opened === undefined) {
      this.opened = this.open();
      this.opened.catch(() => {
        this.opened = undefined;
      });
    }
    return this.opened;
  }
}
