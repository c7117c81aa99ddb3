import { UnsupportedError } from "../errors.js";
import { ConvertedSource } from "./converted-source.js";
import { type DType, elementBytes } from "./dtype.js";
import type { LazyTensor } from "./lazy-tensor.js";
import { decodeNumbers, encodeFloats } from "./numbers.js";

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
  const width = elementBytes(dtype);
  if (encode === undefined) throw new UnsupportedError("unsupported-dtype", `${dtype} numbers to be changed`);
  return {
    dtype,
    shape,
    byteLength,
    data: async (region) => {
      const convert = (bytes: Uint8Array) => encode(mapped(decodeNumbers(dtype, bytes) ?? [], map));
      return new ConvertedSource(await tensor.data(region), { from: width, to: width, convert });
    },
  };
}

function mapped(values: ArrayLike<number>, map: (value: number) => number): ArrayLike<number> {
  const result = new Float64Array(values.length);
  for (let i = 0; i < values.length; i++) result[i] = map(values[i] as number);
  return result;
}
