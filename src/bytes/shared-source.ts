import { BaseSource, type ByteSource, type OpenedSource, type ReadOptions } from "./byte-source.js";

/** A source that several users have open at once, as one of them has it: closing it tells that he needs it no more. */
export class SharedSource extends BaseSource implements OpenedSource {
  readonly name: string;
  readonly size: number;
  private readonly inner: ByteSource;
  private onClose: (() => Promise<void>) | undefined;

  /** Reads `inner` under a name; `onClose` is called with the first close. */
  constructor(name: string, inner: ByteSource, onClose?: () => Promise<void>) {
    super();
    this.name = name;
    this.size = inner.size;
    this.inner = inner;
    this.onClose = onClose;
  }

  /** See {@link ByteSource.read}. */
  override read(offset: number, length: number, options?: ReadOptions): Promise<Uint8Array> {
    return this.inner.read(offset, length, options);
  }

  /** See {@link ByteSource.readPieces}. */
  override readPieces(
    offset: number,
    length: number,
    scratch: Uint8Array,
    options?: ReadOptions,
  ): Promise<readonly Uint8Array[]> {
    return this.inner.readPieces(offset, length, scratch, options);
  }

  /** Tells that it is no longer needed. */
  async close(): Promise<void> {
    const { onClose } = this;
    this.onClose = undefined;
    await onClose?.();
  }

  protected async fill(offset: number, target: Uint8Array, options?: ReadOptions): Promise<void> {
    target.set(await this.inner.read(offset, target.length, options));
  }
}
