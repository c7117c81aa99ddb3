import { ScalarType } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { SavedModelSchema } from "../../src/proto/gen/tensorflow/core/protobuf/saved_model_pb.js";
import { MessageRules, WIRE, wireTypeOf } from "../../src/proto/message-rules.js";
import { InnerSchema, scalarWireType, TestMessageSchema } from "../support/test-schema.js";
import { isKnownField } from "../support/wire-model.js";

const rules = MessageRules.of(TestMessageSchema);
const named = (name: string) => rules.fieldNamed(name)!;

describe("MessageRules", () => {
  it("accepts for each field the wire types that protobuf takes, and no others", () => {
    for (const field of TestMessageSchema.fields) {
      for (const wireType of [0, 1, 2, 3, 5]) {
        const expected = isKnownField(TestMessageSchema, field.number, wireType);
        const accepted = rules.field(field.number)!.accepts(wireType);
        expect([field.name, wireType, accepted]).toEqual([field.name, wireType, expected]);
      }
    }
  });

  it("knows the wire type of one value of each scalar type", () => {
    for (const field of TestMessageSchema.fields) {
      if (field.fieldKind !== "scalar") continue;
      expect(wireTypeOf(rules.field(field.number)!)).toBe(scalarWireType(field.scalar));
    }
    expect(wireTypeOf(named("group"))).toBe(WIRE.groupStart);
    expect(wireTypeOf(named("color"))).toBe(WIRE.varint);
    expect(wireTypeOf(named("map_int32"))).toBe(WIRE.bytes);
  });

  it("tells what a field holds", () => {
    const facts = (name: string) => {
      const { kind, repeated, packable, isMap, isGroup, oneof, scalar } = named(name);
      return { kind, repeated, packable, isMap, isGroup, oneof, scalar };
    };
    const plain = { repeated: false, packable: false, isMap: false, isGroup: false, oneof: -1, scalar: undefined };
    expect(facts("one_bool")).toEqual({ ...plain, kind: "bool", scalar: ScalarType.BOOL });
    expect(facts("list_string")).toEqual({ ...plain, kind: "string", repeated: true, scalar: ScalarType.STRING });
    expect(facts("list_color")).toEqual({ ...plain, kind: "enum", repeated: true, packable: true });
    expect(facts("packed_bool")).toMatchObject({ kind: "bool", packable: true });
    expect(facts("list_bytes")).toMatchObject({ kind: "bytes", packable: false });
    expect(facts("groups")).toEqual({ ...plain, kind: "message", repeated: true, isGroup: true });
    expect(facts("map_bool")).toEqual({ ...plain, kind: "message", repeated: true, isMap: true });
    expect(facts("a_number")).toEqual({ ...plain, kind: "number", oneof: 0, scalar: ScalarType.SINT32 });
    expect(facts("a_group")).toMatchObject({ isGroup: true, oneof: 0 });
    expect([facts("b_inner").oneof, facts("a_color").oneof, facts("a_color").kind]).toEqual([1, 0, "enum"]);
    expect(named("color").enum?.typeName).toBe("cairn.test.Color");
  });

  it("gives the rules of the messages in fields, the same each time", () => {
    const inner = MessageRules.of(InnerSchema);
    for (const name of ["inner", "inners", "an_inner", "b_inner"]) {
      expect(named(name).message).toBe(inner);
      expect(rules.messageIn(named(name).number)).toBe(inner);
      expect(rules.messageIn(named(name).number)).toBe(inner);
    }
    expect(named("child").message).toBe(rules);
    for (const name of ["one_string", "group", "groups", "color", "a_group", "late_text", "last_number"]) {
      expect(named(name).message).toBeUndefined();
      expect(rules.messageIn(named(name).number)).toBeUndefined();
    }
    for (const unknown of [0, 20, 40, 60, 80, 100, 3000]) expect(rules.messageIn(unknown)).toBeUndefined();
  });

  it("has key and value of a map as fields 1 and 2 of its entry", () => {
    const entry = named("map_int64").message!;
    expect(entry).toBe(rules.messageIn(62));
    expect([entry.isMapEntry, entry.schema, entry.typeName]).toEqual([
      true,
      undefined,
      "cairn.test.TestMessage.map_int64.Entry",
    ]);
    expect([...entry.fields()].map(({ number, name, kind }) => [number, name, kind])).toEqual([
      [1, "key", "number"],
      [2, "value", "message"],
    ]);
    expect(entry.field(2)!.message).toBe(MessageRules.of(InnerSchema));
    expect(named("map_sint32").message!.field(2)).toMatchObject({ kind: "enum", name: "value" });
    expect(named("map_uint32").message!.field(2)).toMatchObject({ kind: "bytes", scalar: ScalarType.BYTES });
    expect(rules.isMapEntry).toBe(false);
  });

  it("knows fields by the names of the .proto file, and lists them all", () => {
    expect(rules.fieldNamed("oneDouble")).toBeUndefined();
    expect(rules.fieldNamed("__proto__")).toBeUndefined();
    expect(rules.field(1999)).toBeUndefined();
    expect(rules.field(536_870_911)?.name).toBe("last_number");
    expect([...rules.fields()].map(({ name }) => name)).toEqual(TestMessageSchema.fields.map(({ name }) => name));
    expect(MessageRules.of(SavedModelSchema).fieldNamed("meta_graphs")?.message?.typeName).toBe(
      "tensorflow.MetaGraphDef",
    );
  });
});
