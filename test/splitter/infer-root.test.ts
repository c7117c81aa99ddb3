import { create, type DescMessage, toBinary } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { concatBytes } from "../../src/bytes/byte-sink.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { FunctionDefSchema } from "../../src/proto/gen/tensorflow/core/framework/function_pb.js";
import { GraphDefSchema } from "../../src/proto/gen/tensorflow/core/framework/graph_pb.js";
import { NodeDefSchema } from "../../src/proto/gen/tensorflow/core/framework/node_def_pb.js";
import { MetaGraphDefSchema } from "../../src/proto/gen/tensorflow/core/protobuf/meta_graph_pb.js";
import { SavedModelSchema } from "../../src/proto/gen/tensorflow/core/protobuf/saved_model_pb.js";
import {
  type ChunkedMessage,
  ChunkedMessageSchema,
} from "../../src/proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
import { encodeTag, type FieldTags, parseFieldTags } from "../../src/splitter/field-tag.js";
import { inferRootSchema } from "../../src/splitter/infer-root.js";
import { readFixture } from "../support/fixtures.js";
import { varintField } from "../support/test-schema.js";

const plain = async (bytes: Uint8Array) => (await inferRootSchema(new MemorySource(bytes, "m.pb"), undefined)).name;

const node = { name: "n", op: "Const", input: ["a", "b"], attr: { T: { value: { case: "i" as const, value: 5n } } } };
const MESSAGES: [DescMessage, Uint8Array][] = [
  [
    SavedModelSchema,
    toBinary(SavedModelSchema, create(SavedModelSchema, { savedModelSchemaVersion: 1n, metaGraphs: [{}] })),
  ],
  [GraphDefSchema, toBinary(GraphDefSchema, create(GraphDefSchema, { node: [node], versions: { producer: 1 } }))],
  [
    MetaGraphDefSchema,
    toBinary(
      MetaGraphDefSchema,
      create(MetaGraphDefSchema, { metaInfoDef: { tags: ["serve"] }, signatureDef: { s: { methodName: "m" } } }),
    ),
  ],
  [
    FunctionDefSchema,
    toBinary(
      FunctionDefSchema,
      create(FunctionDefSchema, { nodeDef: [node], ret: { a: "b" }, controlRet: { c: "d" } }),
    ),
  ],
  [NodeDefSchema, toBinary(NodeDefSchema, create(NodeDefSchema, node))],
];

/** The type that is found from the tags of a split message alone, or with a root chunk. */
async function fromTags(schema: DescMessage, tags: readonly FieldTags[], root?: Uint8Array): Promise<string> {
  const message: ChunkedMessage = create(ChunkedMessageSchema, {
    ...(root === undefined ? {} : { chunkIndex: 0n }),
    chunkedFields: tags.map((one) => ({
      fieldTag: encodeTag(parseFieldTags(schema, one)),
      message: { chunkIndex: 0n },
    })),
  });
  const chunks = {
    name: "m.cpb",
    chunkCount: 1,
    chunk: async () => new MemorySource(root ?? new Uint8Array(0)),
  };
  return (await inferRootSchema(chunks, message)).name;
}

describe("inferRootSchema", () => {
  it.each(MESSAGES.map(([schema, bytes]) => [schema.name, bytes] as const))(
    "knows a %s by its fields",
    async (name, bytes) => {
      expect(await plain(bytes)).toBe(name);
    },
  );

  it("knows the models of the fixtures", async () => {
    for (const name of ["tiny", "bigconst", "keras", "manyfns", "vocab"]) {
      expect(await plain(readFixture(`cpb/models/${name}/saved_model.pb`))).toBe("SavedModel");
    }
    expect(await plain(readFixture("cpb/models/frozen/saved_model.pb"))).toBe("SavedModel");
  });

  it("does not take a field of another wire type for its own", async () => {
    // saved_model_schema_version is a varint; field 1 of a GraphDef is a message.
    expect(await plain(varintField(1, 1))).toBe("SavedModel");
    expect(await plain(concatBytes([varintField(1, 1), varintField(2, 1)])).catch((error) => error)).toMatchObject({
      code: "chunk-value",
      file: "m.pb",
    });
    expect(await plain(Uint8Array.of(0x0a, 0))).toBe("GraphDef");
  });

  it("goes by the tags where the root chunk fits several types, or there is none", async () => {
    expect(await fromTags(SavedModelSchema, [["meta_graphs", 0, "graph_def"]])).toBe("SavedModel");
    expect(await fromTags(GraphDefSchema, [["node", 0, "attr", "value", "tensor"]])).toBe("GraphDef");
    expect(await fromTags(GraphDefSchema, [["library", "function", 0]])).toBe("GraphDef");
    expect(await fromTags(MetaGraphDefSchema, [["signature_def", "s"]])).toBe("MetaGraphDef");
    const [, nodeDef] = MESSAGES[4]!;
    expect(await fromTags(NodeDefSchema, [["attr", "value", "tensor", "tensor_content"]], nodeDef)).toBe("NodeDef");
    const [, graph] = MESSAGES[1]!;
    expect(await fromTags(GraphDefSchema, [["node", 0]], graph)).toBe("GraphDef");
  });

  it("refuses what fits none, and says which types it knows", async () => {
    await expect(plain(varintField(999, 1))).rejects.toMatchObject({
      code: "chunk-value",
      expected: "SavedModel, GraphDef, MetaGraphDef, FunctionDef, NodeDef",
    });
  });
});
