import { BaseSource, type ByteSource, type ReadOptions } from "../bytes/byte-source.js";
import { UnsupportedError } from "../errors.js";
import { type DType, elementBytes } from "./dtype.js";
import type { LazyTensor } from "./lazy-tensor.js";
import { decodeNumbers, encodeFloats } from "./numbers.js";

/** Elements that are changed at a time. */
const MAPPED_ELEMENTS = 64 * 1024;

type Encoder = (values: ArrayLike<number>) => Uint8Array;

function typed(make: { from(values: ArrayLike<number>): { readonly buffer: ArrayBufferLike } }): Encoder {
  return (values) => new Uint8Array(make.from(values).buffer);
}

const ENCODERS: Partial<Record<DType, Encoder>> = {
  float64: (values) => encodeFloats("float64", values),
  float32: (values) => encodeFloats("float32", values),
  float16: (values) => encodeFloats("float16", values),
  bfloat16: (values) => encodeFloats("bfloat16", values),
  int8: typed(Int8Array),
  int16: typed(Int16Array),
  int32: typed(Int32Array),
  uint8: typed(Uint8Array),
  uint16: typed(Uint16Array),
  uint32: typed(Uint32Array),
};

/**
 * A tensor of the same dtype and shape whose numbers are changed one by one as they are read. Floats are rounded to
 * the nearest; integers of up to 32 bits are stored as a typed array stores them. It can be sliced before or after.
 * @throws {@link UnsupportedError} (`unsupported-dtype`) for other dtypes
 */
export function mapTensor(tensor: LazyTensor, map: (value: number) => number): LazyTensor {
  const { dtype, shape, byteLength } = tensor;
  const encode = ENCODERS[dtype];
  if (encode === undefined) throw new UnsupportedError("unsupported-dtype", `${dtype} numbers to be changed`);
  return {
    dtype,
    shape,
    byteLength,
    data: async (region) => new MappedSource(await tensor.data(region), dtype, (values) => encode(mapped(values, map))),
  };
}

function mapped(values: ArrayLike<number>, map: (value: number) => number): ArrayLike<number> {
  const result = new Float64Array(values.length);
  for (let i = 0; i < values.length; i++) result[i] = map(values[i] as number);
  return result;
}

class MappedSource extends BaseSource {
  readonly name: string;
  readonly size: number;
  private readonly source: ByteSource;
  private readonly dtype: DType;
  private readonly change: Encoder;

  constructor(source: ByteSource, dtype: DType, change: Encoder) {
    super();
    this.name = source.name;
    this.size = source.size;
    this.source = source;
    this.dtype = dtype;
    this.change = change;
  }

  protected async fill(offset: number, target: Uint8Array, options?: ReadOptions): Promise<void> {
    const width = elementBytes(this.dtype);
    const end = offset + target.length;
    // Reads begin and end with an element, wherever the target does.
    for (let at = offset - (offset % width); at < end; at += MAPPED_ELEMENTS * width) {
      const length = Math.min(MAPPED_ELEMENTS, Math.ceil((end - at) / width)) * width;
      const values = decodeNumbers(this.dtype, await this.source.read(at, length, options)) ?? [];
      const from = Math.max(offset, at);
      target.set(this.change(values).subarray(from - at, end - at), from - offset);
    }
  }
}
