import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { concatBytes } from "../../src/bytes/byte-sink.js";
import { type ByteSource, SlicedSource } from "../../src/bytes/byte-source.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import type { Field, FieldList } from "../../src/proto/field-list.js";
import { mergeInto } from "../../src/proto/message-merge.js";
import { MessageRules } from "../../src/proto/message-rules.js";
import { encodeHead, MessageView } from "../../src/proto/message-view.js";
import { expectBytes } from "../support/bytes.js";
import { CountingSource } from "../support/counting-source.js";
import { FailingSource, PlainSource } from "../support/odd-sources.js";
import {
  canonicalTestMessage,
  delimited,
  InnerSchema,
  TestMessageSchema,
  tag,
  testMessage,
  varint,
  varintField,
} from "../support/test-schema.js";
import { fieldBytes, isKnownField, meaningOf, messageOf, plainFields } from "../support/wire-model.js";

const rules = MessageRules.of(TestMessageSchema);
const INNER = 17;
const CHILD = 18;

function viewOf(bytes: Uint8Array): MessageView {
  return new MessageView(rules, new PlainSource(bytes));
}

async function bytesOf(view: MessageView): Promise<Uint8Array> {
  const source = await view.toSource();
  return source.read(0, source.size);
}

/** All fields of a list, which must be the same by every way to them. */
function fieldsOf(list: FieldList): Field[] {
  const fields = [...list.fields()];
  expect(list.length).toBe(fields.length);
  expect(list.lastNumber).toBe(fields.at(-1)?.number ?? 0);
  for (const number of new Set([...fields.map((field) => field.number), 999])) {
    const same = fields.filter((field) => field.number === number);
    expect(list.count(number)).toBe(same.length);
    for (const [i, field] of same.entries()) {
      expect(list.at(number, i)).toMatchObject({ index: field.index, number });
      expect(list.at(number, i)!.segment.table).toBe(field.segment.table);
    }
    expect(list.at(number, same.length)).toBeUndefined();
    expect(list.at(number, -1)).toBeUndefined();
    const known = same.filter((field) => isKnownField(TestMessageSchema, number, field.wireType));
    expect([...list.values(number)].map((field) => field.range.start)).toEqual(known.map((field) => field.range.start));
    expect(list.last(number)?.range).toEqual(known.at(-1)?.range);
  }
  return fields;
}

describe("a view that is not changed", () => {
  it("gives back the very bytes, opened or not, and lists what is there", async () => {
    await fc.assert(
      fc.asyncProperty(testMessage, async (bytes) => {
        const source = new PlainSource(bytes);
        const view = new MessageView(rules, source);
        expect(view.unchanged).toBe(source);
        const fields = fieldsOf(await view.open());
        expect(fields.map(({ number, wireType }) => ({ number, wireType }))).toEqual(
          plainFields(bytes)!.map(({ number, wireType }) => ({ number, wireType })),
        );
        expect(view.unchanged).toBe(source);
        expectBytes(await bytesOf(view), bytes);
      }),
      { numRuns: 150 },
    );
  });

  it("gives the bytes of each value and looks into each message", async () => {
    await fc.assert(
      fc.asyncProperty(testMessage, async (bytes) => {
        const view = viewOf(bytes);
        const plain = plainFields(bytes)!;
        for (const [i, field] of [...(await view.open()).fields()].entries()) {
          const { number, wireType, valueStart, end } = plain[i]!;
          const value = view.value(field);
          expectBytes(await value.read(0, value.size), bytes.subarray(valueStart, end));
          const descriptor = TestMessageSchema.fields.find((one) => one.number === number);
          const isMessage = wireType === 2 && (descriptor?.message !== undefined || descriptor?.fieldKind === "map");
          expect(view.message(field) !== undefined).toBe(isMessage && descriptor?.delimitedEncoding !== true);
        }
        expect(view.unchanged).toBeDefined();
      }),
      { numRuns: 100 },
    );
  });

  it("reads nothing until it is opened, and then only the heads", async () => {
    const large = delimited(15, new Uint8Array(2_000_000));
    const counting = new CountingSource(new PlainSource(concatBytes([large, delimited(CHILD, large), large])));
    const view = new MessageView(rules, counting);
    expect(counting.reads).toBe(0);
    const list = await view.open();
    view.message(list.at(CHILD, 0)!);
    expect(counting.bytes).toBeLessThan(100_000);
  });

  it("tells the range of a field in the file", async () => {
    const source = new PlainSource(concatBytes([varintField(3, 1), delimited(INNER, varintField(2, 700))]));
    const list = await new MessageView(rules, source).open();
    expect(list.at(INNER, 0)?.range).toEqual({ source, start: 2, valueStart: 5, end: 8 });
  });
});

/** A change of a message, for the view and for a plain list of fields at once. Numbers pick from what is there. */
type Change =
  | { kind: "replace"; at: number; value: Uint8Array }
  | { kind: "remove"; at: number }
  | { kind: "add"; number: number; value: number }
  | { kind: "edit"; at: number; change: Change }
  | { kind: "empty"; at: number };

const { change: changes } = fc.letrec<{ change: Change }>((tie) => ({
  change: fc.oneof(
    { depthSize: "small" },
    fc.record({ kind: fc.constant("replace" as const), at: fc.nat(), value: fc.uint8Array({ maxLength: 200 }) }),
    fc.record({ kind: fc.constant("remove" as const), at: fc.nat() }),
    fc.record({ kind: fc.constant("empty" as const), at: fc.nat() }),
    fc.record({
      kind: fc.constant("add" as const),
      number: fc.constantFrom(1, 16, 20, 57, 92, 3000),
      value: fc.nat(300),
    }),
    fc.record({ kind: fc.constant("edit" as const), at: fc.nat(), change: tie("change") }),
  ),
}));

/** A field of the model. Its head is kept for a value of the size that it had at first. */
interface ModelField {
  readonly number: number;
  readonly head: Uint8Array;
  readonly firstSize: number;
  readonly value: Uint8Array;
  /** The fields of the message that it is, once that has been looked into. */
  readonly inner?: ModelField[];
}

function modelOf(bytes: Uint8Array): ModelField[] {
  return plainFields(bytes)!.map(({ number, start, valueStart, end }) => {
    const value = bytes.subarray(valueStart, end);
    return { number, head: bytes.subarray(start, valueStart), firstSize: value.length, value };
  });
}

function modelValue({ inner, value }: ModelField): Uint8Array {
  return inner === undefined ? value : modelBytes(inner);
}

function modelBytes(model: readonly ModelField[]): Uint8Array {
  return messageOf(
    model.flatMap((field) => {
      const value = modelValue(field);
      return [value.length === field.firstSize ? field.head : encodeHead(field.number, value.length), value];
    }),
  );
}

/** Does a change to both; the indexes that a change names count those fields that it can be done to. */
async function apply(view: MessageView, model: ModelField[], change: Change): Promise<void> {
  const list = await view.open();
  const fields = fieldsOf(list);
  expect(fields.map(({ number }) => number)).toEqual(model.map(({ number }) => number));
  const pick = (candidates: number[], at: number) =>
    candidates.length === 0 ? -1 : candidates[at % candidates.length]!;
  const where = (matches: (field: Field) => boolean) => fields.flatMap((field, i) => (matches(field) ? [i] : []));
  if (change.kind === "replace") {
    const i = pick(
      where(({ wireType }) => wireType === 2),
      change.at,
    );
    if (i < 0) return;
    view.replace(fields[i]!, new MemorySource(change.value));
    const { number, head, firstSize } = model[i]!;
    model[i] = { number, head, firstSize, value: change.value };
  } else if (change.kind === "remove") {
    const i = pick(
      where(() => true),
      change.at,
    );
    if (i < 0) return;
    list.remove(fields[i]!);
    model.splice(i, 1);
  } else if (change.kind === "add") {
    const { number, value } = change;
    const rivals = (rules.field(number)?.oneof ?? -1) < 0 ? [] : rivalsIn(list, model, number);
    for (const i of rivals.reverse()) model.splice(i, 1);
    await view.addField(number, 0, varint(value));
    model.splice(placeFor(model, number), 0, ...modelOf(varintField(number, value)));
  } else {
    const i = pick(
      where((field) => view.message(field) !== undefined),
      change.at,
    );
    if (i < 0) return;
    const value = modelValue(model[i]!);
    if (plainFields(value) === undefined) return;
    const inner = view.edit(fields[i]!)!;
    const innerModel = model[i]!.inner ?? modelOf(value);
    model[i] = { ...model[i]!, inner: innerModel };
    if (change.kind === "empty") {
      expectBytes(await bytesOf(inner.takeOut()), value);
      expect(inner.isEmpty).toBe(true);
      innerModel.length = 0;
    } else await applyInner(inner, innerModel, change.change);
  }
}

/** The same in a nested message, whose type may be another. */
async function applyInner(view: MessageView, model: ModelField[], change: Change): Promise<void> {
  if (view.rules === rules && change.kind !== "edit") return apply(view, model, change);
  const list = await view.open();
  if (change.kind === "remove" && model.length > 0) {
    const i = change.at % model.length;
    list.remove([...list.fields()][i]!);
    model.splice(i, 1);
  }
}

/** The other members of a oneof, and what of it they had replaced, among the fields of a model. */
function rivalsIn(list: FieldList, model: readonly ModelField[], number: number): number[] {
  const fields = [...list.fields()];
  const oneof = rules.field(number)!.oneof;
  const members = model.flatMap((_, i) => (fields[i]!.isKnown && fields[i]!.rule!.oneof === oneof ? [i] : []));
  const lastRival = members.findLastIndex((i) => model[i]!.number !== number);
  return members.slice(0, lastRival + 1);
}

/** Where a new field goes: behind the last of its number, or before the first of a higher one. */
function placeFor(model: readonly ModelField[], number: number): number {
  if ((model.at(-1)?.number ?? 0) <= number) return model.length;
  const last = model.findLastIndex((field) => field.number === number);
  return last >= 0 ? last + 1 : model.findIndex((field) => field.number > number);
}

describe("a view that is changed", () => {
  it("gives the bytes that a plain list of fields gives after the same changes", async () => {
    await fc.assert(
      fc.asyncProperty(testMessage, fc.array(changes, { minLength: 1, maxLength: 8 }), async (bytes, list) => {
        const view = viewOf(bytes);
        const model = modelOf(bytes);
        for (const change of list) await apply(view, model, change);
        fieldsOf(await view.open());
        expectBytes(await bytesOf(view), modelBytes(model));
      }),
      { numRuns: 500 },
    );
  });

  it("keeps a long head when the new value is as long as the old, else writes the shortest", async () => {
    const longHead = concatBytes([tag(15, 2, 3), varint(2, 4), Uint8Array.of(1, 2)]);
    for (const value of [Uint8Array.of(8, 9), Uint8Array.of(8, 9, 10), new Uint8Array(0), new Uint8Array(300)]) {
      const view = viewOf(concatBytes([longHead, varintField(16, 1)]));
      view.replace((await view.open()).at(15, 0)!, new MemorySource(value));
      const head = value.length === 2 ? longHead.subarray(0, 7) : concatBytes([tag(15, 2), varint(value.length)]);
      expectBytes(await bytesOf(view), concatBytes([head, value, varintField(16, 1)]));
      expect(view.unchanged).toBeUndefined();
    }
  });

  it("rewrites the heads of all messages around a change", async () => {
    const inner = delimited(INNER, delimited(3, new Uint8Array(100)));
    const view = viewOf(delimited(CHILD, delimited(CHILD, inner)));
    const outer = view.edit((await view.open()).at(CHILD, 0)!)!;
    const middle = outer.edit((await outer.open()).at(CHILD, 0)!)!;
    const innermost = middle.edit((await middle.open()).at(INNER, 0)!)!;
    innermost.replace((await innermost.open()).at(3, 0)!, new MemorySource(new Uint8Array(20_000)));
    const expected = delimited(CHILD, delimited(CHILD, delimited(INNER, delimited(3, new Uint8Array(20_000)))));
    expectBytes(await bytesOf(view), expected);
  });

  it("gives extents of the old bytes, not copies", async () => {
    const bytes = concatBytes([
      delimited(15, new Uint8Array(100)),
      varintField(16, 1),
      delimited(20, new Uint8Array(50)),
    ]);
    const source = new PlainSource(bytes);
    const view = new MessageView(rules, source);
    (await view.open()).remove((await view.open()).at(16, 0)!);
    const changed = await view.toSource();
    const { parts } = changed as unknown as { parts: ByteSource[] };
    expect(parts.map((part) => part instanceof SlicedSource && part.origin === source)).toEqual([true, true]);
    expect(parts.map(({ size }) => size)).toEqual([102, 53]);
  });

  it("tells what cannot be had: the bytes of a message that was changed", async () => {
    const view = viewOf(delimited(INNER, varintField(2, 1)));
    const field = (await view.open()).at(INNER, 0)!;
    const inner = view.edit(field)!;
    expect(view.value(field).size).toBe(2);
    await inner.addField(3, 2, new Uint8Array(5));
    expect(() => view.value(field)).toThrow(TypeError);
    expect(view.message(field)).toBe(inner);
  });
});

describe("MessageView.cut", () => {
  it("cuts at any places, with what was changed in the pieces", async () => {
    const cuts = fc.array(fc.nat(12), { maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(testMessage, cuts, fc.array(changes, { maxLength: 4 }), async (bytes, given, list) => {
        const view = viewOf(bytes);
        const model = modelOf(bytes);
        for (const change of list) await apply(view, model, change);
        const places = given.map((at) => at % (model.length + 1)).sort((a, b) => a - b);
        const pieces = [view, ...(await view.cut(places))];
        expect(pieces.length).toBe(places.length + 1);
        for (const [i, piece] of pieces.entries()) {
          const part = model.slice(places[i - 1] ?? 0, places[i] ?? model.length);
          expect(piece.isEmpty).toBe(part.length === 0);
          fieldsOf(await piece.open());
          expectBytes(await bytesOf(piece), modelBytes(part));
        }
      }),
      { numRuns: 300 },
    );
  });

  it("gives pieces that can be changed without changing the others", async () => {
    const view = viewOf(concatBytes([delimited(15, Uint8Array.of(1)), delimited(15, Uint8Array.of(2))]));
    const [rest] = (await view.cut([1])) as [MessageView];
    view.replace((await view.open()).at(15, 0)!, new MemorySource(Uint8Array.of(7, 7)));
    await rest.addField(3, 0, varint(5));
    expectBytes(await bytesOf(view), delimited(15, Uint8Array.of(7, 7)));
    expectBytes(await bytesOf(rest), concatBytes([varintField(3, 5), delimited(15, Uint8Array.of(2))]));
  });

  it("gives pieces of a message with ordered fields that merge to the very bytes", async () => {
    await fc.assert(
      fc.asyncProperty(canonicalTestMessage, fc.array(fc.nat(20), { maxLength: 5 }), async (bytes, given) => {
        const count = plainFields(bytes)!.length;
        const places = given.map((at) => at % (count + 1)).sort((a, b) => a - b);
        const view = viewOf(bytes);
        for (const piece of await view.cut(places)) await mergeInto(view, await piece.toSource());
        expectBytes(await bytesOf(view), bytes);
      }),
      { numRuns: 200 },
    );
  });
});

describe("adding fields", () => {
  it.each([
    ["behind the last of its number", [3, 5, 5, 9], 5, 3],
    ["before the first higher number", [3, 5, 9, 10], 7, 2],
    ["before all", [3, 5], 1, 0],
    ["behind all", [3, 5], 9, 2],
    ["behind all of the last number", [3, 5, 5], 5, 3],
    ["into an empty message", [], 4, 0],
    ["behind the last of its number, in a message without order", [9, 3, 9, 4, 8], 3, 2],
  ])("puts one %s", async (_, numbers, number, place) => {
    const fields = numbers.map((one) => varintField(one, 1));
    const view = viewOf(messageOf(fields));
    const field = await view.addField(number, 0, varint(7));
    expect([field.number, field.wireType]).toEqual([number, 0]);
    fields.splice(place, 0, varintField(number, 7));
    expectBytes(await bytesOf(view), messageOf(fields));
  });

  it("drops the other members of its oneof, and only those", async () => {
    const others = [varintField(3, 1), varintField(92 - 1, 4), varintField(20, 1)];
    const member = delimited(82, Uint8Array.of(65));
    const view = viewOf(concatBytes([member, ...others, member]));
    await view.addField(81, 0, varint(2));
    const kept = fieldBytes(await bytesOf(view)).map((bytes) => Buffer.from(bytes).toString("hex"));
    const wanted = [...others, varintField(81, 2)].map((bytes) => Buffer.from(bytes).toString("hex"));
    expect(kept.sort()).toEqual(wanted.sort());
  });

  it("adds an empty message, which can be filled", async () => {
    const view = viewOf(varintField(3, 1));
    const inner = view.edit(await view.addEmpty(rules.field(INNER)!))!;
    expectBytes(await bytesOf(view), concatBytes([varintField(3, 1), delimited(INNER)]));
    inner.fill(new MemorySource(varintField(2, 9)));
    expectBytes(await bytesOf(view), concatBytes([varintField(3, 1), delimited(INNER, varintField(2, 9))]));
    expect(() => inner.fill(new MemorySource(new Uint8Array(0)))).toThrow(TypeError);
  });

  it("takes out fields by the thousand, and puts in as many, in one go", async () => {
    const fields = Array.from({ length: 20_000 }, (_, i) => varintField(1 + (i % 50), i));
    const view = viewOf(messageOf(fields));
    const list = await view.open();
    const all = [...list.fields()];
    list.removeAll(all.filter((_, i) => i % 3 === 0));
    list.removeAll(all.filter((_, i) => i % 3 === 1));
    expectBytes(await bytesOf(view), messageOf(fields.filter((_, i) => i % 3 === 2)));
    expect(list.length).toBe(6666);
  });
});

describe("MessageView.single", () => {
  it("is the last occurrence of a scalar, and all occurrences of a message in one", async () => {
    await fc.assert(
      fc.asyncProperty(testMessage, async (bytes) => {
        const view = viewOf(bytes);
        for (const rule of rules.fields()) {
          if (rule.repeated || rule.isGroup) continue;
          const field = await view.single(rule);
          if (rule.message === undefined || field === undefined) continue;
          const known = plainFields(bytes)!.filter(({ number, wireType }) => number === rule.number && wireType === 2);
          const before = view.value(field);
          if (rule.oneof < 0) {
            const expected = concatBytes([
              new Uint8Array(0),
              ...known.map((one) => bytes.subarray(one.valueStart, one.end)),
            ]);
            expectBytes(await before.read(0, before.size), expected);
          }
          expect((await view.open()).count(rule.number)).toBe(1);
        }
        // What it did along the way has not changed the message.
        expectBytes(meaningOf(TestMessageSchema, await bytesOf(view)), meaningOf(TestMessageSchema, bytes));
      }),
      { numRuns: 300 },
    );
  });

  it("leaves out what another wire type makes an unknown field, and keeps it", async () => {
    const odd = [varintField(INNER, 5), concatBytes([tag(INNER, 5), Uint8Array.of(1, 2, 3, 4)])];
    const first = delimited(INNER, varintField(2, 1));
    const second = delimited(INNER, varintField(4, 6));
    const view = viewOf(concatBytes([odd[0]!, first, odd[1]!, second, odd[0]!]));
    const field = (await view.single(rules.field(INNER)!))!;
    const value = view.value(field);
    expectBytes(await value.read(0, value.size), concatBytes([varintField(2, 1), varintField(4, 6)]));
    const whole = delimited(INNER, varintField(2, 1), varintField(4, 6));
    expectBytes(await bytesOf(view), concatBytes([odd[0]!, whole, odd[1]!, odd[0]!]));
    const scalar = viewOf(concatBytes([varintField(3, 5), delimited(3, Uint8Array.of(9))]));
    expect((await scalar.single(rules.field(3)!))?.wireType).toBe(0);
    expect(await viewOf(varintField(14, 5)).single(rules.field(14)!)).toBeUndefined();
  });

  it("knows that a later member of a oneof replaces an earlier one", async () => {
    const one = delimited(84, varintField(2, 1));
    const two = delimited(84, varintField(4, 2));
    const other = delimited(82, Uint8Array.of(65));
    const replaced = viewOf(concatBytes([one, other]));
    expect(await replaced.single(rules.field(84)!)).toBeUndefined();
    expect((await replaced.single(rules.field(82)!))?.number).toBe(82);
    const again = viewOf(concatBytes([one, other, two]));
    const value = again.value((await again.single(rules.field(84)!))!);
    expectBytes(await value.read(0, value.size), varintField(4, 2));
    expectBytes(await bytesOf(again), two);
  });
});

describe("takeOut", () => {
  it("moves the contents, changes and all, and leaves an empty message", async () => {
    const view = viewOf(concatBytes([varintField(3, 1), delimited(INNER, varintField(2, 1))]));
    const inner = view.edit((await view.open()).at(INNER, 0)!)!;
    await inner.addField(4, 0, varint(3));
    const taken = view.takeOut();
    expectBytes(await bytesOf(view), new Uint8Array(0));
    expect((await view.open()).length).toBe(0);
    const expected = concatBytes([varintField(3, 1), delimited(INNER, varintField(2, 1), varintField(4, 3))]);
    expectBytes(await bytesOf(taken), expected);
  });

  it("moves what was deferred too", async () => {
    const view = viewOf(new Uint8Array(0));
    view.defer((opened) => mergeInto(opened, new MemorySource(varintField(3, 1))));
    const taken = view.takeOut();
    expect([view.isEmpty, taken.isEmpty]).toEqual([true, false]);
    expectBytes(await bytesOf(taken), varintField(3, 1));
  });
});

describe("what is deferred", () => {
  const merges =
    (bytes: Uint8Array, log: string[] = [], name = "") =>
    async (view: MessageView) => {
      await new Promise((resolve) => setImmediate(resolve));
      log.push(name);
      await mergeInto(view, new MemorySource(bytes));
    };

  it("is done once, in order, when the view is opened, whoever opens it at the same time", async () => {
    const view = viewOf(varintField(3, 1));
    const log: string[] = [];
    view.defer(merges(varintField(57 + 1, 1), log, "a"));
    view.defer(merges(varintField(3, 2), log, "b"));
    view.defer(merges(varintField(3, 3), log, "c"));
    expect(view.unchanged).toBeUndefined();
    const lists = await Promise.all([view.open(), view.open(), view.settle().then(() => view.open())]);
    expect(log).toEqual(["a", "b", "c"]);
    for (const list of lists) expect(list.length).toBe(2);
    expectBytes(await bytesOf(view), concatBytes([varintField(3, 3), varintField(58, 1)]));
  });

  it("is done too when it comes while the view is being opened", async () => {
    for (const bytes of [varintField(3, 1), new Uint8Array(0)]) {
      for (const first of [undefined, varintField(4, 1)]) {
        const view = viewOf(bytes);
        const log: string[] = [];
        if (first !== undefined) view.defer(merges(first, log, "first"));
        const opening = view.open();
        view.defer(merges(varintField(5, 1), log, "second"));
        const again = view.open();
        await Promise.resolve();
        view.defer(merges(varintField(6, 1), log, "third"));
        await Promise.all([opening, again]);
        const expected = concatBytes([bytes, first ?? new Uint8Array(0), varintField(5, 1), varintField(6, 1)]);
        expectBytes(await bytesOf(view), expected);
        expect(log.filter((one) => one === "second").length).toBe(1);
        expect(log.at(-1)).toBe("third");
      }
    }
  });

  it("is not seen before its end by one who has the view already", async () => {
    const view = viewOf(varintField(3, 1));
    await view.open();
    view.defer(merges(varintField(4, 1)));
    const opening = view.open();
    view.defer(merges(varintField(5, 1)));
    expect((await opening).length).toBeGreaterThanOrEqual(2);
    expect((await view.open()).length).toBe(3);
  });

  it("of the messages below is done by settle, and by toSource", async () => {
    const view = viewOf(delimited(INNER, varintField(2, 1)));
    const inner = view.edit((await view.open()).at(INNER, 0)!)!;
    inner.defer(merges(varintField(4, 1)));
    expect(() => view.collect([])).toThrow(TypeError);
    await view.settle();
    view.collect([]);
    expectBytes(await bytesOf(view), delimited(INNER, varintField(2, 1), varintField(4, 1)));
  });

  it("stays failed once it has failed, since a part of it may be done", async () => {
    const view = viewOf(varintField(3, 1));
    let calls = 0;
    view.defer(async () => {
      calls++;
      throw new Error("the chunk is damaged");
    });
    await expect(view.open()).rejects.toThrow("the chunk is damaged");
    view.defer(merges(varintField(4, 1)));
    await expect(view.open()).rejects.toThrow("the chunk is damaged");
    await expect(view.toSource()).rejects.toThrow("the chunk is damaged");
    expect(calls).toBe(1);
  });
});

describe("a read that fails", () => {
  it("is tried again by the next who opens the view", async () => {
    let fails = true;
    const good = new PlainSource(varintField(3, 1));
    const bad = new FailingSource(good.size, 0);
    const source: ByteSource = {
      name: "flaky",
      size: good.size,
      read: (offset, length) => (fails ? bad : good).read(offset, length),
      readPieces: (offset, length, scratch) => (fails ? bad : good).readPieces(offset, length, scratch),
      slice: (offset, length) => good.slice(offset, length),
    };
    const view = new MessageView(rules, source);
    await expect(Promise.all([view.open(), view.open()])).rejects.toThrow("the read failed");
    fails = false;
    expect((await view.open()).length).toBe(1);
  });
});

describe("encodeHead", () => {
  it("writes the shortest tag and length", () => {
    expectBytes(encodeHead(1, 0), Uint8Array.of(0x0a, 0));
    expectBytes(encodeHead(536_870_911, 2 ** 40), concatBytes([tag(536_870_911, 2), varint(2 ** 40)]));
  });
});

describe("MessageView.of", () => {
  it("takes any schema", async () => {
    const view = MessageView.of(InnerSchema, new MemorySource(varintField(2, 1), "inner"));
    expect([view.rules.typeName, view.name, (await view.open()).length]).toEqual(["cairn.test.Inner", "inner", 1]);
    expect(view.rules.fieldNamed("counts")?.message?.typeName).toBe("cairn.test.Inner.counts.Entry");
  });
});
