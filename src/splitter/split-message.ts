import type { ByteSource } from "../bytes/byte-source.js";
import { joinSources } from "../bytes/joined-source.js";
import { MemorySource } from "../bytes/memory-source.js";
import { varintLength } from "../codecs/varint.js";
import type { Field, FieldList } from "../proto/field-list.js";
import type { FieldTable } from "../proto/field-table.js";
import { type MapKey, readMapKeys, stringKey, textOfKey } from "../proto/map-key.js";
import { type FieldRule, WIRE, wireTypeOf } from "../proto/message-rules.js";
import { encodeHead, MessageView } from "../proto/message-view.js";
import type { TagStep } from "./field-tag.js";

/** What to leave together and what to take apart. Sizes in bytes. */
export interface SplitSizes {
  /** A message chunk is to be no larger. */
  readonly message: number;
  /** A message in a message leaves when it is larger. */
  readonly nested: number;
  /** The value of a bytes or string field leaves when it is larger. */
  readonly value: number;
}

/** Message chunks are kept to 16 MiB, so that whoever wants a part need not take in a gigabyte. */
const PREFERRED_MESSAGE_BYTES = 16 * 1024 * 1024;
/** Values from 256 KiB on leave the message chunks, so that a constant can be read alone. */
const PREFERRED_VALUE_BYTES = 256 * 1024;

/** The sizes for chunks of at most `maxChunkSize` bytes. A part counts as large from a third of it, as in TensorFlow. */
export function splitSizesFor(maxChunkSize: number): SplitSizes {
  const message = Math.min(maxChunkSize, PREFERRED_MESSAGE_BYTES);
  const nested = Math.floor(message / 3);
  return { message, nested, value: Math.min(nested, PREFERRED_VALUE_BYTES) };
}

/** Takes a chunk that goes to a place below the message that is split. */
export type EmitChunk = (steps: readonly TagStep[], content: MessageView | ByteSource) => void;

/** What is left of a message after {@link splitMessage}. */
export interface SplitResult {
  /** Serialized size of what stays, in bytes; slices that were cut off are counted in. */
  readonly size: number;
  /** Fields that were cut off: messages of the same type, to be merged behind what stays, in order. */
  readonly slices: readonly MessageView[];
}

/**
 * Takes large parts out of a message of any type, so that what stays, and each part, is no larger than `sizes` say,
 * as far as that can be done. A value that leaves is left behind as an empty field, which tells a merger its place, so
 * that a merge gives the very same bytes. The fields of a message that is too large still are cut in slices, between
 * fields whose numbers ascend. Nothing leaves from where a merger could not put it back: from fields whose head is
 * longer than needed, singular fields that occur twice, map entries that are not exactly a key and a value.
 */
export async function splitMessage(
  view: MessageView,
  steps: readonly TagStep[],
  sizes: SplitSizes,
  emit: EmitChunk,
): Promise<SplitResult> {
  const list = await view.open();
  const fieldSizes = new FieldSizes(list);
  const packed: MessageView[] = [];
  for (const { table, index, number, occurrence, at } of largeFields(list, sizes.value)) {
    if (table.wireType(at) !== WIRE.bytes) continue;
    const field = list.at(number, occurrence) as Field;
    if (field.rule === undefined || !hasShortestHead(field)) continue;
    const size = await splitField({ view, list, field, occurrence, steps, sizes, emit, packed }, field.rule);
    if (size !== undefined) fieldSizes.set(index, table, at, size);
  }
  const slices = fieldSizes.total > sizes.message ? await cutSlices(view, list, fieldSizes, sizes) : [];
  return { size: fieldSizes.total, slices: [...slices, ...packed] };
}

interface LargeField {
  readonly table: FieldTable;
  /** Index in the table. */
  readonly at: number;
  /** Index among all fields of the message. */
  readonly index: number;
  readonly number: number;
  /** Index among the fields of the same number. */
  readonly occurrence: number;
}

/** The fields whose values take more than `size` bytes. */
function* largeFields(list: FieldList, size: number): Iterable<LargeField> {
  const counts = new Map<number, number>();
  let before = 0;
  for (const { table, from, to } of list.segments) {
    for (let run = from; run < to; ) {
      const number = table.number(run);
      const end = table.seek(number, run, to, false);
      const earlier = counts.get(number) ?? 0;
      for (let at = table.seekLarger(size, run, end); at < end; at = table.seekLarger(size, at + 1, end)) {
        yield { table, at, index: before + at - from, number, occurrence: earlier + at - run };
      }
      counts.set(number, earlier + end - run);
      run = end;
    }
    before += to - from;
  }
}

interface Part {
  readonly view: MessageView;
  readonly list: FieldList;
  readonly field: Field;
  readonly occurrence: number;
  readonly steps: readonly TagStep[];
  readonly sizes: SplitSizes;
  readonly emit: EmitChunk;
  readonly packed: MessageView[];
}

/** Takes a large value out of a field, or large parts out of its message. Gives the value's new size when it changed. */
async function splitField(part: Part, rule: FieldRule): Promise<number | undefined> {
  const { list, steps, occurrence } = part;
  if (!rule.repeated && (list.count(rule.number) > 1 || hasOneofRival(part, rule))) return undefined;
  if (rule.isMap) return splitMapEntry(part, rule);
  if (rule.kind === "message") {
    const selector = rule.repeated ? occurrence : undefined;
    return splitNested(part.view, part.field, [...steps, { rule, selector, isKey: false }], part);
  }
  if (rule.repeated) return rule.packable ? cutPacked(part, rule) : undefined;
  if (rule.kind !== "bytes" && rule.kind !== "string") return undefined;
  part.emit([...steps, { rule, selector: undefined, isKey: false }], part.view.value(part.field));
  part.view.replace(part.field, nothing(part.view.name));
  return 0;
}

function hasOneofRival({ view, list }: Part, rule: FieldRule): boolean {
  if (rule.oneof < 0) return false;
  for (const other of view.rules.fields()) {
    if (other.oneof === rule.oneof && other.number !== rule.number && list.count(other.number) > 0) return true;
  }
  return false;
}

/** Splits the message in a field; when much stays, or slices were cut off, all of it leaves. */
async function splitNested(
  view: MessageView,
  field: Field,
  steps: readonly TagStep[],
  { sizes, emit }: Pick<Part, "sizes" | "emit">,
): Promise<number | undefined> {
  const message = view.edit(field);
  if (message === undefined) return undefined;
  const { size, slices } = await splitMessage(message, steps, sizes, emit);
  if (size <= sizes.nested && slices.length === 0) {
    // What was looked into in vain need not be kept.
    if (message.unchanged !== undefined) field.segment.replaced.delete(field.index);
    return size;
  }
  emit(steps, message.takeOut());
  for (const slice of slices) emit(steps, slice);
  return 0;
}

/** Splits the value of a map entry, when the entry is exactly a key and a message. */
async function splitMapEntry(part: Part, rule: FieldRule): Promise<number | undefined> {
  const { view, list, field, steps } = part;
  const keyRule = rule.message?.field(1);
  const valueRule = rule.message?.field(2);
  if (keyRule === undefined || valueRule?.message === undefined) return undefined;
  const entries = await list.entries(rule);
  // A key that stands twice makes the tag ambiguous.
  if (entries.size !== list.count(rule.number)) return undefined;
  const [key] = await readMapKeys(field.segment.table, field.index, field.index + 1, keyRule);
  const entry = view.edit(field);
  if (key === undefined || entry === undefined || !isPortableKey(key)) return undefined;
  const inside = await entry.open();
  const [keyField, valueField] = [...inside.fields()];
  const isPlain =
    inside.length === 2 &&
    keyField?.number === 1 &&
    keyField.wireType === wireTypeOf(keyRule) &&
    valueField?.number === 2 &&
    valueField.wireType === WIRE.bytes &&
    hasShortestHead(valueField);
  if (!isPlain || valueField === undefined) return undefined;
  const before = valueField.valueSize;
  const size = await splitNested(entry, valueField, [...steps, { rule, selector: key, isKey: true }], part);
  if (entry.unchanged !== undefined) field.segment.replaced.delete(field.index);
  if (size === undefined || size === before) return undefined;
  return field.valueSize - before - varintLength(before) + varintLength(size) + size;
}

/** Whether TensorFlow keeps a key as it is: it cuts 64-bit keys to 32 bits, and strings have to be UTF-8. */
function isPortableKey(key: MapKey): boolean {
  if (typeof key === "bigint") return BigInt.asIntN(32, key) === key;
  return typeof key === "boolean" || stringKey(textOfKey(key)) === key;
}

/**
 * Cuts a packed field between elements. The field stays as an empty one; each piece is a message with a part of the
 * elements, and joins the others when it is merged.
 */
async function cutPacked(part: Part, rule: FieldRule): Promise<number | undefined> {
  const { view, list, field, sizes, packed } = part;
  if (list.count(rule.number) > 1 || field.valueSize <= sizes.message) return undefined;
  const value = view.value(field);
  const room = sizes.message - varintLength(rule.number * 8) - varintLength(sizes.message);
  const pieces: ByteSource[] = [];
  for (let from = 0; from < value.size; ) {
    const to = await elementEnd(value, Math.min(value.size, from + room), from, rule);
    pieces.push(value.slice(from, to - from));
    from = to;
  }
  for (const piece of pieces) {
    const head = encodeHead(rule.number, piece.size);
    const source = joinSources(view.name, [new MemorySource(head, view.name), piece]);
    packed.push(new MessageView(view.rules, source));
  }
  view.replace(field, nothing(view.name));
  return 0;
}

/** The last end of an element at or before `wanted`, or, when there is none behind `from`, the first one after. */
async function elementEnd(value: ByteSource, wanted: number, from: number, rule: FieldRule): Promise<number> {
  const wireType = wireTypeOf(rule);
  if (wireType !== WIRE.varint) {
    const width = wireType === WIRE.fixed64 ? 8 : 4;
    return Math.min(value.size, Math.max(from + width, wanted - (wanted % width)));
  }
  if (wanted === value.size) return wanted;
  const start = Math.max(from, wanted - 10);
  const bytes = await value.read(start, Math.min(value.size, wanted + 10) - start);
  let end = 0;
  for (let i = 0; i < bytes.length; i++) {
    if ((bytes[i] as number) >= 0x80) continue;
    if (start + i + 1 > wanted && end > 0) break;
    end = start + i + 1;
    if (end > wanted) break;
  }
  return end > from ? end : value.size;
}

/** Cuts the fields of a message off that do not fit in `sizes.message` bytes, without looking into them. */
export async function sliceMessage(view: MessageView, sizes: SplitSizes): Promise<readonly MessageView[]> {
  const list = await view.open();
  const fieldSizes = new FieldSizes(list);
  let index = 0;
  for (const { table, from, to, replaced } of list.segments) {
    for (let i = from; i < to; i++, index++) {
      const value = replaced.get(i);
      if (value === undefined) continue;
      fieldSizes.set(index, table, i, value instanceof MessageView ? (await value.toSource()).size : value.size);
    }
  }
  return fieldSizes.total > sizes.message ? cutSlices(view, list, fieldSizes, sizes) : [];
}

/** Cuts the fields of a message into slices of at most `sizes.message` bytes, where they can be cut. */
async function cutSlices(
  view: MessageView,
  list: FieldList,
  fieldSizes: FieldSizes,
  sizes: SplitSizes,
): Promise<MessageView[]> {
  const blocked = await findBlocked(view, list);
  const places: number[] = [];
  let start = 0;
  let size = 0;
  // The last place where a cut is possible, and what stands before it in this slice.
  let lastCut = 0;
  let sizeAtCut = 0;
  let previousNumber = 0;
  let index = 0;
  for (const { table, from, to } of list.segments) {
    for (let i = from; i < to; i++, index++) {
      const number = table.number(i);
      const isFree = blocked.length === 0 || !blocked.some(([first, last]) => index > first && index <= last);
      if (index > start && number >= previousNumber && isFree) {
        lastCut = index;
        sizeAtCut = size;
      }
      size += fieldSizes.at(index, table, i);
      previousNumber = number;
      if (size > sizes.message && lastCut > start) {
        places.push(lastCut);
        start = lastCut;
        size -= sizeAtCut;
        sizeAtCut = 0;
      }
    }
  }
  return places.length === 0 ? [] : view.cut(places);
}

/** Ranges of fields between which a merger could not put a slice back: first and last index of each. */
async function findBlocked(view: MessageView, list: FieldList): Promise<[number, number][]> {
  const ranges = new Map<string, { first: number; last: number; blocks: boolean }>();
  let index = 0;
  for (const { table, from, to } of list.segments) {
    let rule: FieldRule | undefined;
    for (let i = from; i < to; i++, index++) {
      const number = table.number(i);
      if (rule?.number !== number) rule = view.rules.field(number);
      if (rule === undefined || (rule.repeated && !rule.isMap && !rule.packable)) {
        // The usual long lists, of which nothing is to be known here.
        const end = table.seek(number, i, to, false);
        index += end - 1 - i;
        i = end - 1;
        continue;
      }
      const group = rule.oneof >= 0 ? `oneof ${rule.oneof}` : String(number);
      const range = ranges.get(group);
      const emptyPacked = rule.packable && table.wireType(i) === WIRE.bytes && table.valueSize(i) === 0;
      if (range === undefined) ranges.set(group, { first: index, last: index, blocks: !rule.repeated || emptyPacked });
      else {
        range.last = index;
        range.blocks ||= emptyPacked;
      }
    }
  }
  const blocked: [number, number][] = [];
  for (const [group, { first, last, blocks }] of ranges) {
    if (first === last) continue;
    const rule = view.rules.field(Number(group));
    const twice = rule?.isMap === true && (await list.entries(rule)).size !== list.count(rule.number);
    if (blocks || twice) blocked.push([first, last]);
  }
  return blocked;
}

/** Sizes of the fields of a message, as they are after parts have left. */
class FieldSizes {
  total = 0;
  private readonly changed = new Map<number, number>();

  constructor(list: FieldList) {
    for (const { table, from, to } of list.segments) this.total += table.start(to) - table.start(from);
  }

  /** Notes the new size of a field's value: field `index` of the message, `at` of its table. */
  set(index: number, table: FieldTable, at: number, valueSize: number): void {
    const size = varintLength(table.number(at) * 8) + varintLength(valueSize) + valueSize;
    this.total += size - (table.end(at) - table.start(at));
    this.changed.set(index, size);
  }

  /** The size of a field: field `index` of the message, `at` of its table. */
  at(index: number, table: FieldTable, at: number): number {
    const known = this.changed.size === 0 ? undefined : this.changed.get(index);
    return known ?? table.end(at) - table.start(at);
  }
}

/** Whether tag and length are as short as they can be: they are written again when the value changes. */
function hasShortestHead(field: Field): boolean {
  const { start, valueStart } = field.range;
  return valueStart - start === varintLength(field.number * 8) + varintLength(field.valueSize);
}

function nothing(name: string): ByteSource {
  return new MemorySource(new Uint8Array(0), name);
}
