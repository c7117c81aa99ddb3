import type { LazyTensor } from "../tensor/lazy-tensor.js";
import type { PlannedShard, ShardPlan } from "./shard-plan.js";

/** What a shard holds, in numbers. */
export interface ShardSummary {
  /** The task whose tensors these are. */
  readonly task: string;
  /** Bytes of the tensors; of strings without what their lengths take. */
  readonly bytes: number;
  /** Tensors of which the shard has all or a part. */
  readonly tensors: number;
  /** Parts of tensors, whole ones included. */
  readonly slices: number;
}

/** Sums up each shard of a plan. */
export function summarizeShards(plan: ShardPlan): ShardSummary[] {
  return plan.shards.map(summarizeShard);
}

function summarizeShard({ task, slices }: PlannedShard): ShardSummary {
  const bytes = slices.reduce((sum, { tensor }) => sum + tensorBytes(tensor), 0);
  return { task, bytes, tensors: new Set(slices.map(({ key }) => key)).size, slices: slices.length };
}

function tensorBytes({ byteLength, byteLengths }: LazyTensor): number {
  return byteLengths?.reduce((sum, length) => sum + length, 0) ?? byteLength;
}
