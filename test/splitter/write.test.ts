import { create, fromBinary } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { GraphDefSchema } from "../../src/proto/gen/tensorflow/core/framework/graph_pb.js";
import { SavedModelSchema } from "../../src/proto/gen/tensorflow/core/protobuf/saved_model_pb.js";
import { ChunkedFile } from "../../src/splitter/chunked-file.js";
import { Merger } from "../../src/splitter/merger.js";
import { GraphDefSplitter, SavedModelSplitter } from "../../src/splitter/splitters.js";
import { EXTENDED_JOIN_VERSION } from "../../src/splitter/version.js";
import { expectBytes } from "../support/bytes.js";
import { readFixture } from "../support/fixtures.js";

const MODEL = readFixture("cpb/models/bigconst/saved_model.pb");
const OLD = Uint8Array.of(8, 1);
const splitter = (maxChunkSize: number) => new SavedModelSplitter(MODEL, { maxChunkSize });

async function names(files: MemoryStore): Promise<string[]> {
  return (await files.list("")).map(({ path }) => path);
}

async function mergedBytes(files: MemoryStore, prefix = "m"): Promise<Uint8Array> {
  const merged = await Merger.read(prefix, SavedModelSchema, { files, check: true });
  const source = await merged.toSource();
  const bytes = new Uint8Array(await source.read(0, source.size));
  await merged.verify();
  await merged.close();
  return bytes;
}

describe("write", () => {
  it("writes PREFIX.pb when nothing was split, and PREFIX.cpb when something was", async () => {
    const files = new MemoryStore();
    expect(await splitter(2 ** 30).write("whole", { files })).toMatchObject({
      path: "whole.pb",
      isSplit: false,
      chunkCount: 1,
    });
    expect(await splitter(50_000).write("cut", { files })).toMatchObject({ path: "cut.cpb", isSplit: true });
    expect(await names(files)).toEqual(["cut.cpb", "whole.pb"]);
  });

  it.each([
    ["m.cpb", 50_000],
    ["m.pb", 50_000],
    ["m.cpb", 2 ** 30],
    ["m.pb", 2 ** 30],
  ])("refuses to write beside %s, and with overwrite leaves one file only", async (existing, maxChunkSize) => {
    const files = new MemoryStore([[existing, OLD]]);
    const wanted = maxChunkSize === 50_000 ? "m.cpb" : "m.pb";
    await expect(splitter(maxChunkSize).write("m", { files })).rejects.toMatchObject({
      code: "exists",
      file: existing,
    });
    expect(await names(files)).toEqual([existing]);
    await splitter(maxChunkSize).write("m", { files, overwrite: true });
    expect(await names(files)).toEqual([wanted]);
    expectBytes(await mergedBytes(files), MODEL);
  });

  it("leaves the old state when it fails in the middle", async () => {
    const files = new MemoryStore([["m.pb", OLD]]);
    const failing = { files, overwrite: true, beforeCommit: async () => Promise.reject(new Error("stop")) };
    await expect(splitter(50_000).write("m", failing)).rejects.toThrow("stop");
    expect(await names(files)).toEqual(["m.pb"]);
  });

  it("stops when it is aborted", async () => {
    const controller = new AbortController();
    const files = new MemoryStore();
    controller.abort(new Error("enough"));
    await expect(splitter(50_000).write("m", { files, signal: controller.signal })).rejects.toThrow("enough");
    expect(await files.stat("m.cpb")).toBeUndefined();
  });

  it("writes the metadata that TensorFlow writes: splitter version 1, join version 0, sizes and positions", async () => {
    const files = new MemoryStore();
    await splitter(50_000).write("m", { files });
    const { chunks } = await splitter(50_000).split();
    const file = await ChunkedFile.open(await files.open("m.cpb"));
    expect(file.metadata.version).toMatchObject({ splitterVersion: 1, joinVersion: 0, badConsumers: [] });
    expect(file.metadata.chunks.map(({ size }) => Number(size))).toEqual(chunks.map(({ source }) => source.size));
    for (const [index, { source }] of chunks.entries()) {
      const record = await file.record(index);
      expectBytes(new Uint8Array(await record.read(0, record.size)), new Uint8Array(await source.read(0, source.size)));
    }
  });
});

describe("what goes beyond TensorFlow", () => {
  it("spreads chunks over several files, the one that names them last", async () => {
    const files = new MemoryStore();
    await splitter(20_000).write("m", { files, compression: "none", extended: { maxFileSize: 60_000 } });
    const all = await names(files);
    expect(all.length).toBeGreaterThan(2);
    expect(all.filter((name) => /^m\.[0-9a-z]+\.\d{5}\.cpb$/.test(name)).length).toBe(all.length - 1);
    expectBytes(await mergedBytes(files), MODEL);
    const file = await ChunkedFile.open(await files.open("m.cpb"));
    expect(file.metadata.version?.joinVersion).toBe(EXTENDED_JOIN_VERSION);
  });

  it("removes the chunk files of an earlier write when it overwrites", async () => {
    const files = new MemoryStore();
    await splitter(20_000).write("m", { files, extended: { maxFileSize: 60_000 } });
    const before = await names(files);
    await splitter(20_000).write("m", { files, overwrite: true, extended: { maxFileSize: 100_000 } });
    const after = await names(files);
    expect(after.filter((name) => before.includes(name))).toEqual(["m.cpb"]);
    expectBytes(await mergedBytes(files), MODEL);
  });

  it("moves a tree of chunks that is too large into chunks", async () => {
    const files = new MemoryStore();
    await splitter(500).write("m", { files, extended: { maxTreeSize: 400 } });
    const file = await ChunkedFile.open(await files.open("m.cpb"));
    const tree = file.metadata.message;
    expect(tree?.chunkedFields.length).toBeGreaterThan(2);
    expect(tree?.chunkedFields.every(({ message }) => message?.cairnTreeChunk !== undefined)).toBe(true);
    expectBytes(await mergedBytes(files), MODEL);
  });

  it("refers to chunks that are in another file already", async () => {
    const files = new MemoryStore();
    await splitter(20_000).write("first", { files });
    const first = await ChunkedFile.open(await files.open("first.cpb"));
    const offsets = first.metadata.chunks.map(({ offset }) => Number(offset));
    const external = (chunk: { type: string }, index: number) =>
      chunk.type === "bytes" ? { file: "first.cpb", offset: offsets[index]! } : undefined;
    const written = await splitter(20_000).write("m", { files, extended: { external } });
    expect(written.byteLength).toBeLessThan(60_000);
    expectBytes(await mergedBytes(files), MODEL);
  });

  it.each(["../other.cpb", "/etc/passwd", "a/../../b.cpb", "a\\..\\b", "nul\0"])(
    "does not follow %j out of the folder",
    async (file) => {
      const files = new MemoryStore();
      const external = (chunk: { type: string }) => (chunk.type === "bytes" ? { file, offset: 64 } : undefined);
      await splitter(20_000).write("m", { files, extended: { external } });
      await expect(mergedBytes(files)).rejects.toMatchObject({ code: "chunk-metadata", actual: file });
    },
  );

  it("says which file is missing", async () => {
    const files = new MemoryStore();
    await splitter(20_000).write("m", { files, extended: { maxFileSize: 60_000 } });
    const [part] = (await names(files)).filter((name) => name !== "m.cpb");
    await files.remove(part!);
    await expect(mergedBytes(files)).rejects.toMatchObject({ code: "not-found", file: expect.stringContaining(part!) });
  });
});

describe("reading", () => {
  it("takes .cpb before .pb, and tells of the other", async () => {
    const files = new MemoryStore([["m.pb", OLD]]);
    await splitter(50_000).write("other", { files });
    await files.rename("other.cpb", "m.cpb");
    const merged = await Merger.read("m", undefined, { files });
    expect(merged.isSplit).toBe(true);
    expect(merged.ignoredPath).toBe("m.pb");
  });

  it("says so when there is neither", async () => {
    await expect(Merger.read("m", undefined, { files: new MemoryStore() })).rejects.toMatchObject({
      code: "not-found",
      file: "m",
    });
  });

  it("merges a part when the metadata was pruned, and leaves the rest as it stands in the root", async () => {
    const files = new MemoryStore();
    await splitter(20_000).write("m", { files });
    const { metadata } = await ChunkedFile.open(await files.open("m.cpb"));
    metadata.message!.chunkedFields = metadata.message!.chunkedFields.filter(({ fieldTag }) => fieldTag.length <= 3);
    const part = await Merger.readPartial("m", metadata, SavedModelSchema, { files });
    const model = await part.toMessage(SavedModelSchema);
    expect(model.metaGraphs[0]?.graphDef?.node.length).toBe(10);
    const value = model.metaGraphs[0]?.graphDef?.node[2]?.attr.value?.value;
    expect(value?.case === "tensor" && value.value.tensorContent.length).toBe(0);
    await expect(Merger.readPartial("none", metadata, SavedModelSchema, { files })).rejects.toMatchObject({
      code: "not-found",
    });
  });

  it("reads only the chunks of what is looked at", async () => {
    const files = new MemoryStore();
    await splitter(20_000).write("m", { files, compression: "none" });
    const bytes = await files.open("m.cpb");
    let read = 0;
    const counting = {
      open: async () => ({
        ...bytes,
        name: "m.cpb",
        size: bytes.size,
        close: async () => {},
        slice: () => {
          throw new Error("not needed");
        },
        read: (offset: number, length: number) => {
          read += length;
          return bytes.read(offset, length);
        },
        readPieces: (offset: number, length: number, scratch: Uint8Array) => {
          read += Math.min(length, scratch.length);
          return bytes.read(offset, Math.min(length, scratch.length)).then((piece) => [piece]);
        },
      }),
      stat: (path: string) => files.stat(path),
      scratch: () => files.scratch(),
    } as unknown as MemoryStore;
    const merged = await Merger.read("m", SavedModelSchema, { files: counting });
    const list = await merged.view.open();
    expect(list.count(2)).toBe(1);
    // The root shares its Riegeli chunk with other small chunks; the constants do not.
    expect(read).toBeLessThan(60_000);
  });
});

describe("the schema of a message in memory", () => {
  it("is what its type says, also for graphs", async () => {
    const graph = create(GraphDefSchema, {
      node: Array.from({ length: 30 }, (_, i) => ({ name: `n${i}`, op: "NoOp" })),
    });
    const { chunks, chunkedMessage } = await new GraphDefSplitter(graph, { maxChunkSize: 60 }).split();
    expect(chunks.length).toBeGreaterThan(5);
    const view = Merger.merge(chunks, chunkedMessage, GraphDefSchema);
    const source = await view.toSource();
    expect(fromBinary(GraphDefSchema, await source.read(0, source.size))).toEqual(graph);
  });
});
