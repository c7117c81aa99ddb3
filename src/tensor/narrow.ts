import { UnsupportedError } from "../errors.js";
import { ConvertedSource } from "./converted-source.js";
import type { DType } from "./dtype.js";
import type { LazyTensor } from "./lazy-tensor.js";

/** Bytes of an element before and after. */
const [WIDE, NARROW] = [8, 4];
const MIN = -(2n ** 31n);
const MAX = 2n ** 31n - 1n;

/** Whether {@link narrowTensor} can change one dtype to another. */
export function canNarrow(from: DType, to: DType): boolean {
  return from === "int64" && to === "int32";
}

/**
 * A tensor of int64 as int32, each number of which is checked to fit when it is read.
 *
 * Its reads throw {@link UnsupportedError} (`unsupported-dtype`) for a number that does not.
 */
export function narrowTensor(tensor: LazyTensor): LazyTensor {
  const { shape, byteLength } = tensor;
  return {
    dtype: "int32",
    shape,
    byteLength: (byteLength / WIDE) * NARROW,
    data: async (region) => {
      const data = await tensor.data(region);
      const convert = (bytes: Uint8Array, first: number) => narrow(bytes, first, data.name);
      return new ConvertedSource(data, { from: WIDE, to: NARROW, convert });
    },
  };
}

function narrow(bytes: Uint8Array, first: number, file: string): Uint8Array {
  const wide = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const narrowed = new DataView(new ArrayBuffer((bytes.length / WIDE) * NARROW));
  for (let i = 0; i < bytes.length / WIDE; i++) {
    const value = wide.getBigInt64(i * WIDE, true);
    if (value < MIN || value > MAX) {
      throw new UnsupportedError("unsupported-dtype", `element ${first + i} does not fit int32`, {
        file,
        expected: `${MIN} to ${MAX}`,
        actual: value,
      });
    }
    narrowed.setInt32(i * NARROW, Number(value), true);
  }
  return new Uint8Array(narrowed.buffer);
}
