import type { LazyTensor } from "../tensor/lazy-tensor.js";
import type { Region } from "../tensor/region.js";
import type { Shape } from "../tensor/shape.js";

/** A slice of a tensor that goes to a shard; the whole tensor when `sliceSpec` is empty. */
export interface PlannedSlice {
  /** The checkpoint key. */
  readonly key: string;
  /** `full dims start,len:start,len` as TensorFlow writes it, or empty. Source: tensorflow/core/framework/tensor_slice.h. */
  readonly sliceSpec: string;
  /** The shape of the whole tensor. */
  readonly fullShape: Shape;
  /** Which part of the whole tensor this is. */
  readonly region: Region;
  /** The value of the slice; its shape is that of `region`. */
  readonly tensor: LazyTensor;
}

/** One data file to be written. The order of its slices is that of their bytes. */
export interface PlannedShard {
  /** The task whose tensors these are: `/job:localhost/replica:0/task:0/device:CPU:0`. */
  readonly task: string;
  readonly slices: readonly PlannedSlice[];
}

/** What goes where: what the callbacks of all tasks returned, checked by coverage before a byte is written. */
export interface ShardPlan {
  /** What the callback says of itself. */
  readonly description: string;
  readonly shards: readonly PlannedShard[];
  /** What somebody should know: a shard over its size, a dtype that was kept whole. */
  readonly warnings: readonly string[];
  /** Microseconds that the callback took over all tasks; absent when the plan is not that of a callback. */
  readonly callbackDurationUs?: number | undefined;
}
