import { fromBinary, ScalarType } from "@bufbuild/protobuf";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { concatBytes } from "../../src/bytes/byte-sink.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { readFieldTable } from "../../src/proto/field-table.js";
import { encodeMapEntry, type MapKey, readMapKeys, stringKey, textOfKey } from "../../src/proto/map-key.js";
import { type FieldRule, MessageRules } from "../../src/proto/message-rules.js";
import { PlainSource } from "../support/odd-sources.js";
import { delimited, messagesOf, TestMessageSchema, tag, varint, varintField } from "../support/test-schema.js";
import { plainFields } from "../support/wire-model.js";

const rules = MessageRules.of(TestMessageSchema);
const maps = [...rules.fields()].filter((rule) => rule.isMap);
const keyRuleOf = (rule: FieldRule) => rule.message!.field(1)!;

async function keysOf(message: Uint8Array, rule: FieldRule): Promise<(MapKey | undefined)[]> {
  const table = await readFieldTable(new PlainSource(message));
  return readMapKeys(table, 0, table.count, keyRuleOf(rule));
}

/** The keys of a map as protobuf-es reads them, each as text. */
function keysByProtobuf(message: Uint8Array, rule: FieldRule): string[] {
  const { localName } = TestMessageSchema.fields.find(({ number }) => number === rule.number)!;
  const parsed = fromBinary(TestMessageSchema, message) as unknown as Record<string, Record<string, unknown>>;
  return Object.keys(parsed[localName]!);
}

/** Keys at both ends of each type, and in between. */
function keysFor(rule: FieldRule): fc.Arbitrary<MapKey> {
  if (rule.kind === "string") return fc.string({ unit: "binary", maxLength: 1500 }).map(stringKey);
  if (rule.kind === "bool") return fc.boolean();
  const is64 = [ScalarType.INT64, ScalarType.UINT64, ScalarType.SINT64, ScalarType.FIXED64, ScalarType.SFIXED64];
  const bits = is64.includes(rule.scalar!) ? 64n : 32n;
  const unsigned = [ScalarType.UINT32, ScalarType.UINT64, ScalarType.FIXED32, ScalarType.FIXED64];
  const isUnsigned = unsigned.includes(rule.scalar!);
  const min = isUnsigned ? 0n : -(2n ** (bits - 1n));
  const max = isUnsigned ? 2n ** bits - 1n : 2n ** (bits - 1n) - 1n;
  return fc.oneof(fc.constantFrom(min, max, 0n, 1n, max - 1n), fc.bigInt({ min, max }));
}

describe("encodeMapEntry", () => {
  it.each(maps.map((rule) => ({ rule, name: rule.name })))(
    "writes keys of $name as protobuf reads them",
    async ({ rule }) => {
      await fc.assert(
        fc.asyncProperty(keysFor(keyRuleOf(rule)), async (key) => {
          const message = delimited(rule.number, encodeMapEntry(key, keyRuleOf(rule), "m.pb"));
          expect(await keysOf(message, rule)).toEqual([key]);
          expect(keysByProtobuf(message, rule)).toEqual([textOfKey(key)]);
        }),
        { numRuns: 60 },
      );
    },
  );

  it.each([
    ["map_string", 5n],
    ["map_string", true],
    ["map_int32", "5"],
    ["map_int64", false],
    ["map_fixed32", "x"],
    ["map_bool", 1n],
    ["map_bool", "true"],
  ] as const)("refuses a key of another type for %s: %s", (name, key) => {
    expect(() => encodeMapEntry(key, keyRuleOf(rules.fieldNamed(name)!), "m.pb")).toThrow(
      expect.objectContaining({ code: "field-tag", file: "m.pb" }),
    );
  });
});

describe("readMapKeys", () => {
  it("reads what protobuf reads from entries of any legal form", async () => {
    await fc.assert(
      fc.asyncProperty(messagesOf(TestMessageSchema, { maxFields: 12 }), async (message) => {
        const table = await readFieldTable(new MemorySource(message));
        for (const rule of maps) {
          const fields = plainFields(message)!.filter(({ number }) => number === rule.number);
          const keys = new Set<string>();
          for (let i = 0; i < table.count; i++) {
            if (table.number(i) !== rule.number) continue;
            const [key] = await readMapKeys(table, i, i + 1, keyRuleOf(rule));
            if (key !== undefined) keys.add(textOfKey(key));
          }
          if (fields.length > 0) expect([...keys].sort()).toEqual(keysByProtobuf(message, rule).sort());
        }
      }),
      { numRuns: 150 },
    );
  });

  it("reads the last key of an entry that has several, before or behind its value", async () => {
    const rule = rules.fieldNamed("map_int32")!;
    const [one, two, value] = [varintField(1, 1), varintField(1, 2), delimited(2, Uint8Array.of(65))];
    const entries = [[one, two], [one, value, two], [value, one], [value], [], [one], [one, value]];
    const message = concatBytes(entries.map((fields) => delimited(61, ...[new Uint8Array(0), ...fields])));
    expect(await keysOf(message, rule)).toEqual([2n, 2n, 1n, 0n, 0n, 1n, 1n]);
  });

  it("takes a key of another wire type for an unknown field", async () => {
    const odd = concatBytes([tag(1, 5), Uint8Array.of(1, 2, 3, 4)]);
    expect(await keysOf(delimited(61, odd), rules.fieldNamed("map_int32")!)).toEqual([0n]);
    expect(await keysOf(delimited(71, odd), rules.fieldNamed("map_bool")!)).toEqual([false]);
    expect(await keysOf(delimited(72, odd), rules.fieldNamed("map_string")!)).toEqual([""]);
    expect(await keysOf(varintField(72, 1), rules.fieldNamed("map_string")!)).toEqual([undefined]);
  });

  it("reads keys of 100,000 bytes, keys that are no UTF-8, and keys behind large values", async () => {
    const rule = rules.fieldNamed("map_string")!;
    const long = new Uint8Array(100_000).fill(97);
    const notText = Uint8Array.of(0xff, 0xfe, 0x80);
    const large = delimited(2, delimited(3, new Uint8Array(300_000)));
    const message = concatBytes([
      delimited(72, delimited(1, long)),
      delimited(72, delimited(1, notText), large),
      delimited(72, large, delimited(1, notText)),
    ]);
    expect(await keysOf(message, rule)).toEqual(["a".repeat(100_000), "\u00ff\u00fe\u0080", "\u00ff\u00fe\u0080"]);
  });

  it("reads keys wherever in the file they end", async () => {
    const rule = rules.fieldNamed("map_string")!;
    const keyOf = (i: number) => String.fromCharCode(97 + (i % 26)).repeat(1000 + (i % 30));
    const entries = Array.from({ length: 600 }, (_, i) =>
      delimited(
        72,
        delimited(1, new TextEncoder().encode(keyOf(i))),
        delimited(2, delimited(3, new Uint8Array(i * 7))),
      ),
    );
    expect(await keysOf(concatBytes(entries), rule)).toEqual(entries.map((_, i) => keyOf(i)));
  });

  it("refuses an entry that is no message", async () => {
    const cut = delimited(72, Uint8Array.of(0x0a, 0x05, 0x61));
    await expect(keysOf(cut, rules.fieldNamed("map_string")!)).rejects.toMatchObject({ code: "invalid-wire" });
    const longVarint = delimited(61, concatBytes([tag(1, 0), varint(5, 10), Uint8Array.of(0x0f)]));
    await expect(keysOf(longVarint, rules.fieldNamed("map_int32")!)).rejects.toMatchObject({ code: "invalid-wire" });
  });
});

describe("stringKey and textOfKey", () => {
  it("are each other's inverse for any text", () => {
    fc.assert(fc.property(fc.string({ unit: "grapheme" }), (text) => textOfKey(stringKey(text)) === text));
    expect([textOfKey(5n), textOfKey(-1n), textOfKey(true)]).toEqual(["5", "-1", "true"]);
  });
});
