import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import {
  type FieldIndex,
  FieldIndex_MapKeySchema,
  FieldIndexSchema,
} from "../../src/proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
import { stringKey } from "../../src/proto/map-key.js";
import { MessageRules } from "../../src/proto/message-rules.js";
import {
  compareTags,
  decodeKey,
  encodeTag,
  type FieldTags,
  formatSteps,
  formatTag,
  parseFieldTags,
} from "../../src/splitter/field-tag.js";
import { TestMessageSchema } from "../support/test-schema.js";

const rules = MessageRules.of(TestMessageSchema);
const kindsOf = (tags: FieldTags) => encodeTag(parseFieldTags(TestMessageSchema, tags)).map(({ kind }) => kind);

describe("a field tag", () => {
  it.each<[string, number | string | bigint | boolean, string, unknown]>([
    ["map_int32", -5, "i32", -5],
    ["map_int64", -(2n ** 40n), "i64", -(2n ** 40n)],
    ["map_uint32", 2 ** 32 - 1, "ui32", 2 ** 32 - 1],
    ["map_uint64", 2n ** 64n - 1n, "ui64", 2n ** 64n - 1n],
    ["map_sint32", -5n, "i32", -5],
    ["map_sint64", -(2n ** 60n), "i64", -(2n ** 60n)],
    ["map_fixed32", 7, "ui32", 7],
    ["map_fixed64", 2n ** 63n, "ui64", 2n ** 63n],
    ["map_sfixed32", -7, "i32", -7],
    ["map_sfixed64", -(2n ** 50n), "i64", -(2n ** 50n)],
    ["map_bool", true, "boolean", true],
    ["map_string", "é", "s", "é"],
  ])("of %s[%s] holds the key as %s, and gives it back", (name, key, type, value) => {
    const [field, mapKey] = encodeTag(parseFieldTags(TestMessageSchema, [name, key])) as [FieldIndex, FieldIndex];
    expect(field.kind).toEqual({ case: "field", value: rules.fieldNamed(name)!.number });
    expect(mapKey.kind.case === "mapKey" && mapKey.kind.value.type).toEqual({ case: type, value });
    const expected = typeof key === "string" ? stringKey(key) : typeof key === "boolean" ? key : BigInt(key);
    expect(decodeKey(mapKey, "m.cpb")).toBe(expected);
  });

  it("takes names and numbers of fields, and indexes of repeated ones", () => {
    expect(kindsOf(["children", 3, "inner", "list", 7])).toEqual([
      { case: "field", value: 58 },
      { case: "index", value: 3n },
      { case: "field", value: 17 },
      { case: "field", value: 4 },
      { case: "index", value: 7n },
    ]);
    expect(kindsOf([58, 3, 17])).toEqual(kindsOf(["children", 3, "inner"]));
    expect(kindsOf(["map_bool", false, "one_string"])).toHaveLength(3);
    expect(kindsOf([])).toEqual([]);
  });

  it.each<[FieldTags, RegExp]>([
    [["nope"], /no field nope at the root/],
    [[9999], /no field 9999/],
    [["inner", "nope"], /no field nope at inner/],
    [["one_string", "inner"], /no field inner at one_string/],
    [["map_int32", 5, "x"], /no field x/],
    [["children", "first"], /children is repeated and takes an index/],
  ])("%j is refused", (tags, message) => {
    expect(() => parseFieldTags(TestMessageSchema, tags)).toThrow(message);
    expect(() => parseFieldTags(TestMessageSchema, tags)).toThrow(expect.objectContaining({ code: "usage" }));
  });

  it("is shown to people as a path, what the schema does not know as numbers", () => {
    const steps = parseFieldTags(TestMessageSchema, ["children", 3, "map_string", 'a"b', "inner", "value"]);
    expect(formatTag(encodeTag(steps), rules)).toBe('children[3].map_string["a\\"b"].inner.value');
    expect(formatTag(encodeTag(steps))).toBe('58[3].72["a\\"b"].6.2');
    expect(formatSteps(steps)).toBe('children[3].map_string["a\\"b"].inner.value');
    expect(formatTag(encodeTag(parseFieldTags(TestMessageSchema, ["map_int64", 5n])), rules)).toBe('map_int64["5"]');
    expect(formatSteps(parseFieldTags(TestMessageSchema, ["map_int64", 5n]))).toBe("map_int64[5]");
    expect(formatTag([], rules)).toBe("");
  });

  it("without a key or with one of no type is refused when it is followed", () => {
    const damaged = expect.objectContaining({ code: "field-tag", file: "m.cpb" });
    const noType = create(FieldIndexSchema, { kind: { case: "mapKey", value: create(FieldIndex_MapKeySchema) } });
    expect(() => decodeKey(noType, "m.cpb")).toThrow(damaged);
    expect(() => decodeKey(create(FieldIndexSchema, { kind: { case: "index", value: 1n } }), "m.cpb")).toThrow(damaged);
  });
});

describe("compareTags", () => {
  const compare = (a: FieldTags, b: FieldTags) =>
    Math.sign(
      compareTags(
        encodeTag(parseFieldTags(TestMessageSchema, a)),
        encodeTag(parseFieldTags(TestMessageSchema, b)),
        "m.cpb",
      ),
    );

  it("puts a parent before what is below it, fields by number, elements by index and entries by key", () => {
    const ordered: FieldTags[] = [
      [],
      ["inner"],
      ["inner", "value"],
      ["inner", "payload"],
      ["child"],
      ["children", 2],
      ["children", 2, "inner"],
      ["children", 10],
      ["map_int64", -3n],
      ["map_int64", 2n],
      ["map_int64", 2n, "value"],
      ["map_int64", 10n],
      ["map_string", ""],
      ["map_string", "B"],
      ["map_string", "a"],
      ["map_string", "é"],
    ];
    for (const [i, a] of ordered.entries()) {
      for (const [j, b] of ordered.entries()) expect([a, b, compare(a, b)]).toEqual([a, b, Math.sign(i - j)]);
    }
  });

  it("refuses tags that differ in kind at one depth, as TensorFlow does", () => {
    const index = create(FieldIndexSchema, { kind: { case: "index", value: 1n } });
    const field = create(FieldIndexSchema, { kind: { case: "field", value: 1 } });
    expect(() => compareTags([field, index], [field, field], "m.cpb")).toThrow(
      expect.objectContaining({ code: "field-tag", file: "m.cpb", expected: "index", actual: "field" }),
    );
  });
});
