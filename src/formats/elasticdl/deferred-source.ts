import { type ByteSource, checkRange, type ReadOptions, sliceSource } from "../../bytes/byte-source.js";
import { CorruptionError } from "../../errors.js";

/** A source that is opened when it is first read; only its size is known before. */
export class DeferredSource implements ByteSource {
  readonly name: string;
  readonly size: number;
  private readonly open: () => Promise<ByteSource>;
  private opened: Promise<ByteSource> | undefined;

  /** `open` gives the source, which has to have `size` bytes. */
  constructor(name: string, size: number, open: () => Promise<ByteSource>) {
    this.name = name;
    this.size = size;
    this.open = open;
  }

  /** See {@link ByteSource.read}. @throws {@link CorruptionError} (`tensor-data`) when it has another size */
  async read(offset: number, length: number, options?: ReadOptions): Promise<Uint8Array> {
    checkRange(this, offset, length);
    return (await this.source()).read(offset, length, options);
  }

  /** See {@link ByteSource.readPieces}. @throws {@link CorruptionError} (`tensor-data`) when it has another size */
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

  private async source(): Promise<ByteSource> {
    this.opened ??= this.open();
    const source = await this.opened;
    if (source.size === this.size) return source;
    const sizes = { file: this.name, expected: `${this.size} bytes`, actual: `${source.size} bytes` };
    throw new CorruptionError("tensor-data", "elements of a tensor", sizes);
  }
}
