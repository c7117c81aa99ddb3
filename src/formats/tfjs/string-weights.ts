import { BaseSource, type ByteSource, type ReadOptions } from "../../bytes/byte-source.js";
import { Window } from "../../bytes/window.js";
import { LimitError, TruncatedError } from "../../errors.js";
import { MAX_STRING_ELEMENTS } from "../../limits.js";

/** Bytes of the length before each string of a weight. Source: tfjs-core/src/io/io_utils.ts, NUM_BYTES_STRING_LENGTH. */
export const WEIGHT_STRING_LENGTH_BYTES = 4;

/**
 * The lengths of the strings of a weight that begins at `offset`.
 * @throws {@link TruncatedError} (`truncated`) when they pass the end, {@link LimitError} (`limit`)
 */
export async function readWeightStrings(
  data: ByteSource,
  offset: number,
  { name, count }: { readonly name: string; readonly count: number },
): Promise<{ lengths: number[]; end: number }> {
  const left = data.size - offset;
  if (count > MAX_STRING_ELEMENTS) {
    const expected = `at most ${MAX_STRING_ELEMENTS}`;
    throw new LimitError("limit", `strings of "${name}"`, { file: data.name, expected, actual: count });
  }
  const cut = (at: number) =>
    new TruncatedError("truncated", `strings of "${name}"`, {
      file: data.name,
      expected: `${count} strings`,
      actual: `${at} in ${left} bytes`,
    });
  if (count * WEIGHT_STRING_LENGTH_BYTES > left) throw cut(0);
  const lengths: number[] = [];
  const window = new Window(data);
  let at = offset;
  while (lengths.length < count) {
    if (data.size - at < WEIGHT_STRING_LENGTH_BYTES) throw cut(lengths.length);
    if (!window.holds(at, WEIGHT_STRING_LENGTH_BYTES)) await window.move(at, WEIGHT_STRING_LENGTH_BYTES);
    const { bytes, start } = window;
    const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(at - start, true);
    if (length > data.size - at - WEIGHT_STRING_LENGTH_BYTES) throw cut(lengths.length);
    lengths.push(length);
    at += WEIGHT_STRING_LENGTH_BYTES + length;
  }
  window.release();
  return { lengths, end: at };
}

/** What is read at once, 1 MiB, unless one string is longer. */
const READ_BYTES = 1024 * 1024;

/**
 * Strings with lengths of one width as strings with lengths of another: TF.js has 4 bytes before each string, cairn's
 * tensors have 8.
 */
export class RelengthedStrings extends BaseSource {
  readonly name: string;
  readonly size: number;
  private readonly data: ByteSource;
  private readonly from: number;
  private readonly to: number;
  /** Where each string begins in `data` when its length took no bytes, and the end of the last. */
  private readonly starts: Float64Array;

  /** `data` holds strings of these `lengths`, each behind its length in `from` bytes; here it takes `to` bytes. */
  constructor(data: ByteSource, lengths: readonly number[], widths: { readonly from: number; readonly to: number }) {
    super();
    this.name = data.name;
    this.data = data;
    this.from = widths.from;
    this.to = widths.to;
    this.starts = new Float64Array(lengths.length + 1);
    for (const [i, length] of lengths.entries()) this.starts[i + 1] = this.start(i) + length;
    this.size = this.start(lengths.length) + lengths.length * this.to;
  }

  /** Some of the strings, as a source. */
  elements(first: number, count: number): ByteSource {
    const begin = this.start(first) + first * this.to;
    return this.slice(begin, this.start(first + count) + (first + count) * this.to - begin);
  }

  protected async fill(offset: number, target: Uint8Array, options?: ReadOptions): Promise<void> {
    if (target.length === 0) return;
    const end = offset + target.length;
    const last = this.indexAt(end - 1);
    for (let first = this.indexAt(offset); first <= last; ) {
      let next = first + 1;
      while (next <= last && this.start(next + 1) - this.start(first) <= READ_BYTES) next++;
      const at = this.start(first) + first * this.from;
      const bytes = await this.data.read(at, this.start(next) + next * this.from - at, options);
      for (let i = first; i < next; i++) this.put(i, bytes, at, { offset, target });
      first = next;
    }
  }

  /** Puts what is wanted of one string with its length in the target. */
  private put(i: number, bytes: Uint8Array, at: number, into: { offset: number; target: Uint8Array }): void {
    const length = this.start(i + 1) - this.start(i);
    const string = new Uint8Array(this.to + length);
    new DataView(string.buffer).setUint32(0, length, true);
    const begin = this.start(i) + (i + 1) * this.from - at;
    string.set(bytes.subarray(begin, begin + length), this.to);
    const place = this.start(i) + i * this.to - into.offset;
    const from = Math.max(0, -place);
    const part = string.subarray(from, Math.max(from, into.target.length - place));
    into.target.set(part, place + from);
  }

  private start(i: number): number {
    return this.starts[i] as number;
  }

  /** The string that a byte belongs to, or its length. */
  private indexAt(offset: number): number {
    let low = 0;
    let high = this.starts.length - 2;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (this.start(middle) + middle * this.to <= offset) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}
