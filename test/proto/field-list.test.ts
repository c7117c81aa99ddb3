import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { concatBytes } from "../../src/bytes/byte-sink.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { type Field, FieldList, segmentOf } from "../../src/proto/field-list.js";
import { readFieldTable } from "../../src/proto/field-table.js";
import { MessageRules } from "../../src/proto/message-rules.js";
import { CountingSource } from "../support/counting-source.js";
import { PlainSource } from "../support/odd-sources.js";
import { delimited, TestMessageSchema, varintField } from "../support/test-schema.js";

const rules = MessageRules.of(TestMessageSchema);

/** A field is known by its number and a mark, which is its value. */
type Marked = readonly [number: number, mark: number];

async function segmentWith(fields: readonly Marked[]) {
  const bytes = concatBytes([new Uint8Array(0), ...fields.map(([number, mark]) => varintField(number, mark))]);
  return segmentOf(await readFieldTable(new MemorySource(bytes)));
}

function markOf(field: Field): Marked {
  const { source, valueStart, end } = field.range;
  const bytes = (source as MemorySource).bytes.subarray(valueStart, end);
  return [field.number, bytes.reduceRight((sum, byte) => sum * 128 + (byte & 127), 0)];
}

const marks = (list: FieldList) => [...list.fields()].map(markOf);

/** What is in the list by its index, which must be what the fields themselves tell. */
function expectSame(list: FieldList, model: readonly Marked[]): void {
  expect(marks(list)).toEqual(model);
  expect(list.length).toBe(model.length);
  expect(list.lastNumber).toBe(model.at(-1)?.[0] ?? 0);
  for (const number of new Set(model.map(([one]) => one))) {
    const own = model.filter(([one]) => one === number);
    expect(list.count(number)).toBe(own.length);
    expect(own.map((_, i) => markOf(list.at(number, i)!))).toEqual(own);
    expect(list.at(number, own.length)).toBeUndefined();
  }
}

/** The plainest way to put runs of fields in: those below the last number where they belong, then the others behind. */
function modelInsert(model: readonly Marked[], runs: readonly (readonly Marked[])[]): Marked[] {
  const last = model.at(-1)?.[0] ?? 0;
  const sorted = [...runs].sort((a, b) => a[0]![0] - b[0]![0]);
  const behind = sorted.filter((run) => run[0]![0] >= last);
  const at = new Map<number, Marked[]>();
  for (const run of sorted.filter((one) => one[0]![0] < last)) {
    const number = run[0]![0];
    const same = model.findLastIndex(([one]) => one === number);
    const place = same >= 0 ? same + 1 : model.findIndex(([one]) => one > number);
    at.set(place, [...(at.get(place) ?? []), ...run]);
  }
  return [...model.flatMap((field, i) => [...(at.get(i) ?? []), field]), ...behind.flat()];
}

const numbers = fc.constantFrom(1, 2, 3, 4, 7, 14, 20, 41, 42, 2000);
let nextMark = 1;
const markedFields = fc.array(numbers, { maxLength: 12 }).map((list) => list.map((one): Marked => [one, nextMark++]));
const run = fc
  .tuple(numbers, fc.integer({ min: 1, max: 3 }))
  .map(([number, count]) => Array.from({ length: count }, (): Marked => [number, nextMark++]));
const change = fc.oneof(
  fc.record({ kind: fc.constant("insert" as const), runs: fc.array(run, { maxLength: 4 }) }),
  fc.record({ kind: fc.constant("append" as const), fields: markedFields }),
  fc.record({ kind: fc.constant("remove" as const), picks: fc.array(fc.nat(30), { maxLength: 6 }) }),
  fc.record({ kind: fc.constant("cut" as const), places: fc.uniqueArray(fc.nat(30), { maxLength: 3 }) }),
);

describe("FieldList", () => {
  it("holds what a plain array holds after the same changes, by every way to it", async () => {
    await fc.assert(
      fc.asyncProperty(markedFields, fc.array(change, { maxLength: 6 }), async (first, changes) => {
        let model: readonly Marked[] = first;
        let list = new FieldList(rules, [await segmentWith(first)]);
        for (const one of changes) {
          if (one.kind === "insert") {
            list.insertAll(await Promise.all(one.runs.map(segmentWith)));
            model = modelInsert(model, one.runs);
          } else if (one.kind === "append") {
            if (one.fields.length > 0) list.append(await segmentWith(one.fields));
            model = [...model, ...one.fields];
          } else if (one.kind === "remove") {
            const fields = [...list.fields()];
            list.removeAll(one.picks.flatMap((pick) => fields[pick] ?? []));
            model = model.filter((_, i) => !one.picks.includes(i));
          } else {
            const places = one.places.sort((a, b) => a - b).filter((place) => place <= model.length);
            const pieces = list.cut(places);
            expect(pieces).toHaveLength(places.length + 1);
            const bounds = [0, ...places, model.length];
            for (const [i, piece] of pieces.entries()) {
              expectSame(new FieldList(rules, piece), model.slice(bounds[i], bounds[i + 1]));
            }
            list = new FieldList(rules, pieces.flat());
          }
          expectSame(list, model);
        }
      }),
      { numRuns: 300 },
    );
  });

  it("drops the members of a oneof that a later one has replaced, and tells which is left", async () => {
    const members = fc.array(fc.constantFrom(1, 81, 87, 20, 81, 91), { maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(members, async (given) => {
        const fields = given.map((number): Marked => [number, nextMark++]);
        const list = new FieldList(rules, [await segmentWith(fields)]);
        const isMember = ([number]: Marked) => number === 81 || number === 87;
        const current = fields.findLast(isMember)?.[0] ?? 0;
        const lastOther = fields.findLastIndex((field) => isMember(field) && field[0] !== current);
        expect(list.settleOneof(0)).toBe(current);
        expectSame(
          list,
          fields.filter((field, i) => !isMember(field) || i > lastOther),
        );
      }),
    );
  });

  it("holds 100,000 elements in 13 bytes of table each, and finds any without a look at the bytes", async () => {
    const count = 100_000;
    const element = delimited(57, varintField(2, 300));
    const source = new MemorySource(concatBytes(Array.from({ length: count }, () => element)));
    const counting = new CountingSource(source);
    const table = await readFieldTable(counting);
    const arrays = Object.values(table).filter((value) => ArrayBuffer.isView(value));
    const bytes = arrays.reduce((sum, array) => sum + array.byteLength, 0);
    // The arrays double when they are full, and there is one start more than fields.
    expect(bytes).toBeGreaterThanOrEqual(13 * count);
    expect(bytes).toBeLessThanOrEqual(13 * 2 ** 17 + 8);
    const readBytes = counting.bytes;
    const list = new FieldList(rules, [segmentOf(table)]);
    expect(list.count(57)).toBe(count);
    for (const i of [0, 1, 54_321, count - 1]) expect(list.at(57, i)?.range.start).toBe(i * element.length);
    list.removeAll([...list.values(57)].filter((_, i) => i % 2 === 0));
    expect(list.count(57)).toBe(count / 2);
    expect(list.at(57, 10_000)?.range.start).toBe(20_001 * element.length);
    expect(list.segments).toHaveLength(count / 2);
    const pieces = list.cut(Array.from({ length: 999 }, (_, i) => (i + 1) * 50));
    expect(pieces.map((piece) => new FieldList(rules, piece).length)).toEqual(new Array(1000).fill(50));
    expect(counting.bytes).toBe(readBytes);
  });

  it("reads the keys of 100,000 map entries once, and those of entries that come later", async () => {
    const count = 100_000;
    const entry = (i: number) => delimited(66, varintField(1, i * 2), varintField(2, 1));
    const source = new MemorySource(concatBytes(Array.from({ length: count }, (_, i) => entry(i))));
    const counting = new CountingSource(source);
    const list = new FieldList(rules, [segmentOf(await readFieldTable(counting))]);
    const rule = rules.fieldNamed("map_sint64")!;
    const [first, second] = await Promise.all([list.entries(rule), list.entries(rule)]);
    expect(first).toBe(second);
    expect(first.size).toBe(count);
    expect(first.get(54_321n)?.index).toBe(54_321);
    const { reads } = counting;
    list.append(segmentOf(await readFieldTable(new PlainSource(concatBytes([entry(count), entry(5)])))));
    const all = await list.entries(rule);
    expect(all.size).toBe(count + 1);
    expect(all.get(5n)?.index).toBe(1);
    expect(counting.reads).toBe(reads);
  });
});
