import { ByteCursor } from "../bytes/byte-cursor.js";
import type { ByteSource } from "../bytes/byte-source.js";
import { Window } from "../bytes/window.js";
import { CorruptionError } from "../errors.js";

/** Bytes of the length that stands before each string of a tensor's data. */
export const STRING_LENGTH_BYTES = 8;

/** The data of a string tensor: each element as its length, a little-endian uint64, and its bytes. Text becomes UTF-8. */
export function encodeStrings(strings: readonly (string | Uint8Array)[]): { bytes: Uint8Array; byteLengths: number[] } {
  const encoder = new TextEncoder();
  const elements = strings.map((element) => (typeof element === "string" ? encoder.encode(element) : element));
  const byteLengths = elements.map(({ length }) => length);
  const bytes = new Uint8Array(byteLengths.reduce((sum, length) => sum + length + STRING_LENGTH_BYTES, 0));
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (const element of elements) {
    view.setBigUint64(at, BigInt(element.length), true);
    bytes.set(element, at + STRING_LENGTH_BYTES);
    at += STRING_LENGTH_BYTES + element.length;
  }
  return { bytes, byteLengths };
}

/**
 * The length in bytes of each string of a tensor's data, which is walked through once.
 * @throws {@link CorruptionError} (`tensor-data`) when the strings don't fill the data
 */
export async function readStringLengths(data: ByteSource, count: number): Promise<number[]> {
  const lengths: number[] = [];
  const window = new Window(data);
  let offset = 0;
  while (lengths.length < count && data.size - offset >= STRING_LENGTH_BYTES) {
    if (!window.holds(offset, STRING_LENGTH_BYTES)) await window.move(offset, STRING_LENGTH_BYTES);
    const length = Number(new ByteCursor(window.bytes.subarray(offset - window.start), data.name, offset).readUint64());
    if (length > data.size - offset - STRING_LENGTH_BYTES) break;
    lengths.push(length);
    offset += STRING_LENGTH_BYTES + length;
  }
  window.release();
  if (lengths.length === count && offset === data.size) return lengths;
  throw new CorruptionError("tensor-data", "strings of a tensor", {
    file: data.name,
    expected: `${count} strings in ${data.size} bytes`,
    actual: `${lengths.length} in ${offset}`,
  });
}
