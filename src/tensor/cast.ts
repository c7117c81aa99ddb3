import { PlanError } from "../errors.js";
import { ConvertedSource } from "./converted-source.js";
import { type DType, elementBytes } from "./dtype.js";
import type { LazyTensor } from "./lazy-tensor.js";
import { decodeNumbers, encodeFloats, type FloatDType } from "./numbers.js";

/** Bits of the exponent and of the precision of each float. */
const FLOATS: Partial<Record<DType, readonly [exponent: number, precision: number]>> = {
  float64: [11, 53],
  float32: [8, 24],
  bfloat16: [8, 8],
  float16: [5, 11],
  float8_e5m2: [5, 3],
  float8_e4m3fn: [4, 4],
};
const TARGETS: readonly DType[] = ["float64", "float32", "float16", "bfloat16"] satisfies FloatDType[];

/** What a cast lost, known when the data has been read. */
export interface CastLoss {
  /** Finite numbers that became infinite. */
  overflowCount: number;
}

/** Whether numbers of one dtype can be cast to another: from any float to those of two bytes and more. */
export function canCast(from: DType, to: DType): to is FloatDType {
  return FLOATS[from] !== undefined && TARGETS.includes(to);
}

/** Whether some number of one float has no equal in another. */
export function isLossy(from: DType, to: DType): boolean {
  const [left, right] = [FLOATS[from], FLOATS[to]];
  return left !== undefined && right !== undefined && (left[0] > right[0] || left[1] > right[1]);
}

/**
 * A tensor of floats as floats of another size, rounded to the nearest as it is read.
 * @throws {@link PlanError} (`invalid-plan`) for a dtype that is no float
 */
export function castTensor(tensor: LazyTensor, to: DType, loss?: CastLoss): LazyTensor {
  const { dtype, shape, byteLength, embedding } = tensor;
  if (dtype === to) return tensor;
  if (!canCast(dtype, to)) throw new PlanError("invalid-plan", `${dtype} cannot be cast to ${to}`);
  const [from, width] = [elementBytes(dtype), elementBytes(to)];
  return {
    dtype: to,
    shape,
    byteLength: (byteLength / from) * width,
    embedding,
    data: async (region) => {
      const convert = (bytes: Uint8Array) => encode(bytes, dtype, to, loss);
      return new ConvertedSource(await tensor.data(region), { from, to: width, convert });
    },
  };
}

function encode(bytes: Uint8Array, from: DType, to: FloatDType, loss: CastLoss | undefined): Uint8Array {
  const values = decodeNumbers(from, bytes) ?? [];
  const encoded = encodeFloats(to, values);
  if (loss !== undefined && isLossy(from, to)) {
    const back = decodeNumbers(to, encoded) ?? [];
    for (let i = 0; i < values.length; i++) {
      if (Number.isFinite(values[i]) && !Number.isFinite(back[i])) loss.overflowCount++;
    }
  }
  return encoded;
}
