import { create, toBinary } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { concatBytes } from "../../src/bytes/byte-sink.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { SavedModelSchema } from "../../src/proto/gen/tensorflow/core/protobuf/saved_model_pb.js";
import { findField, nameOf, parseMessagePath } from "../../src/proto/message-path.js";
import { MessageView } from "../../src/proto/message-view.js";
import { CountingSource } from "../support/counting-source.js";
import { PlainSource } from "../support/odd-sources.js";
import { delimited, SignedSchema, TestMessageSchema, tag, varintField } from "../support/test-schema.js";

const utf8 = (text: string) => new TextEncoder().encode(text);
const usage = { code: "usage" };

const model = toBinary(
  SavedModelSchema,
  create(SavedModelSchema, {
    savedModelSchemaVersion: 1n,
    metaGraphs: [
      {
        graphDef: {
          node: [
            { name: "a", op: "Const" },
            { name: "b/é", op: "Add", attr: { T: { value: { case: "s", value: utf8("float") } } } },
          ],
          library: {
            function: [
              { signature: { name: "f" }, ret: { out: "x:0" } },
              { signature: { name: "g" }, controlRet: { c: "node" } },
            ],
          },
        },
        signatureDef: { serving_default: { methodName: "predict" } },
      },
    ],
  }),
);

async function find(path: string, bytes: Uint8Array = model, schema = SavedModelSchema as typeof TestMessageSchema) {
  const found = await findField(MessageView.of(schema, new MemorySource(bytes, "m.pb")), path);
  const value = await found?.value();
  return value === undefined ? undefined : value.read(0, value.size);
}
const findText = async (path: string) => {
  const bytes = await find(path);
  return bytes === undefined ? undefined : new TextDecoder().decode(bytes);
};
const findHere = (path: string, bytes: Uint8Array) => find(path, bytes, TestMessageSchema);

describe("parseMessagePath", () => {
  it("reads fields, indexes, and keys of every type", () => {
    expect(parseMessagePath('meta_graphs[0].graph_def.library.function["f"].signature')).toEqual([
      { field: "meta_graphs", selector: 0 },
      { field: "graph_def", selector: undefined },
      { field: "library", selector: undefined },
      { field: "function", selector: "f" },
      { field: "signature", selector: undefined },
    ]);
    expect(parseMessagePath("m[-5].b[true].c[false]").map(({ selector }) => selector)).toEqual(["-5", "true", "false"]);
    expect(parseMessagePath("m[18446744073709551615]")).toEqual([{ field: "m", selector: "18446744073709551615" }]);
    expect(parseMessagePath("m[9007199254740991]")).toEqual([{ field: "m", selector: 2 ** 53 - 1 }]);
    expect(parseMessagePath('m["a\\"].b\\u00e9[0]"].x')).toEqual([
      { field: "m", selector: 'a"].bé[0]' },
      { field: "x", selector: undefined },
    ]);
    expect(parseMessagePath('m[""]')).toEqual([{ field: "m", selector: "" }]);
  });

  it.each([
    ["", 0],
    [".", 0],
    ["a.", 0],
    ["a..b", 2],
    ["a.b c", 2],
    ["a[", 0],
    ["a[]", 0],
    ["a[x]", 0],
    ["a[1.5]", 0],
    ["a[0]b", 0],
    ["a.b[0][1]", 2],
    ['a["]', 0],
    ['a["\\q"]', 0],
    ["1a", 0],
    ["a[--1]", 0],
  ])("refuses %j and tells where it stops", (path, at) => {
    expect(() => parseMessagePath(path)).toThrow(expect.objectContaining(usage));
    expect(() => parseMessagePath(path)).toThrow(`character ${at} `);
  });
});

describe("findField in a SavedModel", () => {
  it("follows indexes, names of nodes and functions, and map keys", async () => {
    expect(await findText("meta_graphs[0].graph_def.node[1].name")).toBe("b/é");
    expect(await findText('meta_graphs[0].graph_def.node["b/é"].op')).toBe("Add");
    expect(await findText('meta_graphs.graph_def.node["b/é"].attr["T"].s')).toBe("float");
    expect(await findText('meta_graphs[0].graph_def.library.function["f"].ret["out"]')).toBe("x:0");
    expect(await findText('meta_graphs[0].graph_def.library.function["g"].signature.name')).toBe("g");
    expect(await findText('meta_graphs[0].graph_def.library.function["g"].control_ret["c"]')).toBe("node");
    expect(await findText('meta_graphs[0].signature_def["serving_default"].method_name')).toBe("predict");
    expect(await find("saved_model_schema_version")).toEqual(Uint8Array.of(1));
  });

  it.each([
    "meta_graphs[1].graph_def",
    "meta_graphs[0].meta_info_def",
    "meta_graphs[0].saver_def.filename_tensor_name",
    'meta_graphs[0].graph_def.node["c"].op',
    'meta_graphs[0].signature_def["none"]',
    'meta_graphs[0].graph_def.library.function["F"].ret',
    "meta_graphs[4503599627370497]",
  ])("gives undefined for %s, where nothing is", async (path) => {
    expect(await findText(path)).toBeUndefined();
  });

  it.each([
    ["meta_graphs[0].graph", "no field graph"],
    ["meta_graphs[0].graph_def.node", "node has 2 values"],
    ["saved_model_schema_version[0]", "takes no [0]"],
    ["saved_model_schema_version.x", "is no message"],
    ['meta_graphs[0].graph_def["x"]', "takes no [x]"],
    ["meta_graphs[0].metaInfoDef", "no field metaInfoDef"],
  ])("refuses %s", async (path, text) => {
    await expect(findText(path)).rejects.toMatchObject(usage);
    await expect(findText(path)).rejects.toThrow(text);
  });

  it("names the fields that there are when one is asked for that is not", async () => {
    await expect(findText("version")).rejects.toMatchObject({
      hint: "It has saved_model_schema_version, meta_graphs.",
    });
  });

  it("tells where a value lies in the file, and gives the message that it is", async () => {
    const prefix = new Uint8Array(700);
    const file = new PlainSource(concatBytes([prefix, model]), "in.pb");
    const root = MessageView.of(SavedModelSchema, file.slice(700, model.length));
    const found = (await findField(root, "meta_graphs[0].graph_def.node[1].op"))!;
    const { file: name, start, end } = found.range();
    expect(name).toBe("in.pb");
    expect(new TextDecoder().decode((await file.read(0, file.size)).subarray(start, end))).toBe("Add");
    expect(found.message).toBeUndefined();
    const node = (await findField(root, 'meta_graphs[0].graph_def.node["a"]'))!;
    expect(await nameOf(node.message!)).toBe("a");
    expect(node.path).toBe('meta_graphs[0].graph_def.node["a"]');
  });

  it("reads the way, and not what lies beside it", async () => {
    const blob = delimited(15, new Uint8Array(3_000_000));
    const bytes = concatBytes([blob, delimited(17, utf8("\n\u0001n")), blob]);
    const counting = new CountingSource(new PlainSource(bytes));
    const found = await findField(MessageView.of(TestMessageSchema, counting), "inner.name");
    expect((await found!.value()).size).toBe(1);
    expect(counting.bytes).toBeLessThan(100_000);
  });
});

describe("findField in maps", () => {
  const fixed = (bits: bigint, size: 4 | 8) => {
    const bytes = new Uint8Array(8);
    new DataView(bytes.buffer).setBigUint64(0, BigInt.asUintN(64, bits), true);
    return concatBytes([tag(1, size === 4 ? 5 : 1), bytes.subarray(0, size)]);
  };
  // The field's number, its name, the key on the wire, and in a path.
  it.each<[number, string, Uint8Array, string]>([
    [61, "map_int32", varintField(1, -7n), "-7"],
    [62, "map_int64", varintField(1, -(2n ** 63n)), "-9223372036854775808"],
    [63, "map_uint32", varintField(1, 4_294_967_295), "4294967295"],
    [64, "map_uint64", varintField(1, 2n ** 64n - 1n), "18446744073709551615"],
    [65, "map_sint32", varintField(1, 13), "-7"],
    [66, "map_sint64", varintField(1, 2n ** 64n - 1n), "-9223372036854775808"],
    [67, "map_fixed32", fixed(2n ** 32n - 1n, 4), "4294967295"],
    [68, "map_fixed64", fixed(2n ** 64n - 1n, 8), "18446744073709551615"],
    [69, "map_sfixed32", fixed(-7n, 4), "-7"],
    [70, "map_sfixed64", fixed(-7n, 8), "-7"],
    [71, "map_bool", varintField(1, 1), "true"],
    [72, "map_string", delimited(1, utf8("é/1")), '"é/1"'],
  ])("finds the value of a key, field %i %s", async (number, name, key, selector) => {
    const rule = MessageView.of(TestMessageSchema, new MemorySource(new Uint8Array(0))).rules.fieldNamed(name)!;
    expect(rule.number).toBe(number);
    const valueType = rule.message!.field(2)!;
    const value = { message: delimited(2), string: delimited(2, utf8("v")), bytes: delimited(2, utf8("v")) }[
      valueType.kind as string
    ];
    const odd = value ?? (valueType.accepts(0) ? varintField(2, 1) : concatBytes([tag(2, 1), new Uint8Array(8)]));
    const bytes = delimited(number, key, odd);
    expect(await findHere(`${name}[${selector}]`, bytes)).toBeDefined();
    const other = selector === "true" ? "false" : selector.startsWith('"') ? '"z"' : "5";
    expect(await findHere(`${name}[${other}]`, bytes)).toBeUndefined();
  });

  it("takes a number for a string key, and the last of two entries with one key", async () => {
    const entry = (value: number) => delimited(72, delimited(1, utf8("12")), delimited(2, varintField(2, value)));
    expect(await findHere("map_string[12].value", concatBytes([entry(5), entry(6)]))).toEqual(Uint8Array.of(6));
  });

  it("finds nothing in an entry without a value", async () => {
    expect(await findHere("map_int32[3]", delimited(61, varintField(1, 3)))).toBeUndefined();
  });

  it("refuses keys of another type", async () => {
    await expect(findHere('map_int32["x"]', new Uint8Array(0))).rejects.toThrow("whole numbers as keys");
    await expect(findHere('map_bool["yes"]', new Uint8Array(0))).rejects.toThrow("true and false as keys");
    await expect(findHere("map_bool[1]", new Uint8Array(0))).rejects.toMatchObject(usage);
  });

  it("needs a key when there are several entries, and none for one", async () => {
    const one = delimited(63, varintField(1, 1), delimited(2, utf8("v")));
    expect(await findHere("map_uint32", one)).toEqual(concatBytes([varintField(1, 1), delimited(2, utf8("v"))]));
    const two = concatBytes([one, delimited(63, varintField(1, 2))]);
    await expect(findHere("map_uint32", two)).rejects.toThrow("map_uint32 has 2 values");
  });
});

describe("nameOf", () => {
  it("is the name, the name of the signature, or nothing", async () => {
    const signed = (bytes: Uint8Array) => nameOf(MessageView.of(SignedSchema, new MemorySource(bytes)));
    expect(await signed(delimited(1, delimited(1, utf8("sig"))))).toBe("sig");
    expect(await signed(delimited(1))).toBe("");
    expect(await signed(new Uint8Array(0))).toBeUndefined();
    expect(await nameOf(MessageView.of(TestMessageSchema, new MemorySource(new Uint8Array(0))))).toBeUndefined();
  });
});
