import { ByteCursor } from "../../bytes/byte-cursor.js";
import type { ByteSource } from "../../bytes/byte-source.js";
import { joinSources } from "../../bytes/joined-source.js";
import { MemorySource } from "../../bytes/memory-source.js";
import { RepeatedSource } from "../../bytes/repeated-source.js";
import { CorruptionError, LimitError, UnsupportedError } from "../../errors.js";
import { MAX_IN_MEMORY_BYTES } from "../../limits.js";
import type { Field, FieldList } from "../../proto/field-list.js";
import { WIRE } from "../../proto/message-rules.js";
import type { MessageView } from "../../proto/message-view.js";
import { type DType, dtypeOf, elementBytes } from "../../tensor/dtype.js";
import { checkShape, elementCount, type Shape } from "../../tensor/shape.js";

// Field numbers of TensorProto. Source: tensorflow/core/framework/tensor.proto.
const DTYPE = 1;
const SHAPE = 2;
const CONTENT = 4;
const FLOAT8_VAL = 18;

/** Which `*_val` field holds the values of a dtype, and how. Source: tensorflow/core/framework/tensor.proto. */
const VALUE_FIELDS: Partial<Record<DType, { readonly number: number; readonly form: "fixed" | "varint" | "bytes" }>> = {
  float32: { number: 5, form: "fixed" },
  float64: { number: 6, form: "fixed" },
  complex64: { number: 9, form: "fixed" },
  complex128: { number: 12, form: "fixed" },
  int32: { number: 7, form: "varint" },
  int16: { number: 7, form: "varint" },
  uint16: { number: 7, form: "varint" },
  int8: { number: 7, form: "varint" },
  uint8: { number: 7, form: "varint" },
  int4: { number: 7, form: "varint" },
  uint4: { number: 7, form: "varint" },
  qint8: { number: 7, form: "varint" },
  quint8: { number: 7, form: "varint" },
  qint16: { number: 7, form: "varint" },
  quint16: { number: 7, form: "varint" },
  qint32: { number: 7, form: "varint" },
  float16: { number: 13, form: "varint" },
  bfloat16: { number: 13, form: "varint" },
  int64: { number: 10, form: "varint" },
  bool: { number: 11, form: "varint" },
  uint32: { number: 16, form: "varint" },
  uint64: { number: 17, form: "varint" },
  string: { number: 8, form: "bytes" },
  resource: { number: 14, form: "bytes" },
  variant: { number: 15, form: "bytes" },
};

/** A TensorProto as a tensor. */
export interface ProtoTensor {
  readonly dtype: DType;
  readonly shape: Shape;
  /** Row-major, little-endian; a string is its length as uint64 and its bytes. */
  data(): Promise<ByteSource>;
}

/**
 * Reads a TensorProto: its data is `tensor_content`, or the values of the list for its dtype, the last of which stands
 * for all that are missing, or zeros. Only the heads of its fields are read before {@link ProtoTensor.data}.
 * Source: tensorflow/core/framework/tensor.cc, FromProtoField.
 * @throws {@link UnsupportedError} (`unsupported-dtype`), {@link CorruptionError} (`tensor-data`, `invalid-wire`)
 */
export async function readTensorProto(view: MessageView, key: string): Promise<ProtoTensor> {
  const list = await view.open();
  const dtype = dtypeOf(Number(await readVarintField(view, list, DTYPE)), view.name, key);
  const shape = await readShape(view, list, key);
  return { dtype, shape, data: () => readData(view, list, { dtype, shape, key }) };
}

interface Facts {
  readonly dtype: DType;
  readonly shape: Shape;
  readonly key: string;
}

async function readData(view: MessageView, list: FieldList, facts: Facts): Promise<ByteSource> {
  const content = list.last(CONTENT);
  const contentBytes = content === undefined ? undefined : view.value(content);
  const { dtype, shape } = facts;
  if (elementBytes(dtype) === 0) {
    if (contentBytes !== undefined && contentBytes.size > 0) return decodeStringContent(contentBytes, facts);
    return readStrings(view, list, facts);
  }
  const byteLength = elementCount(shape) * elementBytes(dtype);
  if (contentBytes !== undefined && contentBytes.size > 0) {
    if (contentBytes.size === byteLength) return contentBytes;
    throw wrongLength(view.name, facts, `${byteLength} bytes`, `${contentBytes.size} bytes of tensor_content`);
  }
  const values = await readValues(view, list, facts);
  if (values.size > byteLength)
    throw wrongLength(view.name, facts, `${byteLength} bytes`, `${values.size} bytes of values`);
  return padValues(values, byteLength, elementBytes(dtype));
}

/** Fills up with the last value, or with zeros when there is none. */
async function padValues(values: ByteSource, byteLength: number, unitBytes: number): Promise<ByteSource> {
  if (values.size === byteLength) return values;
  const unit = values.size === 0 ? new Uint8Array(unitBytes) : await values.read(values.size - unitBytes, unitBytes);
  return joinSources(values.name, [values, new RepeatedSource(values.name, unit, byteLength - values.size)]);
}

/** The values of the list for a dtype, as they stand or decoded, without those that are only implied. */
async function readValues(view: MessageView, list: FieldList, facts: Facts): Promise<ByteSource> {
  if (facts.dtype.startsWith("float8")) {
    const field = list.last(FLOAT8_VAL);
    return field === undefined ? new MemorySource(new Uint8Array(0), view.name) : view.value(field);
  }
  const where = VALUE_FIELDS[facts.dtype];
  if (where === undefined)
    throw new UnsupportedError("unsupported-dtype", `values of ${facts.dtype}`, { file: view.name });
  const parts: ByteSource[] = [];
  for (let i = 0; i < list.count(where.number); i++) {
    const field = list.at(where.number, i) as Field;
    const value = view.value(field);
    parts.push(where.form === "fixed" ? value : await decodeVarints(value, field, facts, view.name));
  }
  const values = joinSources(view.name, parts);
  if (values.size % elementBytes(facts.dtype) === 0) return values;
  throw wrongLength(
    view.name,
    facts,
    `a multiple of ${elementBytes(facts.dtype)} bytes`,
    `${values.size} bytes of values`,
  );
}

async function decodeVarints(value: ByteSource, field: Field, facts: Facts, file: string): Promise<ByteSource> {
  const width = elementBytes(facts.dtype);
  if (value.size * width > MAX_IN_MEMORY_BYTES) {
    throw new LimitError("limit", `values of "${facts.key}", which is not stored as tensor_content`, {
      file,
      expected: `at most ${MAX_IN_MEMORY_BYTES / width} bytes`,
      actual: value.size,
    });
  }
  const bytes = await value.read(0, value.size);
  const count = bytes.reduce((sum, byte) => sum + (byte < 0x80 ? 1 : 0), 0);
  const decoded = new Uint8Array(count * width);
  const view = new DataView(decoded.buffer);
  let at = 0;
  for (let element = 0; element < count; element++) {
    let bits = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++] as number;
      bits |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    storeLow(view, element * width, width, bits);
  }
  if (at === bytes.length && (field.wireType === WIRE.bytes || count === 1)) return new MemorySource(decoded, file);
  throw wrongLength(file, facts, "whole varints", "a cut one");
}

/** Stores the low bytes of a number: what an element keeps of the 64-bit varint that carries it. */
function storeLow(view: DataView, offset: number, width: number, bits: bigint): void {
  if (width === 8) view.setBigUint64(offset, BigInt.asUintN(64, bits), true);
  else if (width === 4) view.setUint32(offset, Number(BigInt.asUintN(32, bits)), true);
  else if (width === 2) view.setUint16(offset, Number(BigInt.asUintN(16, bits)), true);
  else view.setUint8(offset, Number(BigInt.asUintN(8, bits)));
}

/** The elements of a string tensor, each as its length and its bytes. */
async function readStrings(view: MessageView, list: FieldList, facts: Facts): Promise<ByteSource> {
  const { number } = VALUE_FIELDS[facts.dtype] ?? { number: 8 };
  const total = elementCount(facts.shape);
  const count = list.count(number);
  if (count > total) throw wrongLength(view.name, facts, `${total} elements`, `${count} elements`);
  const parts: ByteSource[] = [];
  let last: ByteSource[] = [new MemorySource(new Uint8Array(8), view.name)];
  for (let i = 0; i < count; i++) {
    const value = view.value(list.at(number, i) as Field);
    last = [new MemorySource(encodeLength(value.size), view.name), value];
    parts.push(...last);
  }
  const values = joinSources(view.name, parts);
  if (count === total) return values;
  const unit = joinSources(view.name, last);
  const missing = total - count;
  const repeated = new RepeatedSource(view.name, await unit.read(0, unit.size), unit.size * missing);
  return joinSources(view.name, [values, repeated]);
}

/** A string tensor in `tensor_content`: the lengths as varints, then the strings. Source: tensor_coding.cc, DecodeStringList. */
async function decodeStringContent(content: ByteSource, facts: Facts): Promise<ByteSource> {
  if (facts.dtype !== "string")
    throw new UnsupportedError("unsupported-dtype", `${facts.dtype} in tensor_content`, { file: content.name });
  if (content.size > MAX_IN_MEMORY_BYTES) {
    throw new LimitError("limit", `strings of "${facts.key}"`, { file: content.name, actual: content.size });
  }
  const cursor = new ByteCursor(await content.read(0, content.size), content.name);
  const total = elementCount(facts.shape);
  if (total > content.size) throw wrongLength(content.name, facts, `${total} lengths`, `${content.size} bytes`);
  const lengths: number[] = [];
  for (let i = 0; i < total; i++) lengths.push(cursor.readVarint("tensor-data"));
  const parts: ByteSource[] = [];
  let at = cursor.position;
  for (const length of lengths) {
    if (length > content.size - at)
      throw wrongLength(content.name, facts, `${length} bytes`, `${content.size - at} bytes`);
    parts.push(new MemorySource(encodeLength(length), content.name), content.slice(at, length));
    at += length;
  }
  return joinSources(content.name, parts);
}

function encodeLength(length: number): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(length), true);
  return bytes;
}

async function readVarintField(view: MessageView, list: FieldList, number: number): Promise<bigint> {
  const field = list.last(number);
  return field === undefined ? 0n : readVarint(view.value(field));
}

async function readVarint(value: ByteSource): Promise<bigint> {
  let bits = 0n;
  const bytes = await value.read(0, value.size);
  for (let i = bytes.length - 1; i >= 0; i--) bits = (bits << 7n) | BigInt((bytes[i] as number) & 0x7f);
  return BigInt.asIntN(64, bits);
}

/** The sizes of a TensorShapeProto, -1 for unknown ones; undefined when the rank is unknown. */
export async function readShapeProto(shape: MessageView): Promise<Shape | undefined> {
  const list = await shape.open();
  if ((await readVarintField(shape, list, 3)) !== 0n) return undefined;
  const sizes: number[] = [];
  for (let i = 0; i < list.count(2); i++) {
    const dim = shape.message(list.at(2, i) as Field);
    if (dim === undefined) continue;
    sizes.push(Number(await readVarintField(dim, await dim.open(), 1)));
  }
  return sizes;
}

async function readShape(view: MessageView, list: FieldList, key: string): Promise<Shape> {
  const field = list.last(SHAPE);
  const message = field === undefined ? undefined : view.message(field);
  const shape = message === undefined ? [] : await readShapeProto(message);
  if (shape === undefined)
    throw new CorruptionError("tensor-data", `tensor "${key}" of unknown rank`, { file: view.name });
  checkShape(shape, view.name, key);
  return shape;
}

function wrongLength(file: string, { key, dtype, shape }: Facts, expected: string, actual: string): CorruptionError {
  const what = `data of "${key}" (${dtype} [${shape.join(", ")}])`;
  return new CorruptionError("tensor-data", what, { file, expected, actual });
}
