import type { DType } from "../tensor/dtype.js";
import type { LazyTensor } from "../tensor/lazy-tensor.js";
import type { Shape } from "../tensor/shape.js";

/** What a {@link ShardableTensor} is made of. */
export interface ShardableTensorFields {
  /** The key under which a checkpoint has the tensor. */
  readonly checkpointKey: string;
  /** What the program calls it; the key when absent. */
  readonly name?: string | undefined;
  /** That of `tensor` when absent. */
  readonly dtype?: DType | undefined;
  /** That of `tensor` when absent. */
  readonly shape?: Shape | undefined;
  /** Which part of a larger tensor this is, `full dims start,length:start,length`; empty for a whole one. */
  readonly sliceSpec?: string | undefined;
  /** `/job:worker/replica:0/task:1/device:GPU:0`, or a part of that; empty when nothing is known. */
  readonly device?: string | undefined;
  readonly tensor: LazyTensor;
  /** The object whose the tensor is; undefined for the object graph. */
  readonly trackable?: unknown;
}

/** A tensor that is to be saved, or a slice of one, with all that a sharding callback may want to know of it. */
export class ShardableTensor {
  /** The key under which a checkpoint has the tensor. */
  readonly checkpointKey: string;
  /** What the program calls it. */
  readonly name: string;
  readonly dtype: DType;
  /** The shape of `tensor`, which is the slice's when there is a `sliceSpec`. */
  readonly shape: Shape;
  /** Which part of a larger tensor this is, `full dims start,length:start,length`; empty for a whole one. */
  readonly sliceSpec: string;
  /** `/job:worker/replica:0/task:1/device:GPU:0`, or a part of that; empty when nothing is known. */
  readonly device: string;
  /** The value. Nothing is read before it is written. */
  readonly tensor: LazyTensor;
  /** The object whose the tensor is; undefined for the object graph. */
  readonly trackable: unknown;

  /** Takes the fields as they are. */
  constructor(fields: ShardableTensorFields) {
    this.checkpointKey = fields.checkpointKey;
    this.name = fields.name ?? fields.checkpointKey;
    this.dtype = fields.dtype ?? fields.tensor.dtype;
    this.shape = fields.shape ?? fields.tensor.shape;
    this.sliceSpec = (fields.sliceSpec ?? "").trim();
    this.device = fields.device ?? "";
    this.tensor = fields.tensor;
    this.trackable = fields.trackable;
  }
}
