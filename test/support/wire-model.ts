import { type DescField, type DescMessage, fromBinary, type Message, ScalarType, toBinary } from "@bufbuild/protobuf";
import { concatBytes } from "../../src/bytes/byte-sink.js";
import { scalarWireType } from "./test-schema.js";

/** A field as a plain reader finds it. Offsets count from the start of the message. */
export interface PlainField {
  readonly number: number;
  readonly wireType: number;
  readonly start: number;
  readonly valueStart: number;
  readonly end: number;
}

/** Reads a varint bit by bit; undefined when there is none. */
function plainVarint(bytes: Uint8Array, at: number): { value: bigint; end: number } | undefined {
  let value = 0n;
  for (let i = 0; i < 10; i++) {
    const byte = bytes[at + i];
    if (byte === undefined) return undefined;
    value += BigInt(byte & 0x7f) << BigInt(7 * i);
    if (byte < 0x80) return { value, end: at + i + 1 };
  }
  return undefined;
}

/** One field, a group with all that is in it; undefined when the bytes are none, or groups are nested too deep. */
function plainField(bytes: Uint8Array, start: number, depth: number): PlainField | undefined {
  const tag = plainVarint(bytes, start);
  if (tag === undefined || tag.value > 0xffffffffn) return undefined;
  const number = Number(tag.value >> 3n);
  const wireType = Number(tag.value & 7n);
  if (number === 0) return undefined;
  let valueStart = tag.end;
  let end: number;
  if (wireType === 0) end = plainVarint(bytes, valueStart)?.end ?? -1;
  else if (wireType === 1) end = valueStart + 8;
  else if (wireType === 5) end = valueStart + 4;
  else if (wireType === 2) {
    const length = plainVarint(bytes, valueStart);
    if (length === undefined || length.value > BigInt(bytes.length)) return undefined;
    valueStart = length.end;
    end = valueStart + Number(length.value);
  } else if (wireType === 3) end = plainGroupEnd(bytes, valueStart, number, depth + 1);
  else return undefined;
  return end < 0 || end > bytes.length ? undefined : { number, wireType, start, valueStart, end };
}

function plainGroupEnd(bytes: Uint8Array, start: number, number: number, depth: number): number {
  if (depth > 100) return -1;
  for (let at = start; ; ) {
    const tag = plainVarint(bytes, at);
    if (tag !== undefined && tag.value === BigInt(number * 8 + 4)) return tag.end;
    const field = plainField(bytes, at, depth);
    if (field === undefined) return -1;
    at = field.end;
  }
}

/** The direct fields of a message, read in the plainest way; undefined when the bytes are no message. */
export function plainFields(bytes: Uint8Array): PlainField[] | undefined {
  const fields: PlainField[] = [];
  for (let at = 0; at < bytes.length; ) {
    const field = plainField(bytes, at, 0);
    if (field === undefined) return undefined;
    fields.push(field);
    at = field.end;
  }
  return fields;
}

/** The bytes of each direct field, tag and all, of a message that is known to be good. */
export function fieldBytes(bytes: Uint8Array): Uint8Array[] {
  return (plainFields(bytes) ?? []).map(({ start, end }) => bytes.subarray(start, end));
}

/** Whether bytes are a message of a type down to the innermost, messages in groups not looked into. */
export function isPlainMessage(schema: DescMessage | undefined, bytes: Uint8Array, depth = 0): boolean {
  if (depth > 100) return false;
  const fields = plainFields(bytes);
  if (fields === undefined) return false;
  return fields.every(({ number, wireType, valueStart, end }) => {
    const field = schema?.fields.find((one) => one.number === number);
    const value = bytes.subarray(valueStart, end);
    if (wireType === 3) return groupDepth(bytes.subarray(valueStart, end)) + depth + 1 <= 100;
    if (wireType !== 2 || field === undefined) return true;
    if (field.fieldKind === "map") return isPlainEntry(field, value, depth + 1);
    if (field.message === undefined || field.delimitedEncoding) return true;
    return isPlainMessage(field.message, value, depth + 1);
  });
}

/** How many groups are open at most in the contents of one, which end with its end. */
function groupDepth(contents: Uint8Array): number {
  let open = 0;
  let most = 0;
  for (let at = 0; at < contents.length; ) {
    const tag = plainVarint(contents, at);
    if (tag === undefined) break;
    const wireType = Number(tag.value & 7n);
    if (wireType === 3) most = Math.max(most, ++open);
    if (wireType === 4) open--;
    at = wireType === 3 || wireType === 4 ? tag.end : (plainField(contents, at, 0)?.end ?? contents.length);
  }
  return most;
}

function isPlainEntry(field: DescField & { fieldKind: "map" }, bytes: Uint8Array, depth: number): boolean {
  const fields = plainFields(bytes);
  if (fields === undefined) return false;
  return fields.every(({ number, wireType, valueStart, end }) => {
    if (wireType === 3) return groupDepth(bytes.subarray(valueStart, end)) + depth + 1 <= 100;
    if (number !== 2 || wireType !== 2 || field.message === undefined) return true;
    return isPlainMessage(field.message, bytes.subarray(valueStart, end), depth + 1);
  });
}

/** Whether a field may have a wire type by the schema. */
export function isKnownField(schema: DescMessage, number: number, wireType: number): boolean {
  const field = schema.fields.find((one) => one.number === number);
  if (field === undefined) return false;
  if (field.fieldKind === "map") return wireType === 2;
  if (field.message !== undefined) return wireType === (field.delimitedEncoding ? 3 : 2);
  const scalar = field.enum !== undefined ? ScalarType.INT32 : (field.scalar as ScalarType);
  const own = scalarWireType(scalar);
  return wireType === own || (field.fieldKind === "list" && wireType === 2);
}

/**
 * What a message means, as bytes that are equal for equal messages: fields by number, map entries by key, and unknown
 * fields by number, each number's in their order.
 */
export function meaningOf(schema: DescMessage, bytes: Uint8Array): Uint8Array {
  const message = fromBinary(schema, bytes);
  normalize(message);
  return toBinary(schema, message);
}

function normalize(value: unknown): void {
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return;
  if (Array.isArray(value)) {
    for (const one of value) normalize(one);
    return;
  }
  const record = value as Record<string, unknown> & Partial<Message>;
  if (record.$typeName === undefined && !("case" in record && "value" in record)) sortKeys(record);
  record.$unknown?.sort((a, b) => a.no - b.no);
  for (const [name, one] of Object.entries(record)) if (!name.startsWith("$")) normalize(one);
}

function sortKeys(record: Record<string, unknown>): void {
  const entries = Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1));
  for (const [key] of entries) delete record[key];
  for (const [key, value] of entries) record[key] = value;
}

/** Joins fields to a message. */
export function messageOf(fields: readonly Uint8Array[]): Uint8Array {
  return concatBytes([new Uint8Array(0), ...fields]);
}
