import { UsageError } from "../errors.js";
import type { LazyTensor } from "../tensor/lazy-tensor.js";
import type { ShardableTensor } from "./shardable-tensor.js";

/**
 * One shard: by checkpoint key and then by slice spec, the tensors that go to it. The order of both maps is that of the
 * bytes in the file. The spec is empty for a whole tensor.
 */
export type TensorSliceDict = Map<string, Map<string, LazyTensor>>;

/** What a callback is given beside the tensors. */
export interface ShardingContext {
  /** Tells the user something: it becomes one of the plan's warnings. */
  warn(message: string): void;
}

/** The context of a callback that is called by hand; its warnings go nowhere. */
export const SILENT_CONTEXT: ShardingContext = { warn() {} };

/**
 * Decides which tensors go to which shard of a checkpoint. It may cut tensors, put them together again and change their
 * numbers, but neither leave one out nor add one, nor change a shape or dtype.
 */
export abstract class ShardingCallback {
  /** What the callback does, for people; it is kept beside the checkpoint. */
  abstract readonly description: string;

  /**
   * Called once for each task with the tensors of it; gives the shards of that task, none of them empty. Nothing has been
   * read of the tensors, and nothing needs to be.
   */
  abstract call(
    tensors: readonly ShardableTensor[],
    context: ShardingContext,
  ): TensorSliceDict[] | Promise<TensorSliceDict[]>;
}

/** Puts a tensor, or a slice of one, into a shard behind what is there. */
export function addSlice(shard: TensorSliceDict, key: string, sliceSpec: string, tensor: LazyTensor): void {
  const slices = shard.get(key);
  if (slices === undefined) shard.set(key, new Map<string, LazyTensor>().set(sliceSpec, tensor));
  else slices.set(sliceSpec, tensor);
}

/**
 * Checks that something is a sharding callback. What counts is what it can do, not its class, since a program may have
 * this library twice.
 * @throws {@link UsageError} (`usage`)
 */
export function checkCallback(value: unknown): asserts value is ShardingCallback {
  const isClass = typeof value === "function" && typeof value.prototype?.call === "function";
  const isObject = typeof value === "object" && value !== null;
  if (isObject && "call" in value && typeof value.call === "function") {
    if ("description" in value && typeof value.description === "string" && value.description.trim() !== "") return;
    throw new UsageError("usage", "a sharding callback without description", {
      hint: "Give its class a property `description`, one sentence.",
    });
  }
  throw new UsageError("usage", "a sharding callback", {
    expected: "an object with description and call(tensors)",
    actual: isClass ? "a class" : value === null ? "null" : typeof value,
    hint: isClass ? "Make one with new." : undefined,
  });
}
