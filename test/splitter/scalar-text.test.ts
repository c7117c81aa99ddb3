import { fromBinary } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { concatBytes } from "../../src/bytes/byte-sink.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { MessageRules } from "../../src/proto/message-rules.js";
import { encodeScalarText } from "../../src/splitter/scalar-text.js";
import { TestMessageSchema, tag } from "../support/test-schema.js";

const rules = MessageRules.of(TestMessageSchema);

/** The value that protobuf-es reads from a field which was set from text. */
async function readBack(name: string, text: string | Uint8Array): Promise<unknown> {
  const rule = rules.fieldNamed(name)!;
  const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
  const { wireType, value } = await encodeScalarText(rule, new MemorySource(bytes), "m.cpb", name);
  const message = fromBinary(TestMessageSchema, concatBytes([tag(rule.number, wireType), value]));
  const { localName } = TestMessageSchema.fields.find(({ number }) => number === rule.number)!;
  return (message as unknown as Record<string, unknown>)[localName];
}

const INT32 = ["-2147483648", "-1", "0", "127", "128", "2147483647"];
const UINT32 = ["0", "127", "128", "4294967295"];
const INT64 = ["-9223372036854775808", "-1", "0", "300", "9223372036854775807"];
const UINT64 = ["0", "18446744073709551615"];
const WHOLE: [string, string[], string[]][] = [
  ["one_int32", INT32, ["2147483648", "-2147483649"]],
  ["one_sint32", INT32, ["2147483648", "-2147483649"]],
  ["one_sfixed32", INT32, ["2147483648", "-2147483649"]],
  ["one_uint32", UINT32, ["4294967296", "-1"]],
  ["one_fixed32", UINT32, ["4294967296", "-1"]],
  ["one_int64", INT64, ["9223372036854775808", "-9223372036854775809"]],
  ["one_sint64", INT64, ["9223372036854775808", "-9223372036854775809"]],
  ["one_sfixed64", INT64, ["9223372036854775808", "-9223372036854775809"]],
  ["one_uint64", UINT64, ["18446744073709551616", "-1"]],
  ["one_fixed64", UINT64, ["18446744073709551616", "-1"]],
];
const refusal = { code: "chunk-value", file: "m.cpb" };

describe("encodeScalarText", () => {
  it.each(WHOLE)("sets %s from decimal text, up to the ends of its type and not beyond", async (name, good, bad) => {
    for (const text of good) expect(String(await readBack(name, text))).toBe(text);
    for (const text of [...bad, "", " ", "x", "1.5", "1e3", "0x10", "1 2", "--1", "NaN"]) {
      await expect(readBack(name, text), JSON.stringify(text)).rejects.toMatchObject(refusal);
    }
    expect(String(await readBack(name, "+5"))).toBe("5");
    expect(String(await readBack(name, "  7"))).toBe("7");
  });

  it("sets floats and doubles", async () => {
    const numbers = { "1.5": 1.5, "-0.25": -0.25, "1e3": 1000, ".5": 0.5, "+2": 2, "0": 0, "-7": -7 };
    for (const name of ["one_double", "one_float"]) {
      for (const [text, number] of Object.entries(numbers)) expect(await readBack(name, text)).toBe(number);
      expect(await readBack(name, "inf")).toBe(Number.POSITIVE_INFINITY);
      expect(await readBack(name, "-inf")).toBe(Number.NEGATIVE_INFINITY);
      expect(await readBack(name, "nan")).toBeNaN();
      expect(await readBack(name, "NaN")).toBeNaN();
      for (const text of ["", "x", "1.5x", "- 1", "1,5"])
        await expect(readBack(name, text)).rejects.toMatchObject(refusal);
    }
    expect(await readBack("one_double", "0.1")).toBe(0.1);
    expect(await readBack("one_float", "0.1")).toBe(Math.fround(0.1));
  });

  it("sets bools and enums by their names", async () => {
    expect([await readBack("one_bool", "true"), await readBack("one_bool", "false")]).toEqual([true, false]);
    for (const text of ["True", "1", "", "yes"])
      await expect(readBack("one_bool", text)).rejects.toMatchObject(refusal);
    expect(await readBack("color", "COLOR_FAR")).toBe(70_000);
    expect(await readBack("color", "COLOR_BELOW")).toBe(-3);
    for (const text of ["COLOR_NO", "1", ""]) {
      await expect(readBack("color", text)).rejects.toMatchObject({
        ...refusal,
        expected: "the name of a cairn.test.Color",
      });
    }
  });

  it("refuses text that is far too long without reading it, and shows the begin of what it refuses", async () => {
    await expect(readBack("one_int32", new Uint8Array(100_000).fill(49))).rejects.toMatchObject({
      ...refusal,
      expected: "text of a number",
      actual: JSON.stringify("1".repeat(40)),
    });
  });
});
