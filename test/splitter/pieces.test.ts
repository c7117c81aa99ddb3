import { create, toBinary } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { concatBytes, MemorySink } from "../../src/bytes/byte-sink.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { TensorProtoSchema } from "../../src/proto/gen/tensorflow/core/framework/tensor_pb.js";
import { SavedModelSchema } from "../../src/proto/gen/tensorflow/core/protobuf/saved_model_pb.js";
import {
  type ChunkedMessage,
  ChunkedMessageSchema,
  ChunkMetadataSchema,
} from "../../src/proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
import { VersionDefSchema } from "../../src/proto/gen/tensorflow/tools/proto_splitter/versions_pb.js";
import { RecordWriter } from "../../src/riegeli/record-writer.js";
import { chunkTree } from "../../src/splitter/chunk-tree.js";
import { ChunkedFile } from "../../src/splitter/chunked-file.js";
import { ComposableSplitter } from "../../src/splitter/composable-splitter.js";
import { shareEqualChunks } from "../../src/splitter/equal-chunks.js";
import { encodeTag, type FieldTags, parseFieldTags } from "../../src/splitter/field-tag.js";
import { Merger } from "../../src/splitter/merger.js";
import { splitSizesFor } from "../../src/splitter/split-message.js";
import { MessageSplitter, SavedModelSplitter } from "../../src/splitter/splitters.js";
import { checkVersion, EXTENDED_JOIN_VERSION } from "../../src/splitter/version.js";
import { expectBytes } from "../support/bytes.js";
import { readFixture } from "../support/fixtures.js";
import { PlainSource, randomBytes } from "../support/odd-sources.js";
import { delimited, TestMessageSchema, varintField } from "../support/test-schema.js";
import { fieldBytes } from "../support/wire-model.js";

const MiB = 2 ** 20;
const utf8 = (text: string) => new TextEncoder().encode(text);

describe("splitSizesFor", () => {
  it("takes a third of a chunk for large, as TensorFlow does, and keeps message chunks and values small", () => {
    expect(splitSizesFor(300)).toEqual({ message: 300, nested: 100, value: 100 });
    expect(splitSizesFor(MiB)).toEqual({ message: MiB, nested: 349_525, value: 262_144 });
    expect(splitSizesFor(2 ** 30)).toEqual({ message: 16 * MiB, nested: 5_592_405, value: 262_144 });
  });
});

describe("shareEqualChunks", () => {
  const chunkOf = (bytes: Uint8Array, type: "message" | "bytes" = "bytes") => ({
    type,
    path: "",
    source: new PlainSource(bytes),
  });
  const treeOf = (count: number): ChunkedMessage =>
    create(ChunkedMessageSchema, {
      chunkedFields: Array.from({ length: count }, (_, i) => ({ message: { chunkIndex: BigInt(i) } })),
    });
  const shared = async (all: readonly Uint8Array[], type: "message" | "bytes" = "bytes") => {
    const tree = treeOf(all.length);
    const kept = await shareEqualChunks(
      all.map((bytes) => chunkOf(bytes, type)),
      tree,
    );
    return { kept: kept.length, names: tree.chunkedFields.map(({ message }) => Number(message?.chunkIndex)) };
  };
  /** Bytes that are alike in the middle, where samples are taken. */
  const variant = (mark: number) => {
    const bytes = new Uint8Array(5000);
    bytes[0] = mark;
    return bytes;
  };
  const lateVariant = (mark: number) => variant(0).with(4999, mark);

  it("keeps one of each, and has all fields name that", async () => {
    const [a, b, c] = [randomBytes(900, 1), randomBytes(900, 2), randomBytes(901, 3)];
    expect(await shared([a, a, b, c, b, a, c])).toEqual({ kept: 3, names: [0, 0, 1, 2, 1, 0, 2] });
    expect(await shared([a, b, c])).toEqual({ kept: 3, names: [0, 1, 2] });
  });

  it("compares all bytes, whatever their samples", async () => {
    expect(await shared([variant(1), variant(2), variant(1)])).toEqual({ kept: 2, names: [0, 1, 0] });
    expect(await shared([lateVariant(1), lateVariant(2)])).toEqual({ kept: 2, names: [0, 1] });
    expect(await shared([variant(1), variant(2), variant(3), variant(4), variant(1)])).toMatchObject({ kept: 4 });
  });

  it("does not share messages", async () => {
    expect(await shared([variant(1), variant(1)], "message")).toEqual({ kept: 2, names: [0, 1] });
  });
});

describe("chunkTree", () => {
  it("keeps each slice within the size, the order and the root", () => {
    const chunkedFields = Array.from({ length: 50 }, (_, i) => ({
      fieldTag: encodeTag(parseFieldTags(TestMessageSchema, ["children", i])),
      message: { chunkIndex: BigInt(i + 1) },
    }));
    const message = create(ChunkedMessageSchema, { chunkIndex: 0n, chunkedFields });
    const { message: root, chunks } = chunkTree(message, [], 100);
    expect(root.chunkIndex).toBe(0n);
    expect(chunks.length).toBeGreaterThan(5);
    for (const { source } of chunks) expect(source.size).toBeLessThanOrEqual(100);
    expect(root.chunkedFields.map(({ message: one }) => Number(one?.cairnTreeChunk))).toEqual([...chunks.keys()]);
    const joined = concatBytes(chunks.map(({ source }) => (source as MemorySource).bytes));
    expectBytes(joined, toBinary(ChunkedMessageSchema, create(ChunkedMessageSchema, { chunkedFields })));
    expect(chunkTree(message, [], 100_000)).toEqual({ message, chunks: [] });
  });
});

describe("checkVersion", () => {
  const check = (version: { joinVersion?: number; badConsumers?: number[]; splitterVersion?: number }) =>
    checkVersion(create(VersionDefSchema, version), "m.cpb");

  it("takes version 0, whatever the splitter's version, and that of cairn's own extensions", () => {
    expect(() => checkVersion(undefined, "m.cpb")).not.toThrow();
    for (const joinVersion of [0, EXTENDED_JOIN_VERSION]) check({ joinVersion, splitterVersion: 99 });
    check({ badConsumers: [1, 2, 3] });
  });

  it.each([1, 2, 999, 1001, 5000])(
    "refuses join version %i: names what is needed, what there is and what to do",
    (joinVersion) => {
      expect(() => check({ joinVersion })).toThrow(
        expect.objectContaining({
          code: "unsupported-version",
          file: "m.cpb",
          expected: `a merger of version ${joinVersion}`,
          actual: expect.stringContaining("versions 0 and 1000"),
          hint: expect.stringMatching(/^Update cairn, .*--ignore-version/),
        }),
      );
    },
  );

  it("refuses a file that does not want to be read by this version", () => {
    expect(() => check({ badConsumers: [7, 0] })).toThrow(
      expect.objectContaining({ code: "unsupported-version", hint: expect.stringContaining("Update cairn") }),
    );
  });
});

/** Merges chunks in memory at places of a TestMessage, the first into the root. */
async function merge(root: Uint8Array, parts: readonly [FieldTags, Uint8Array][]): Promise<Uint8Array> {
  const message = create(ChunkedMessageSchema, {
    chunkIndex: 0n,
    chunkedFields: parts.map(([tags], i) => ({
      fieldTag: encodeTag(parseFieldTags(TestMessageSchema, tags)),
      message: { chunkIndex: BigInt(i + 1) },
    })),
  });
  const view = Merger.merge([root, ...parts.map(([, bytes]) => bytes)], message, TestMessageSchema);
  const source = await view.toSource();
  return source.read(0, source.size);
}

describe("Merger.merge", () => {
  it("takes the fields in the order of the list: a later whole message changes what came below it before", async () => {
    const inner = (value: number) => delimited(17, varintField(2, value));
    expectBytes(
      await merge(new Uint8Array(0), [
        [["inner"], varintField(2, 1)],
        [[], inner(2)],
      ]),
      inner(2),
    );
    expectBytes(
      await merge(new Uint8Array(0), [
        [[], inner(2)],
        [["inner"], varintField(2, 1)],
      ]),
      inner(1),
    );
  });

  it("sets a number once, however often it stands in the root", async () => {
    const root = concatBytes([varintField(3, 1), varintField(4, 9), varintField(3, 2)]);
    const got = await merge(root, [[["one_int32"], utf8("7")]]);
    expect(fieldBytes(got)).toHaveLength(2);
    expectBytes(
      concatBytes(fieldBytes(got).sort((a, b) => a[0]! - b[0]!)),
      concatBytes([varintField(3, 7), varintField(4, 9)]),
    );
  });

  it("refuses an index that is just behind the last chunk", async () => {
    const message = create(ChunkedMessageSchema, { chunkIndex: 1n });
    const view = Merger.merge([new Uint8Array(0)], message, TestMessageSchema);
    await expect(view.toSource()).rejects.toMatchObject({ code: "chunk-index", expected: "less than 1" });
  });
});

describe("a split that keeps its hands off", () => {
  const throughMemory = async (bytes: Uint8Array, maxChunkSize: number) => {
    const { chunks, chunkedMessage } = await new MessageSplitter(TestMessageSchema, bytes, { maxChunkSize }).split();
    const source = await Merger.merge(chunks, chunkedMessage, TestMessageSchema).toSource();
    expectBytes(new Uint8Array(await source.read(0, source.size)), bytes);
    return chunks.map(({ path }) => path);
  };
  const large = (seed: number) => delimited(2, delimited(3, randomBytes(400, seed)));
  const entry = (key: Uint8Array, seed: number) => delimited(72, delimited(1, key), large(seed));

  it("takes a large value out of a map entry", async () => {
    expect(await throughMemory(entry(utf8("a"), 1), 300)).toContain('map_string["a"].payload');
  });

  it("leaves entries whose key stands twice, or is no UTF-8", async () => {
    const twice = concatBytes([entry(utf8("a"), 1), entry(utf8("a"), 2)]);
    expect((await throughMemory(twice, 300)).filter((path) => path !== "")).toEqual([]);
    const notText = entry(Uint8Array.of(0xff, 0x61), 1);
    expect((await throughMemory(notText, 300)).filter((path) => path !== "")).toEqual([]);
  });

  it("cuts packed doubles between elements of 8 bytes", async () => {
    const tensor = create(TensorProtoSchema, { doubleVal: Array.from({ length: 100 }, (_, i) => i / 7) });
    const bytes = toBinary(TensorProtoSchema, tensor);
    for (const maxChunkSize of [99, 100, 101, 102, 103]) {
      const { chunks } = await new MessageSplitter(TensorProtoSchema, bytes, { maxChunkSize }).split();
      expect(chunks.length).toBeGreaterThan(7);
      for (const { source } of chunks.slice(1)) {
        const piece = await source.read(0, source.size);
        expect(fieldBytes(piece).every((field) => (field.length - 2) % 8 === 0)).toBe(true);
      }
    }
  });
});

describe("a splitter of one's own", () => {
  class Ordered extends ComposableSplitter {
    async buildChunks(): Promise<void> {
      this.addChunk(Uint8Array.of(8, 2), ["child"]);
      this.addChunk(Uint8Array.of(8, 3), ["child"]);
      this.addChunk(Uint8Array.of(8, 1), ["child"], 0);
    }
  }

  it("puts a chunk where it is told to among those of one place", async () => {
    const { chunks } = await new Ordered(TestMessageSchema, new Uint8Array(0)).split();
    const bytes = await Promise.all(chunks.slice(1).map(({ source }) => source.read(0, source.size)));
    expect(bytes.map((one) => one[1])).toEqual([1, 2, 3]);
  });
});

describe("a file of chunks", () => {
  async function fileWith(metadata: Uint8Array): Promise<MemorySource> {
    const sink = new MemorySink("m.cpb");
    const writer = new RecordWriter(sink, { compression: "none" });
    await writer.write(Uint8Array.of(8, 1));
    await writer.write(metadata);
    await writer.finish();
    return new MemorySource(sink.bytes, "m.cpb");
  }
  const metadata = toBinary(
    ChunkMetadataSchema,
    create(ChunkMetadataSchema, { chunks: [{ offset: 64n, size: 2n }], message: { chunkIndex: 0n } }),
  );

  it("ends with a ChunkMetadata and nothing that merely looks like one", async () => {
    expect((await ChunkedFile.open(await fileWith(metadata))).chunkCount).toBe(1);
    for (const other of [
      concatBytes([metadata, varintField(99, 1)]),
      toBinary(ChunkMetadataSchema, create(ChunkMetadataSchema, { chunks: [{ offset: 64n }] })),
      new Uint8Array(0),
      Uint8Array.of(0xff),
    ]) {
      await expect(ChunkedFile.open(await fileWith(other))).rejects.toMatchObject({
        code: "chunk-metadata",
        file: "m.cpb",
      });
    }
  });

  it("is verified to the end though only a part of a chunk was read", async () => {
    const files = new MemoryStore();
    const model = readFixture("cpb/models/bigconst/saved_model.pb");
    await new SavedModelSplitter(model, { maxChunkSize: 20_000 }).write("m", { files, compression: "none" });
    const source = await files.open("m.cpb");
    const bytes = (await source.read(0, source.size)).slice();
    const { metadata: info } = await ChunkedFile.open(source);
    const index = info.chunks.findIndex(({ size }) => size === 128_000n);
    // A byte near the end of the chunk.
    bytes[Number(info.chunks[index]!.offset) + 120_000]! ^= 1;
    const file = await ChunkedFile.open(new MemorySource(bytes, "m.cpb"));
    const chunk = await file.chunk(index, "bytes");
    expect((await chunk.read(5000, 100)).length).toBe(100);
    await expect(file.verifyUsed()).rejects.toMatchObject({ code: "chunk-data", file: "m.cpb" });
  });
});

describe("a proto in several files", () => {
  it("is named by the file that is closed last", async () => {
    const closed: string[] = [];
    class Noting extends MemoryStore {
      override async create(...args: Parameters<MemoryStore["create"]>) {
        const sink = await super.create(...args);
        const close = sink.close.bind(sink);
        sink.close = async () => {
          closed.push(sink.name);
          await close();
        };
        return sink;
      }
    }
    const model = readFixture("cpb/models/bigconst/saved_model.pb");
    const splitter = new SavedModelSplitter(model, { maxChunkSize: 20_000 });
    await splitter.write("m", { files: new Noting(), extended: { maxFileSize: 60_000 } });
    expect(closed.length).toBeGreaterThan(2);
    expect(closed.indexOf("m.cpb")).toBe(closed.length - 1);
    expect(splitter.message.rules.schema).toBe(SavedModelSchema);
  });
});
