import { CorruptionError } from "../errors.js";
import type { ByteStream } from "./compression.js";

/**
 * The Snappy raw block format, read as a stream. Written here because the libraries for JavaScript hold the whole block
 * in memory and do not notice a block that ends early or runs over.
 * Source: google/snappy, format_description.txt.
 */

/** A copy reaches back at most so far in what Snappy's own compressor writes (it works on 64 KiB fragments). */
const WINDOW_BYTES = 64 * 1024;
const OUTPUT_BYTES = 256 * 1024;

/** Decompresses a whole raw block; `maxLength` bounds the length it may announce. */
export function decompressSnappy(block: Uint8Array, maxLength: number): Uint8Array {
  const preamble = readLength(block);
  if (preamble.length > maxLength) throw corrupt(`announces ${preamble.length} bytes of ${maxLength}`);
  const output = new Uint8Array(preamble.length);
  let written = 0;
  let at = preamble.next;
  while (at < block.length) {
    const element = readElement(block, at, block.length);
    if (element === undefined) throw corrupt("element is cut off");
    at = element.next;
    if (written + element.length > output.length) throw corrupt("runs over its announced length");
    if (element.offset === 0) {
      if (at + element.length > block.length) throw corrupt("literal is cut off");
      output.set(block.subarray(at, at + element.length), written);
      at += element.length;
    } else {
      if (element.offset > written) throw corrupt("copy from before the start");
      copyWithin(output, written, element.offset, element.length);
    }
    written += element.length;
  }
  if (written !== output.length) throw corrupt(`ends after ${written} of ${output.length} bytes`);
  return output;
}

/**
 * Decompresses a raw block that comes in pieces. A copy that reaches further back than 64 KiB, which no known
 * compressor writes, is refused.
 */
export async function* decompressSnappyStream(chunks: ByteStream): ByteStream {
  let input = new Uint8Array(0);
  let announced = -1;
  let total = 0;
  // The last WINDOW_BYTES written stand before `filled`, so a copy finds them.
  let buffer = new Uint8Array(WINDOW_BYTES + OUTPUT_BYTES);
  let filled = 0;
  let given = 0;
  let literal = 0;

  function* flush(): Iterable<Uint8Array> {
    if (filled > given) yield buffer.slice(given, filled);
    const keep = Math.min(WINDOW_BYTES, filled);
    buffer.copyWithin(0, filled - keep, filled);
    filled = keep;
    given = keep;
  }

  for await (const chunk of chunks) {
    input = input.length === 0 ? new Uint8Array(chunk) : append(input, chunk);
    let at = 0;
    if (announced < 0) {
      if (input.length < 10 && !input.some((byte) => byte < 0x80)) continue;
      const preamble = readLength(input);
      announced = preamble.length;
      at = preamble.next;
    }
    while (at < input.length) {
      if (literal > 0) {
        if (filled === buffer.length) yield* flush();
        const count = Math.min(literal, input.length - at, buffer.length - filled);
        buffer.set(input.subarray(at, at + count), filled);
        at += count;
        filled += count;
        literal -= count;
        continue;
      }
      const element = readElement(input, at, input.length);
      if (element === undefined) break;
      at = element.next;
      total += element.length;
      if (total > announced) throw corrupt("runs over its announced length");
      if (element.offset === 0) {
        literal = element.length;
        continue;
      }
      if (filled + element.length > buffer.length) yield* flush();
      if (element.offset > filled) throw corrupt("copy from before the window");
      copyWithin(buffer, filled, element.offset, element.length);
      filled += element.length;
    }
    input = input.slice(at);
  }
  if (announced < 0 || literal > 0 || input.length > 0 || total !== announced) throw corrupt("ends early");
  yield* flush();
  buffer = new Uint8Array(0);
}

interface Element {
  readonly length: number;
  /** How far back a copy reaches; 0 for a literal. */
  readonly offset: number;
  readonly next: number;
}

/** Reads the tag of an element; undefined when it is cut off at `end`. */
function readElement(bytes: Uint8Array, at: number, end: number): Element | undefined {
  const tag = bytes[at] as number;
  const kind = tag & 3;
  const upper = tag >>> 2;
  if (kind === 0) {
    if (upper < 60) return { length: upper + 1, offset: 0, next: at + 1 };
    const size = upper - 59;
    if (at + 1 + size > end) return undefined;
    return { length: littleEndian(bytes, at + 1, size) + 1, offset: 0, next: at + 1 + size };
  }
  const size = kind === 1 ? 1 : kind === 2 ? 2 : 4;
  if (at + 1 + size > end) return undefined;
  let offset = littleEndian(bytes, at + 1, size);
  if (kind === 1) offset += (tag >>> 5) << 8;
  if (offset === 0) throw corrupt("copy with offset 0");
  return { length: kind === 1 ? (upper & 7) + 4 : upper + 1, offset, next: at + 1 + size };
}

function littleEndian(bytes: Uint8Array, at: number, size: number): number {
  let value = 0;
  for (let i = size - 1; i >= 0; i--) value = value * 256 + (bytes[at + i] as number);
  return value;
}

function readLength(bytes: Uint8Array): { length: number; next: number } {
  let length = 0;
  let factor = 1;
  for (let i = 0; i < Math.min(5, bytes.length); i++) {
    const byte = bytes[i] as number;
    length += (byte & 0x7f) * factor;
    if (byte < 0x80) return { length, next: i + 1 };
    factor *= 128;
  }
  throw corrupt("has no length");
}

/** Copies `length` bytes from `offset` back; the ranges may overlap, which repeats the bytes. */
function copyWithin(buffer: Uint8Array, to: number, offset: number, length: number): void {
  if (offset >= length) {
    buffer.copyWithin(to, to - offset, to - offset + length);
    return;
  }
  for (let i = 0; i < length; i++) buffer[to + i] = buffer[to + i - offset] as number;
}

function append(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const joined = new Uint8Array(a.length + b.length);
  joined.set(a);
  joined.set(b, a.length);
  return joined;
}

function corrupt(what: string): CorruptionError {
  return new CorruptionError("decompression", `snappy block ${what}`);
}
