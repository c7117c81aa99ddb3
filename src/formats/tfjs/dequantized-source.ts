import type { ByteSource } from "../../bytes/byte-source.js";
import { ConvertedSource } from "../../tensor/converted-source.js";
import { decodeNumbers } from "../../tensor/numbers.js";
import type { Quantization, WeightDType } from "./model-json.js";

/** Bytes of a number as it is given: float32 or int32. */
const WIDTH = 4;

/** Bytes of a number as it is stored. */
export function storedBytes({ dtype }: Quantization): number {
  return dtype === "uint8" ? 1 : 2;
}

/**
 * Numbers that are stored in few bits, as float32 or int32, whichever `dtype` says.
 * Source: tfjs-core/src/io/io_utils.ts, decodeWeight.
 */
export function dequantizedSource(data: ByteSource, quantization: Quantization, dtype: WeightDType): ByteSource {
  const convert = (bytes: Uint8Array) => dequantize(bytes, quantization, dtype === "int32");
  return new ConvertedSource(data, { from: storedBytes(quantization), to: WIDTH, convert });
}

function dequantize(bytes: Uint8Array, { dtype, scale, min }: Quantization, isInteger: boolean): Uint8Array {
  const stored = decodeNumbers(dtype, bytes) ?? [];
  if (dtype === "float16") return new Uint8Array(Float32Array.from(stored).buffer);
  const values = isInteger ? new Int32Array(stored.length) : new Float32Array(stored.length);
  for (let i = 0; i < stored.length; i++) {
    const value = (stored[i] as number) * scale + min;
    values[i] = isInteger ? Math.round(value) : value;
  }
  return new Uint8Array(values.buffer);
}
