import { BaseSource, type ByteSource, type ReadOptions } from "../bytes/byte-source.js";

/** Elements that are converted at a time. */
const CONVERTED_ELEMENTS = 64 * 1024;

/** How a {@link ConvertedSource} makes elements of others. */
export interface ElementConversion {
  /** Bytes of an element of the data. */
  readonly from: number;
  /** Bytes of an element that is given. */
  readonly to: number;
  /** The new bytes of elements, of which `first` is the place of the first. */
  convert(bytes: Uint8Array, first: number): Uint8Array;
}

/** Elements of a fixed size made from others, as they are read: some at a time, and those alone that are asked for. */
export class ConvertedSource extends BaseSource {
  readonly name: string;
  readonly size: number;
  private readonly data: ByteSource;
  private readonly conversion: ElementConversion;

  /** The size of `data` is a multiple of `conversion.from`. */
  constructor(data: ByteSource, conversion: ElementConversion) {
    super();
    this.name = data.name;
    this.size = (data.size / conversion.from) * conversion.to;
    this.data = data;
    this.conversion = conversion;
  }

  protected async fill(offset: number, target: Uint8Array, options?: ReadOptions): Promise<void> {
    const { from, to } = this.conversion;
    const end = offset + target.length;
    // Reads begin and end with an element, wherever the target does.
    for (let first = Math.floor(offset / to); first * to < end; first += CONVERTED_ELEMENTS) {
      const count = Math.min(CONVERTED_ELEMENTS, Math.ceil(end / to) - first);
      const bytes = await this.data.read(first * from, count * from, options);
      const converted = this.conversion.convert(bytes, first);
      const start = first * to;
      const skipped = Math.max(0, offset - start);
      target.set(converted.subarray(skipped, end - start), start + skipped - offset);
    }
  }
}
