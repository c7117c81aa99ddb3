import type { DescMessage } from "@bufbuild/protobuf";
import type { ByteSource } from "../bytes/byte-source.js";
import { joinSources } from "../bytes/joined-source.js";
import { MemorySource } from "../bytes/memory-source.js";
import { varintLength, writeVarint } from "../codecs/varint.js";
import { type Field, FieldList, type Segment, segmentOf } from "./field-list.js";
import { FieldTable, readFieldTable } from "./field-table.js";
import { encodeMapEntry, type MapKey } from "./map-key.js";
import { type FieldRule, MessageRules, WIRE } from "./message-rules.js";

/**
 * A message as a lazy view of its wire bytes, for messages of any size and any type. Nothing is read until it is
 * looked into, and then only the heads of its direct fields. A view can be changed: values replaced, fields merged in,
 * cut off or taken out. That changes the view, never the bytes; {@link MessageView.toSource} gives the new bytes as a
 * list of extents of the old ones. The order of fields and unknown fields are kept.
 */
export class MessageView {
  readonly rules: MessageRules;
  private body: ByteSource;
  private list: FieldList | undefined;
  /** What is to be merged in when the view is opened, in order. */
  private deferred: ((view: MessageView) => Promise<void>)[] = [];
  private opening: Promise<FieldList> | undefined;
  private isOpening = false;

  /** Views `source` as a message with these rules; reads nothing. */
  constructor(rules: MessageRules, source: ByteSource) {
    this.rules = rules;
    this.body = source;
  }

  /** Views `source` as a message of a type. */
  static of(schema: DescMessage, source: ByteSource): MessageView {
    return new MessageView(MessageRules.of(schema), source);
  }

  /** The file that the message was found in; what errors print. */
  get name(): string {
    return this.body.name;
  }

  /** Whether nothing was changed in, merged in or deferred: the message is then just a source. */
  get unchanged(): ByteSource | undefined {
    if (this.deferred.length > 0) return undefined;
    if (this.list === undefined) return this.body;
    const [only, ...more] = this.list.segments;
    if (only === undefined) return this.body.size === 0 ? this.body : undefined;
    const whole = only.table.source === this.body && only.from === 0 && only.to === only.table.count;
    return more.length === 0 && whole && only.replaced.size === 0 ? this.body : undefined;
  }

  /**
   * Finds the direct fields. Reads the heads of fields only.
   * @throws {@link CorruptionError} (`invalid-wire`)
   */
  open(): Promise<FieldList> {
    if (this.opening === undefined) {
      const opening = this.openNow();
      this.opening = opening;
      // A read that failed may be tried again; a merge that failed has been done in part.
      opening.catch(() => {
        if (this.opening === opening && this.deferred.length === 0) this.opening = undefined;
      });
    }
    return this.opening;
  }

  /** Has `merge` called when the view is opened: what is to be merged in is read only when it is looked at. */
  defer(merge: (view: MessageView) => Promise<void>): void {
    this.deferred.push(merge);
    // An opening that is under way does it too, and one that failed in an earlier merge stays failed.
    if (this.deferred.length === 1 && !this.isOpening) this.opening = undefined;
  }

  /** The value of a field as bytes; of a message that was changed, use {@link MessageView.message}. */
  value(field: Field): ByteSource {
    const replaced = field.segment.replaced.get(field.index);
    if (replaced instanceof MessageView) {
      if (replaced.unchanged !== undefined) return replaced.unchanged;
      throw new TypeError("the field holds a message that was changed");
    }
    if (replaced !== undefined) return replaced;
    const { source, valueStart, end } = field.range;
    return source.slice(valueStart, end - valueStart);
  }

  /** The message that a field holds, or undefined when it holds none that can be looked into. */
  message(field: Field): MessageView | undefined {
    const rules = field.rule?.message;
    if (rules === undefined || field.wireType !== WIRE.bytes) return undefined;
    const replaced = field.segment.replaced.get(field.index);
    return replaced instanceof MessageView ? replaced : new MessageView(rules, this.value(field));
  }

  /** The message that a field holds, kept in this view, so that changes of it are changes of this. */
  edit(field: Field): MessageView | undefined {
    const view = this.message(field);
    if (view !== undefined) field.segment.replaced.set(field.index, view);
    return view;
  }

  /** Gives a length-delimited field another value. */
  replace(field: Field, value: ByteSource | MessageView): void {
    field.segment.replaced.set(field.index, value);
  }

  /**
   * The singular field of a rule. Several occurrences of a message become one first, as protobuf merges them, and a
   * member of a oneof that a later member has replaced is none.
   */
  async single(rule: FieldRule): Promise<Field | undefined> {
    const list = await this.open();
    if (rule.oneof >= 0) list.settleOneof(rule.oneof);
    if (rule.message === undefined || list.count(rule.number) <= 1) return list.last(rule.number);
    const [first, ...more] = list.values(rule.number);
    if (first === undefined || more.length === 0) return first;
    const values = [first, ...more].map((field) => this.value(field));
    list.removeAll(more);
    this.replace(first, joinSources(this.name, values));
    return list.last(rule.number);
  }

  /** Adds an empty length-delimited field where its number belongs. */
  addEmpty(rule: FieldRule): Promise<Field> {
    return this.addField(rule.number, WIRE.bytes, new Uint8Array(0));
  }

  /** Adds a map entry with a key and no value. @throws {@link CorruptionError} (`field-tag`) for a key of another type */
  addMapEntry(rule: FieldRule, key: MapKey): Promise<Field> {
    const keyRule = rule.message?.field(1);
    if (!rule.isMap || keyRule === undefined) throw new TypeError(`${rule.name} is no map`);
    return this.addField(rule.number, WIRE.bytes, encodeMapEntry(key, keyRule, this.name));
  }

  /**
   * Adds a field with its value as it stands on the wire, behind the last of its number or before the first of a higher
   * one. Other members of its oneof go.
   */
  async addField(number: number, wireType: number, value: Uint8Array): Promise<Field> {
    const list = await this.open();
    const head = wireType === WIRE.bytes ? encodeHead(number, value.length) : encodeTag(number, wireType);
    const bytes = new Uint8Array(head.length + value.length);
    bytes.set(head);
    bytes.set(value, head.length);
    await this.removeOneofRivals(number);
    return list.insert(segmentOf(FieldTable.ofOne(new MemorySource(bytes, this.name), number, wireType, head.length)));
  }

  /** Takes the other members of a field's oneof out. */
  async removeOneofRivals(number: number): Promise<void> {
    const rule = this.rules.field(number);
    if (rule === undefined || rule.oneof < 0) return;
    const list = await this.open();
    const current = list.settleOneof(rule.oneof);
    if (current !== number) list.removeAll(list.values(current));
  }

  /** Becomes a message with these bytes; only for a view that holds nothing yet. */
  fill(source: ByteSource): void {
    if (!this.isEmpty) throw new TypeError("the message holds something already");
    this.body = source;
    this.list = undefined;
    this.opening = undefined;
  }

  /** Whether there is nothing in the message and nothing deferred. */
  get isEmpty(): boolean {
    if (this.deferred.length > 0) return false;
    return this.list === undefined ? this.body.size === 0 : this.list.segments.length === 0;
  }

  /**
   * Cuts the fields off that follow `places` (see {@link FieldList.cut}) and gives them as messages of their own; this
   * one keeps the fields before the first cut.
   */
  async cut(places: readonly number[]): Promise<MessageView[]> {
    const [kept, ...taken] = (await this.open()).cut(places);
    this.setSegments(kept ?? []);
    return taken.map((segments) => {
      const view = new MessageView(this.rules, new MemorySource(new Uint8Array(0), this.name));
      view.setSegments(segments);
      return view;
    });
  }

  /** Takes the whole contents out into a message of its own and leaves this one empty. */
  takeOut(): MessageView {
    const view = new MessageView(this.rules, this.body);
    view.list = this.list;
    view.deferred = this.deferred;
    view.opening = this.opening;
    this.body = new MemorySource(new Uint8Array(0), this.name);
    this.list = undefined;
    this.deferred = [];
    this.opening = undefined;
    return view;
  }

  /** Does all that was deferred, here and in the messages below that are kept in this view. */
  async settle(): Promise<void> {
    if (this.deferred.length > 0) await this.open();
    for (const segment of this.list?.segments ?? []) {
      for (const value of segment.replaced.values()) if (value instanceof MessageView) await value.settle();
    }
  }

  /** The bytes of the message as it is now: extents of its sources and rewritten heads, joined. */
  async toSource(): Promise<ByteSource> {
    await this.settle();
    const parts: ByteSource[] = [];
    this.collect(parts);
    return joinSources(this.name, parts);
  }

  /** Adds the extents of the message to `parts` and gives their size in bytes. The view has to be settled. */
  collect(parts: ByteSource[]): number {
    if (this.deferred.length > 0) throw new TypeError("message view is not settled");
    if (this.list === undefined) {
      parts.push(this.body);
      return this.body.size;
    }
    let size = 0;
    for (const segment of this.list.segments) size += collectSegment(segment, parts);
    return size;
  }

  private setSegments(segments: readonly Segment[]): void {
    this.list = new FieldList(this.rules, segments);
    this.opening = Promise.resolve(this.list);
  }

  private async openNow(): Promise<FieldList> {
    this.isOpening = true;
    try {
      // More may be deferred while this waits.
      while (this.list === undefined || this.deferred.length > 0) {
        const [merge] = this.deferred;
        if (merge === undefined) this.list = new FieldList(this.rules, [segmentOf(await readFieldTable(this.body))]);
        else await this.mergeNow(merge);
      }
      return this.list;
    } finally {
      this.isOpening = false;
    }
  }

  /** Does a deferred merge on a view of its own, so that whoever opens this one meanwhile waits for the end. */
  private async mergeNow(merge: (view: MessageView) => Promise<void>): Promise<void> {
    const working = new MessageView(this.rules, this.body);
    working.list = this.list;
    await merge(working);
    this.list = await working.open();
    this.body = working.body;
    this.deferred.shift();
  }
}

function collectSegment(segment: Segment, parts: ByteSource[]): number {
  const { table, from, to, replaced } = segment;
  let size = 0;
  let copied = from;
  const indexes = [...replaced.keys()].filter((index) => index >= from && index < to).sort((a, b) => a - b);
  for (const index of indexes) {
    size += pushExtent(parts, table, table.start(copied), table.start(index));
    const value: ByteSource[] = [];
    const replacement = replaced.get(index) as MessageView | ByteSource;
    const valueSize = replacement instanceof MessageView ? replacement.collect(value) : replacement.size;
    // A head whose length is the same stays as it was written.
    if (valueSize === table.valueSize(index)) {
      size += pushExtent(parts, table, table.start(index), table.valueStart(index));
    } else {
      const head = encodeHead(table.number(index), valueSize);
      parts.push(new MemorySource(head, table.source.name));
      size += head.length;
    }
    if (replacement instanceof MessageView) for (const part of value) parts.push(part);
    else parts.push(replacement);
    size += valueSize;
    copied = index + 1;
  }
  return size + pushExtent(parts, table, table.start(copied), table.start(to));
}

function pushExtent(parts: ByteSource[], table: FieldTable, start: number, end: number): number {
  if (end > start) parts.push(table.source.slice(start, end - start));
  return end - start;
}

function encodeTag(number: number, wireType: number): Uint8Array {
  const tag = number * 8 + wireType;
  const bytes = new Uint8Array(varintLength(tag));
  writeVarint(bytes, 0, tag);
  return bytes;
}

/** Tag and length of a length-delimited field. */
export function encodeHead(number: number, length: number): Uint8Array {
  const tag = number * 8 + WIRE.bytes;
  const bytes = new Uint8Array(varintLength(tag) + varintLength(length));
  writeVarint(bytes, writeVarint(bytes, 0, tag), length);
  return bytes;
}
