import type { ByteSource } from "../../src/bytes/byte-source.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { NotFoundError } from "../../src/errors.js";
import { type DType, elementBytes } from "../../src/tensor/dtype.js";
import { compareKeys } from "../../src/tensor/key-order.js";
import { type Region, regionSource } from "../../src/tensor/region.js";
import type { TensorInfo, TensorSource } from "../../src/tensor/tensor-source.js";

/** A tensor of a {@link MemoryTensors}. */
export interface MemoryTensor extends Omit<TensorInfo, "key" | "byteLength"> {
  readonly bytes: Uint8Array;
  /** Of an embedding table. */
  readonly ids?: readonly bigint[];
}

/** Tensors in memory, as a source. */
export class MemoryTensors implements TensorSource {
  private readonly byKey: ReadonlyMap<string, MemoryTensor>;

  constructor(tensors: Readonly<Record<string, MemoryTensor>>) {
    this.byKey = new Map(Object.entries(tensors).sort(([a], [b]) => compareKeys(a, b)));
  }

  async *tensors(): AsyncGenerator<TensorInfo> {
    for (const key of this.byKey.keys()) yield this.info(key);
  }

  async info(key: string): Promise<TensorInfo> {
    const { bytes, ids: _, ...info } = this.get(key);
    return { ...info, key, byteLength: bytes.length };
  }

  async data(key: string, region?: Region): Promise<ByteSource> {
    const { bytes, dtype, shape } = this.get(key);
    const source = new MemorySource(bytes, key);
    return region === undefined ? source : regionSource(source, shape, elementBytes(dtype), region);
  }

  async ids(key: string): Promise<BigInt64Array> {
    return BigInt64Array.from(this.get(key).ids ?? []);
  }

  async verify(): Promise<void> {}

  async close(): Promise<void> {}

  private get(key: string): MemoryTensor {
    const tensor = this.byKey.get(key);
    if (tensor === undefined) throw new NotFoundError("no-such-key", "no such tensor", { actual: key });
    return tensor;
  }
}

/** A tensor of float32 numbers. */
export function floats(shape: readonly number[], values: readonly number[]): MemoryTensor {
  return { dtype: "float32", shape, bytes: new Uint8Array(Float32Array.from(values).buffer) };
}

/** A tensor of any dtype, with its bytes. */
export function tensorOf(dtype: DType, shape: readonly number[], bytes: Uint8Array): MemoryTensor {
  return { dtype, shape, bytes };
}

/** A tensor of strings. */
export function strings(shape: readonly number[], values: readonly string[]): MemoryTensor {
  const parts = values.map((value) => new TextEncoder().encode(value));
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + 8 + part.length, 0));
  let at = 0;
  for (const part of parts) {
    new DataView(bytes.buffer).setBigUint64(at, BigInt(part.length), true);
    bytes.set(part, at + 8);
    at += 8 + part.length;
  }
  return { dtype: "string", shape, bytes };
}
