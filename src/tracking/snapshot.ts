import { ByteCursor } from "../bytes/byte-cursor.js";
import type { ByteSource } from "../bytes/byte-source.js";
import { MemorySource } from "../bytes/memory-source.js";
import { elementBytes } from "../tensor/dtype.js";
import { type Region, regionShape, regionSource } from "../tensor/region.js";
import { elementCount } from "../tensor/shape.js";
import type { TensorSnapshot, TensorValue } from "./trackable.js";

/** A value in memory as a snapshot; of strings, `byteLengths` has the length of each. */
export function memorySnapshot(value: TensorValue, byteLengths?: readonly number[]): TensorSnapshot {
  const { dtype, shape, bytes } = value;
  return {
    dtype,
    shape,
    byteLength: bytes.length,
    byteLengths,
    data: async (region) => {
      const source = new MemorySource(bytes, "tensor in memory");
      if (region === undefined) return source;
      if (byteLengths !== undefined) return stringRegion(value, region);
      return regionSource(source, shape, elementBytes(dtype), region);
    },
    dispose: () => {},
  };
}

/** The strings of a region; which they are is found as the region of a tensor of their indexes. */
async function stringRegion({ shape, bytes }: TensorValue, region: Region): Promise<ByteSource> {
  const indexes = Uint32Array.from({ length: elementCount(shape) }, (_, i) => i);
  const chosen = regionSource(new MemorySource(new Uint8Array(indexes.buffer)), shape, 4, region);
  const picked = new Uint32Array((await chosen.read(0, chosen.size)).slice().buffer);
  const strings = decodeStrings(bytes, "tensor in memory");
  const wanted = Array.from(picked.subarray(0, elementCount(regionShape(region))), (i) => strings[i] as Uint8Array);
  return new MemorySource(encodeStrings(wanted).bytes, "tensor in memory");
}

/** Strings in the form of a tensor's data, with the length of each. */
export function encodeStrings(strings: readonly Uint8Array[]): { bytes: Uint8Array; byteLengths: readonly number[] } {
  const byteLengths = strings.map(({ length }) => length);
  const bytes = new Uint8Array(byteLengths.reduce((sum, length) => sum + 8 + length, 0));
  const view = new DataView(bytes.buffer);
  let offset = 0;
  for (const string of strings) {
    view.setBigUint64(offset, BigInt(string.length), true);
    bytes.set(string, offset + 8);
    offset += 8 + string.length;
  }
  return { bytes, byteLengths };
}

/** The strings of a tensor's data. */
export function decodeStrings(bytes: Uint8Array, name: string): Uint8Array[] {
  const cursor = new ByteCursor(bytes, name);
  const strings: Uint8Array[] = [];
  while (cursor.left > 0) strings.push(cursor.readBytes(Number(cursor.readUint64())));
  return strings;
}
