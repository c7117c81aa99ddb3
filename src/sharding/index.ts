/** Decides which tensors go to which shard of a checkpoint: callbacks, ready policies, and the plans that they make. */

export type { LazyTensor } from "../tensor/lazy-tensor.js";
export { mapTensor } from "../tensor/mapped-tensor.js";
export { memoryTensor, type NumberArray, numberTensor, stringTensor } from "../tensor/memory-tensor.js";
export { formatSliceSpec, parseSliceSpec, type SliceInfo } from "../tensor/slice-spec.js";
export { sliceTensor } from "../tensor/sliced-tensor.js";
export { tensorFrom } from "../tensor/stored-tensor.js";
export { type DeviceSpec, formatDevice, parseDevice, taskOf } from "./device.js";
export { type MaxShardSizeOptions, MaxShardSizePolicy } from "./max-shard-size.js";
export { addMetrics, formatOpenMetrics, measurePlan, type ShardingMetrics } from "./metrics.js";
export { planShards } from "./plan-shards.js";
export { policyFromModule } from "./policy-module.js";
export { ShardByDevicePolicy } from "./shard-by-device.js";
export { ShardByTaskPolicy } from "./shard-by-task.js";
export type { PlannedShard, PlannedSlice, ShardPlan } from "./shard-plan.js";
export { type ShardSummary, summarizeShards } from "./shard-summary.js";
export { ShardableTensor, type ShardableTensorFields } from "./shardable-tensor.js";
export { addSlice, ShardingCallback, type ShardingContext, type TensorSliceDict } from "./sharding-callback.js";
export { formatSidecar, parseSidecar, type ShardingSidecar } from "./sidecar.js";
