import type { ByteSource } from "../bytes/byte-source.js";
import { Window } from "../bytes/window.js";
import { LimitError } from "../errors.js";
import { MAX_FIELDS_PER_MESSAGE, MAX_MESSAGE_DEPTH } from "../limits.js";
import { WIRE } from "./message-rules.js";
import { LONGEST_HEAD_BYTES, placeOf, WireHead } from "./wire-head.js";

/**
 * Where the direct fields of one message lie in its bytes: 13 bytes of table for each field, whatever its size. Their
 * values are neither read nor kept.
 */
export class FieldTable {
  /** The wire bytes of the message. */
  readonly source: ByteSource;
  count = 0;
  private numbers: Uint32Array<ArrayBuffer>;
  /** `starts[i]` is the offset of field i's tag, `starts[count]` the end. */
  private starts: Float64Array<ArrayBuffer>;
  /** Header length and wire type: `length << 3 | type`. */
  private heads: Uint8Array<ArrayBuffer>;

  /** An empty table over `source`; {@link readFieldTable} fills one. */
  constructor(source: ByteSource, capacity = 16) {
    this.source = source;
    this.numbers = new Uint32Array(capacity);
    this.starts = new Float64Array(capacity + 1);
    this.heads = new Uint8Array(capacity);
  }

  /** The field number of field `index`. */
  number(index: number): number {
    return this.numbers[index] as number;
  }

  /** The wire type of field `index`. */
  wireType(index: number): number {
    return (this.heads[index] as number) & 7;
  }

  /** The offset of field `index`'s tag. */
  start(index: number): number {
    return this.starts[index] as number;
  }

  /** The offset behind field `index`. */
  end(index: number): number {
    return this.starts[index + 1] as number;
  }

  /** The offset of field `index`'s value: behind the tag, and behind the length of a length-delimited one. */
  valueStart(index: number): number {
    return this.start(index) + ((this.heads[index] as number) >> 3);
  }

  /** Bytes of field `index`'s value. */
  valueSize(index: number): number {
    return this.end(index) - this.valueStart(index);
  }

  /** The next index from `from` on, before `to`, whose number is `number`, or is not when `same` is false; else `to`. */
  seek(number: number, from: number, to: number, same: boolean): number {
    const { numbers } = this;
    let i = from;
    while (i < to && (numbers[i] === number) !== same) i++;
    return i;
  }

  /** The next index from `from` on, before `to`, whose value takes more than `size` bytes; else `to`. */
  seekLarger(size: number, from: number, to: number): number {
    const { starts, heads } = this;
    let i = from;
    while (i < to && (starts[i + 1] as number) - (starts[i] as number) - ((heads[i] as number) >> 3) <= size) i++;
    return i;
  }

  /** Adds a field behind the others. */
  push(number: number, wireType: number, start: number, headLength: number, end: number): void {
    if (this.count === this.numbers.length) this.grow();
    this.numbers[this.count] = number;
    this.heads[this.count] = (headLength << 3) | wireType;
    this.starts[this.count] = start;
    this.starts[++this.count] = end;
  }

  /** A table of one field, which makes up all of `source`. */
  static ofOne(source: ByteSource, number: number, wireType: number, headLength: number): FieldTable {
    const table = new FieldTable(source, 1);
    table.push(number, wireType, 0, headLength, source.size);
    return table;
  }

  private grow(): void {
    const capacity = this.numbers.length * 2;
    if (capacity > MAX_FIELDS_PER_MESSAGE) {
      throw new LimitError("limit", "fields of one message", {
        file: this.source.name,
        expected: `at most ${MAX_FIELDS_PER_MESSAGE}`,
      });
    }
    const { numbers, starts, heads } = this;
    this.numbers = new Uint32Array(capacity);
    this.numbers.set(numbers);
    this.starts = new Float64Array(capacity + 1);
    this.starts.set(starts);
    this.heads = new Uint8Array(capacity);
    this.heads.set(heads);
  }
}

/**
 * Scans a message once and tells where its direct fields lie. Values that are not in view are skipped, not read.
 * @throws {@link CorruptionError} (`invalid-wire`) when the bytes are no message
 */
export async function readFieldTable(source: ByteSource): Promise<FieldTable> {
  const scan = new Scan(source);
  const { window } = scan;
  while (scan.position < source.size) {
    if (!window.holds(scan.position, LONGEST_HEAD_BYTES)) await window.move(scan.position, LONGEST_HEAD_BYTES);
    scan.scanWindow();
  }
  scan.finish();
  window.release();
  return scan.table;
}

class Scan {
  readonly table: FieldTable;
  readonly window: Window;
  position = 0;
  private readonly source: ByteSource;
  private readonly head: WireHead;
  /** The numbers of the groups that are open; the table gets the outermost only. */
  private readonly groups: number[] = [];
  private groupStart = 0;
  private groupHead = 0;

  constructor(source: ByteSource) {
    this.source = source;
    this.table = new FieldTable(source);
    this.window = new Window(source);
    this.head = new WireHead(source);
  }

  /** Takes in the fields whose heads are in view. */
  scanWindow(): void {
    const { table, window, head, groups } = this;
    const { bytes, start: base } = window;
    const size = this.source.size;
    const stop = window.end === size ? size - 1 : window.end - LONGEST_HEAD_BYTES;
    let position = this.position;
    while (position <= stop) {
      head.read(bytes, base, position, size);
      const { wireType, valueStart } = head;
      const end = valueStart + head.valueSize;
      if (wireType === WIRE.groupStart || wireType === WIRE.groupEnd) this.takeGroupTag(position, end);
      else if (groups.length === 0) table.push(head.number, wireType, position, valueStart - position, end);
      position = end;
    }
    this.position = position;
  }

  finish(): void {
    if (this.groups.length > 0) throw this.head.invalid(this.source.size, "group is not closed");
  }

  private takeGroupTag(start: number, end: number): void {
    const { groups, head } = this;
    if (head.wireType === WIRE.groupEnd) {
      if (groups.pop() !== head.number) throw head.invalid(start, `end of group ${head.number}`);
      if (groups.length === 0) this.table.push(head.number, WIRE.groupStart, this.groupStart, this.groupHead, end);
      return;
    }
    if (groups.length === 0) {
      this.groupStart = start;
      this.groupHead = end - start;
    }
    groups.push(head.number);
    checkDepth(groups.length, this.source, start);
  }
}

/** Refuses nesting over the limit. @throws {@link LimitError} (`limit`) */
export function checkDepth(depth: number, source: ByteSource, offset: number): void {
  if (depth <= MAX_MESSAGE_DEPTH) return;
  throw new LimitError("limit", "nesting of messages", {
    ...placeOf(source, offset),
    expected: `at most ${MAX_MESSAGE_DEPTH}`,
    actual: depth,
  });
}
