import {
  decodeBfloat16,
  decodeFloat8E4m3fn,
  decodeFloat8E5m2,
  decodeFloat16,
  encodeBfloat16,
  encodeFloat16,
} from "../codecs/small-floats.js";
import type { DType } from "./dtype.js";

type Decoder = (bytes: Uint8Array) => ArrayLike<number>;

/** The bytes where they may be looked at as larger elements: in place when they are aligned, else copied. */
function aligned(bytes: Uint8Array, width: number): Uint8Array {
  return bytes.byteOffset % width === 0 ? bytes : bytes.slice();
}

function typed<T>(make: new (buffer: ArrayBufferLike, offset: number, length: number) => T, width: number) {
  return (bytes: Uint8Array): T => {
    const data = aligned(bytes, width);
    return new make(data.buffer, data.byteOffset, Math.floor(data.length / width));
  };
}

const toUint16 = typed(Uint16Array, 2);
const toFloat32 = typed(Float32Array, 4);
const toFloat64 = typed(Float64Array, 8);
const toInt8 = typed(Int8Array, 1);

function mapped(
  decode: (bits: number) => number,
  bits: (bytes: Uint8Array) => ArrayLike<number>,
  count: number,
): Decoder {
  // Every number of 8 or 16 bits once.
  let table: Float32Array | undefined;
  return (bytes) => {
    table ??= Float32Array.from({ length: count }, (_, i) => decode(i));
    const from = bits(bytes);
    const values = new Float32Array(from.length);
    for (let i = 0; i < from.length; i++) values[i] = table[from[i] as number] as number;
    return values;
  };
}

const same: Decoder = (bytes) => bytes;

const DECODERS: Partial<Record<DType, Decoder>> = {
  float32: toFloat32,
  float64: toFloat64,
  // The two halves of a complex number are numbers of their own here.
  complex64: toFloat32,
  complex128: toFloat64,
  float16: mapped(decodeFloat16, toUint16, 1 << 16),
  bfloat16: mapped(decodeBfloat16, toUint16, 1 << 16),
  float8_e5m2: mapped(decodeFloat8E5m2, same, 256),
  float8_e4m3fn: mapped(decodeFloat8E4m3fn, same, 256),
  int8: toInt8,
  qint8: toInt8,
  int4: toInt8,
  uint8: same,
  quint8: same,
  uint4: same,
  bool: same,
  int16: typed(Int16Array, 2),
  qint16: typed(Int16Array, 2),
  uint16: toUint16,
  quint16: toUint16,
  int32: typed(Int32Array, 4),
  qint32: typed(Int32Array, 4),
  uint32: typed(Uint32Array, 4),
  int64: (bytes) => Float64Array.from(typed(BigInt64Array, 8)(bytes), Number),
  uint64: (bytes) => Float64Array.from(typed(BigUint64Array, 8)(bytes), Number),
};

/**
 * Elements as JavaScript numbers, many at once; undefined for a dtype whose elements are none. Integers of 64 bits lose
 * what is beyond 2^53. A complex number is two numbers. The result may be a view of `bytes`.
 */
export function decodeNumbers(dtype: DType, bytes: Uint8Array): ArrayLike<number> | undefined {
  return DECODERS[dtype]?.(bytes);
}

/** Dtypes that {@link encodeFloats} writes. */
export type FloatDType = "float64" | "float32" | "float16" | "bfloat16";

/** Numbers as little-endian elements of a float dtype, rounded to the nearest, ties to even. */
export function encodeFloats(dtype: FloatDType, values: ArrayLike<number>): Uint8Array {
  if (dtype === "float64") return new Uint8Array(Float64Array.from(values).buffer);
  if (dtype === "float32") return new Uint8Array(Float32Array.from(values).buffer);
  const encode = dtype === "float16" ? encodeFloat16 : encodeBfloat16;
  const bits = new Uint16Array(values.length);
  for (let i = 0; i < values.length; i++) bits[i] = encode(values[i] as number);
  return new Uint8Array(bits.buffer);
}
