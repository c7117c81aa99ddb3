import {
  create,
  createFileRegistry,
  type DescField,
  type DescMessage,
  fromBinary,
  ScalarType,
  toBinary,
} from "@bufbuild/protobuf";
import {
  Edition,
  FeatureSet_FieldPresence,
  FeatureSet_MessageEncoding,
  FeatureSet_RepeatedFieldEncoding,
  FieldDescriptorProto_Label,
  FieldDescriptorProto_Type,
  type FieldDescriptorProtoSchema,
  FileDescriptorProtoSchema,
} from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { concatBytes } from "../../src/bytes/byte-sink.js";

type FieldInit = Parameters<typeof create<typeof FieldDescriptorProtoSchema>>[1] & object;

const { REPEATED } = FieldDescriptorProto_Label;
const TYPE = FieldDescriptorProto_Type;

const INNER = ".cairn.test.Inner";
const OUTER = ".cairn.test.TestMessage";
const COLOR = ".cairn.test.Color";
const GROUP = { features: { messageEncoding: FeatureSet_MessageEncoding.DELIMITED } };
const EXPANDED = { features: { repeatedFieldEncoding: FeatureSet_RepeatedFieldEncoding.EXPANDED } };
const IMPLICIT = { features: { fieldPresence: FeatureSet_FieldPresence.IMPLICIT } };

/** All scalar types by the names of .proto files; numbers first. */
const SCALARS = {
  double: TYPE.DOUBLE,
  float: TYPE.FLOAT,
  int32: TYPE.INT32,
  int64: TYPE.INT64,
  uint32: TYPE.UINT32,
  uint64: TYPE.UINT64,
  sint32: TYPE.SINT32,
  sint64: TYPE.SINT64,
  fixed32: TYPE.FIXED32,
  fixed64: TYPE.FIXED64,
  sfixed32: TYPE.SFIXED32,
  sfixed64: TYPE.SFIXED64,
  bool: TYPE.BOOL,
  string: TYPE.STRING,
  bytes: TYPE.BYTES,
};
const NUMBERS = Object.entries(SCALARS).slice(0, 13);

/** What the maps hold, by the type of their keys. */
const MAPS: Record<string, { readonly type: FieldDescriptorProto_Type; readonly typeName?: string }> = {
  int32: { type: TYPE.STRING },
  int64: { type: TYPE.MESSAGE, typeName: INNER },
  uint32: { type: TYPE.BYTES },
  uint64: { type: TYPE.DOUBLE },
  sint32: { type: TYPE.ENUM, typeName: COLOR },
  sint64: { type: TYPE.INT32 },
  fixed32: { type: TYPE.SINT64 },
  fixed64: { type: TYPE.BOOL },
  sfixed32: { type: TYPE.FIXED64 },
  sfixed64: { type: TYPE.STRING },
  bool: { type: TYPE.MESSAGE, typeName: OUTER },
  string: { type: TYPE.MESSAGE, typeName: INNER },
};

/**
 * The fields of TestMessage:
 *
 * | numbers | what |
 * | --- | --- |
 * | 1 - 15 | `one_double` to `one_bytes`: a singular field of each scalar type |
 * | 16 - 19 | `color`, `inner`, `child` (a TestMessage), `group` |
 * | 21 - 34 | `packed_double` to `packed_bool`, `packed_color` |
 * | 41 - 54 | `list_double` to `list_bool`, `list_color`: the same, not packed |
 * | 55 - 59 | `list_string`, `list_bytes`, `inners`, `children`, `groups` |
 * | 61 - 72 | `map_int32` to `map_string`: a map for each type of key |
 * | 81 - 87 | the oneof `choice`: `a_number`, `a_text`, `a_blob`, `an_inner`, `a_group`, `a_child`, `a_color` |
 * | 91 - 92 | the oneof `other`: `b_number`, `b_inner` |
 * | 2000, 536870911 | `late_text`, `last_number` |
 */
function fieldsOfTestMessage(): FieldInit[] {
  const fields: FieldInit[] = [];
  const add = (number: number, name: string, init: FieldInit) => fields.push({ number, name, ...init });
  const inner = { type: TYPE.MESSAGE, typeName: INNER };
  const outer = { type: TYPE.MESSAGE, typeName: OUTER };
  const color = { type: TYPE.ENUM, typeName: COLOR };
  for (const [i, [name, type]] of Object.entries(SCALARS).entries()) add(1 + i, `one_${name}`, { type });
  add(16, "color", color);
  add(17, "inner", inner);
  add(18, "child", outer);
  add(19, "group", { ...inner, options: GROUP });
  for (const [i, [name, type]] of NUMBERS.entries()) {
    add(21 + i, `packed_${name}`, { type, label: REPEATED });
    add(41 + i, `list_${name}`, { type, label: REPEATED, options: EXPANDED });
  }
  add(34, "packed_color", { ...color, label: REPEATED });
  add(54, "list_color", { ...color, label: REPEATED, options: EXPANDED });
  add(55, "list_string", { type: TYPE.STRING, label: REPEATED });
  add(56, "list_bytes", { type: TYPE.BYTES, label: REPEATED });
  add(57, "inners", { ...inner, label: REPEATED });
  add(58, "children", { ...outer, label: REPEATED });
  add(59, "groups", { ...inner, label: REPEATED, options: GROUP });
  for (const [i, key] of Object.keys(MAPS).entries()) {
    const typeName = `${OUTER}.${entryName(`map_${key}`)}`;
    add(61 + i, `map_${key}`, { type: TYPE.MESSAGE, typeName, label: REPEATED });
  }
  const choice = { oneofIndex: 0 };
  add(81, "a_number", { type: TYPE.SINT32, ...choice });
  add(82, "a_text", { type: TYPE.STRING, ...choice });
  add(83, "a_blob", { type: TYPE.BYTES, ...choice });
  add(84, "an_inner", { ...inner, ...choice });
  add(85, "a_group", { ...inner, options: GROUP, ...choice });
  add(86, "a_child", { ...outer, ...choice });
  add(87, "a_color", { ...color, ...choice });
  add(91, "b_number", { type: TYPE.FIXED64, oneofIndex: 1 });
  add(92, "b_inner", { ...inner, oneofIndex: 1 });
  add(2000, "late_text", { type: TYPE.STRING });
  add(536_870_911, "last_number", { type: TYPE.UINT64 });
  return fields;
}

/** The fields of Inner. `name` and `value` have no presence: a default is not written. */
function fieldsOfInner(): FieldInit[] {
  return [
    { number: 1, name: "name", type: TYPE.STRING, options: IMPLICIT },
    { number: 2, name: "value", type: TYPE.INT64, options: IMPLICIT },
    { number: 3, name: "payload", type: TYPE.BYTES },
    { number: 4, name: "list", type: TYPE.INT32, label: REPEATED },
    {
      number: 5,
      name: "counts",
      type: TYPE.MESSAGE,
      typeName: `${INNER}.${entryName("counts")}`,
      label: REPEATED,
    },
    { number: 6, name: "inner", type: TYPE.MESSAGE, typeName: INNER },
    { number: 7, name: "signature", type: TYPE.MESSAGE, typeName: ".cairn.test.Signed" },
  ];
}

function entryName(field: string): string {
  return `${field.replace(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase())}Entry`;
}

function mapEntry(field: string, key: FieldDescriptorProto_Type, value: FieldInit) {
  return {
    name: entryName(field),
    options: { mapEntry: true },
    field: [
      { number: 1, name: "key", type: key },
      { number: 2, name: "value", ...value },
    ],
  };
}

const file = create(FileDescriptorProtoSchema, {
  name: "cairn/test.proto",
  package: "cairn.test",
  syntax: "editions",
  edition: Edition.EDITION_2023,
  enumType: [
    {
      name: "Color",
      value: [
        { name: "COLOR_NONE", number: 0 },
        { name: "COLOR_RED", number: 1 },
        { name: "COLOR_FAR", number: 70_000 },
        { name: "COLOR_BELOW", number: -3 },
      ],
    },
  ],
  messageType: [
    {
      name: "TestMessage",
      field: fieldsOfTestMessage(),
      oneofDecl: [{ name: "choice" }, { name: "other" }],
      nestedType: Object.entries(MAPS).map(([key, value]) =>
        mapEntry(`map_${key}`, SCALARS[key as keyof typeof SCALARS], value),
      ),
    },
    {
      name: "Inner",
      field: fieldsOfInner(),
      nestedType: [mapEntry("counts", TYPE.STRING, { type: TYPE.INT32 })],
    },
    {
      name: "Signed",
      field: [
        { number: 1, name: "signature", type: TYPE.MESSAGE, typeName: INNER },
        { number: 2, name: "note", type: TYPE.STRING },
      ],
    },
  ],
});
const registry = createFileRegistry(file, () => undefined);

/** A message type with fields of every kind that protobuf has. */
export const TestMessageSchema: DescMessage = registry.getMessage("cairn.test.TestMessage") as DescMessage;
/** A smaller message type, which TestMessage holds in many places. */
export const InnerSchema: DescMessage = registry.getMessage("cairn.test.Inner") as DescMessage;
/** A message type without a name of its own, but with a signature that has one. */
export const SignedSchema: DescMessage = registry.getMessage("cairn.test.Signed") as DescMessage;

/** A varint of a number, taken as unsigned 64 bits, in at least `length` bytes: the longer forms are legal too. */
export function varint(value: number | bigint, length = 1): Uint8Array {
  const bytes: number[] = [];
  for (let rest = BigInt.asUintN(64, BigInt(value)); rest > 0n || bytes.length < length; rest >>= 7n) {
    bytes.push(Number(rest & 0x7fn) | 0x80);
  }
  bytes[bytes.length - 1]! &= 0x7f;
  return Uint8Array.from(bytes);
}

/** A tag; `length` as for {@link varint}. */
export function tag(number: number, wireType: number, length = 1): Uint8Array {
  return varint(number * 8 + wireType, length);
}

/** A field of wire type 2: tag, length and value. */
export function delimited(number: number, ...value: readonly Uint8Array[]): Uint8Array {
  const bytes = concatBytes(value);
  return concatBytes([tag(number, 2), varint(bytes.length), bytes]);
}

/** A field of wire type 0. */
export function varintField(number: number, value: number | bigint): Uint8Array {
  return concatBytes([tag(number, 0), varint(value)]);
}

/** What the arbitraries of messages may do. */
export interface MessageOptions {
  /** Levels of messages, 1 for no message in it; 3 when it is not given. */
  readonly depth?: number;
  /** Fields of a message at most; 8 when it is not given. */
  readonly maxFields?: number;
  /** Bytes of a string or bytes field at most; 24 when it is not given. */
  readonly maxBytes?: number;
}

/**
 * Serialized messages of a type as any legal writer may have made them: fields in any order and again and again,
 * lists packed and not, several members of a oneof, map entries without key or value and in either order, unknown fields of
 * every wire type, tags, lengths and numbers in more bytes than they need. protobuf-es parses them all.
 */
export function messagesOf(schema: DescMessage, options: MessageOptions = {}): fc.Arbitrary<Uint8Array> {
  const { depth = 3, maxFields = 8, maxBytes = 24 } = options;
  return new Wire(maxFields, maxBytes).message(schema, depth);
}

class Wire {
  private readonly maxFields: number;
  private readonly maxBytes: number;
  private readonly known = new Map<string, fc.Arbitrary<Uint8Array>>();

  constructor(maxFields: number, maxBytes: number) {
    this.maxFields = maxFields;
    this.maxBytes = maxBytes;
  }

  message(schema: DescMessage, depth: number): fc.Arbitrary<Uint8Array> {
    const key = `${schema.typeName} ${depth}`;
    const known = this.known.get(key);
    if (known !== undefined) return known;
    const fields = schema.fields
      .filter((field) => depth > 1 || !holdsMessage(field))
      .map((field) => this.field(field, depth));
    const oneField = fc.oneof({ weight: 9, arbitrary: fc.oneof(...fields) }, { weight: 1, arbitrary: unknownField });
    const message = fc.array(oneField, { maxLength: this.maxFields, size: "max" }).map(joined);
    this.known.set(key, message);
    return message;
  }

  private field(field: DescField, depth: number): fc.Arbitrary<Uint8Array> {
    const { number } = field;
    if (field.fieldKind === "map") return this.mapEntry(field, depth);
    if (field.message !== undefined) {
      const value = this.message(field.message, depth - 1);
      if (field.delimitedEncoding) return grouped(number, value);
      return lengthDelimited(number, value);
    }
    const scalar = field.enum !== undefined ? ScalarType.INT32 : (field.scalar as ScalarType);
    const single = this.scalarField(number, scalar);
    if (field.fieldKind !== "list" || scalar === ScalarType.STRING || scalar === ScalarType.BYTES) return single;
    const packed = fc.array(scalarValue(scalar), { maxLength: 6 }).map(joined);
    return fc.oneof(single, lengthDelimited(number, packed));
  }

  private mapEntry(field: DescField & { fieldKind: "map" }, depth: number): fc.Arbitrary<Uint8Array> {
    const key = this.scalarField(1, field.mapKey, fewValues(field.mapKey));
    let value: fc.Arbitrary<Uint8Array>;
    if (field.message !== undefined) value = lengthDelimited(2, this.message(field.message, depth - 1));
    else value = this.scalarField(2, field.enum !== undefined ? ScalarType.INT32 : (field.scalar as ScalarType));
    const usual = fc.tuple(key, value).map(joined);
    const odd = fc.array(fc.oneof(key, value, farUnknownField), { maxLength: 4 }).map(joined);
    return lengthDelimited(field.number, fc.oneof({ weight: 3, arbitrary: usual }, { weight: 1, arbitrary: odd }));
  }

  private scalarField(number: number, scalar: ScalarType, values?: fc.Arbitrary<Uint8Array>): fc.Arbitrary<Uint8Array> {
    if (scalar === ScalarType.STRING) return lengthDelimited(number, values ?? text(this.maxBytes));
    if (scalar === ScalarType.BYTES) {
      return lengthDelimited(number, values ?? fc.uint8Array({ maxLength: this.maxBytes }));
    }
    return fc.tuple(tagOf(number, scalarWireType(scalar)), values ?? scalarValue(scalar)).map(joined);
  }
}

function holdsMessage(field: DescField): boolean {
  return field.message !== undefined;
}

function joined(pieces: readonly Uint8Array[]): Uint8Array {
  return concatBytes([new Uint8Array(0), ...pieces]);
}

/** Mostly the shortest form; protobuf takes up to 5 bytes for a tag or a length and up to 10 for a number. */
function spare(most: number): fc.Arbitrary<number> {
  return fc.oneof(
    { weight: 8, arbitrary: fc.constant(1) },
    { weight: 1, arbitrary: fc.integer({ min: 2, max: most }) },
  );
}

function tagOf(number: number, wireType: number): fc.Arbitrary<Uint8Array> {
  return spare(5).map((length) => tag(number, wireType, length));
}

function lengthDelimited(number: number, value: fc.Arbitrary<Uint8Array>): fc.Arbitrary<Uint8Array> {
  return fc
    .tuple(tagOf(number, 2), spare(5), value)
    .map(([head, length, bytes]) => joined([head, varint(bytes.length, length), bytes]));
}

function grouped(number: number, value: fc.Arbitrary<Uint8Array>): fc.Arbitrary<Uint8Array> {
  return fc.tuple(tagOf(number, 3), value, tagOf(number, 4)).map(joined);
}

function text(maxLength: number): fc.Arbitrary<Uint8Array> {
  return fc
    .oneof(fc.string({ maxLength }), fc.string({ unit: "grapheme", maxLength: Math.ceil(maxLength / 4) }))
    .map((one) => new TextEncoder().encode(one));
}

/** The wire type of one value of a scalar type. */
export function scalarWireType(scalar: ScalarType): number {
  switch (scalar) {
    case ScalarType.STRING:
    case ScalarType.BYTES:
      return 2;
    case ScalarType.DOUBLE:
    case ScalarType.FIXED64:
    case ScalarType.SFIXED64:
      return 1;
    case ScalarType.FLOAT:
    case ScalarType.FIXED32:
    case ScalarType.SFIXED32:
      return 5;
    default:
      return 0;
  }
}

/** The bytes of a number or bool, without a tag. */
function scalarValue(scalar: ScalarType): fc.Arbitrary<Uint8Array> {
  const wireType = scalarWireType(scalar);
  if (scalar === ScalarType.DOUBLE) return fc.double().map((value) => new Uint8Array(Float64Array.of(value).buffer));
  if (scalar === ScalarType.FLOAT) return fc.float().map((value) => new Uint8Array(Float32Array.of(value).buffer));
  if (wireType !== 0) return fc.uint8Array({ minLength: wireType === 1 ? 8 : 4, maxLength: wireType === 1 ? 8 : 4 });
  const bits =
    scalar === ScalarType.BOOL
      ? fc.oneof(fc.constantFrom(0n, 1n), fc.bigInt({ min: 0n, max: 300n }))
      : fc.oneof(
          fc.bigInt({ min: 0n, max: 300n }),
          fc.bigInt({ min: -(2n ** 31n), max: 2n ** 32n - 1n }),
          scalar === ScalarType.INT32
            ? fc.constantFrom(-1n, -(2n ** 31n))
            : fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
        );
  return fc.tuple(bits, spare(10)).map(([value, length]) => varint(value, length));
}

/** Few values of a type of map keys, so that keys meet again. */
function fewValues(scalar: ScalarType): fc.Arbitrary<Uint8Array> {
  const wireType = scalarWireType(scalar);
  if (wireType === 2) return fc.constantFrom("", "a", "b", "é", "_op").map((one) => new TextEncoder().encode(one));
  const few =
    scalar === ScalarType.BOOL || scalar === ScalarType.UINT32 || scalar === ScalarType.SINT32
      ? fc.constantFrom(0n, 1n, 2n, 2n ** 32n - 1n)
      : fc.constantFrom(0n, 1n, 2n, -1n, -(2n ** 31n), 2n ** 31n - 1n);
  if (wireType === 0) return fc.tuple(few, spare(10)).map(([value, length]) => varint(value, length));
  return few.map((value) => {
    const bytes = new Uint8Array(8);
    new DataView(bytes.buffer).setBigUint64(0, BigInt.asUintN(64, value), true);
    return bytes.slice(0, wireType === 1 ? 8 : 4);
  });
}

/** A field whose number no schema here knows. */
function unknownOf(numbers: fc.Arbitrary<number>): fc.Arbitrary<Uint8Array> {
  return fc.letrec<{ field: Uint8Array }>((tie) => ({
    field: numbers.chain((number) =>
      fc.oneof(
        { depthSize: "small", withCrossShrink: true },
        scalarValue(ScalarType.UINT64).map((value) => joined([tag(number, 0), value])),
        lengthDelimited(number, fc.uint8Array({ maxLength: 10 })),
        fc.uint8Array({ minLength: 8, maxLength: 8 }).map((value) => joined([tag(number, 1), value])),
        fc.uint8Array({ minLength: 4, maxLength: 4 }).map((value) => joined([tag(number, 5), value])),
        grouped(number, fc.array(tie("field"), { maxLength: 3 }).map(joined)),
      ),
    ),
  })).field;
}

const unknownField = unknownOf(fc.constantFrom(20, 40, 60, 100, 1999, 3000, 500_000_000));
/** The same, for map entries. */
const farUnknownField = unknownOf(fc.constantFrom(3, 16, 3000));

/** Serialized TestMessages as {@link messagesOf} gives them. */
export const testMessage: fc.Arbitrary<Uint8Array> = messagesOf(TestMessageSchema);

/** A message as protobuf-es writes it: fields by number, each number in its shortest form, no unknown fields. */
export function canonicalForm(schema: DescMessage, bytes: Uint8Array): Uint8Array {
  return toBinary(schema, fromBinary(schema, bytes, { readUnknownFields: false }));
}

/** Serialized TestMessages in their canonical form. */
export const canonicalTestMessage: fc.Arbitrary<Uint8Array> = testMessage.map((bytes) =>
  canonicalForm(TestMessageSchema, bytes),
);
