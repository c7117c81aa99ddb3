import { LimitError, UsageError } from "../errors.js";
import { MAX_PLANNED_SLICES } from "../limits.js";
import type { DType } from "../tensor/dtype.js";
import type { LazyTensor } from "../tensor/lazy-tensor.js";
import { type Region, regionShape, wholeRegion } from "../tensor/region.js";
import { elementCount, formatShape, type Shape } from "../tensor/shape.js";
import { formatSliceSpec, parseSliceSpec, type SliceInfo } from "../tensor/slice-spec.js";
import { sliceTensor } from "../tensor/sliced-tensor.js";
import type { ShardableTensor } from "./shardable-tensor.js";
import { addSlice, type TensorSliceDict } from "./sharding-callback.js";
import { cutFront, longestDimension, planCut, type SliceBox } from "./slice-box.js";
import { weigh } from "./tensor-weight.js";

/** The dtypes whose slices TensorFlow 2.18 puts together. Source: tensorflow/core/util/saved_tensor_slice_util.h. */
const MERGED_BY_TENSORFLOW: ReadonlySet<DType> = new Set([
  "float32",
  "float64",
  "int8",
  "int16",
  "int32",
  "int64",
  "uint8",
  "bool",
  "complex64",
  "complex128",
  "bfloat16",
  "qint8",
  "quint8",
  "qint32",
  "int4",
  "uint4",
]);

/** A tensor, or a part of one, under its key. */
interface PackedSlice {
  readonly key: string;
  readonly sliceSpec: string;
  readonly tensor: LazyTensor;
}

/** A tensor that is being cut. */
interface Cutting {
  readonly key: string;
  readonly tensor: LazyTensor;
  readonly fullShape: Shape;
  /** Where the tensor lies in the whole of which it is a slice. */
  readonly origin: Region;
  readonly elementBytes: number;
  /** Elements that were larger than a shard. */
  oversized: number;
}

/** Fills one shard after another, as TensorFlow does wherever that ends. */
export class ShardPacker {
  /** What somebody should know of the shards. */
  readonly warnings: string[] = [];
  private readonly maxShardSize: number;
  private readonly cutsAll: boolean;
  private readonly shards: TensorSliceDict[] = [new Map()];
  /** Shards of one tensor that is larger than a shard should be. They come last. */
  private readonly oversized: TensorSliceDict[] = [];
  /** Bytes that the last shard has room for. */
  private room: number;
  private sliceCount = 0;

  /** Shards of `maxShardSize` bytes; `cutsAll` when dtypes whose slices TensorFlow doesn't read are cut as well. */
  constructor(maxShardSize: number, cutsAll: boolean) {
    this.maxShardSize = maxShardSize;
    this.cutsAll = cutsAll;
    this.room = maxShardSize;
  }

  /** Puts the next tensor into the last shard, or into as many new ones as it needs. */
  add({ checkpointKey: key, sliceSpec, dtype, shape, tensor }: ShardableTensor): void {
    const { totalBytes, elementBytes, isAtom } = weigh(key, dtype, tensor);
    if (shape.length === 0 || shape.includes(0)) {
      this.addWhole({ key, sliceSpec, tensor }, totalBytes);
      return;
    }
    const { fullShape, region } = placeOf(key, sliceSpec, shape);
    const isMerged = this.cutsAll || MERGED_BY_TENSORFLOW.has(dtype);
    if (isAtom || !isMerged || totalBytes <= this.room) {
      const reason = isMerged ? "" : `, since TensorFlow cannot read slices of ${dtype}`;
      this.addWhole({ key, sliceSpec: formatSliceSpec(fullShape, region), tensor }, totalBytes, reason);
      return;
    }
    // Each slice fits into a shard, so there are at least so many. What cannot be planned isn't begun.
    this.checkSliceCount(this.sliceCount + totalBytes / Math.max(this.maxShardSize, elementBytes));
    const cutting = { key, tensor, fullShape, origin: region, elementBytes, oversized: 0 };
    this.addCut(cutting, { start: shape.map(() => 0), size: [...shape] });
    if (cutting.oversized > 0) {
      this.warn(key, `has elements of more than ${this.maxShardSize} bytes; ${cutting.oversized} have a shard each`);
    }
  }

  /** The shards, none of which is empty. */
  finish(): TensorSliceDict[] {
    return [...this.shards.filter((shard) => shard.size > 0), ...this.oversized];
  }

  private addWhole(slice: PackedSlice, bytes: number, reason = ""): void {
    if (bytes > this.maxShardSize) {
      const fact = `has ${bytes} bytes, more than the ${this.maxShardSize} of a shard`;
      this.warn(slice.key, `${fact}: it has one of its own${reason}`);
    }
    this.addAtom(slice, bytes);
  }

  /** Puts a slice that is not cut into the last shard, into a new one, or into one of its own when it is too large. */
  private addAtom(slice: PackedSlice, bytes: number): void {
    if (bytes > this.maxShardSize) {
      this.countSlice();
      this.oversized.push(new Map([[slice.key, new Map([[slice.sliceSpec, slice.tensor]])]]));
      return;
    }
    if (bytes > this.room) this.openShard();
    this.place(slice, bytes);
  }

  private addCut(cutting: Cutting, box: SliceBox): void {
    while (boxBytes(cutting, box) > this.room) {
      const cut = planCut(box, cutting.elementBytes, this.room);
      if (cut !== undefined) {
        this.placeBox(cutting, cutFront(box, cut));
        // Only a cut that fills a shard closes it; what fits as it is does not.
        if (this.room === 0) this.openShard();
      } else if (planCut(box, cutting.elementBytes, this.maxShardSize) !== undefined) this.openShard();
      else if (elementCount(box.size) === 1) {
        this.addElement(cutting, box);
        return;
      }
      // TensorFlow never ends here. A slab that is too large for a shard is cut along its other dimensions.
      else this.addCut(cutting, cutFront(box, { dimension: longestDimension(box), count: 1 }));
    }
    if (elementCount(box.size) > 0) this.placeBox(cutting, box);
  }

  /** One element that may be larger than a shard; of strings its own length decides, not the longest's. */
  private addElement(cutting: Cutting, box: SliceBox): void {
    const slice = this.sliceOf(cutting, box);
    const bytes = slice.tensor.byteLengths?.[0] ?? cutting.elementBytes;
    if (bytes > this.maxShardSize) cutting.oversized++;
    this.addAtom(slice, bytes);
  }

  private placeBox(cutting: Cutting, box: SliceBox): void {
    this.place(this.sliceOf(cutting, box), boxBytes(cutting, box));
  }

  private sliceOf({ key, tensor, fullShape, origin }: Cutting, { start, size }: SliceBox): PackedSlice {
    const region = start.map((from, i) => ({ start: from, end: from + (size[i] as number) }));
    const moved = region.map((range, i) => {
      const by = (origin[i] as Region[number]).start;
      return { start: range.start + by, end: range.end + by };
    });
    return { key, sliceSpec: formatSliceSpec(fullShape, moved), tensor: sliceTensor(tensor, region) };
  }

  private place({ key, sliceSpec, tensor }: PackedSlice, bytes: number): void {
    this.countSlice();
    addSlice(this.shards.at(-1) as TensorSliceDict, key, sliceSpec, tensor);
    this.room -= bytes;
  }

  private countSlice(): void {
    this.sliceCount++;
    this.checkSliceCount(this.sliceCount);
  }

  private checkSliceCount(count: number): void {
    if (count <= MAX_PLANNED_SLICES) return;
    throw new LimitError("limit", `slices of a max shard size of ${this.maxShardSize}`, {
      expected: `at most ${MAX_PLANNED_SLICES}`,
      hint: "Make the shards larger.",
    });
  }

  private openShard(): void {
    this.shards.push(new Map());
    this.room = this.maxShardSize;
  }

  private warn(key: string, what: string): void {
    this.warnings.push(`"${key}" ${what}`);
  }
}

/** Bytes of a box; of strings as if each were as long as the longest. */
function boxBytes({ elementBytes }: Cutting, { size }: SliceBox): number {
  return elementCount(size) * elementBytes;
}

/** The whole of which a tensor is a slice, and where it lies in that. */
function placeOf(key: string, sliceSpec: string, shape: Shape): SliceInfo {
  const slice = parseSliceSpec(sliceSpec);
  if (slice === undefined) return { fullShape: shape, region: wholeRegion(shape) };
  if (formatShape(regionShape(slice.region)) === formatShape(shape)) return slice;
  throw new UsageError("slice-spec", `slice spec "${sliceSpec}" of "${key}"`, {
    expected: `a slice of shape ${formatShape(shape)}`,
  });
}
