import { MIN_FIELD_TAG, WIRE_TYPES } from "./format.js";

/**
 * Whether a range of bytes is a protobuf message that can be taken apart and put together again to the same bytes:
 * every tag, length and varint in its shortest form, groups balanced. What stands in length-delimited fields does
 * not count.
 * Source: google/riegeli, riegeli/chunk_encoding/transpose_encoder.cc, IsProtoMessage.
 */
export function isCanonicalMessage(bytes: Uint8Array, start: number, end: number): boolean {
  // Tags of the ends of the groups that are open.
  let groupEnds: number[] | undefined;
  let at = start;
  while (at < end) {
    const tagStart = at;
    at = canonicalVarint32End(bytes, at, end);
    if (at < 0) return false;
    const tag = varintAt(bytes, tagStart);
    if (tag < MIN_FIELD_TAG) return false;
    switch (tag & 7) {
      case WIRE_TYPES.varint:
        at = canonicalVarint64End(bytes, at, end);
        if (at < 0) return false;
        break;
      case WIRE_TYPES.fixed32:
        at += 4;
        break;
      case WIRE_TYPES.fixed64:
        at += 8;
        break;
      case WIRE_TYPES.lengthDelimited: {
        const lengthStart = at;
        at = canonicalVarint32End(bytes, at, end);
        if (at < 0) return false;
        at += varintAt(bytes, lengthStart);
        break;
      }
      case WIRE_TYPES.startGroup:
        groupEnds ??= [];
        groupEnds.push(tag + 1);
        break;
      case WIRE_TYPES.endGroup:
        if (groupEnds?.pop() !== tag) return false;
        break;
      default:
        return false;
    }
  }
  return at === end && (groupEnds === undefined || groupEnds.length === 0);
}

/** Where the varint at `at` ends, which has to be of at most 32 bits and in its shortest form; -1 if it is not. */
function canonicalVarint32End(bytes: Uint8Array, at: number, end: number): number {
  const stop = Math.min(end, at + 5);
  for (let i = at; i < stop; i++) {
    const byte = bytes[i] as number;
    if (byte >= 0x80) continue;
    return (byte === 0 && i > at) || (i === at + 4 && byte > 0x0f) ? -1 : i + 1;
  }
  return -1;
}

/** As {@link canonicalVarint32End}, for 64 bits. */
function canonicalVarint64End(bytes: Uint8Array, at: number, end: number): number {
  const stop = Math.min(end, at + 10);
  for (let i = at; i < stop; i++) {
    const byte = bytes[i] as number;
    if (byte >= 0x80) continue;
    return (byte === 0 && i > at) || (i === at + 9 && byte > 1) ? -1 : i + 1;
  }
  return -1;
}

/** Where a varint that has been checked ends. */
export function varintEnd(bytes: Uint8Array, at: number): number {
  let end = at;
  while ((bytes[end] as number) >= 0x80) end++;
  return end + 1;
}

/** The value of a varint of 32 bits that has been checked. */
export function varintAt(bytes: Uint8Array, at: number): number {
  const first = bytes[at] as number;
  if (first < 0x80) return first;
  let value = first & 0x7f;
  let factor = 128;
  for (let i = at + 1; ; i++) {
    const byte = bytes[i] as number;
    value += (byte & 0x7f) * factor;
    if (byte < 0x80) return value;
    factor *= 128;
  }
}
