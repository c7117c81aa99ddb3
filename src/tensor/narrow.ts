import { BaseSource, type ByteSource, type ReadOptions } from "../bytes/byte-source.js";
import { UnsupportedError } from "../errors.js";
import type { DType } from "./dtype.js";
import type { LazyTensor } from "./lazy-tensor.js";

/** Bytes of an element before and after. */
const [WIDE, NARROW] = [8, 4];
/** Elements that are changed at a time. */
const NARROWED_ELEMENTS = 64 * 1024;
const MIN = -(2n ** 31n);
const MAX = 2n ** 31n - 1n;

/** Whether {@link narrowTensor} can change one dtype to another. */
export function canNarrow(from: DType, to: DType): boolean {
  return from === "int64" && to === "int32";
}

/**
 * A tensor of int64 as int32, each number of which is checked to fit when it is read.
 *
 * Its reads throw {@link UnsupportedError} (`unsupported-dtype`) for a number that does not.
 */
export function narrowTensor(tensor: LazyTensor): LazyTensor {
  const { shape, byteLength } = tensor;
  return {
    dtype: "int32",
    shape,
    byteLength: (byteLength / WIDE) * NARROW,
    data: async (region) => new NarrowedSource(await tensor.data(region)),
  };
}

class NarrowedSource extends BaseSource {
  readonly name: string;
  readonly size: number;
  private readonly data: ByteSource;

  constructor(data: ByteSource) {
    super();
    this.name = data.name;
    this.data = data;
    this.size = (data.size / WIDE) * NARROW;
  }

  protected async fill(offset: number, target: Uint8Array, options?: ReadOptions): Promise<void> {
    const end = offset + target.length;
    for (let first = Math.floor(offset / NARROW); first * NARROW < end; first += NARROWED_ELEMENTS) {
      const count = Math.min(NARROWED_ELEMENTS, Math.ceil(end / NARROW) - first);
      const narrowed = this.narrow(await this.data.read(first * WIDE, count * WIDE, options), first);
      const start = first * NARROW;
      const from = Math.max(0, offset - start);
      target.set(narrowed.subarray(from, end - start), start + from - offset);
    }
  }

  private narrow(bytes: Uint8Array, first: number): Uint8Array {
    const wide = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const narrow = new DataView(new ArrayBuffer((bytes.length / WIDE) * NARROW));
    for (let i = 0; i < bytes.length / WIDE; i++) {
      const value = wide.getBigInt64(i * WIDE, true);
      if (value < MIN || value > MAX) {
        throw new UnsupportedError("unsupported-dtype", `element ${first + i} does not fit int32`, {
          file: this.name,
          expected: `${MIN} to ${MAX}`,
          actual: value,
        });
      }
      narrow.setInt32(i * NARROW, Number(value), true);
    }
    return new Uint8Array(narrow.buffer);
  }
}
