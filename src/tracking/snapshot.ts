import { ByteCursor } from "../bytes/byte-cursor.js";
import type { LazyTensor } from "../tensor/lazy-tensor.js";
import { memoryTensor, stringTensor } from "../tensor/memory-tensor.js";
import type { Shape } from "../tensor/shape.js";
import type { TensorSnapshot, TensorValue } from "./trackable.js";

/** A value in memory as a snapshot; the bytes are used as they are. */
export function memorySnapshot({ dtype, shape, bytes }: TensorValue): TensorSnapshot {
  return { ...memoryTensor(dtype, shape, bytes), dispose: () => {} };
}

/** Strings as a snapshot. */
export function stringSnapshot(strings: readonly (string | Uint8Array)[], shape: Shape): TensorSnapshot {
  const tensor: LazyTensor = stringTensor(strings, shape);
  return { ...tensor, dispose: () => {} };
}

/** The strings of a tensor's data. */
export function decodeStrings(bytes: Uint8Array, name: string): Uint8Array[] {
  const cursor = new ByteCursor(bytes, name);
  const strings: Uint8Array[] = [];
  while (cursor.left > 0) strings.push(cursor.readBytes(Number(cursor.readUint64())));
  return strings;
}
