import { UsageError } from "../errors.js";
import { ShardPacker } from "./shard-packer.js";
import type { ShardableTensor } from "./shardable-tensor.js";
import { ShardingCallback, type ShardingContext, SILENT_CONTEXT, type TensorSliceDict } from "./sharding-callback.js";

/** Options of {@link MaxShardSizePolicy}. */
export interface MaxShardSizeOptions {
  /** Bytes of tensors that a shard may have. Lengths of strings, checksums and the object graph don't count. */
  readonly maxShardSize: number;
  /**
   * Cuts whatever TensorFlow cuts, where it cuts it. TensorFlow itself cannot put slices of float16, strings and some
   * other dtypes together again, so by default those are kept whole.
   */
  readonly tensorflowIdentical?: boolean | undefined;
}

/**
 * Fills shards up to a size. A tensor that doesn't fit into what is left is cut into slabs along one dimension; where even
 * one slab is larger than a shard, it is cut along the next. An element that is larger than a shard has one of its own.
 */
export class MaxShardSizePolicy extends ShardingCallback {
  // Source: tensorflow/python/checkpoint/sharding/sharding_policies.py, MaxShardSizePolicy.
  readonly description = "Split tensors into shards with a max shard size.";
  readonly maxShardSize: number;
  readonly tensorflowIdentical: boolean;

  /** @throws {@link UsageError} (`usage`) when the size is no whole number of 1 or more */
  constructor(options: MaxShardSizeOptions) {
    super();
    const maxShardSize: unknown = options?.maxShardSize;
    if (!(typeof maxShardSize === "number" && Number.isSafeInteger(maxShardSize) && maxShardSize > 0)) {
      throw new UsageError("usage", "maxShardSize", {
        expected: "a whole number of bytes, 1 or more",
        actual: String(maxShardSize),
      });
    }
    this.maxShardSize = maxShardSize;
    this.tensorflowIdentical = options.tensorflowIdentical ?? false;
  }

  /**
   * The tensors in their order, cut to fit.
   * @throws UsageError (`slice-spec`) for a slice spec that cannot be read, LimitError (`limit`) for too many slices
   */
  call(tensors: readonly ShardableTensor[], context: ShardingContext = SILENT_CONTEXT): TensorSliceDict[] {
    const packer = new ShardPacker(this.maxShardSize, this.tensorflowIdentical);
    for (const tensor of tensors) packer.add(tensor);
    for (const warning of packer.warnings) context.warn(warning);
    return packer.finish();
  }
}
