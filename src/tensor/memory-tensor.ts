import type { ByteSource } from "../bytes/byte-source.js";
import { joinSources } from "../bytes/joined-source.js";
import { MemorySource } from "../bytes/memory-source.js";
import { UsageError } from "../errors.js";
import { type DType, elementBytes } from "./dtype.js";
import { elementRuns, isContiguous } from "./element-runs.js";
import { GatheredSource } from "./gather.js";
import type { LazyTensor } from "./lazy-tensor.js";
import { type Region, regionSource, wholeRegion } from "./region.js";
import { elementCount, formatShape, type Shape } from "./shape.js";
import { encodeStrings, STRING_LENGTH_BYTES } from "./strings.js";

/** Arrays whose elements have a dtype of their own. */
export type NumberArray =
  | Float32Array
  | Float64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array;

const DTYPE_OF_ARRAY: Readonly<Record<string, DType>> = {
  Float32Array: "float32",
  Float64Array: "float64",
  Int8Array: "int8",
  Int16Array: "int16",
  Int32Array: "int32",
  Uint8Array: "uint8",
  Uint16Array: "uint16",
  Uint32Array: "uint32",
  BigInt64Array: "int64",
  BigUint64Array: "uint64",
};

/**
 * A tensor whose elements are in memory, row-major and little-endian. The bytes are used as they are, not copied.
 * @throws {@link UsageError} (`usage`) when there are not as many bytes as the shape takes, or elements differ in length
 */
export function memoryTensor(dtype: DType, shape: Shape, bytes: Uint8Array): LazyTensor {
  const width = elementBytes(dtype);
  if (width === 0)
    throw new UsageError("usage", `a ${dtype} tensor of bytes`, { hint: "stringTensor makes one of strings." });
  checkCount(shape, bytes.length / width);
  const data = new MemorySource(bytes);
  const cut = (region: Region): ByteSource =>
    isContiguous(shape, region)
      ? regionSource(data, shape, width, region)
      : new GatheredSource(data.name, [{ region: wholeRegion(shape), data }], region, width);
  return {
    dtype,
    shape,
    byteLength: bytes.length,
    data: async (region) => (region === undefined ? data : cut(region)),
  };
}

/**
 * A tensor of the numbers of a typed array, which is not copied; `[array.length]` is its shape when none is given.
 * @throws {@link UsageError} (`usage`) when the shape has another number of elements
 */
export function numberTensor(array: NumberArray, shape: Shape = [array.length]): LazyTensor {
  const dtype = DTYPE_OF_ARRAY[array[Symbol.toStringTag]];
  if (dtype === undefined) throw new UsageError("usage", "a tensor of numbers needs a typed array");
  return memoryTensor(dtype, shape, new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
}

/**
 * A tensor of strings, given as text or bytes, row-major; `[strings.length]` is its shape when none is given.
 * @throws {@link UsageError} (`usage`) when the shape has another number of elements
 */
export function stringTensor(strings: readonly (string | Uint8Array)[], shape: Shape = [strings.length]): LazyTensor {
  checkCount(shape, strings.length);
  const { bytes, byteLengths } = encodeStrings(strings);
  const data = new MemorySource(bytes);
  const offsets = new Float64Array(strings.length + 1);
  for (const [i, length] of byteLengths.entries())
    offsets[i + 1] = (offsets[i] as number) + length + STRING_LENGTH_BYTES;
  const offsetOf = (index: number): number => offsets[index] as number;
  const cut = (region: Region): ByteSource => {
    const parts = Array.from(elementRuns(shape, region), ({ first, count }) =>
      data.slice(offsetOf(first), offsetOf(first + count) - offsetOf(first)),
    );
    return joinSources(data.name, parts);
  };
  return {
    dtype: "string",
    shape,
    byteLength: bytes.length,
    byteLengths,
    data: async (region) => (region === undefined ? data : cut(region)),
  };
}

function checkCount(shape: Shape, count: number): void {
  if (shape.every((size) => Number.isSafeInteger(size) && size >= 0) && elementCount(shape) === count) return;
  throw new UsageError("usage", `a tensor of shape ${formatShape(shape)}`, {
    expected: `${elementCount(shape)} elements`,
    actual: count,
  });
}
