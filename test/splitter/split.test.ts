import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ByteSource } from "../../src/bytes/byte-source.js";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { GraphDebugInfoSchema } from "../../src/proto/gen/tensorflow/core/framework/graph_debug_info_pb.js";
import { GraphDefSchema } from "../../src/proto/gen/tensorflow/core/framework/graph_pb.js";
import { NodeDefSchema } from "../../src/proto/gen/tensorflow/core/framework/node_def_pb.js";
import { TensorProtoSchema } from "../../src/proto/gen/tensorflow/core/framework/tensor_pb.js";
import { DataType } from "../../src/proto/gen/tensorflow/core/framework/types_pb.js";
import { MetaGraphDefSchema } from "../../src/proto/gen/tensorflow/core/protobuf/meta_graph_pb.js";
import { SavedModelSchema } from "../../src/proto/gen/tensorflow/core/protobuf/saved_model_pb.js";
import type { ChunkedMessage } from "../../src/proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
import type { ComposableSplitter, SplitOutput } from "../../src/splitter/composable-splitter.js";
import { formatTag } from "../../src/splitter/field-tag.js";
import { Merger } from "../../src/splitter/merger.js";
import { GraphDefSplitter, MessageSplitter, SavedModelSplitter } from "../../src/splitter/splitters.js";
import { expectBytes } from "../support/bytes.js";
import { readFixture } from "../support/fixtures.js";
import { TestMessageSchema, testMessage } from "../support/test-schema.js";

const MODELS = ["tiny", "bigconst", "manyfns", "vocab", "keras", "frozen", "floatval"];

async function bytesOf(source: ByteSource): Promise<Uint8Array> {
  return new Uint8Array(await source.read(0, source.size));
}

/** Writes what a splitter made and merges the file again. */
async function throughFile(splitter: ComposableSplitter, options: object = {}): Promise<Uint8Array> {
  const files = new MemoryStore();
  await splitter.write("x", { files, compression: "none", ...options });
  const schema = splitter.message.rules.schema;
  const merged = await Merger.read("x", schema, { files, check: true });
  const bytes = await bytesOf(await merged.toSource());
  await merged.verify();
  return bytes;
}

/** Merges chunks in memory, in the order of the list. */
async function throughMemory(
  output: SplitOutput,
  schema: typeof SavedModelSchema | typeof TestMessageSchema,
): Promise<Uint8Array> {
  return bytesOf(await Merger.merge(output.chunks, output.chunkedMessage, schema).toSource());
}

describe("a model of the fixtures", () => {
  it.each(MODELS)("%s comes back bit for bit at every chunk size", async (name) => {
    const bytes = readFixture(`cpb/models/${name}/saved_model.pb`);
    const sizes = fc.oneof(fc.integer({ min: 200, max: 5000 }), fc.integer({ min: 5000, max: 250_000 }));
    const compressions = fc.constantFrom("none", "auto", "snappy");
    await fc.assert(
      fc.asyncProperty(sizes, compressions, async (maxChunkSize, compression) => {
        const splitter = new SavedModelSplitter(bytes, { maxChunkSize });
        expectBytes(await throughFile(splitter, { compression }), bytes);
        expectBytes(await throughMemory(await splitter.split(), SavedModelSchema), bytes);
      }),
      { numRuns: 12 },
    );
  });

  it.each(MODELS)("%s is left whole without a limit", async (name) => {
    const bytes = readFixture(`cpb/models/${name}/saved_model.pb`);
    const { chunks, chunkedMessage } = await new SavedModelSplitter(bytes).split();
    expect(chunks.length).toBe(1);
    expect(chunkedMessage.chunkedFields).toEqual([]);
  });

  // The only values of the fixtures that no splitter can cut below 64 KiB: a bytes field is one chunk, since
  // TensorFlow's merger sets it from one.
  const UNCUT = { bigconst: ['meta_graphs[0].graph_def.node[2].attr["value"].tensor.tensor_content'] };

  it.each(MODELS)("%s has no chunk over 64 KiB but those named here", async (name) => {
    const bytes = readFixture(`cpb/models/${name}/saved_model.pb`);
    const { chunks, warnings } = await new SavedModelSplitter(bytes, { maxChunkSize: 65_536 }).split();
    const over = chunks.filter(({ source }) => source.size > 65_536).map(({ path }) => path);
    expect(over).toEqual(UNCUT[name as keyof typeof UNCUT] ?? []);
    expect(warnings.length).toBe(over.length);
  });

  it("is not changed by splitting it", async () => {
    const bytes = readFixture("cpb/models/tiny/saved_model.pb");
    const message = fromBinary(SavedModelSchema, bytes);
    const before = toBinary(SavedModelSchema, message);
    const copy = bytes.slice();
    await new SavedModelSplitter(bytes, { maxChunkSize: 300 }).split();
    await new SavedModelSplitter(message, { maxChunkSize: 300 }).split();
    expectBytes(bytes, copy);
    expectBytes(toBinary(SavedModelSchema, message), before);
  });

  it("of a protobuf-es message comes back as that message is serialized", async () => {
    const message = fromBinary(SavedModelSchema, readFixture("cpb/models/keras/saved_model.pb"));
    expectBytes(
      await throughFile(new SavedModelSplitter(message, { maxChunkSize: 900 })),
      toBinary(SavedModelSchema, message),
    );
  });

  it("of another type is refused by name", () => {
    const node = create(NodeDefSchema);
    expect(() => new SavedModelSplitter(node)).toThrow(/expected tensorflow.SavedModel, got tensorflow.NodeDef/);
  });
});

describe("a random message", () => {
  it("comes back bit for bit, whatever is in it and however small the chunks", async () => {
    await fc.assert(
      fc.asyncProperty(testMessage, fc.integer({ min: 1, max: 120 }), async (bytes, maxChunkSize) => {
        const splitter = new MessageSplitter(TestMessageSchema, bytes, { maxChunkSize });
        expectBytes(await throughFile(splitter), bytes);
        expectBytes(await throughMemory(await splitter.split(), TestMessageSchema), bytes);
      }),
      { numRuns: 1500 },
    );
  });
});

/** All tags of a ChunkedMessage with the depth of the list they stand in. */
function tagsOf(message: ChunkedMessage, depth = 0): { text: string; depth: number }[] {
  return message.chunkedFields.flatMap(({ fieldTag, message: inner }) => [
    { text: formatTag(fieldTag), depth },
    ...(inner === undefined ? [] : tagsOf(inner, depth + 1)),
  ]);
}

describe("what leaves a message", () => {
  const text = (length: number, seed = 1) =>
    Uint8Array.from({ length }, (_, i) => ((i * 7919 + seed * 104_729) >>> 3) & 0xff);

  it("leaves an empty field behind, so that a merger finds the place", async () => {
    const node = create(NodeDefSchema, {
      name: "c",
      op: "Const",
      attr: { value: { value: { case: "tensor", value: create(TensorProtoSchema, { tensorContent: text(500) }) } } },
    });
    const { chunks } = await new MessageSplitter(NodeDefSchema, node, { maxChunkSize: 300 }).split();
    expect(chunks.map(({ type, path }) => [type, path])).toEqual([
      ["message", ""],
      ["bytes", 'attr["value"].tensor.tensor_content'],
    ]);
    const root = fromBinary(NodeDefSchema, await bytesOf(chunks[0]!.source));
    const value = root.attr.value?.value;
    expect(value?.case === "tensor" && value.value.tensorContent.length).toBe(0);
  });

  it("comes from every meta graph, and from the object graph", async () => {
    const graph = (seed: number) =>
      create(MetaGraphDefSchema, {
        graphDef: create(GraphDefSchema, {
          node: [{ name: "c", op: "Const", attr: { value: { value: { case: "s", value: text(400, seed) } } } }],
        }),
        objectGraphDef: {
          nodes: Array.from({ length: 40 }, (_, i) => ({
            kind: { case: "userObject" as const, value: { identifier: `object ${i}` } },
          })),
        },
      });
    const model = create(SavedModelSchema, { metaGraphs: [graph(1), graph(2)] });
    const splitter = new SavedModelSplitter(model, { maxChunkSize: 300 });
    const { chunks } = await splitter.split();
    const paths = chunks.map(({ path }) => path);
    for (const i of [0, 1]) {
      expect(paths).toContain(`meta_graphs[${i}].graph_def.node[0].attr["value"].s`);
      expect(paths.filter((path) => path === `meta_graphs[${i}].object_graph_def`).length).toBeGreaterThan(1);
    }
    expectBytes(await throughFile(splitter), toBinary(SavedModelSchema, model));
  });

  it("is cut from a long list of strings between its elements", async () => {
    const tensor = create(TensorProtoSchema, {
      dtype: DataType.DT_STRING,
      stringVal: Array.from({ length: 50 }, (_, i) => text(30, i)),
    });
    const splitter = new MessageSplitter(TensorProtoSchema, tensor, { maxChunkSize: 200 });
    const { chunks, warnings } = await splitter.split();
    expect(chunks.length).toBeGreaterThan(6);
    expect(Math.max(...chunks.map(({ source }) => source.size))).toBeLessThanOrEqual(200);
    expect(warnings).toEqual([]);
    expectBytes(await throughFile(splitter), toBinary(TensorProtoSchema, tensor));
  });

  it("is cut from packed numbers between its elements, and every piece can be parsed", async () => {
    const tensor = create(TensorProtoSchema, {
      floatVal: Array.from({ length: 300 }, (_, i) => i / 3),
      int64Val: Array.from({ length: 300 }, (_, i) => BigInt(i) ** 5n),
      boolVal: [true, false],
    });
    const bytes = toBinary(TensorProtoSchema, tensor);
    const splitter = new MessageSplitter(TensorProtoSchema, bytes, { maxChunkSize: 101 });
    const { chunks } = await splitter.split();
    const all = create(TensorProtoSchema);
    for (const { source } of chunks) {
      expect(source.size).toBeLessThanOrEqual(101);
      const part = fromBinary(TensorProtoSchema, await bytesOf(source));
      all.floatVal.push(...part.floatVal);
      all.int64Val.push(...part.int64Val);
      all.boolVal.push(...part.boolVal);
    }
    expect(all.floatVal).toEqual(tensor.floatVal.map(Math.fround));
    expect(all.int64Val).toEqual(tensor.int64Val);
    expectBytes(await throughFile(splitter), bytes);
  });

  it("stands in one nested list where several pieces lie below one map key", async () => {
    const node = create(NodeDefSchema, {
      name: "strings",
      attr: {
        value: {
          value: {
            case: "tensor",
            value: create(TensorProtoSchema, { stringVal: Array.from({ length: 40 }, (_, i) => text(20, i)) }),
          },
        },
      },
    });
    const graph = create(GraphDefSchema, { node: [node] });
    const splitter = new GraphDefSplitter(graph, { maxChunkSize: 150 });
    const tags = tagsOf((await splitter.split()).chunkedMessage);
    const outer = tags.filter(({ depth, text: tag }) => depth === 0 && tag.includes('["value"]'));
    expect(outer.length).toBe(1);
    // Below the key all tags are alike, so nothing depends on an order that TensorFlow leaves open.
    expect(tags.some(({ depth }) => depth === 1)).toBe(true);
    expectBytes(await throughFile(splitter), toBinary(GraphDefSchema, graph));
  });

  it("stays where a merger could not put it back, with a warning", async () => {
    // A singular field that occurs twice: the second counts, and nobody may take the first for a hole.
    const twice = Uint8Array.of(0x12, 3, 1, 2, 3, ...[0x0a, 60], ...text(60), ...[0x0a, 60], ...text(60, 2));
    const splitter = new MessageSplitter(NodeDefSchema, twice, { maxChunkSize: 50 });
    const { chunks, warnings } = await splitter.split();
    expect(chunks.length).toBe(1);
    expect(warnings).toEqual([expect.stringMatching(/the root stays whole with 129 bytes, over 50/)]);
  });

  it("stays below a map key that TensorFlow would cut to 32 bits", async () => {
    const frames = (keys: readonly bigint[]) =>
      create(GraphDebugInfoSchema, {
        framesById: Object.fromEntries(
          keys.map((key) => [String(key), { func: "f".repeat(200), code: "c".repeat(200) }]),
        ),
      });
    const leaving = async (keys: readonly bigint[]) => {
      const { chunks } = await new MessageSplitter(GraphDebugInfoSchema, frames(keys), { maxChunkSize: 300 }).split();
      return chunks.map(({ path }) => path).filter((path) => path !== "");
    };
    expect(await leaving([5n])).toEqual(["frames_by_id[5].func", "frames_by_id[5].code"]);
    expect(await leaving([2n ** 40n])).toEqual([]);
  });

  it("is stored once when two constants hold the same bytes", async () => {
    const constant = (name: string, seed: number) => ({
      name,
      op: "Const",
      attr: { value: { value: { case: "s" as const, value: text(600, seed) } } },
    });
    const graph = create(GraphDefSchema, {
      node: [constant("a", 1), constant("b", 2), constant("c", 1), constant("d", 1)],
    });
    const splitter = new GraphDefSplitter(graph, { maxChunkSize: 300 });
    const { chunks, chunkedMessage } = await splitter.split();
    expect(chunks.filter(({ type }) => type === "bytes").length).toBe(2);
    expect(
      tagsOf(chunkedMessage).filter(({ text: tag }) => /5\["value"\]/.test(tag) || tag.includes('["value"]')).length,
    ).toBe(4);
    expectBytes(await throughFile(splitter), toBinary(GraphDefSchema, graph));
  });
});
