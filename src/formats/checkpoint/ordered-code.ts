import type { SliceExtent } from "./bundle-proto.js";

/**
 * The key under which a slice of a tensor is stored: number 0, name, rank, and for each dimension start and length, in
 * OrderedCode, whose bytes sort as what they stand for. Keys and names have one character a byte.
 * Source: tensorflow/core/util/saved_tensor_slice_util.cc, EncodeTensorNameSlice; core/lib/strings/ordered_code.cc.
 */
export function encodeSliceKey(name: string, extents: readonly SliceExtent[]): string {
  const bytes: number[] = [];
  writeNumber(bytes, 0);
  for (let i = 0; i < name.length; i++) {
    const byte = name.charCodeAt(i);
    bytes.push(byte);
    if (byte === 0) bytes.push(0xff);
    else if (byte === 0xff) bytes.push(0);
  }
  bytes.push(0, 1);
  writeNumber(bytes, extents.length);
  for (const { start, length } of extents) {
    writeSigned(bytes, start);
    writeSigned(bytes, length);
  }
  let key = "";
  for (const byte of bytes) key += String.fromCharCode(byte);
  return key;
}

/** A count of bytes, and the number in so many, most significant first. */
function writeNumber(bytes: number[], value: number): void {
  const digits: number[] = [];
  for (let rest = value; rest > 0; rest = Math.floor(rest / 256)) digits.unshift(rest % 256);
  bytes.push(digits.length, ...digits);
}

/**
 * Two's complement in `n` bytes, most significant first, the first `n` bits flipped; `n` is the least with
 * -2^(7n-1) <= value < 2^(7n-1).
 */
function writeSigned(bytes: number[], value: number): void {
  let length = 1;
  while (length < 10 && (value < -(2 ** (7 * length - 1)) || value >= 2 ** (7 * length - 1))) length++;
  let rest = BigInt.asUintN(8 * length, BigInt(value));
  rest ^= ((1n << BigInt(length)) - 1n) << BigInt(7 * length);
  for (let i = length - 1; i >= 0; i--) bytes.push(Number((rest >> BigInt(8 * i)) & 0xffn));
}

/** The tensor and the extents of a slice key, or undefined when it is none. */
export function decodeSliceKey(key: string): { name: string; extents: SliceExtent[] } | undefined {
  if (key.charCodeAt(0) !== 0) return undefined;
  const end = nameEnd(key);
  if (end === undefined) return undefined;
  const name = unescapeName(key.slice(1, end));
  let at = end + 2;
  const rankLength = key.charCodeAt(at++);
  if (!(rankLength <= 2)) return undefined;
  let rank = 0;
  for (let i = 0; i < rankLength; i++) rank = rank * 256 + key.charCodeAt(at++);
  const extents: SliceExtent[] = [];
  for (let i = 0; i < rank; i++) {
    const start = readSigned(key, at);
    const length = start && readSigned(key, start.next);
    if (start === undefined || length === undefined) return undefined;
    extents.push({ start: start.value, length: length.value });
    at = length.next;
  }
  return at === key.length && encodeSliceKey(name, extents) === key ? { name, extents } : undefined;
}

function unescapeName(escaped: string): string {
  let name = "";
  for (let i = 0; i < escaped.length; i++) {
    const byte = escaped.charCodeAt(i);
    name += escaped[i];
    if (byte === 0 || byte === 0xff) i++;
  }
  return name;
}

/** Where the terminator of the name stands. */
function nameEnd(key: string): number | undefined {
  for (let i = 1; i + 1 < key.length; i++) {
    if (key.charCodeAt(i) === 0xff) i++;
    else if (key.charCodeAt(i) === 0) {
      if (key.charCodeAt(i + 1) === 1) return i;
      i++;
    }
  }
  return undefined;
}

function readSigned(key: string, at: number): { value: number; next: number } | undefined {
  const first = key.charCodeAt(at);
  if (Number.isNaN(first)) return undefined;
  // The first bit tells the sign, and how often it is repeated tells the length.
  const isNegative = first < 0x80;
  const head = ((isNegative ? ~first : first) & 0xff) * 256 + headByte(key.charCodeAt(at + 1), isNegative);
  let length = 0;
  while (length < 10 && (head >> (15 - length)) & 1) length++;
  if (length === 0 || at + length > key.length) return undefined;
  let value = 0n;
  for (let i = 0; i < length; i++) value = (value << 8n) | BigInt(key.charCodeAt(at + i));
  value ^= ((1n << BigInt(length)) - 1n) << BigInt(7 * length);
  return { value: Number(BigInt.asIntN(8 * length, value)), next: at + length };
}

function headByte(byte: number, isNegative: boolean): number {
  return Number.isNaN(byte) ? 0 : (isNegative ? ~byte : byte) & 0xff;
}
