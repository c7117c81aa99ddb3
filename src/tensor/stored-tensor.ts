import type { LazyTensor } from "./lazy-tensor.js";
import { elementCount } from "./shape.js";
import { readStringLengths, STRING_LENGTH_BYTES } from "./strings.js";
import type { TensorSource } from "./tensor-source.js";

/**
 * A tensor of a model or checkpoint, read when it is asked for. Of strings the lengths are read at once.
 * @throws NotFoundError (`no-such-key`); CorruptionError (`tensor-data`) for strings that don't fill their data
 */
export async function tensorFrom(source: TensorSource, key: string): Promise<LazyTensor> {
  const { dtype, shape, byteLength } = await source.info(key);
  const data: LazyTensor["data"] = (region) => source.data(key, region);
  if (dtype !== "string") return { dtype, shape, byteLength, data };
  const byteLengths = await readStringLengths(await source.data(key), elementCount(shape));
  const total = byteLengths.reduce((sum, length) => sum + length + STRING_LENGTH_BYTES, 0);
  return { dtype, shape, byteLength: total, byteLengths, data };
}
