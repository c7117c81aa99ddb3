import { BaseSource, type ByteSource, type ReadOptions } from "../../bytes/byte-source.js";

/** Numbers of a big-endian file, little-endian. */
export class SwappedSource extends BaseSource {
  readonly name: string;
  readonly size: number;
  private readonly inner: ByteSource;
  private readonly width: number;

  /** `width` is that of one number in bytes; the size of `inner` is a multiple of it. */
  constructor(inner: ByteSource, width: number) {
    super();
    this.inner = inner;
    this.name = inner.name;
    this.size = inner.size;
    this.width = width;
  }

  protected async fill(offset: number, target: Uint8Array, options?: ReadOptions): Promise<void> {
    const { width } = this;
    const start = Math.floor(offset / width) * width;
    const end = Math.ceil((offset + target.length) / width) * width;
    const bytes = (await this.inner.read(start, end - start, options)).slice();
    swapBytes(bytes, width);
    target.set(bytes.subarray(offset - start, offset - start + target.length));
  }
}

/** Reverses the bytes of each number, in place. */
export function swapBytes(bytes: Uint8Array, width: number): void {
  for (let at = 0; at + width <= bytes.length; at += width) bytes.subarray(at, at + width).reverse();
}
