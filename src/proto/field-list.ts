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
  private readonly list: Segment[];
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

  /** The last occurrence of a number. */
  last(number: number): Field | undefined {
    return this.at(number, this.count(number) - 1);
  }

  /** The entries of a map by key; the last counts where a key stands twice. */
  async entries(rule: FieldRule): Promise<ReadonlyMap<MapKey, Field>> {
    const keyRule = rule.message?.field(1);
    if (!rule.isMap || keyRule === undefined) throw new TypeError(`${rule.name} is no map`);
    let index = this.keys.get(rule.number);
    if (index === undefined) {
      index = { fields: new Map(), runsSeen: 0 };
      this.keys.set(rule.number, index);
    }
    const { list } = this.runsOf(rule.number);
    while (index.runsSeen < list.length) {
      const run = list[index.runsSeen++] as Run;
      const keys = await readMapKeys(run.segment.table, run.from, run.to, keyRule);
      for (const [i, key] of keys.entries()) index.fields.set(key, this.fieldIn(run.segment, run.from + i));
    }
    return index.fields;
  }

  /** Puts fields at the end. */
  append(segment: Segment): void {
    this.list.push(segment);
  }

  /** Puts fields of one number behind the last of that number, or before the first of a higher one. Gives the first. */
  insert(segment: Segment): Field {
    const number = segment.table.number(segment.from);
    const place = this.lastNumber <= number ? undefined : (this.placeBehind(number) ?? this.placeBefore(number));
    if (place === undefined) this.append(segment);
    else {
      const split = this.list[place.segment] as Segment;
      const around = [{ ...split, to: place.index }, segment, { ...split, from: place.index }];
      this.list.splice(place.segment, 1, ...nonEmpty(around));
      this.forgetIndex();
    }
    return this.fieldIn(segment, segment.from);
  }

  /** Takes a field out. */
  remove(field: Field): void {
    const { table } = field.segment;
    const at = this.list.findIndex((one) => one.table === table && one.from <= field.index && field.index < one.to);
    const segment = this.list[at];
    if (segment === undefined) return;
    const around = [
      { ...segment, to: field.index },
      { ...segment, from: field.index + 1 },
    ];
    this.list.splice(at, 1, ...nonEmpty(around));
    this.forgetIndex();
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

  private placeBehind(number: number): { segment: number; index: number } | undefined {
    for (let s = this.list.length - 1; s >= 0; s--) {
      const { table, from, to } = this.list[s] as Segment;
      for (let i = to - 1; i >= from; i--) if (table.number(i) === number) return { segment: s, index: i + 1 };
    }
    return undefined;
  }

  private placeBefore(number: number): { segment: number; index: number } | undefined {
    for (const [s, { table, from, to }] of this.list.entries()) {
      for (let i = from; i < to; i++) if (table.number(i) > number) return { segment: s, index: i };
    }
    return undefined;
  }
}

interface KeyIndex {
  readonly fields: Map<MapKey, Field>;
  /** How many runs of the number have been taken in. */
  runsSeen: number;
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
