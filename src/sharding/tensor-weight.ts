import { type DType, elementBytes } from "../tensor/dtype.js";
import type { LazyTensor } from "../tensor/lazy-tensor.js";

/** The key of the object graph of a checkpoint. Source: tensorflow/python/trackable/base.py, OBJECT_GRAPH_PROTO_KEY. */
const OBJECT_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH";

/** What a tensor takes of a shard's size. */
export interface TensorWeight {
  readonly totalBytes: number;
  /** Bytes of one element; of strings those of the longest. */
  readonly elementBytes: number;
  /** Whether the tensor cannot be cut. */
  readonly isAtom: boolean;
}

/**
 * Weighs a tensor as TensorFlow does: of strings the bytes without their lengths; variants and the object graph weigh
 * nothing. Source: tensorflow/python/checkpoint/sharding/sharding_policies.py, MaxShardSizePolicy.__call__.
 */
export function weigh(key: string, dtype: DType, { byteLength, byteLengths }: LazyTensor): TensorWeight {
  const width = elementBytes(dtype);
  if (width > 0) return { totalBytes: byteLength, elementBytes: width, isAtom: false };
  if (dtype !== "string" || key === OBJECT_GRAPH_KEY) return { totalBytes: 0, elementBytes: 0, isAtom: true };
  if (byteLengths === undefined) return { totalBytes: byteLength, elementBytes: 0, isAtom: true };
  let totalBytes = 0;
  let longest = 0;
  for (const length of byteLengths) {
    totalBytes += length;
    if (length > longest) longest = length;
  }
  return { totalBytes, elementBytes: longest, isAtom: false };
}
