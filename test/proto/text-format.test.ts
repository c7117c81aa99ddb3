import {
  create,
  createFileRegistry,
  createRegistry,
  type DescField,
  type DescMessage,
  equals,
  fromBinary,
  type Message,
  ScalarType,
  toBinary,
} from "@bufbuild/protobuf";
import { reflect } from "@bufbuild/protobuf/reflect";
import { fromText, toText } from "@bufbuild/protobuf/txtpb";
import {
  type FieldDescriptorProto,
  FieldOptions_JSType,
  FileDescriptorProtoSchema,
  file_google_protobuf_struct,
  file_google_protobuf_wrappers,
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Type,
} from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { type CairnError, isCairnError } from "../../src/errors.js";
import { AttrValueSchema, NameAttrListSchema } from "../../src/proto/gen/tensorflow/core/framework/attr_value_pb.js";
import { FunctionDefSchema } from "../../src/proto/gen/tensorflow/core/framework/function_pb.js";
import { GraphDefSchema } from "../../src/proto/gen/tensorflow/core/framework/graph_pb.js";
import { TensorProtoSchema } from "../../src/proto/gen/tensorflow/core/framework/tensor_pb.js";
import {
  CollectionDef_AnyListSchema,
  file_tensorflow_core_protobuf_meta_graph,
  MetaGraphDefSchema,
} from "../../src/proto/gen/tensorflow/core/protobuf/meta_graph_pb.js";
import {
  file_tensorflow_core_protobuf_saved_model,
  SavedModelSchema,
} from "../../src/proto/gen/tensorflow/core/protobuf/saved_model_pb.js";
import { StructuredValueSchema } from "../../src/proto/gen/tensorflow/core/protobuf/struct_pb.js";
import {
  file_tensorflow_core_protobuf_trackable_object_graph,
  TrackableObjectGraphSchema,
} from "../../src/proto/gen/tensorflow/core/protobuf/trackable_object_graph_pb.js";
import { ChunkMetadataSchema } from "../../src/proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
import { formatTextFormat, parseTextFormat } from "../../src/proto/text-format.js";
import { expectBytes } from "../support/bytes.js";
import { readExpected, readFixture } from "../support/fixtures.js";

const REGISTRY = createRegistry(
  file_tensorflow_core_protobuf_saved_model,
  file_tensorflow_core_protobuf_meta_graph,
  file_tensorflow_core_protobuf_trackable_object_graph,
  AttrValueSchema,
);

const readText = (path: string): string => new TextDecoder("utf-8", { ignoreBOM: true }).decode(readFixture(path));

/** What `parse` throws, which has to be an error of cairn. */
function errorOf(parse: () => unknown): CairnError {
  try {
    parse();
  } catch (error) {
    if (isCairnError(error)) return error;
    throw error;
  }
  return expect.fail("nothing was thrown");
}

const MODELS = ["tiny", "bigconst", "manyfns", "vocab", "keras", "frozen", "floatval"];

describe("text from and for Python", () => {
  it.each([
    ["values", MetaGraphDefSchema, "text-format/values.pb"],
    ["frozen", SavedModelSchema, "cpb/models/frozen/saved_model.pb"],
  ] as const)(
    "%s.pbtxt has the message that its binary form has, and is printed character by character",
    (name, schema, binary) => {
      const text = readText(`text-format/${name}.pbtxt`);
      const message = fromBinary(schema as DescMessage, readFixture(binary));
      const parsed = parseTextFormat(text, schema as DescMessage, { registry: REGISTRY });
      expectBytes(
        toBinary(schema as DescMessage, inKeyOrder(parsed)),
        toBinary(schema as DescMessage, inKeyOrder(message)),
      );
      expect(formatTextFormat(message, schema, { registry: REGISTRY })).toBe(text);
    },
  );

  it.each(MODELS)("the model %s survives printing and parsing", (name) => {
    const model = fromBinary(SavedModelSchema, readFixture(`cpb/models/${name}/saved_model.pb`));
    const parsed = parseTextFormat(formatTextFormat(model, SavedModelSchema), SavedModelSchema);
    expect(equals(SavedModelSchema, parsed, model)).toBe(true);
    expectBytes(toBinary(SavedModelSchema, inKeyOrder(parsed)), toBinary(SavedModelSchema, inKeyOrder(model)));
  });

  const expected = readExpected<Record<string, Record<string, { metadata_text?: string }>>>("cpb/expected.json");
  const texts = Object.entries(expected).flatMap(([group, files]) =>
    Object.entries(files).flatMap(([name, { metadata_text: text }]) => (text ? [[`${group}/${name}`, text]] : [])),
  ) as [string, string][];

  it.each(texts)("the ChunkMetadata of %s survives parsing and printing", (_, text) => {
    expect(formatTextFormat(parseTextFormat(text, ChunkMetadataSchema), ChunkMetadataSchema)).toBe(text);
  });

  it("is what protobuf-es reads and writes, too", () => {
    const model = fromBinary(SavedModelSchema, readFixture("cpb/models/vocab/saved_model.pb"));
    const theirs = fromText(SavedModelSchema, formatTextFormat(model, SavedModelSchema));
    const ours = parseTextFormat(toText(SavedModelSchema, model), SavedModelSchema);
    expect(equals(SavedModelSchema, theirs, model)).toBe(true);
    expect(equals(SavedModelSchema, ours, model)).toBe(true);
  });
});

/** A message with the entries of its maps in the order of their keys, in place. */
function inKeyOrder<T>(value: T): T {
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value;
  for (const [key, child] of Object.entries(value)) (value as Record<string, unknown>)[key] = inKeyOrder(child);
  if (Array.isArray(value) || "$typeName" in value || "case" in value) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))) as T;
}

// ---------------------------------------------------------------------------------------------------------------------

/** A proto2 file with the kinds of field that TensorFlow's messages lack. */
function makeKinds(): DescMessage {
  const field = (name: string, number: number, type: Type, more: Partial<FieldDescriptorProto> = {}) => ({
    name,
    number,
    type,
    label: Label.OPTIONAL,
    ...more,
  });
  const repeated = { label: Label.REPEATED };
  const entry = (name: string, key: Type, value: Type, typeName = "") => ({
    name,
    options: { mapEntry: true },
    field: [field("key", 1, key), field("value", 2, value, { typeName })],
  });
  const file = create(FileDescriptorProtoSchema, {
    name: "kinds.proto",
    package: "test",
    syntax: "proto2",
    dependency: ["google/protobuf/struct.proto", "google/protobuf/wrappers.proto"],
    enumType: [
      {
        name: "Color",
        value: [
          { name: "RED", number: 1 },
          { name: "CRIMSON", number: 1 },
          { name: "true", number: -2 },
        ],
        options: { allowAlias: true },
      },
    ],
    messageType: [
      {
        name: "Kinds",
        field: [
          field("mygroup", 1, Type.GROUP, { typeName: ".test.Kinds.MyGroup" }),
          field("color", 2, Type.ENUM, { typeName: ".test.Color" }),
          field("text64", 3, Type.INT64, { options: { jstype: FieldOptions_JSType.JS_STRING } as never }),
          field("texts64", 4, Type.UINT64, {
            ...repeated,
            options: { jstype: FieldOptions_JSType.JS_STRING } as never,
          }),
          field("struct", 5, Type.MESSAGE, { typeName: ".google.protobuf.Struct" }),
          field("structs", 6, Type.MESSAGE, { ...repeated, typeName: ".google.protobuf.Struct" }),
          field("wrapper", 7, Type.MESSAGE, { typeName: ".google.protobuf.Int64Value" }),
          field("wrappers", 8, Type.MESSAGE, { ...repeated, typeName: ".google.protobuf.StringValue" }),
          field("chosen", 9, Type.MESSAGE, { typeName: ".google.protobuf.BoolValue", oneofIndex: 0 }),
          field("other", 10, Type.STRING, { oneofIndex: 0 }),
          field("flags", 11, Type.MESSAGE, { ...repeated, typeName: ".test.Kinds.FlagsEntry" }),
          field("longs", 12, Type.MESSAGE, { ...repeated, typeName: ".test.Kinds.LongsEntry" }),
          field("colors", 13, Type.MESSAGE, { ...repeated, typeName: ".test.Kinds.ColorsEntry" }),
          field("trees", 14, Type.MESSAGE, { ...repeated, typeName: ".test.Kinds.TreesEntry" }),
          field("needy", 15, Type.MESSAGE, { typeName: ".test.Needy" }),
          field("fixed", 16, Type.SFIXED32),
          field("zigzag", 17, Type.SINT64),
          field("deflt", 18, Type.INT32, { defaultValue: "7" }),
        ],
        oneofDecl: [{ name: "choice" }],
        nestedType: [
          { name: "MyGroup", field: [field("a", 1, Type.INT32)] },
          entry("FlagsEntry", Type.BOOL, Type.BYTES),
          entry("LongsEntry", Type.SINT64, Type.DOUBLE),
          entry("ColorsEntry", Type.FIXED32, Type.ENUM, ".test.Color"),
          entry("TreesEntry", Type.STRING, Type.MESSAGE, ".google.protobuf.Struct"),
        ],
        reservedName: ["gone"],
      },
      { name: "Needy", field: [field("must", 1, Type.BOOL, { label: Label.REQUIRED })] },
    ],
  });
  const registry = createFileRegistry(file, (name) =>
    name === "google/protobuf/struct.proto" ? file_google_protobuf_struct : file_google_protobuf_wrappers,
  );
  return registry.getMessage("test.Kinds")!;
}

const KINDS = makeKinds();

/** Any value of a field, without NaN, which equals nothing. Closed enums get the values that they have. */
function arbitraryValue(field: DescField, depth: number): fc.Arbitrary<unknown> {
  if (field.message !== undefined) return arbitraryMessage(field.message, depth - 1);
  if (field.enum !== undefined) {
    const named = fc.constantFrom(...field.enum.values.map((value) => value.number));
    return field.enum.open ? fc.oneof(named, fc.integer()) : named;
  }
  return arbitraryScalar(field.scalar);
}

function arbitraryScalar(type: ScalarType): fc.Arbitrary<unknown> {
  switch (type) {
    case ScalarType.STRING:
      return fc.oneof(fc.string({ unit: "binary", maxLength: 8 }), fc.constantFrom("__proto__", "\ufeff", "'\"\\"));
    case ScalarType.BYTES:
      return fc.uint8Array({ maxLength: 12 });
    case ScalarType.BOOL:
      return fc.boolean();
    case ScalarType.FLOAT:
      return fc.float({ noNaN: true });
    case ScalarType.DOUBLE:
      return fc.double({ noNaN: true });
    case ScalarType.UINT32:
    case ScalarType.FIXED32:
      return fc.integer({ min: 0, max: 2 ** 32 - 1 });
    case ScalarType.INT64:
    case ScalarType.SINT64:
    case ScalarType.SFIXED64:
      return fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
    case ScalarType.UINT64:
    case ScalarType.FIXED64:
      return fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
    default:
      return fc.integer();
  }
}

/** Any message, with messages in it down to `depth`. */
function arbitraryMessage(desc: DescMessage, depth: number): fc.Arbitrary<Message> {
  const fields = desc.fields.filter((field) => depth > 0 || field.message === undefined);
  const values = Object.fromEntries(
    fields.map((field) => {
      const value = arbitraryValue(field, depth);
      if (field.fieldKind === "list") return [field.name, fc.array(value, { maxLength: 3 })];
      if (field.fieldKind === "map")
        return [field.name, fc.array(fc.tuple(arbitraryScalar(field.mapKey), value), { maxLength: 3 })];
      return [field.name, value];
    }),
  );
  return fc.record(values, { requiredKeys: [] }).map((given) => messageOf(desc, given));
}

function messageOf(desc: DescMessage, given: Record<string, unknown>): Message {
  const message = reflect(desc);
  for (const [name, value] of Object.entries(given)) {
    const field = desc.fields.find((one) => one.name === name)!;
    const inner = (one: unknown) => (field.message === undefined ? one : reflect(field.message, one as Message));
    if (field.fieldKind === "list") for (const item of value as unknown[]) message.get(field).add(inner(item));
    else if (field.fieldKind === "map") {
      for (const [key, item] of value as [unknown, unknown][]) message.get(field).set(key, inner(item));
    } else message.set(field, inner(value));
  }
  return message.message;
}

describe("any message", () => {
  // Needy has a required field, which random messages lack.
  const kinds = { ...KINDS, fields: KINDS.fields.filter((field) => field.name !== "needy") } as DescMessage;

  it.each([
    [GraphDefSchema, 3],
    [AttrValueSchema, 3],
    [TensorProtoSchema, 2],
    [StructuredValueSchema, 3],
    [MetaGraphDefSchema, 2],
    [TrackableObjectGraphSchema, 3],
    [FunctionDefSchema, 2],
    [ChunkMetadataSchema, 3],
    [FileDescriptorProtoSchema, 2],
  ] as [DescMessage, number][])("of %s survives printing and parsing, also by protobuf-es", (schema, depth) => {
    fc.assert(
      fc.property(arbitraryMessage(schema, depth), (message) => {
        const text = formatTextFormat(message, schema);
        const parsed = parseTextFormat(text, schema);
        expect(formatTextFormat(parsed, schema)).toBe(text);
        expect(equals(schema, parsed, message)).toBe(true);
        expect(equals(schema, fromText(schema, text), message)).toBe(true);
        expect(equals(schema, parseTextFormat(toText(schema, message), schema), message)).toBe(true);
      }),
      { numRuns: 150 },
    );
  });

  it("of fields that protobuf-es keeps in a form of their own survives printing and parsing", () => {
    fc.assert(
      fc.property(arbitraryMessage(kinds, 2), (message) => {
        const text = formatTextFormat(message, KINDS);
        const parsed = parseTextFormat(text, KINDS);
        expect(formatTextFormat(parsed, KINDS)).toBe(text);
        expectBytes(toBinary(KINDS, inKeyOrder(parsed)), toBinary(KINDS, inKeyOrder(message)));
      }),
      { numRuns: 300 },
    );
  });
});

// ---------------------------------------------------------------------------------------------------------------------

/** The value of `field` in an AttrValue with the text `field:text`; the fields are members of its one oneof. */
const attr = (field: string, text: string): unknown => parseTextFormat(`${field}:${text}`, AttrValueSchema).value.value;
/** The first item of a repeated field of a TensorProto. */
const item = (field: string, text: string): unknown => {
  const tensor = parseTextFormat(`${field}:${text}`, TensorProtoSchema);
  return (tensor as unknown as Record<string, unknown[]>)[field.replace(/_([a-z])/g, (_, c) => c.toUpperCase())]![0];
};
const ascii = (text: string): Uint8Array => new TextEncoder().encode(text);

describe("integers", () => {
  it.each([
    ["1", 1n],
    ["-1", -1n],
    [" - 1", -1n],
    ["-\n# a comment\n1", -1n],
    ["0", 0n],
    ["-0", 0n],
    ["00", 0n],
    ["017", 15n],
    ["-017", -15n],
    ["0x1F", 31n],
    ["0X1f", 31n],
    ["-0x10", -16n],
    ["9007199254740993", 9007199254740993n],
    ["9223372036854775807", 2n ** 63n - 1n],
    ["-9223372036854775808", -(2n ** 63n)],
    ["0x7fffffffffffffff", 2n ** 63n - 1n],
    ["0777777777777777777777", 2n ** 63n - 1n],
    [`0x${"0".repeat(50)}1`, 1n],
    ["1#comment", 1n],
  ])("reads %j", (text, value) => {
    expect(attr("i", text)).toBe(value);
  });

  it.each([
    "08",
    "0x",
    "0xg",
    "1.0",
    "1e3",
    "10f",
    "1_0",
    "1x",
    "+1",
    "--1",
    "true",
    '"1"',
    "",
    "[1]",
    "-",
    "1.2.3",
    "- #",
  ])("refuses %j", (text) => {
    expect(errorOf(() => attr("i", text)).code).toBe("invalid-text");
  });

  it.each([
    ["int_val", "2147483647", 2147483647],
    ["int_val", "-2147483648", -2147483648],
    ["uint32_val", "4294967295", 4294967295],
    ["uint64_val", "18446744073709551615", 2n ** 64n - 1n],
    ["uint64_val", "01777777777777777777777", 2n ** 64n - 1n],
  ])("reads the outermost %s", (field, text, value) => {
    expect(item(field, text)).toBe(value);
  });

  it.each([
    ["int_val", "2147483648"],
    ["int_val", "-2147483649"],
    ["int_val", "99999999999999999999999999999"],
    ["int_val", "9223372036854775808"],
    ["int64_val", "9223372036854775808"],
    ["int64_val", "-9223372036854775809"],
    ["uint32_val", "4294967296"],
    ["uint64_val", "18446744073709551616"],
    ["uint64_val", "02000000000000000000000"],
    ["uint64_val", "0x10000000000000000"],
  ])("refuses %s beyond its range", (field, text) => {
    expect(errorOf(() => item(field, text)).message).toMatch(/: integer out of range: expected/);
  });

  it("refuses a sign before an unsigned one, of zero too", () => {
    expect(errorOf(() => item("uint32_val", "-0")).message).toMatch(/sign before an unsigned integer/);
  });
});

describe("floats", () => {
  it.each([
    ["1", 1],
    ["-1.5", -1.5],
    ["- 1.5", -1.5],
    ["1.", 1],
    [".5", 0.5],
    ["1.f", 1],
    ["1.5F", 1.5],
    ["10f", 10],
    ["1e5", 1e5],
    ["1E+5", 1e5],
    ["1e-5", 1e-5],
    ["1.e5", 1e5],
    [".5e1f", 5],
    ["-0", -0],
    ["inf", Infinity],
    ["-inf", -Infinity],
    ["- Infinity", -Infinity],
    ["INF", Infinity],
    ["nan", NaN],
    ["-NaN", NaN],
    ["1e400", Infinity],
    ["-1e400", -Infinity],
    ["18446744073709551616", 2 ** 64],
    ["0.1", 0.1],
  ])("reads %j", (text, value) => {
    expect(item("double_val", text)).toBe(value);
  });

  it("rounds to the nearest float, or to infinity", () => {
    expect(item("float_val", "0.1")).toBe(Math.fround(0.1));
    expect(item("float_val", "3.5e38")).toBe(Infinity);
    expect(item("float_val", "1e-50")).toBe(0);
  });

  it.each([
    "0x10",
    "010",
    "08.5",
    "1e",
    "1e+",
    ".e5",
    ".",
    "1..2",
    "1.2.3",
    "1.5x",
    "true",
    '"1"',
    "inff",
    "1 . 5",
    "--1",
  ])("refuses %j", (text) => {
    expect(errorOf(() => item("double_val", text)).code).toBe("invalid-text");
  });
});

describe("bools and enums", () => {
  it.each(["true", "True", "t", "1", "01", "0x1"])("reads %s as true", (text) => {
    expect(attr("b", text)).toBe(true);
  });

  it.each(["false", "False", "f", "0", "00", "0x0"])("reads %s as false", (text) => {
    expect(attr("b", text)).toBe(false);
  });

  it.each(["TRUE", "T", "2", "-1", "-0", "1.0", '"true"', "yes"])("refuses the bool %s", (text) => {
    expect(errorOf(() => attr("b", text)).code).toBe("invalid-text");
  });

  it.each([
    ["DT_FLOAT", 1],
    ["1", 1],
    ["0x1", 1],
    ["-1", -1],
    ["12345", 12345],
  ])("reads %s of an open enum", (text, value) => {
    expect(attr("type", text)).toBe(value);
  });

  it.each(["dt_float", "DT_NOPE", "2147483648", '"DT_FLOAT"', "-DT_FLOAT", "1.0"])("refuses %s of an enum", (text) => {
    expect(errorOf(() => attr("type", text)).code).toBe("invalid-text");
  });

  it("reads aliases and names that are words elsewhere", () => {
    expect(parseTextFormat("color: CRIMSON", KINDS)).toMatchObject({ color: 1 });
    expect(parseTextFormat("color: true", KINDS)).toMatchObject({ color: -2 });
  });

  it("refuses a number that a closed enum does not have", () => {
    expect(errorOf(() => parseTextFormat("color: 3", KINDS)).message).toMatch(/1:8: enum test.Color has no value 3/);
  });
});

describe("strings", () => {
  it.each([
    ['""', ""],
    ["'a'", "a"],
    [`"a"'b' "c"\n# and\n'd'`, "abcd"],
    ['"\\a\\b\\f\\n\\r\\t\\v\\?\\\\\\\'\\""', "\x07\b\f\n\r\t\v?\\'\""],
    ['"\\1\\12\\123\\1234"', "\x01\nSS4"],
    ['"\\5Hello"', "\x05Hello"],
    ['"\\x1\\x12\\x123"', "\x01\x12\x123"],
    ['"\\u0041\\u20ac\\u00e9"', "A€é"],
    ['"\\U0001F600"', "😀"],
    ['"\\303\\251"', "é"],
    ['"\\303" "\\251"', "é"],
    ['"é€😀" "\\n"', "é€😀\n"],
    ['"\ufeffx"', "\ufeffx"],
    ['"\\357\\273\\277"', "\ufeff"],
    ["'\"'", '"'],
    ['"\\000"', "\0"],
    ['"\t\r"', "\t\r"],
    [`"${"long ".repeat(1000)}" "\\n"`, `${"long ".repeat(1000)}\n`],
  ])("reads %j in string and bytes fields", (text, value) => {
    expect(parseTextFormat(`name:${text}`, NameAttrListSchema).name).toBe(value);
    expectBytes(attr("s", text) as Uint8Array, ascii(value));
  });

  it.each([
    ['"\\400"', 0],
    ['"a\\8"', 1],
    ['"\\x"', 0],
    ['"\\xg"', 0],
    ['"\\X41"', 0],
    ['"\\u004"', 0],
    ['"\\U0001F60"', 0],
    ['"\\U00110000"', 0],
    ['"\\ud800"', 0],
    ['"ab\\ud83d\\ude00"', 2],
    ['"\\udc00"', 0],
    ['"\\q"', 0],
    ['"\0"', 0],
    ['"\\n" "\ud800"', 5],
  ])("refuses %j in string and bytes fields, at its place", (text, inside) => {
    expect(errorOf(() => attr("s", text))).toMatchObject({ code: "invalid-text", offset: 2 + 1 + inside });
    expect(errorOf(() => parseTextFormat(`name:${text}`, NameAttrListSchema)).code).toBe("invalid-text");
  });

  it.each(['"a', "'a\"", '"a\nb"', '"a\\\nb"', '"\\', '"a\\"', "a", "1", "-'a'"])("refuses %j", (text) => {
    expect(errorOf(() => attr("s", text))).toMatchObject({ code: "invalid-text", offset: 2 });
  });

  it.each(['"\\377"', '"\\303"', '"\\355\\240\\200"', '"\ud800"', '"a" "\ud800"', '"\\n" "\\xc0"'])(
    "refuses %j in a string field, which is not UTF-8",
    (text) => {
      expect(errorOf(() => parseTextFormat(`name:${text}`, NameAttrListSchema)).message).toMatch(/not valid U/);
    },
  );

  it("reads any bytes in a bytes field", () => {
    expectBytes(attr("s", '"\\377\\xc0\\200"') as Uint8Array, Uint8Array.of(0xff, 0xc0, 0x80));
  });
});

describe("fields", () => {
  const shape = (text: string): bigint[] => {
    const { value } = parseTextFormat(text, AttrValueSchema);
    return value.case === "shape" ? value.value.dim.map((dim) => dim.size) : expect.fail("no shape");
  };

  it.each([
    "shape{dim{size:1}dim{size:2}}",
    "shape:{dim:{size:1}dim:{size:2}}",
    "shape<dim<size:1>dim{size:2}>",
    "shape { dim { size: 1 }, dim { size: 2 }; };",
    "shape { dim [{ size: 1 }, < size: 2 >] }",
    "shape { dim: [{ size: 1 }] dim: [] dim { size: 2 } }",
    "# before\nshape\t\n{#after\r\ndim { size\v:\f1 }# }\ndim{size:2}}# at the end",
    "\ufeffshape { dim { size: 0x1 } dim { size: 02 } }",
    "shape{dim{size:1,}dim{size:2;}}",
  ])("reads %j", (text) => {
    expect(shape(text)).toEqual([1n, 2n]);
  });

  it("reads lists of scalars, in brackets or one by one", () => {
    const text = "float_val: [1, -2, inf] float_val: 3 float_val: [] float_val: [4]";
    expect(parseTextFormat(text, TensorProtoSchema).floatVal).toEqual([1, -2, Infinity, 3, 4]);
  });

  it("reads nothing as an empty message", () => {
    expect(parseTextFormat(" # nothing", TensorProtoSchema)).toEqual(create(TensorProtoSchema));
  });

  it.each([
    ["shape", '1:6: unexpected token: expected "{" or "<", got end of text'],
    ["shape{", '1:7: unexpected token: expected a field name or "}", got end of text'],
    ["shape{>", '1:7: unexpected token: expected a field name or "}", got ">"'],
    ["shape<}", '1:7: unexpected token: expected a field name or ">", got "}"'],
    ["shape{}}", '1:8: unexpected token: expected a field name, got "}"'],
    ["shape:1", '1:7: unexpected token: expected "{" or "<", got "1"'],
    ["shape::{}", '1:7: unexpected token: expected "{" or "<", got ":"'],
    ["shape:[{}]", '1:7: unexpected token: expected "{" or "<", got "["'],
    ["i 1", '1:3: unexpected token: expected ":", got "1"'],
    ["i=1", '1:2: unexpected character: got "="'],
    ["i:1;;", '1:5: unexpected token: expected a field name, got ";"'],
    [";i:1", '1:1: unexpected token: expected a field name, got ";"'],
    ["{i:1}", '1:1: unexpected token: expected a field name, got "{"'],
    ["é:1", '1:1: unexpected character: got "é"'],
    ["😀", '1:1: unexpected character: got "😀"'],
    ["i:1\0", '1:4: unexpected character: got "\\u0000"'],
    ["/* c */", '1:1: unexpected character: got "/"'],
    ["i:1b:true", '1:3: malformed number: got "1b"'],
    [`i:"${"x".repeat(99)}"`, `1:3: unexpected token: expected an integer, got "\\"${"x".repeat(39)}…"`],
    ["shape{dim:[{},]}", '1:15: unexpected token: expected "{" or "<", got "]"'],
    ["shape{dim:[{};{}]}", '1:14: unexpected token: expected "," or "]", got ";"'],
    ["shape{dim:[[{}]]}", '1:12: unexpected token: expected "{" or "<", got "["'],
  ])("refuses %j", (text, message) => {
    const error = errorOf(() => parseTextFormat(text, AttrValueSchema, { file: "a.pbtxt" }));
    expect(error.summary + error.message.slice(error.message.indexOf(error.summary) + error.summary.length)).toBe(
      message,
    );
    expect(error).toMatchObject({ name: "CorruptionError", code: "invalid-text", file: "a.pbtxt" });
  });

  it.each(["float_val [1]", "float_val:[1 2]", "float_val:[1,]", "float_val:[1;2]", "float_val:[[1]]", "float_val:[1"])(
    "refuses %j",
    (text) => {
      expect(errorOf(() => parseTextFormat(text, TensorProtoSchema)).code).toBe("invalid-text");
    },
  );

  it("refuses unknown names and numbers", () => {
    expect(errorOf(() => parseTextFormat("nope: 1", AttrValueSchema)).message).toBe(
      '@0x0: 1:1: tensorflow.AttrValue has no field "nope"',
    );
    expect(errorOf(() => parseTextFormat("3: 1", AttrValueSchema)).message).toMatch(/expected a field name, got "3"/);
    expect(errorOf(() => parseTextFormat("[a.b]: 1", AttrValueSchema)).message).toMatch(/has no extension "a.b"/);
  });

  it("refuses a singular field given twice, of zero and of a message too", () => {
    const twice = /1:\d+: non-repeated field "\w+" is specified multiple times/;
    expect(errorOf(() => parseTextFormat("dtype:0 dtype:0", TensorProtoSchema)).message).toMatch(twice);
    expect(errorOf(() => parseTextFormat("tensor_shape{} tensor_shape{}", TensorProtoSchema)).message).toMatch(twice);
    expect(errorOf(() => parseTextFormat("i:1 i:1", AttrValueSchema)).message).toMatch(twice);
    expect(errorOf(() => parseTextFormat("wrapper{} wrapper{}", KINDS)).message).toMatch(twice);
  });

  it("refuses two members of a oneof", () => {
    expect(errorOf(() => parseTextFormat("i:0 f:1", AttrValueSchema)).message).toBe(
      '@0x4: 1:5: field "f" is specified along with "i" of oneof "value"',
    );
    expect(errorOf(() => parseTextFormat('chosen{} other:""', KINDS)).message).toMatch(/along with "chosen"/);
  });

  it("reads a group by the name of its type, and of its field", () => {
    expect(parseTextFormat("MyGroup { a: 1 }", KINDS)).toMatchObject({ mygroup: { a: 1 } });
    expect(parseTextFormat("mygroup: { a: 1 }", KINDS)).toMatchObject({ mygroup: { a: 1 } });
    expect(formatTextFormat(parseTextFormat("MyGroup{a:1}", KINDS), KINDS)).toBe("MyGroup {\n  a: 1\n}\n");
    expect(errorOf(() => parseTextFormat("MYGROUP { a: 1 }", KINDS)).message).toMatch(/has no field "MYGROUP"/);
  });

  it("keeps what protobuf-es keeps in a form of its own", () => {
    const text = `text64: -5 texts64: [1, 2] wrapper { value: 3 } wrappers { value: "w" } chosen { value: true }
      struct { fields { key: "a" value { list_value { values { null_value: NULL_VALUE } } } } } structs {}`;
    expect(parseTextFormat(text, KINDS)).toMatchObject({
      text64: "-5",
      texts64: ["1", "2"],
      wrapper: 3n,
      wrappers: [{ value: "w" }],
      choice: { case: "chosen", value: { value: true } },
      struct: { a: [null] },
      structs: [{}],
    });
  });

  it("reads presence of a proto2 field apart from its default", () => {
    expect(formatTextFormat(parseTextFormat("deflt: 7", KINDS), KINDS)).toBe("deflt: 7\n");
    expect(formatTextFormat(parseTextFormat("", KINDS), KINDS)).toBe("");
  });

  it("refuses a message without its required field", () => {
    expect(parseTextFormat("needy { must: false }", KINDS)).toMatchObject({ needy: { must: false } });
    expect(errorOf(() => parseTextFormat("needy { }", KINDS)).message).toBe(
      '@0x8: 1:9: test.Needy lacks its required field "must"',
    );
  });

  it.each([
    "true",
    "-123",
    "- .5",
    "-inf",
    "'a' \"b\"",
    "{ a: 123 [x.y/z]: <b: [1, 'c', -2]> }",
    "< a { } >",
    "[-123, 456]",
    "[{}, <a: 1>]",
    "[]",
  ])("ignores the reserved field given as %s", (value) => {
    expect(parseTextFormat(`gone: ${value} fixed: 1`, KINDS)).toMatchObject({ fixed: 1 });
  });

  it.each(["gone", "gone:", "gone: {", "gone: { 1: 2 }", "gone: }", "gone: [1 2]", "gone: {]"])(
    "refuses %j",
    (text) => {
      expect(errorOf(() => parseTextFormat(text, KINDS)).code).toBe("invalid-text");
    },
  );
});

describe("maps", () => {
  const entries = (text: string) => parseTextFormat(text, FunctionDefSchema).ret;

  it.each([
    ['ret { key: "a" value: "b" }', { a: "b" }],
    ['ret: < value: "b", key: "a"; >', { a: "b" }],
    ['ret { key: "a" }', { a: "" }],
    ['ret { value: "b" }', { "": "b" }],
    ["ret {}", { "": "" }],
    ['ret [{ key: "a" }, { key: "b" }]', { a: "", b: "" }],
    ['ret { key: "a" value: "b" } ret { key: "a" value: "c" }', { a: "c" }],
  ])("reads %j", (text, value) => {
    expect(entries(text)).toEqual(value);
  });

  it.each([
    ['ret { key "a" }', /1:11: unexpected token: expected ":"/],
    ['ret { value "a" }', /1:13: unexpected token: expected ":"/],
    ['ret { key: "a" key: "a" }', /1:16: "key" of a map entry is given twice/],
    ['ret { value: "" value: "" }', /"value" of a map entry is given twice/],
    ["ret { foo: 1 }", /1:7: entry of map "ret" has no field "foo"/],
    ["ret { 1: 1 }", /expected a field name or "}", got "1"/],
    ["ret { key: 1 }", /expected a string, got "1"/],
    ["ret: 1", /expected "{" or "<", got "1"/],
    ['ret { key: "a"', /got end of text/],
    ["resource_arg_unique_id { key: -1 }", /sign before an unsigned/],
  ])("refuses %j", (text, message) => {
    expect(errorOf(() => entries(text)).message).toMatch(message);
  });

  it("reads keys and values of every kind", () => {
    const text = `flags { key: t value: "\\377" } flags { } longs { key: -5 value: 0.5 } longs { key: 0x10 }
      colors { key: 4294967295 value: true } colors { } trees { key: "t" value { fields { key: "x" } } } trees { }`;
    const message = parseTextFormat(text, KINDS);
    expect(message).toMatchObject({
      flags: { true: Uint8Array.of(0xff), false: new Uint8Array(0) },
      longs: { "-5": 0.5, "16": 0 },
      colors: { "4294967295": -2, "0": 1 },
      trees: { t: { x: null }, "": {} },
    });
    expect(equals(KINDS, fromBinary(KINDS, toBinary(KINDS, message)), message)).toBe(true);
  });

  it("keeps a key that names what every object has", () => {
    const text = 'attr { key: "__proto__" value { i: 1 } } attr { key: "constructor" value { i: 2 } }';
    const { attr } = parseTextFormat(text, NameAttrListSchema);
    expect(Object.keys(attr)).toEqual(["__proto__", "constructor"]);
    expect(Object.getPrototypeOf(attr)).toBe(Object.prototype);
  });
});

describe("google.protobuf.Any", () => {
  const URL = "type.googleapis.com/tensorflow.AttrValue";
  const parse = (text: string) =>
    parseTextFormat(`value {${text}}`, CollectionDef_AnyListSchema, { registry: REGISTRY }).value[0];

  it.each([
    `[${URL}] { i: 1 }`,
    `[${URL}]: < i: 1 >`,
    `[ type . googleapis # .\n .com/tensorflow.AttrValue ] { i: 1 };`,
  ])("reads %j", (text) => {
    expect(parse(text)).toMatchObject({ typeUrl: URL, value: Uint8Array.of(0x18, 1) });
  });

  it("reads its two fields as they are", () => {
    expect(parse('type_url: "x" value: "\\001"')).toMatchObject({ typeUrl: "x", value: Uint8Array.of(1) });
  });

  it.each([
    ["[type.googleapis.com/no.Such] {}", '1:8: type "no.Such" is unknown'],
    ["[tensorflow.AttrValue] {}", '1:8: type URL without a domain: got "tensorflow.AttrValue"'],
    ["[/tensorflow.AttrValue] {}", '1:8: type URL without a domain: got "/tensorflow.AttrValue"'],
    [`[${URL}] {} [${URL}] {}`, "1:54: non-repeated Any is specified multiple times"],
    [`type_url: "x" [${URL}] {}`, "1:22: non-repeated Any is specified multiple times"],
    [`[${URL}] {} type_url: "x"`, '1:54: non-repeated field "type_url" is specified multiple times'],
    [`[${URL}] { no: 1 }`, '1:53: tensorflow.AttrValue has no field "no"'],
    [`[${URL}] i: 1`, '1:51: unexpected token: expected "{" or "<", got "i"'],
    [`[${URL}`, '1:49: bad name in brackets: expected a name and "]", got "}"'],
    ['["a"] {}', '1:9: bad name in brackets: expected a name and "]", got "\\""'],
    ["[] {}", '1:8: type URL without a domain: got ""'],
  ])("refuses %j", (text, message) => {
    expect(errorOf(() => parse(text)).message).toContain(`: ${message}`);
  });

  it("is of an unknown type without a registry", () => {
    const error = errorOf(() => parseTextFormat(`value{[${URL}]{}}`, CollectionDef_AnyListSchema, { file: "a.pbtxt" }));
    expect(error.message).toBe('a.pbtxt@0x6: 1:7: type "tensorflow.AttrValue" is unknown');
    expect(error.code).toBe("invalid-text");
  });

  it("is printed as its bytes when they are no message of its type, and without a registry", () => {
    const bad = parse(`type_url: "${URL}" value: "\\377"`)!;
    const text = formatTextFormat(bad, CollectionDef_AnyListSchema.field.value!.message!, { registry: REGISTRY });
    expect(text).toBe(`type_url: "${URL}"\nvalue: "\\377"\n`);
    const good = parse(`[${URL}] { i: 1 }`)!;
    expect(formatTextFormat(good, CollectionDef_AnyListSchema.field.value!.message!)).toMatch(/^type_url: /);
  });
});

describe("errors", () => {
  it("name file, byte offset, line and column", () => {
    const text = 'string_val: "é€😀" # ü\r\n  string_val: "é😀", nope: 1';
    const error = errorOf(() => parseTextFormat(text, TensorProtoSchema, { file: "model.pbtxt" }));
    const offset = ascii(text.slice(0, text.indexOf("nope"))).length;
    expect(error.offset).toBe(offset);
    expect(error.message).toBe(
      `model.pbtxt@0x${offset.toString(16)}: 2:21: tensorflow.TensorProto has no field "nope"`,
    );
  });

  it("are the only outcome of a damaged text beside a message", () => {
    const text = readText("text-format/values.pbtxt");
    const damage = fc.tuple(
      fc.nat(text.length),
      fc.nat(3),
      fc.oneof(fc.constantFrom(..."{}[]<>:;,-#\"'\\0x.\n"), fc.string()),
    );
    fc.assert(
      fc.property(damage, ([at, length, put]) => {
        const damaged = text.slice(0, at) + put + text.slice(at + length);
        try {
          parseTextFormat(damaged, MetaGraphDefSchema, { registry: REGISTRY });
        } catch (error) {
          if (!isCairnError(error, "invalid-text")) throw error;
          expect(error.offset).toBeLessThanOrEqual(ascii(damaged).length);
        }
      }),
      { numRuns: 2000 },
    );
  });

  it("tell of a text cut anywhere inside a message", () => {
    const text = readText("text-format/values.pbtxt");
    const whole = parseTextFormat(text, MetaGraphDefSchema, { registry: REGISTRY });
    for (let end = 0; end < text.length - 1; end++) {
      try {
        const cut = parseTextFormat(text.slice(0, end), MetaGraphDefSchema, { registry: REGISTRY });
        expect(equals(MetaGraphDefSchema, cut, whole)).toBe(false);
        expect(text.slice(0, end)).toMatch(/(^|}\s*)$/);
      } catch (error) {
        if (!isCairnError(error, "invalid-text")) throw error;
      }
    }
  });
});

describe("limits", () => {
  const nested = (depth: number): string => "tuple_value{values{".repeat(depth / 2) + "}}".repeat(depth / 2);

  it("are 100 messages inside each other", () => {
    const message = parseTextFormat(nested(100), StructuredValueSchema);
    expect(formatTextFormat(message, StructuredValueSchema).split("\n").length).toBe(201);
    const deep = `tuple_value{values{${nested(100)}}}`;
    expect(errorOf(() => parseTextFormat(deep, StructuredValueSchema))).toMatchObject({
      name: "LimitError",
      code: "limit",
      offset: "tuple_value{values{".length * 50 + "tuple_value".length,
    });
  });

  it("hold for a reserved field, an Any and a million openings", () => {
    expect(errorOf(() => parseTextFormat(`gone${"{a".repeat(1_000_000)}`, KINDS)).code).toBe("limit");
    const any = "any_list{value{[type.googleapis.com/tensorflow.CollectionDef]{";
    const parse = () =>
      parseTextFormat(any.repeat(1000), REGISTRY.getMessage("tensorflow.CollectionDef")!, { registry: REGISTRY });
    expect(errorOf(parse).code).toBe("limit");
  });

  it("hold for printing", () => {
    let message = create(StructuredValueSchema);
    for (let depth = 0; depth <= 100; depth += 2) {
      message = create(StructuredValueSchema, { kind: { case: "tupleValue", value: { values: [message] } } });
    }
    expect(errorOf(() => formatTextFormat(message, StructuredValueSchema)).code).toBe("limit");
  });

  it("refuse a text of too many bytes, parsed or printed", async () => {
    vi.resetModules();
    vi.doMock("../../src/limits.js", async (original) => ({ ...(await original<object>()), MAX_TEXT_BYTES: 30 }));
    const small = await import("../../src/proto/text-format.js");
    vi.doUnmock("../../src/limits.js");
    const text = 'tensor_content: "1234567890ab"';
    expect(text.length).toBe(30);
    expect(small.parseTextFormat(text, TensorProtoSchema).tensorContent).toEqual(ascii("1234567890ab"));
    for (const over of [`${text} `, text.replace("12", "1é")]) {
      expect(() => small.parseTextFormat(over, TensorProtoSchema, { file: "big.pbtxt" })).toThrow(
        "big.pbtxt: size of the text: expected at most 30 bytes, got 31 bytes",
      );
    }
    const message = create(TensorProtoSchema, { tensorContent: new Uint8Array(4) });
    expect(() => small.formatTextFormat(message, TensorProtoSchema)).toThrow(/size of the text: expected at most 30/);
  });

  it("leave the time in proportion to the text", () => {
    const text = (count: number): string => `tensor_content: ${'"\\001" '.repeat(count)} # ${" [".repeat(count)}`;
    const time = (count: number): number => {
      const start = performance.now();
      parseTextFormat(text(count), TensorProtoSchema);
      return performance.now() - start;
    };
    time(100_000);
    // A quadratic parser would take 64 times as long.
    expect(time(800_000)).toBeLessThan(30 * Math.max(time(100_000), 5));
  });
});

describe("printing", () => {
  const print = (schema: DescMessage, text: string): string => formatTextFormat(parseTextFormat(text, schema), schema);

  it("leaves out unknown fields", () => {
    const message = fromBinary(AttrValueSchema, Uint8Array.of(0x18, 1, 0xf8, 1, 5));
    expect(message.$unknown).toHaveLength(1);
    expect(formatTextFormat(message, AttrValueSchema)).toBe("i: 1\n");
  });

  it("orders fields by number and map entries by key", () => {
    expect(print(TensorProtoSchema, "version_number: 3 dtype: DT_FLOAT")).toBe("dtype: DT_FLOAT\nversion_number: 3\n");
    const keys = ["10", "9", "a", "", "\uffee", "\ud801\udc37", "aa", "é"];
    const text = print(NameAttrListSchema, keys.map((key) => `attr { key: "${key}" value {} }`).join(""));
    const printed = [...text.matchAll(/attr {\n(?: {2}key: "(.*)"\n)? {2}value {\n {2}}\n}\n/g)].map(
      (match) => match[1] ?? "",
    );
    expect(printed).toEqual(["", "10", "9", "a", "aa", "é", "\uffee", "\ud801\udc37"]);
    expect(print(KINDS, "longs{key:10} longs{key:-9} longs{key:9}").match(/key: .*/g)).toEqual([
      "key: -9",
      "key: 9",
      "key: 10",
    ]);
    expect(print(KINDS, "flags{key:true} flags{}").match(/key: .*/g)).toEqual(["key: false", "key: true"]);
  });

  it("prints zero keys and values of maps in proto2, and not in proto3, as Python does", () => {
    expect(print(KINDS, "longs{}")).toBe("longs {\n  key: 0\n  value: 0.0\n}\n");
    expect(print(FunctionDefSchema, "ret{}")).toBe("ret {\n}\n");
  });

  // Digits as Python 3.11 gives them: str() for a double, ToShortestFloat of protobuf 5.29.6 for a float.
  it.each([
    ["1e15", "1000000000000000.0", "1000000000000000.0"],
    ["1e16", "1e+16", "1e+16"],
    ["123456789012345680", "1.2345678901234568e+17", "1.2345679e+17"],
    ["0.0001", "0.0001", "0.0001"],
    ["0.00001", "1e-05", "1e-05"],
    ["0.1", "0.1", "0.1"],
    ["0.3333333333333333", "0.3333333333333333", "0.33333334"],
    ["16777216", "16777216.0", "16777216.0"],
    ["-4045463.25", "-4045463.25", "-4045463.2"],
    ["3.4028234663852886e38", "3.4028234663852886e+38", "3.4028235e+38"],
    ["-0", "-0.0", "-0.0"],
    ["0", "0.0", "0.0"],
    ["nan", "nan", "nan"],
    ["-inf", "-inf", "-inf"],
  ])("prints %s as a double and as a float", (text, double, float) => {
    expect(print(TensorProtoSchema, `double_val: ${text}`)).toBe(`double_val: ${double}\n`);
    expect(print(TensorProtoSchema, `float_val: ${text}`)).toBe(`float_val: ${float}\n`);
  });

  it("prints long bytes whole", () => {
    const bytes = Uint8Array.from({ length: 100_000 }, (_, i) => (i * 7 + (i >> 8)) & 0xff);
    const text = formatTextFormat(create(TensorProtoSchema, { tensorContent: bytes }), TensorProtoSchema);
    expectBytes(parseTextFormat(text, TensorProtoSchema).tensorContent, bytes);
  });
});
