import { BaseSource, type ByteSource, type ReadOptions } from "../bytes/byte-source.js";
import { PlanError } from "../errors.js";
import { type DType, elementBytes } from "./dtype.js";
import type { LazyEmbedding, LazyTensor } from "./lazy-tensor.js";
import { decodeNumbers, encodeFloats, type FloatDType } from "./numbers.js";
import type { Region } from "./region.js";
import type { Shape } from "./shape.js";

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
  const { dtype, shape } = tensor;
  if (dtype === to) return tensor;
  if (!canCast(dtype, to)) throw new PlanError("invalid-plan", `${dtype} cannot be cast to ${to}`);
  return new CastTensor(tensor, shape, to, loss);
}

class CastTensor implements LazyTensor {
  readonly dtype: FloatDType;
  readonly shape: Shape;
  readonly byteLength: number;
  readonly embedding: LazyEmbedding | undefined;
  private readonly tensor: LazyTensor;
  private readonly loss: CastLoss | undefined;

  constructor(tensor: LazyTensor, shape: Shape, to: FloatDType, loss: CastLoss | undefined) {
    this.tensor = tensor;
    this.shape = shape;
    this.dtype = to;
    this.byteLength = (tensor.byteLength / elementBytes(tensor.dtype)) * elementBytes(to);
    this.embedding = tensor.embedding;
    this.loss = loss;
  }

  async data(region?: Region): Promise<ByteSource> {
    return new CastSource(await this.tensor.data(region), this.tensor.dtype, this.dtype, this.loss);
  }
}

/** Elements that are cast at a time. */
const CAST_ELEMENTS = 64 * 1024;

/** Floats of one size as floats of another. */
class CastSource extends BaseSource {
  readonly name: string;
  readonly size: number;
  private readonly data: ByteSource;
  private readonly from: DType;
  private readonly to: FloatDType;
  private readonly loss: CastLoss | undefined;

  constructor(data: ByteSource, from: DType, to: FloatDType, loss: CastLoss | undefined) {
    super();
    this.name = data.name;
    this.data = data;
    this.from = from;
    this.to = to;
    this.loss = loss;
    this.size = (data.size / elementBytes(from)) * elementBytes(to);
  }

  protected async fill(offset: number, target: Uint8Array, options?: ReadOptions): Promise<void> {
    const [fromWidth, toWidth] = [elementBytes(this.from), elementBytes(this.to)];
    const end = offset + target.length;
    for (let first = Math.floor(offset / toWidth); first * toWidth < end; first += CAST_ELEMENTS) {
      const count = Math.min(CAST_ELEMENTS, Math.ceil(end / toWidth) - first);
      const bytes = await this.data.read(first * fromWidth, count * fromWidth, options);
      const encoded = this.encode(bytes);
      const start = first * toWidth;
      const from = Math.max(0, offset - start);
      target.set(encoded.subarray(from, end - start), start + from - offset);
    }
  }

  private encode(bytes: Uint8Array): Uint8Array {
    const values = decodeNumbers(this.from, bytes) ?? [];
    const encoded = encodeFloats(this.to, values);
    if (this.loss !== undefined && isLossy(this.from, this.to)) {
      const back = decodeNumbers(this.to, encoded) ?? [];
      for (let i = 0; i < values.length; i++) {
        if (Number.isFinite(values[i]) && !Number.isFinite(back[i])) this.loss.overflowCount++;
      }
    }
    return encoded;
  }
}
