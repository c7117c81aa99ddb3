import type { ByteSource } from "../bytes/byte-source.js";
import { UsageError } from "../errors.js";
import { type DType, elementBytes } from "./dtype.js";
import { elementRuns } from "./element-runs.js";
import type { LazyTensor } from "./lazy-tensor.js";
import { type Region, regionShape } from "./region.js";
import { elementCount, formatShape, type Shape } from "./shape.js";
import { STRING_LENGTH_BYTES } from "./strings.js";

/**
 * A part of a tensor as a tensor; nothing is read. The part that is the whole is the tensor itself.
 * @throws {@link UsageError} (`usage`) when the region is none of the tensor's, or elements of unknown length are cut
 */
export function sliceTensor(tensor: LazyTensor, region: Region): LazyTensor {
  const { shape } = tensor;
  const fits = region.length === shape.length && region.every((range, i) => isWithin(range, shape[i] as number));
  if (!fits) {
    const ranges = region.map(({ start, end }) => `${start}:${end}`).join(",");
    throw new UsageError("usage", `region ${ranges} of a tensor`, { expected: `within ${formatShape(shape)}` });
  }
  if (region.every(({ start, end }, i) => start === 0 && end === shape[i])) return tensor;
  if (!(tensor instanceof SlicedTensor)) return new SlicedTensor(tensor, region);
  return new SlicedTensor(tensor.tensor, moved(region, tensor.region));
}

function isWithin({ start, end }: Region[number], size: number): boolean {
  return Number.isSafeInteger(start) && Number.isSafeInteger(end) && start >= 0 && start <= end && end <= size;
}

/** A region of a part of a tensor as a region of the tensor. */
function moved(region: Region, part: Region): Region {
  return region.map(({ start, end }, i) => {
    const by = (part[i] as Region[number]).start;
    return { start: start + by, end: end + by };
  });
}

class SlicedTensor implements LazyTensor {
  readonly dtype: DType;
  readonly shape: Shape;
  readonly byteLength: number;
  readonly byteLengths: readonly number[] | undefined;
  readonly tensor: LazyTensor;
  readonly region: Region;

  constructor(tensor: LazyTensor, region: Region) {
    this.tensor = tensor;
    this.region = region;
    this.dtype = tensor.dtype;
    this.shape = regionShape(region);
    const width = elementBytes(tensor.dtype);
    this.byteLengths = width > 0 ? undefined : pickLengths(tensor, region);
    this.byteLength =
      this.byteLengths?.reduce((sum, length) => sum + length + STRING_LENGTH_BYTES, 0) ??
      elementCount(this.shape) * width;
  }

  data(region?: Region): Promise<ByteSource> {
    return this.tensor.data(region === undefined ? this.region : moved(region, this.region));
  }
}

function pickLengths({ dtype, shape, byteLengths }: LazyTensor, region: Region): number[] {
  if (dtype !== "string" || byteLengths === undefined) {
    throw new UsageError("usage", `a ${dtype} tensor${dtype === "string" ? " without byteLengths" : ""} cannot be cut`);
  }
  const picked: number[] = [];
  for (const { first, count } of elementRuns(shape, region)) {
    for (let i = first; i < first + count; i++) picked.push(byteLengths[i] as number);
  }
  return picked;
}
