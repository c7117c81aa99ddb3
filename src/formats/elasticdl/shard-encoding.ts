import { create, toBinary } from "@bufbuild/protobuf";
import { concatBytes } from "../../bytes/byte-sink.js";
import { encodeVarint } from "../../codecs/varint.js";
import { UnsupportedError } from "../../errors.js";
import { ShardHeaderSchema, TrainingStateSchema } from "../../proto/gen/cairn/elasticdl_checkpoint_pb.js";
import { EmbeddingTableInfoSchema } from "../../proto/gen/elasticdl/elasticdl_pb.js";
import { encodeHead } from "../../proto/message-view.js";
import { type DType, elementBytes, findDTypeNumber } from "../../tensor/dtype.js";
import { encodeKey } from "../../tensor/key.js";
import { elementCount, type Shape } from "../../tensor/shape.js";
import type { TrainingState } from "./model-contents.js";
import type { ShardName } from "./names.js";
import { SHARD_HEADER, SLOTS, STATE } from "./shard-checksums.js";

/**
 * One field of a shard as it will stand there: `head`, then so many bytes of elements, then `middle`, then so many bytes
 * of ids. What it takes is known before an element is read.
 */
export interface FieldPlan {
  readonly head: Uint8Array;
  readonly elementBytes: number;
  readonly middle: Uint8Array;
  readonly idBytes: number;
}

const NOTHING = new Uint8Array(0);

/** Bytes of a planned field. */
export function fieldByteLength({ head, elementBytes, middle, idBytes }: FieldPlan): number {
  return head.length + elementBytes + middle.length + idBytes;
}

/** A field that is all there already. */
export function planField(number: number, value: Uint8Array): FieldPlan {
  return { head: concatBytes([encodeHead(number, value.length), value]), elementBytes: 0, middle: NOTHING, idBytes: 0 };
}

/** The field that begins a shard. */
export function planHeader({ psId, psNum }: ShardName): FieldPlan {
  return planField(
    SHARD_HEADER,
    toBinary(ShardHeaderSchema, create(ShardHeaderSchema, { formatVersion: 1, psId, psNum })),
  );
}

/** The field of the model version; negative ones take ten bytes, as int32 does. Nothing for 0, as in any proto3 file. */
export function planVersion(modelVersion: number): FieldPlan | undefined {
  if (modelVersion === 0) return undefined;
  return { head: Uint8Array.from([0x08, ...encodeVarint(modelVersion)]), elementBytes: 0, middle: NOTHING, idBytes: 0 };
}

/** What the info of an embedding table tells. */
export interface PlannedInfo {
  readonly name: string;
  readonly dim: number;
  readonly initializer: string;
  readonly dtype: DType;
}

/** The info of an embedding table. */
export function planInfo({ name, dim, initializer, dtype }: PlannedInfo): FieldPlan {
  const rest = create(EmbeddingTableInfoSchema, { dim: BigInt(dim), initializer, dtype: dtypeNumber(dtype) });
  return planField(2, concatBytes([bytesField(1, encodeKey(name)), toBinary(EmbeddingTableInfoSchema, rest)]));
}

/** A dense variable. */
export function planDense(name: string, dtype: DType, shape: Shape): FieldPlan {
  const { head, byteLength } = tensorHead(dtype, shape);
  const tensorLength = head.length + byteLength;
  const value = concatBytes([bytesField(1, encodeKey(name)), encodeHead(2, tensorLength), head]);
  return withContent(3, value, byteLength);
}

/** What {@link planTable} has to know. */
export interface PlannedRows {
  readonly name: string;
  readonly dtype: DType;
  readonly dim: number;
  readonly rowCount: number;
  /** Bytes of the ids as varints. */
  readonly idBytes: number;
}

/** The rows of an embedding table, then their ids. Empty ones are [0, dim] with their dtype: both of ElasticDL's readers take that. */
export function planTable({ name, dtype, dim, rowCount, idBytes }: PlannedRows): FieldPlan {
  const { head, byteLength } = tensorHead(dtype, [rowCount, dim]);
  const tensorLength = head.length + byteLength;
  const tensor = concatBytes([encodeHead(1, tensorLength), head]);
  const middle = idBytes === 0 ? NOTHING : encodeHead(2, idBytes);
  const slicesLength = tensor.length + byteLength + middle.length + idBytes;
  const start = concatBytes([bytesField(1, encodeKey(name)), encodeHead(2, slicesLength), tensor]);
  const field = encodeHead(4, start.length + byteLength + middle.length + idBytes);
  return { head: concatBytes([field, start]), elementBytes: byteLength, middle, idBytes };
}

/** What {@link planSlot} has to know. */
export interface PlannedSlot {
  readonly owner: string;
  readonly name: string;
  readonly isEmbedding: boolean;
  readonly dtype: DType;
  readonly shape: Shape;
}

/** A slot of an optimizer. */
export function planSlot({ owner, name, isEmbedding, dtype, shape }: PlannedSlot): FieldPlan {
  const { head, byteLength } = tensorHead(dtype, shape);
  const names = [bytesField(1, encodeKey(owner)), bytesField(2, encodeKey(name))];
  if (isEmbedding) names.push(Uint8Array.of(0x18, 1));
  return withContent(SLOTS, concatBytes([...names, encodeHead(4, head.length + byteLength), head]), byteLength);
}

/** The training state. */
export function planState({ integers, numbers, texts }: TrainingState): FieldPlan {
  const state = create(TrainingStateSchema, {
    integers: Object.fromEntries(integers),
    numbers: Object.fromEntries(numbers),
    texts: Object.fromEntries(texts),
  });
  return planField(STATE, toBinary(TrainingStateSchema, state));
}

function withContent(number: number, start: Uint8Array, byteLength: number): FieldPlan {
  const head = concatBytes([encodeHead(number, start.length + byteLength), start]);
  return { head, elementBytes: byteLength, middle: NOTHING, idBytes: 0 };
}

function bytesField(number: number, value: Uint8Array): Uint8Array {
  return concatBytes([encodeHead(number, value.length), value]);
}

/** A TensorProto up to its elements. Source: tensorflow/core/framework/tensor.proto, tensor_shape.proto. */
function tensorHead(dtype: DType, shape: Shape): { head: Uint8Array; byteLength: number } {
  const byteLength = elementCount(shape) * elementBytes(dtype);
  const sizes = shape.map((size) =>
    bytesField(2, size === 0 ? NOTHING : Uint8Array.from([0x08, ...encodeVarint(size)])),
  );
  const parts = [Uint8Array.from([0x08, ...encodeVarint(dtypeNumber(dtype))]), bytesField(2, concatBytes(sizes))];
  if (byteLength > 0) parts.push(encodeHead(4, byteLength));
  return { head: concatBytes(parts), byteLength };
}

function dtypeNumber(dtype: DType): number {
  const number = findDTypeNumber(dtype);
  if (number !== undefined && elementBytes(dtype) > 0) return number;
  throw new UnsupportedError("unsupported-dtype", `${dtype} in a training checkpoint`);
}
