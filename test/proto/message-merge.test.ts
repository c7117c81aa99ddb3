import { fromBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { concatBytes } from "../../src/bytes/byte-sink.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { MAX_MESSAGE_DEPTH } from "../../src/limits.js";
import { mergeInto } from "../../src/proto/message-merge.js";
import { MessageView } from "../../src/proto/message-view.js";
import { expectBytes } from "../support/bytes.js";
import { PlainSource } from "../support/odd-sources.js";
import {
  canonicalTestMessage,
  delimited,
  InnerSchema,
  TestMessageSchema,
  tag,
  testMessage,
  varintField,
} from "../support/test-schema.js";
import { fieldBytes, meaningOf, messageOf, plainFields } from "../support/wire-model.js";

const CHILD = 18;
const INNER = 17;

async function merged(messages: readonly Uint8Array[], open = false): Promise<Uint8Array> {
  const [first, ...more] = messages;
  const view = MessageView.of(TestMessageSchema, new PlainSource(first!));
  if (open) await view.open();
  for (const one of more) await mergeInto(view, new PlainSource(one));
  const source = await view.toSource();
  return source.read(0, source.size);
}

describe("mergeInto", () => {
  it("means what protobuf reads from the messages one behind the other", async () => {
    const messages = fc.array(testMessage, { minLength: 2, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(messages, fc.boolean(), async (list, open) => {
        const expected = meaningOf(TestMessageSchema, concatBytes([new Uint8Array(0), ...list]));
        expectBytes(meaningOf(TestMessageSchema, await merged(list, open)), expected);
      }),
      { numRuns: 400 },
    );
  });

  it("does not change what it merges in, nor what it was merged into before", async () => {
    await fc.assert(
      fc.asyncProperty(testMessage, testMessage, async (a, b) => {
        const [keptA, keptB] = [a.slice(), b.slice()];
        const whole = await merged([a, b]);
        expectBytes(a, keptA);
        expectBytes(b, keptB);
        expectBytes(await merged([a, b]), whole);
      }),
      { numRuns: 50 },
    );
  });

  it("gives the very bytes of an ordered message from its parts, whichever numbers stand in which", async () => {
    await fc.assert(
      fc.asyncProperty(canonicalTestMessage, fc.infiniteStream(fc.nat(2)), async (bytes, picks) => {
        const parts: Uint8Array[][] = [[], [], []];
        const partOf = new Map<number, number>();
        const fields = fieldBytes(bytes);
        for (const [i, { number }] of plainFields(bytes)!.entries()) {
          if (!partOf.has(number)) partOf.set(number, picks.next().value as number);
          parts[partOf.get(number)!]!.push(fields[i]!);
        }
        expectBytes(await merged(parts.map(messageOf)), bytes);
      }),
      { numRuns: 200 },
    );
  });

  it("replaces a scalar, and merges a message into a message", async () => {
    const inner = (value: number) => delimited(INNER, varintField(2, value), varintField(4, value));
    const got = await merged([
      concatBytes([varintField(3, 1), inner(5)]),
      concatBytes([varintField(3, 2), inner(6), varintField(23, 1)]),
    ]);
    // The list of the inner message grows, its number is replaced.
    const joinedInner = delimited(INNER, varintField(4, 5), varintField(2, 6), varintField(4, 6));
    expectBytes(
      meaningOf(TestMessageSchema, got),
      meaningOf(TestMessageSchema, concatBytes([varintField(3, 2), joinedInner, varintField(23, 1)])),
    );
    expect(plainFields(got)!.filter(({ number }) => number === 3)).toHaveLength(1);
    expect(plainFields(got)!.filter(({ number }) => number === INNER)).toHaveLength(1);
  });

  it("replaces the entry of a key that is there, and keeps the others", async () => {
    const entry = (key: number, text: number) => delimited(61, varintField(1, key), delimited(2, Uint8Array.of(text)));
    const got = await merged([concatBytes([entry(1, 65), entry(2, 66)]), concatBytes([entry(3, 67), entry(1, 68)])]);
    expect(plainFields(got)).toHaveLength(3);
    const { mapInt32 } = fromBinary(TestMessageSchema, got) as unknown as { mapInt32: Record<string, string> };
    expect(mapInt32).toEqual({ 1: "D", 2: "B", 3: "C" });
  });

  it("drops the other members of a oneof, also when the message that comes in has several", async () => {
    const text = delimited(82, Uint8Array.of(65));
    const number = varintField(81, 8);
    const blob = delimited(83, Uint8Array.of(1));
    expectBytes(await merged([text, number]), number);
    expectBytes(await merged([number, text]), text);
    // A member in between clears what the message held: the last one is not merged into the first.
    const inner = (value: number) => delimited(84, varintField(4, value));
    expectBytes(await merged([inner(1), messageOf([text, inner(2)])]), inner(2));
    expectBytes(await merged([inner(1), inner(2)]), delimited(84, varintField(4, 1), varintField(4, 2)));
    expectBytes(await merged([text, concatBytes([number, blob])]), blob);
    expectBytes(
      await merged([concatBytes([varintField(3, 1), text]), concatBytes([blob, text])]),
      messageOf([varintField(3, 1), text]),
    );
  });

  it("joins packed values where an empty packed field stands for them, and appends them elsewhere", async () => {
    const packed = (...values: number[]) => delimited(23, Uint8Array.from(values));
    const before = varintField(3, 1);
    const after = varintField(81, 2);
    expectBytes(
      await merged([messageOf([before, packed(), after]), packed(1, 2)]),
      messageOf([before, packed(1, 2), after]),
    );
    expectBytes(
      await merged([messageOf([before, packed(), after]), packed(1, 2), packed(3)]),
      messageOf([before, packed(1, 2, 3), after]),
    );
    expectBytes(await merged([messageOf([packed(9), after]), packed(1)]), messageOf([packed(9), packed(1), after]));
    expectBytes(
      await merged([messageOf([packed(), after]), messageOf([packed(1), varintField(23, 2), packed(3)])]),
      messageOf([packed(1), varintField(23, 2), packed(3), after]),
    );
    const list = delimited(57, varintField(2, 1));
    expectBytes(
      meaningOf(
        TestMessageSchema,
        await merged([packed(), messageOf([packed(1), varintField(23, 2), list, packed(3)])]),
      ),
      meaningOf(TestMessageSchema, messageOf([packed(1, 2, 3), list])),
    );
  });

  it("keeps a field of another wire type than the schema's beside the known ones, as unknown", async () => {
    const odd = concatBytes([tag(3, 5), Uint8Array.of(1, 2, 3, 4)]);
    const got = await merged([messageOf([varintField(3, 7), odd]), messageOf([odd, varintField(3, 8)])]);
    expect(
      plainFields(got)!
        .map(({ wireType }) => wireType)
        .sort(),
    ).toEqual([0, 5, 5]);
    const known = plainFields(got)!.filter(({ wireType }) => wireType === 0);
    expect(known.map(({ valueStart }) => got[valueStart])).toEqual([8]);
  });

  it("takes a view of nothing for the message itself", async () => {
    const view = MessageView.of(InnerSchema, new MemorySource(new Uint8Array(0)));
    const source = new MemorySource(varintField(2, 5));
    await mergeInto(view, source);
    expect(view.unchanged).toBe(source);
    await mergeInto(view, new MemorySource(new Uint8Array(0)));
    expect(view.unchanged).toBe(source);
  });

  it("refuses bytes that are no message, and messages that meet in too deep a nesting", async () => {
    await expect(merged([varintField(1, 1), Uint8Array.of(0x0f)])).rejects.toMatchObject({ code: "invalid-wire" });
    const nested = (levels: number) => {
      let bytes: Uint8Array = varintField(3, 1);
      for (let i = 0; i < levels; i++) bytes = delimited(CHILD, bytes);
      return bytes;
    };
    const deepest = await merged([nested(MAX_MESSAGE_DEPTH), nested(MAX_MESSAGE_DEPTH)]);
    expectBytes(deepest, nested(MAX_MESSAGE_DEPTH));
    const tooDeep = nested(MAX_MESSAGE_DEPTH + 2);
    await expect(merged([tooDeep, tooDeep])).rejects.toMatchObject({ code: "limit" });
  });

  it("takes in thousands of known keys in one go, each once", async () => {
    const entries = (value: number) =>
      messageOf(Array.from({ length: 20_000 }, (_, i) => delimited(66, varintField(1, i), varintField(2, value))));
    const got = await merged([entries(1), entries(2)]);
    expectBytes(got, entries(2));
  });
});
