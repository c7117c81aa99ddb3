import type { ByteSource } from "../bytes/byte-source.js";
import type { FieldTable } from "./field-table.js";
import { type MapKey, readMapKeys } from "./map-key.js";
import type { FieldRule, MessageRules } from "./message-rules.js";
import type { MessageView } from "./message-view.js";

/** A run of fields of one table. Segments cut from one another share their table and their replaced values. */
export interface Segment {
  readonly table: FieldTable;
  readonly from: number;
  readonly to: number;
  /** Values that are no longer those of the table, by index in the table. */
  readonly replaced: Map<number, MessageView | ByteSource>;
}

/** All fields of a table as a segment. */
export function segmentOf(table: FieldTable): Segment {
  return { table, from: 0, to: table.count, replaced: new Map() };
}

/** One direct field of a message. Good until fields are added to the message or taken out. */
export class Field {
  readonly segment: Segment;
  /** Index in the segment's table. */
  readonly index: number;
  /** What the schema says of it; undefined for an unknown field. */
  readonly rule: FieldRule | undefined;

  /** Made by {@link FieldList}. */
  constructor(segment: Segment, index: number, rule: FieldRule | undefined) {
    this.segment = segment;
    this.index = index;
    this.rule = rule;
  }

  /** The field number. */
  get number(): number {
    return this.segment.table.number(this.index);
  }

  /** The wire type. */
  get wireType(): number {
    return this.segment.table.wireType(this.index);
  }

  /** Whether the schema knows the field and its wire type. */
  get isKnown(): boolean {
    return this.rule?.accepts(this.wireType) === true;
  }

  /** Bytes that the value took at first; a replaced value may have another size. */
  get valueSize(): number {
    return this.segment.table.valueSize(this.index);
  }

  /** Where the field lay at first: its tag at `start`, its value from `valueStart` to `end`, in `source`. */
  get range(): { source: ByteSource; start: number; valueStart: number; end: number } {
    const { index } = this;
    const { table } = this.segment;
    return {
      source: table.source,
      start: table.start(index),
      valueStart: table.valueStart(index),
      end: table.end(index),
    };
  }
}

/** The direct fields of a message in order, as segments of tables, with an index by number and by map key. */
export class FieldList {
  private readonly rules: MessageRules;
  private list: Segment[];
  private runs = new Map<number, Runs>();
  private keys = new Map<number, KeyIndex>();

  /** A list of these segments. */
  constructor(rules: MessageRules, segments: readonly Segment[]) {
    this.rules = rules;
    this.list = [...nonEmpty(segments)];
  }

  /** The segments in order, none of them empty. */
  get segments(): readonly Segment[] {
    return this.list;
  }

  /** How many fields there are. */
  get length(): number {
    return this.list.reduce((sum, segment) => sum + segment.to - segment.from, 0);
  }

  /** The number of the last field, or 0 when there is none. */
  get lastNumber(): number {
    const last = this.list.at(-1);
    return last === undefined ? 0 : last.table.number(last.to - 1);
  }

  /** All fields in order. */
  *fields(): IterableIterator<Field> {
    for (const segment of this.list) for (let i = segment.from; i < segment.to; i++) yield this.fieldIn(segment, i);
  }

  /** How often a number occurs. */
  count(number: number): number {
    return this.runsOf(number).count;
  }

  /** The occurrence `index` of a number. */
  at(number: number, index: number): Field | undefined {
    const found = this.runsOf(number).locate(index);
    return found === undefined ? undefined : this.fieldIn(found.segment, found.index);
  }

  /** The last value of a number: the last occurrence whose wire type the schema has for it. */
  last(number: number): Field | undefined {
    for (let index = this.count(number) - 1; index >= 0; index--) {
      const field = this.at(number, index) as Field;
      if (field.isKnown) return field;
    }
    return undefined;
  }

  /** The values of a number in order: all occurrences whose wire type the schema has for it. */
  *values(number: number): IterableIterator<Field> {
    for (const { segment, from, to } of this.runsOf(number).list) {
      for (let i = from; i < to; i++) {
        const field = this.fieldIn(segment, i);
        if (field.isKnown) yield field;
      }
    }
  }

  /** The entries of a map by key; the last counts where a key stands twice. */
  async entries(rule: FieldRule): Promise<ReadonlyMap<MapKey, Field>> {
    const keyRule = rule.message?.field(1);
    if (!rule.isMap || keyRule === undefined) throw new TypeError(`${rule.name} is no map`);
    const index = this.keys.get(rule.number) ?? { fields: new Map(), runsSeen: 0, taken: Promise.resolve() };
    this.keys.set(rule.number, index);
    // Whoever asks while others read the keys waits for them; a read that failed is tried again.
    const taken = index.taken.then(() => this.takeInKeys(index, rule.number, keyRule));
    index.taken = taken.catch(() => {});
    await taken;
    return index.fields;
  }

  /** Puts fields at the end. */
  append(segment: Segment): void {
    this.list.push(segment);
  }

  /** Puts fields of one number behind the last of that number, or before the first of a higher one. Gives the first. */
  insert(segment: Segment): Field {
    this.insertAll([segment]);
    return this.fieldIn(segment, segment.from);
  }

  /**
   * Puts runs of fields where their numbers belong: behind all others when none has a higher number than the last, else
   * behind the last of the number, or before the first of a higher one. Runs of one number stay in their order.
   */
  insertAll(segments: readonly Segment[]): void {
    const numberOf = ({ table, from }: Segment) => table.number(from);
    const { lastNumber } = this;
    const sorted = nonEmpty(segments).sort((a, b) => numberOf(a) - numberOf(b));
    const firstLate = sorted.findIndex((segment) => numberOf(segment) >= lastNumber);
    const early = firstLate < 0 ? sorted : sorted.slice(0, firstLate);
    if (early.length > 0) {
      const places = this.placesFor(early.map(numberOf));
      this.list = this.list.flatMap((segment, s) => interleave(segment, early, places[s]));
      this.forgetIndex();
    }
    if (firstLate >= 0) for (const segment of sorted.slice(firstLate)) this.append(segment);
  }

  /** Takes a field out. */
  remove(field: Field): void {
    this.removeAll([field]);
  }

  /** Takes fields out. */
  removeAll(fields: Iterable<Field>): void {
    const taken = new Map<FieldTable, number[]>();
    for (const { segment, index } of fields) {
      const indexes = taken.get(segment.table);
      if (indexes === undefined) taken.set(segment.table, [index]);
      else indexes.push(index);
    }
    if (taken.size === 0) return;
    for (const [table, indexes] of taken)
      taken.set(
        table,
        [...new Set(indexes)].sort((a, b) => a - b),
      );
    this.list = this.list.flatMap((segment) => without(segment, taken.get(segment.table)));
    this.forgetIndex();
  }

  /**
   * Takes out the members of a oneof that a later member of another number has replaced, as protobuf reads them. Gives
   * the number of the member that is left, or 0.
   */
  settleOneof(oneof: number): number {
    const present = [...this.rules.fields()].filter((rule) => rule.oneof === oneof && this.count(rule.number) > 0);
    if (present.length === 0) return 0;
    const members: Field[] = [];
    const numbers = new Set(present.map(({ number }) => number));
    const runs = present.length === 1 ? this.values(present[0]?.number ?? 0) : this.fields();
    for (const field of runs) if (numbers.has(field.number) && field.isKnown) members.push(field);
    const current = members.at(-1)?.number ?? 0;
    const replaced = members.findLastIndex(({ number }) => number !== current);
    this.removeAll(members.slice(0, replaced + 1));
    return current;
  }

  /**
   * Cuts the list in pieces. `places` are ascending: each is how many fields stand before a cut. There is one piece more
   * than there are cuts.
   */
  cut(places: readonly number[]): Segment[][] {
    const pieces: Segment[][] = [[]];
    let field = 0;
    for (const segment of this.list) {
      let { from } = segment;
      while (from < segment.to) {
        if (field === places[pieces.length - 1]) pieces.push([]);
        const next = places[pieces.length - 1] ?? Number.POSITIVE_INFINITY;
        const to = Math.min(segment.to, from + next - field);
        pieces.at(-1)?.push({ ...segment, from, to });
        field += to - from;
        from = to;
      }
    }
    while (pieces.length <= places.length) pieces.push([]);
    return pieces;
  }

  private fieldIn(segment: Segment, index: number): Field {
    return new Field(segment, index, this.rules.field(segment.table.number(index)));
  }

  private runsOf(number: number): Runs {
    let runs = this.runs.get(number);
    if (runs === undefined) {
      runs = new Runs(number);
      this.runs.set(number, runs);
    }
    runs.takeIn(this.list);
    return runs;
  }

  private forgetIndex(): void {
    this.runs.clear();
    this.keys.clear();
  }

  /** Reads the keys of the entries that are not in the index yet. */
  private async takeInKeys(index: KeyIndex, number: number, keyRule: FieldRule): Promise<void> {
    const { list } = this.runsOf(number);
    for (; index.runsSeen < list.length; index.runsSeen++) {
      const run = list[index.runsSeen] as Run;
      const keys = await readMapKeys(run.segment.table, run.from, run.to, keyRule);
      for (const [i, key] of keys.entries()) {
        if (key !== undefined) index.fields.set(key, this.fieldIn(run.segment, run.from + i));
      }
    }
  }

  /**
   * Where fields of these numbers, which ascend, belong: for each segment the places in it, by index in its table, and
   * which of the numbers go there.
   */
  private placesFor(numbers: readonly number[]): (readonly Place[])[] {
    const wanted = new Set(numbers);
    const behind = new Map<number, { segment: number; index: number }>();
    const before = new Map<number, { segment: number; index: number }>();
    let firstLower = 0;
    for (const [s, { table, from, to }] of this.list.entries()) {
      for (let i = from; i < to; ) {
        const number = table.number(i);
        // The first field of a higher number than those up to here.
        for (; (numbers[firstLower] ?? number) < number; firstLower++) {
          before.set(numbers[firstLower] as number, { segment: s, index: i });
        }
        i = table.seek(number, i, to, false);
        if (wanted.has(number)) behind.set(number, { segment: s, index: i });
      }
    }
    const places: Place[][] = this.list.map(() => []);
    for (const [which, number] of numbers.entries()) {
      const { segment, index } = (behind.get(number) ?? before.get(number)) as { segment: number; index: number };
      places[segment]?.push({ index, which });
    }
    for (const list of places) list.sort((a, b) => a.index - b.index);
    return places;
  }
}

/** Where in a table something is put, and which of a list it is. */
interface Place {
  readonly index: number;
  readonly which: number;
}

/** A segment with others put in between. */
function interleave(segment: Segment, others: readonly Segment[], places: readonly Place[] = []): Segment[] {
  const parts: Segment[] = [];
  let { from } = segment;
  for (const { index, which } of places) {
    parts.push({ ...segment, from, to: index }, others[which] as Segment);
    from = index;
  }
  parts.push({ ...segment, from });
  return nonEmpty(parts);
}

/** What is left of a segment when the fields of these indexes, which ascend, are taken out. */
function without(segment: Segment, indexes: readonly number[] = []): Segment[] {
  const parts: Segment[] = [];
  let { from } = segment;
  for (let i = firstFrom(indexes, from); i < indexes.length && (indexes[i] as number) < segment.to; i++) {
    parts.push({ ...segment, from, to: indexes[i] as number });
    from = (indexes[i] as number) + 1;
  }
  parts.push({ ...segment, from });
  return nonEmpty(parts);
}

/** The place of the first of ascending numbers that is `least` or more. */
function firstFrom(numbers: readonly number[], least: number): number {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((numbers[middle] as number) < least) low = middle + 1;
    else high = middle;
  }
  return low;
}

interface KeyIndex {
  readonly fields: Map<MapKey, Field>;
  /** How many runs of the number have been taken in. */
  runsSeen: number;
  /** Fulfilled when nobody reads keys any more. */
  taken: Promise<void>;
}

interface Run {
  readonly segment: Segment;
  readonly from: number;
  readonly to: number;
  /** How many occurrences stand before this run. */
  readonly before: number;
}

/** Where the occurrences of one field number are; takes in the segments that are appended. */
class Runs {
  readonly list: Run[] = [];
  count = 0;
  private readonly number: number;
  private segmentsSeen = 0;

  constructor(number: number) {
    this.number = number;
  }

  takeIn(segments: readonly Segment[]): void {
    for (; this.segmentsSeen < segments.length; this.segmentsSeen++) {
      const segment = segments[this.segmentsSeen] as Segment;
      const { table, to } = segment;
      let from = table.seek(this.number, segment.from, to, true);
      while (from < to) {
        const end = table.seek(this.number, from, to, false);
        this.list.push({ segment, from, to: end, before: this.count });
        this.count += end - from;
        from = table.seek(this.number, end, to, true);
      }
    }
  }

  locate(index: number): { segment: Segment; index: number } | undefined {
    if (!(index >= 0 && index < this.count)) return undefined;
    let low = 0;
    let high = this.list.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if ((this.list[middle] as Run).before <= index) low = middle;
      else high = middle - 1;
    }
    const run = this.list[low] as Run;
    return { segment: run.segment, index: run.from + index - run.before };
  }
}

function nonEmpty(segments: readonly Segment[]): Segment[] {
  return segments.filter((segment) => segment.from < segment.to);
}
