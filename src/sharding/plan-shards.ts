import { CairnError, PlanError } from "../errors.js";
import { CallbackResult } from "./callback-result.js";
import { collectInputs } from "./planned-input.js";
import type { PlannedShard, ShardPlan } from "./shard-plan.js";
import type { ShardableTensor } from "./shardable-tensor.js";
import { checkCallback, type ShardingCallback, type TensorSliceDict } from "./sharding-callback.js";

/**
 * Has a callback decide what goes to which shard, and checks what it decided: every element of every tensor is saved
 * once, with the dtype and shape that it has, in a shard of its own task. No data is read. The callback is called once
 * for each task, in the order in which tasks first appear; the shards are numbered over all of them.
 * @throws {@link PlanError} (`invalid-plan`) for a plan that breaks the rules, (`callback-failed`) when the callback throws;
 * UsageError (`usage`) for what is no callback
 */
export async function planShards(tensors: Iterable<ShardableTensor>, callback: ShardingCallback): Promise<ShardPlan> {
  checkCallback(callback);
  const { description } = callback;
  const inputs = collectInputs(tensors);
  const shards: PlannedShard[] = [];
  const warnings: string[] = [];
  let durationMs = 0;
  for (const [task, { tensors: ofTask, keys }] of inputs.tasks) {
    const begun = performance.now();
    const returned = await callCallback(callback, ofTask, warnings);
    durationMs += performance.now() - begun;
    const result = new CallbackResult({ description, task, keys, inputs: inputs.byKey });
    shards.push(...result.check(returned));
  }
  const callbackDurationUs = Math.max(1, Math.ceil(durationMs * 1000));
  return { description, shards, warnings, callbackDurationUs };
}

async function callCallback(
  callback: ShardingCallback,
  tensors: readonly ShardableTensor[],
  warnings: string[],
): Promise<TensorSliceDict[]> {
  try {
    // A copy: what the callback does to its list changes nothing here.
    return await callback.call([...tensors], { warn: (message) => warnings.push(message) });
  } catch (cause) {
    if (cause instanceof CairnError) throw cause;
    const what = cause instanceof Error ? cause.message : String(cause);
    throw new PlanError("callback-failed", `sharding callback "${callback.description}" failed: ${what}`, { cause });
  }
}
