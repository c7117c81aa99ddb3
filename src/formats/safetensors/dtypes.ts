import { UnsupportedError } from "../../errors.js";
import type { DType } from "../../tensor/dtype.js";

/**
 * The format's names of dtypes, in its order of alignment: tensors are written from the last to the first.
 * Source: safetensors/src/tensor.rs, Dtype, "MUST be in increasing alignment order".
 */
const CODES: readonly (readonly [code: string, dtype: DType])[] = [
  ["BOOL", "bool"],
  ["F4", "float4_e2m1fn"],
  ["F6_E2M3", "float6_e2m3fn"],
  ["F6_E3M2", "float6_e3m2fn"],
  ["U8", "uint8"],
  ["I8", "int8"],
  ["F8_E5M2", "float8_e5m2"],
  // PyTorch's float8_e4m3fn: the one without infinities. Source: bindings/python/src/lib.rs, parse_dtype_str.
  ["F8_E4M3", "float8_e4m3fn"],
  ["F8_E8M0", "float8_e8m0fnu"],
  ["F8_E4M3FNUZ", "float8_e4m3fnuz"],
  ["F8_E5M2FNUZ", "float8_e5m2fnuz"],
  ["I16", "int16"],
  ["U16", "uint16"],
  ["F16", "float16"],
  ["BF16", "bfloat16"],
  ["I32", "int32"],
  ["U32", "uint32"],
  ["F32", "float32"],
  ["C64", "complex64"],
  ["F64", "float64"],
  ["I64", "int64"],
  ["U64", "uint64"],
];

const BY_CODE = new Map(CODES);
const RANKS = new Map(CODES.map(([code, dtype], rank) => [dtype, { code, rank }]));

/** The dtype of one of the format's names, or undefined when it has none of that name. */
export function findDTypeOfCode(code: string): DType | undefined {
  return BY_CODE.get(code);
}

/**
 * The format's name of a dtype.
 * @throws {@link UnsupportedError} (`unsupported-dtype`) for strings, quantized types and others that it does not have
 */
export function codeOfDType(dtype: DType, key: string): string {
  const found = RANKS.get(dtype);
  if (found !== undefined) return found.code;
  throw new UnsupportedError("unsupported-dtype", `"${key}" is ${dtype}, which safetensors has no name for`);
}

/** The place of a dtype in the order of alignment; the largest comes first in a file. */
export function alignmentRank(dtype: DType): number {
  return RANKS.get(dtype)?.rank ?? -1;
}
