import { UnsupportedError } from "../errors.js";

/** What the elements of a tensor are, by TensorFlow's names; types that TensorFlow has no number for by those of ml_dtypes. */
export type DType =
  | "float32"
  | "float64"
  | "int32"
  | "uint8"
  | "int16"
  | "int8"
  | "string"
  | "complex64"
  | "int64"
  | "bool"
  | "qint8"
  | "quint8"
  | "qint32"
  | "bfloat16"
  | "qint16"
  | "quint16"
  | "uint16"
  | "complex128"
  | "float16"
  | "resource"
  | "variant"
  | "uint32"
  | "uint64"
  | "float8_e5m2"
  | "float8_e4m3fn"
  | "int4"
  | "uint4"
  | "float8_e4m3fnuz"
  | "float8_e5m2fnuz"
  | "float8_e8m0fnu"
  | "float6_e2m3fn"
  | "float6_e3m2fn"
  | "float4_e2m1fn";

interface DTypeFacts {
  /** The number in TensorFlow's protos, where it has one. Source: tensorflow/core/framework/types.proto, DataType. */
  readonly tensorflow?: number;
  /**
   * Bytes of one element, little-endian; 0 where elements differ in length. int4 and uint4 take a byte each, as in
   * TensorFlow; float4 and float6 are packed, as in safetensors, so that an element is a fraction of a byte.
   */
  readonly byteLength: number;
}

const DTYPES: Record<DType, DTypeFacts> = {
  float32: { tensorflow: 1, byteLength: 4 },
  float64: { tensorflow: 2, byteLength: 8 },
  int32: { tensorflow: 3, byteLength: 4 },
  uint8: { tensorflow: 4, byteLength: 1 },
  int16: { tensorflow: 5, byteLength: 2 },
  int8: { tensorflow: 6, byteLength: 1 },
  string: { tensorflow: 7, byteLength: 0 },
  complex64: { tensorflow: 8, byteLength: 8 },
  int64: { tensorflow: 9, byteLength: 8 },
  bool: { tensorflow: 10, byteLength: 1 },
  qint8: { tensorflow: 11, byteLength: 1 },
  quint8: { tensorflow: 12, byteLength: 1 },
  qint32: { tensorflow: 13, byteLength: 4 },
  bfloat16: { tensorflow: 14, byteLength: 2 },
  qint16: { tensorflow: 15, byteLength: 2 },
  quint16: { tensorflow: 16, byteLength: 2 },
  uint16: { tensorflow: 17, byteLength: 2 },
  complex128: { tensorflow: 18, byteLength: 16 },
  float16: { tensorflow: 19, byteLength: 2 },
  resource: { tensorflow: 20, byteLength: 0 },
  variant: { tensorflow: 21, byteLength: 0 },
  uint32: { tensorflow: 22, byteLength: 4 },
  uint64: { tensorflow: 23, byteLength: 8 },
  float8_e5m2: { tensorflow: 24, byteLength: 1 },
  float8_e4m3fn: { tensorflow: 25, byteLength: 1 },
  int4: { tensorflow: 29, byteLength: 1 },
  uint4: { tensorflow: 30, byteLength: 1 },
  float8_e4m3fnuz: { byteLength: 1 },
  float8_e5m2fnuz: { byteLength: 1 },
  float8_e8m0fnu: { byteLength: 1 },
  float6_e2m3fn: { byteLength: 0.75 },
  float6_e3m2fn: { byteLength: 0.75 },
  float4_e2m1fn: { byteLength: 0.5 },
};

const BY_NUMBER = new Map(
  Object.entries(DTYPES).flatMap(([name, { tensorflow }]) =>
    tensorflow === undefined ? [] : [[tensorflow, name as DType] as const],
  ),
);

/** First number of TensorFlow 1's reference types, which mean the type 100 below. */
const FIRST_REFERENCE = 101;

/**
 * Bytes of one element, or 0 where elements differ in length (string, resource, variant). A fraction for the packed
 * types (see {@link isPacked}): a tensor of them has a whole number of bytes, its element has none.
 */
export function elementBytes(dtype: DType): number {
  return DTYPES[dtype].byteLength;
}

/** Whether several elements of a dtype share a byte, so that one alone cannot be read or written. */
export function isPacked(dtype: DType): boolean {
  return !Number.isInteger(elementBytes(dtype));
}

/** The number of a dtype in TensorFlow's protos, or undefined for one that TensorFlow does not have. */
export function findDTypeNumber(dtype: DType): number | undefined {
  return DTYPES[dtype].tensorflow;
}

/** The dtype of a number in TensorFlow's protos, or undefined when there is none; reference types are those they refer to. */
export function findDType(number: number): DType | undefined {
  return BY_NUMBER.get(number >= FIRST_REFERENCE ? number - 100 : number);
}

/**
 * The dtype of a number in TensorFlow's protos.
 * @throws {@link UnsupportedError} (`unsupported-dtype`)
 */
export function dtypeOf(number: number, file: string, key?: string): DType {
  const dtype = findDType(number);
  if (dtype !== undefined) return dtype;
  throw new UnsupportedError("unsupported-dtype", `dtype number ${number}${key === undefined ? "" : ` of "${key}"`}`, {
    file,
  });
}
