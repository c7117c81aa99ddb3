import { BaseSource, type ByteSource, type ReadOptions } from "../../bytes/byte-source.js";
import { decodeNumbers } from "../../tensor/numbers.js";
import type { Quantization, WeightDType } from "./model-json.js";

/** Numbers that are decoded at a time. */
const DECODED_ELEMENTS = 64 * 1024;
/** Bytes of a number as it is given: float32 or int32. */
const WIDTH = 4;

/** Bytes of a number as it is stored. */
export function storedBytes({ dtype }: Quantization): number {
  return dtype === "uint8" ? 1 : 2;
}

/** Numbers that are stored in few bits, as float32 or int32. Source: tfjs-core/src/io/io_utils.ts, decodeWeight. */
export class DequantizedSource extends BaseSource {
  readonly name: string;
  readonly size: number;
  private readonly data: ByteSource;
  private readonly quantization: Quantization;
  private readonly dtype: WeightDType;

  /** `dtype` is float32 or int32. */
  constructor(data: ByteSource, quantization: Quantization, dtype: WeightDType) {
    super();
    this.name = data.name;
    this.size = (data.size / storedBytes(quantization)) * WIDTH;
    this.data = data;
    this.quantization = quantization;
    this.dtype = dtype;
  }

  protected async fill(offset: number, target: Uint8Array, options?: ReadOptions): Promise<void> {
    const width = storedBytes(this.quantization);
    const end = offset + target.length;
    for (let first = Math.floor(offset / WIDTH); first * WIDTH < end; first += DECODED_ELEMENTS) {
      const count = Math.min(DECODED_ELEMENTS, Math.ceil(end / WIDTH) - first);
      const decoded = this.decode(await this.data.read(first * width, count * width, options));
      const start = first * WIDTH;
      const from = Math.max(0, offset - start);
      target.set(decoded.subarray(from, end - start), start + from - offset);
    }
  }

  private decode(bytes: Uint8Array): Uint8Array {
    const { dtype, scale, min } = this.quantization;
    const stored = decodeNumbers(dtype, bytes) ?? [];
    if (dtype === "float16") return new Uint8Array(Float32Array.from(stored).buffer);
    const values = this.dtype === "int32" ? new Int32Array(stored.length) : new Float32Array(stored.length);
    const isInteger = this.dtype === "int32";
    for (let i = 0; i < stored.length; i++) {
      const value = (stored[i] as number) * scale + min;
      values[i] = isInteger ? Math.round(value) : value;
    }
    return new Uint8Array(values.buffer);
  }
}
