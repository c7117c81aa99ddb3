import type { PlannedSlice, ShardPlan } from "../../sharding/shard-plan.js";
import type { LazyTensor } from "../../tensor/lazy-tensor.js";
import { wholeRegion } from "../../tensor/region.js";

/** How large a file of weights may become, 4 MiB: browsers keep files up to that. Source: tfjs-converter/python/tensorflowjs/write_weights.py. */
export const DEFAULT_WEIGHT_FILE_BYTES: number = 4 * 1024 * 1024;

/** A plan that also says where the bytes of a group are cut into files: between any two bytes, whatever tensor they are of. */
export interface TfjsPlan extends ShardPlan {
  readonly maxFileBytes: number;
}

/** Plans one group of weights, in the order given, in files of at most so many bytes. */
export function planTfjs(
  tensors: Iterable<readonly [key: string, tensor: LazyTensor]>,
  maxFileBytes: number = DEFAULT_WEIGHT_FILE_BYTES,
): TfjsPlan {
  const slices = Array.from(tensors, ([key, tensor]): PlannedSlice => {
    return { key, sliceSpec: "", fullShape: tensor.shape, region: wholeRegion(tensor.shape), tensor };
  });
  const description = `one group of weights in files of up to ${maxFileBytes} bytes`;
  return { description, shards: slices.length === 0 ? [] : [{ task: "", slices }], warnings: [], maxFileBytes };
}

/** Where a plan cuts the bytes of its groups. */
export function fileBytesOf(plan: ShardPlan): number {
  return (plan as Partial<TfjsPlan>).maxFileBytes ?? DEFAULT_WEIGHT_FILE_BYTES;
}
