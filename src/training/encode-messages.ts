import { varintLength, writeVarint } from "../codecs/varint.js";
import { encodeKey } from "../tensor/key.js";
import { idWords } from "./ids.js";
import type {
  DenseParametersMessage,
  GradientsAnswerMessage,
  GradientsMessage,
  ModelMessage,
  SlicesMessage,
  TableInfoMessage,
  TensorMessage,
  VectorsRequestMessage,
} from "./messages.js";

/** Gives memory for a message of so many bytes, whose end is aligned to 4 bytes. */
export type Allocate = (byteLength: number) => Uint8Array;

/** A tensor whose elements are written where they are to be sent. */
export interface TensorContent {
  readonly dtype: number;
  readonly shape: readonly number[];
  readonly byteLength: number;
  /** Writes the elements to `target` from `offset` on. */
  fill(target: Uint8Array, offset: number): void;
}

/** Memory of its own for each message. */
export const allocateBytes: Allocate = (byteLength) => new Uint8Array(byteLength);

/** A part of a message: how long it is, and how it is written; `write` gives the offset behind it. */
interface Part {
  readonly length: number;
  write(target: Uint8Array, offset: number): number;
}

/** Encodes a `proto.Model`. */
export function encodeModel(model: ModelMessage, allocate: Allocate = allocateBytes): Uint8Array {
  return finish(modelPart(model), allocate);
}

/** Encodes a `proto.PullDenseParametersRequest`. */
export function encodeDenseRequest(modelVersion: number): Uint8Array {
  return finish(join([int32(1, modelVersion)]), allocateBytes);
}

/** Encodes a `proto.PullDenseParametersResponse`. */
export function encodeDenseParameters(message: DenseParametersMessage, allocate: Allocate = allocateBytes): Uint8Array {
  const entries = Array.from(message.denseParameters, ([name, tensor]) => denseEntry(name, tensor));
  return finish(join([int32(1, message.initialized ? 1 : 0), int32(2, message.modelVersion), ...entries]), allocate);
}

/** Encodes a `proto.PullEmbeddingVectorsRequest`. */
export function encodeVectorsRequest(message: VectorsRequestMessage): Uint8Array {
  return finish(join([text(1, message.name), ids(2, message.ids)]), allocateBytes);
}

/** Encodes a `tensorflow.TensorProto`; its content is the last of it. */
export function encodeTensor(tensor: TensorContent, allocate: Allocate = allocateBytes): Uint8Array {
  return finish(tensorPart(tensor), allocate);
}

/** Encodes a `proto.PushGradientsRequest`. */
export function encodeGradients(message: GradientsMessage, allocate: Allocate = allocateBytes): Uint8Array {
  return finish(join([nested(1, modelPart(message.gradients)), float(2, message.learningRate)]), allocate);
}

/** Encodes a `proto.PushGradientsResponse`. */
export function encodeGradientsAnswer(message: GradientsAnswerMessage, allocate: Allocate = allocateBytes): Uint8Array {
  return finish(join([int32(1, message.accepted ? 1 : 0), int32(2, message.modelVersion)]), allocate);
}

function finish(part: Part, allocate: Allocate): Uint8Array {
  const bytes = allocate(part.length);
  part.write(bytes, 0);
  return bytes;
}

function modelPart(model: ModelMessage): Part {
  return join([
    int32(1, model.modelVersion),
    ...model.tableInfos.map((info) => nested(2, tableInfo(info))),
    ...Array.from(model.denseParameters, ([name, tensor]) => denseEntry(name, tensor)),
    ...Array.from(model.embeddingTables, ([name, slices]) =>
      nested(4, join([text(1, name), nested(2, slicesPart(slices))])),
    ),
  ]);
}

function tableInfo({ name, dim, initializer, dtype }: TableInfoMessage): Part {
  return join([text(1, name), unsigned(2, dim), text(3, initializer), int32(4, dtype)]);
}

function denseEntry(name: string, tensor: TensorMessage): Part {
  return nested(3, join([text(1, name), nested(2, tensorPart(contentOf(tensor)))]));
}

function slicesPart({ tensor, ids: rows }: SlicesMessage): Part {
  return join([nested(1, tensorPart(contentOf(tensor))), ids(2, rows)]);
}

function contentOf({ dtype, shape, content }: TensorMessage): TensorContent {
  return { dtype, shape, byteLength: content.length, fill: (target, offset) => target.set(content, offset) };
}

function tensorPart({ dtype, shape, byteLength, fill }: TensorContent): Part {
  const dims = shape.map((size) => nested(2, unsigned(1, size)));
  const content: Part = {
    length: byteLength,
    write: (target, offset) => {
      fill(target, offset);
      return offset + byteLength;
    },
  };
  return join([int32(1, dtype), nested(2, join(dims)), ...(byteLength === 0 ? [] : [nested(4, content)])]);
}

function join(parts: readonly Part[]): Part {
  let length = 0;
  for (const part of parts) length += part.length;
  return { length, write: (target, offset) => parts.reduce((at, part) => part.write(target, at), offset) };
}

/** A length-delimited field; field numbers below 16 take one byte. */
function nested(field: number, part: Part): Part {
  return {
    length: 1 + varintLength(part.length) + part.length,
    write: (target, offset) => {
      target[offset] = (field << 3) | 2;
      return part.write(target, writeVarint(target, offset + 1, part.length));
    },
  };
}

function raw(bytes: Uint8Array): Part {
  return {
    length: bytes.length,
    write: (target, offset) => {
      target.set(bytes, offset);
      return offset + bytes.length;
    },
  };
}

const nothing: Part = { length: 0, write: (_target, offset) => offset };

function text(field: number, value: string): Part {
  return value === "" ? nothing : nested(field, raw(encodeKey(value)));
}

function unsigned(field: number, value: number): Part {
  if (value === 0) return nothing;
  return {
    length: 1 + varintLength(value),
    write: (target, offset) => {
      target[offset] = field << 3;
      return writeVarint(target, offset + 1, value);
    },
  };
}

/** An int32: a negative one takes ten bytes. Source: protobuf encoding specification, "Signed Integers". */
function int32(field: number, value: number): Part {
  if (value >= 0) return unsigned(field, value);
  const bytes = new Uint8Array(11);
  bytes[0] = field << 3;
  writeWords(bytes, 1, value | 0, -1);
  return raw(bytes);
}

function float(field: number, value: number): Part {
  const bytes = new Uint8Array(5);
  bytes[0] = (field << 3) | 5;
  new DataView(bytes.buffer).setFloat32(1, value, true);
  return value === 0 ? nothing : raw(bytes);
}

function ids(field: number, list: BigInt64Array): Part {
  if (list.length === 0) return nothing;
  const words = idWords(list);
  let length = 0;
  for (let i = 0; i < words.length; i += 2) length += wordsLength(words[i] as number, words[i + 1] as number);
  const packed: Part = {
    length,
    write: (target, offset) => {
      let at = offset;
      for (let i = 0; i < words.length; i += 2) at = writeWords(target, at, words[i] as number, words[i + 1] as number);
      return at;
    },
  };
  return nested(field, packed);
}

function wordsLength(low: number, high: number): number {
  if (high !== 0) return Math.ceil((64 - Math.clz32(high)) / 7);
  return low === 0 ? 1 : Math.ceil((32 - Math.clz32(low)) / 7);
}

function writeWords(target: Uint8Array, offset: number, lowWord: number, highWord: number): number {
  let low = lowWord >>> 0;
  let high = highWord >>> 0;
  let at = offset;
  while (high !== 0 || low >= 0x80) {
    target[at++] = (low & 0x7f) | 0x80;
    low = ((low >>> 7) | (high << 25)) >>> 0;
    high >>>= 7;
  }
  target[at++] = low;
  return at;
}
