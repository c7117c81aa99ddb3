import { ScalarType } from "@bufbuild/protobuf";
import type { ByteSource } from "../bytes/byte-source.js";
import { Window } from "../bytes/window.js";
import { encodeVarint, encodeVarint64, varintLength, writeVarint } from "../codecs/varint.js";
import { CorruptionError } from "../errors.js";
import { type FieldTable, readFieldTable } from "./field-table.js";
import { type FieldRule, WIRE, wireTypeOf } from "./message-rules.js";
import { LONGEST_HEAD_BYTES, WireHead } from "./wire-head.js";

/** The key of a map entry. Whole numbers are bigints whatever their type; a string is kept as its UTF-8 bytes in latin1. */
export type MapKey = string | bigint | boolean;

/** Bytes of a map entry that are looked at for its key before the whole entry is scanned. */
const KEY_LOOK_BYTES = 1024;

/** A string map key in the form of {@link MapKey}. */
export function stringKey(text: string): string {
  let key = "";
  for (const byte of new TextEncoder().encode(text)) key += String.fromCharCode(byte);
  return key;
}

/** The text of a string map key. */
export function textOfKey(key: MapKey): string {
  if (typeof key !== "string") return String(key);
  return new TextDecoder().decode(Uint8Array.from(key, (char) => char.charCodeAt(0)));
}

/** The key of a map field that has the default value, which need not stand on the wire. */
function defaultKey(rule: FieldRule): MapKey {
  if (rule.kind === "string") return "";
  return rule.kind === "bool" ? false : 0n;
}

/** Reads the keys of map entries `from` to `to` of a table; undefined for a field that is no entry by its wire type. */
export async function readMapKeys(
  table: FieldTable,
  from: number,
  to: number,
  keyRule: FieldRule,
): Promise<(MapKey | undefined)[]> {
  const keys: (MapKey | undefined)[] = [];
  const window = new Window(table.source);
  const head = new WireHead(table.source);
  for (let i = from; i < to; i++) {
    if (table.wireType(i) !== WIRE.bytes) {
      keys.push(undefined);
      continue;
    }
    const start = table.valueStart(i);
    const size = table.valueSize(i);
    const look = Math.min(size, KEY_LOOK_BYTES);
    if (!window.holds(start, look)) await window.move(start, look);
    const leading = leadingKey(window.bytes.subarray(start - window.start, start - window.start + look), keyRule);
    const isOnly = leading !== undefined && isOnlyKey(window, head, start + leading.end, start + size);
    keys.push(isOnly ? leading.key : await readKey(table.source.slice(start, size), keyRule));
  }
  window.release();
  return keys;
}

/** The key when it is the entry's first field and in view, and where it ends; else undefined. */
function leadingKey(bytes: Uint8Array, rule: FieldRule): { key: MapKey; end: number } | undefined {
  if (bytes[0] !== ((1 << 3) | wireTypeOf(rule)) || (rule.kind !== "string" && wireTypeOf(rule) !== WIRE.varint))
    return undefined;
  let value = 0n;
  let at = 1;
  for (let shift = 0n; ; shift += 7n) {
    const byte = bytes[at++];
    if (byte === undefined || shift > 63n) return undefined;
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  if (rule.kind !== "string") return { key: normalizeKey(value, rule), end: at };
  const end = at + Number(value);
  return end > bytes.length ? undefined : { key: String.fromCharCode(...bytes.subarray(at, end)), end };
}

/** Whether behind a key, which ends at `offset`, the entry ends or has its value and no more: a second key would win. */
function isOnlyKey(window: Window, head: WireHead, offset: number, end: number): boolean {
  if (offset === end) return true;
  if (!window.holds(offset, Math.min(LONGEST_HEAD_BYTES, end - offset))) return false;
  head.read(window.bytes, window.start, offset, end);
  return head.number === 2 && head.wireType !== WIRE.groupStart && head.valueStart + head.valueSize === end;
}

async function readKey(entry: ByteSource, rule: FieldRule): Promise<MapKey> {
  const table = await readFieldTable(entry);
  let key = defaultKey(rule);
  for (let i = 0; i < table.count; i++) {
    if (table.number(i) !== 1 || table.wireType(i) !== wireTypeOf(rule)) continue;
    const bytes = await entry.read(table.valueStart(i), table.valueSize(i));
    if (rule.kind === "string") key = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
    else if (wireTypeOf(rule) === WIRE.varint) key = normalizeKey(decodeVarint(bytes), rule);
    else key = normalizeKey(decodeFixed(bytes), rule);
  }
  return key;
}

function decodeVarint(bytes: Uint8Array): bigint {
  let value = 0n;
  for (let i = bytes.length - 1; i >= 0; i--) value = (value << 7n) | BigInt((bytes[i] as number) & 0x7f);
  return BigInt.asUintN(64, value);
}

function decodeFixed(bytes: Uint8Array): bigint {
  let value = 0n;
  for (let i = bytes.length - 1; i >= 0; i--) value = (value << 8n) | BigInt(bytes[i] as number);
  return value;
}

/** The number that the bits of a key mean for its type. */
function normalizeKey(bits: bigint, rule: FieldRule): MapKey {
  switch (rule.scalar) {
    case ScalarType.BOOL:
      return bits !== 0n;
    case ScalarType.INT32:
    case ScalarType.SFIXED32:
      return BigInt.asIntN(32, bits);
    case ScalarType.INT64:
    case ScalarType.SFIXED64:
      return BigInt.asIntN(64, bits);
    case ScalarType.SINT32:
      return unfoldSign(BigInt.asUintN(32, bits));
    case ScalarType.SINT64:
      return unfoldSign(BigInt.asUintN(64, bits));
    case ScalarType.UINT32:
    case ScalarType.FIXED32:
      return BigInt.asUintN(32, bits);
    default:
      return BigInt.asUintN(64, bits);
  }
}

/** The number of a zigzag varint. Source: protobuf.dev, "Encoding", "Signed Integers". */
function unfoldSign(bits: bigint): bigint {
  return bits & 1n ? -((bits + 1n) >> 1n) : bits >> 1n;
}

/** A map entry with this key and no value. */
export function encodeMapEntry(key: MapKey, rule: FieldRule, file: string): Uint8Array {
  const value = encodeKey(key, rule);
  if (value === undefined) {
    throw new CorruptionError("field-tag", `map key ${textOfKey(key)} for a map with ${rule.kind} keys`, { file });
  }
  const entry = new Uint8Array(1 + value.length);
  writeVarint(entry, 0, (1 << 3) | wireTypeOf(rule));
  entry.set(value, 1);
  return entry;
}

function encodeKey(key: MapKey, rule: FieldRule): Uint8Array | undefined {
  if (rule.kind === "string") {
    if (typeof key !== "string") return undefined;
    const bytes = new Uint8Array(varintLength(key.length) + key.length);
    const start = writeVarint(bytes, 0, key.length);
    for (let i = 0; i < key.length; i++) bytes[start + i] = key.charCodeAt(i);
    return bytes;
  }
  if (rule.kind === "bool") return typeof key === "boolean" ? encodeVarint(key ? 1 : 0) : undefined;
  if (typeof key !== "bigint") return undefined;
  if (rule.scalar === ScalarType.SINT32 || rule.scalar === ScalarType.SINT64) {
    return encodeVarint64(key < 0n ? -key * 2n - 1n : key * 2n);
  }
  if (wireTypeOf(rule) === WIRE.varint) return encodeVarint64(key);
  const bytes = new Uint8Array(wireTypeOf(rule) === WIRE.fixed32 ? 4 : 8);
  let bits = BigInt.asUintN(bytes.length * 8, key);
  for (let i = 0; i < bytes.length; i++, bits >>= 8n) bytes[i] = Number(bits & 0xffn);
  return bytes;
}
