import { create, toBinary } from "@bufbuild/protobuf";
import { beforeEach, describe, expect, it } from "vitest";
import { MemorySink } from "../../src/bytes/byte-sink.js";
import { MemorySource } from "../../src/bytes/memory-source.js";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { inspect, outlineToJson } from "../../src/ops/inspect.js";
import { verify } from "../../src/ops/verify.js";
import { SavedModelSchema } from "../../src/proto/gen/tensorflow/core/protobuf/saved_model_pb.js";
import {
  ChunkedMessageSchema,
  ChunkInfo_Type,
  ChunkMetadataSchema,
} from "../../src/proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
import { RecordWriter } from "../../src/riegeli/record-writer.js";
import { Merger } from "../../src/splitter/merger.js";
import { SavedModelSplitter } from "../../src/splitter/splitters.js";
import { EXTENDED_JOIN_VERSION } from "../../src/splitter/version.js";
import { readFixture } from "../support/fixtures.js";

const MODEL = readFixture("cpb/models/bigconst/saved_model.pb");
const CONTENT = 'meta_graphs[0].graph_def.node[2].attr["value"].tensor.tensor_content';

async function bytesOf(files: MemoryStore, path: string): Promise<Uint8Array> {
  const source = await files.open(path);
  return new Uint8Array(await source.read(0, source.size));
}

async function put(files: MemoryStore, path: string, bytes: Uint8Array): Promise<void> {
  const sink = await files.create(path, { overwrite: true });
  await sink.write(bytes);
  await sink.close();
}

async function chunkNodes(files: MemoryStore) {
  const { root, close } = await inspect(files, "m.cpb");
  const chunks = (await root.children?.())?.find(({ kind }) => kind === "chunks");
  const json = chunks === undefined ? undefined : await outlineToJson(chunks, 1);
  await close();
  return json;
}

describe("a .cpb over several files", () => {
  let files: MemoryStore;
  let parts: string[];
  beforeEach(async () => {
    files = new MemoryStore();
    const splitter = new SavedModelSplitter(MODEL, { maxChunkSize: 20_000 });
    await splitter.write("m", { files, compression: "none", extended: { maxFileSize: 60_000 } });
    parts = (await files.list("")).map(({ path }) => path).filter((path) => path !== "m.cpb");
  });

  it("is found good, with the records of every file named by what they are", async () => {
    expect(parts.length).toBeGreaterThan(1);
    const { ok, findings, good } = await verify(files, "m.cpb");
    expect({ ok, findings }).toEqual({ ok: true, findings: [] });
    const names = good.map(({ what }) => what);
    expect(names).toContain(CONTENT);
    expect(names.at(-1)).toBe("all chunks merge to a SavedModel");
    expect(names.some((name) => name.startsWith("simple chunk"))).toBe(false);
  });

  it("is damaged where a byte of a part is: the part, the chunk and the tensor are named", async () => {
    for (const part of parts) {
      const bytes = await bytesOf(files, part);
      const at = bytes.length - 100;
      bytes[at] = (bytes[at] as number) ^ 4;
      await put(files, part, bytes);
      const { ok, findings } = await verify(files, "m.cpb");
      expect(ok).toBe(false);
      expect(findings).toMatchObject([{ severity: "error", code: "chunk-data", file: part }]);
      expect(findings[0]?.key).toMatch(/^meta_graphs\[0\]/);
      bytes[at] = (bytes[at] as number) ^ 4;
      await put(files, part, bytes);
    }
    expect((await verify(files, "m.cpb")).ok).toBe(true);
  });

  it("without one of its parts is damaged, and what that held is told", async () => {
    const lostPart = parts.at(-1) as string;
    await files.remove(lostPart);
    const { ok, findings, good } = await verify(files, "m.cpb");
    expect(ok).toBe(false);
    expect(findings).toMatchObject([{ severity: "error", code: "not-found", file: lostPart }]);
    expect(findings[0]?.key).toMatch(/^meta_graphs\[0\]/);
    expect(good.length).toBeGreaterThan(1);
    const chunks = await chunkNodes(files);
    const lost = chunks?.children?.filter(({ facts }) => facts?.error === "not-found") ?? [];
    expect(lost.length).toBeGreaterThan(0);
    expect(chunks?.children?.length).toBeGreaterThan(lost.length + 1);
  });

  it("is warned of beside parts that an earlier write left", async () => {
    await put(files, "m.abc.00001.cpb", await bytesOf(files, parts[0] as string));
    await put(files, "other.abc.00001.cpb", Uint8Array.of(1));
    const { ok, findings } = await verify(files, "m.cpb");
    expect(ok).toBe(true);
    expect(findings).toMatchObject([{ severity: "warning", code: "ignored-file", file: "m.abc.00001.cpb" }]);
  });

  it("is inspected with the file and the bytes of each chunk", async () => {
    const chunks = await chunkNodes(files);
    expect(chunks).toMatchObject({ facts: { files: parts } });
    const ranges = (chunks?.children ?? []).map(({ range }) => range);
    expect(new Set(ranges.map((range) => range?.file))).toEqual(new Set(["m.cpb", ...parts]));
    for (const part of parts) {
      const ends = ranges.filter((range) => range?.file === part).map((range) => range?.end ?? 0);
      expect(Math.max(...ends)).toBe((await bytesOf(files, part)).length);
    }
  });

  it.each(["../other.cpb", "/etc/passwd", "a\\b.cpb"])("does not follow %s out of the folder", async (file) => {
    const outside = new MemoryStore([["etc/passwd", MODEL]]);
    await new SavedModelSplitter(MODEL, { maxChunkSize: 20_000 }).write("in/m", {
      files: outside,
      extended: { external: (_chunk, index) => (index === 3 ? { file, offset: 64 } : undefined) },
    });
    const opened: string[] = [];
    const open = outside.open.bind(outside);
    outside.open = (path) => {
      opened.push(path);
      return open(path);
    };
    const { findings } = await verify(outside, "in/m.cpb");
    expect(findings).toMatchObject([{ code: "chunk-metadata", file: "in/m.cpb", key: CONTENT }]);
    expect(findings[0]?.message).toContain("leaves the folder");
    expect(new Set(opened)).toEqual(new Set(["in/m.cpb"]));
  });
});

describe("a .cpb with its tree in chunks", () => {
  it("is verified and inspected with every chunk named", async () => {
    const files = new MemoryStore();
    await new SavedModelSplitter(MODEL, { maxChunkSize: 500 }).write("m", { files, extended: { maxTreeSize: 400 } });
    const { ok, findings, good } = await verify(files, "m.cpb");
    expect({ ok, findings }).toEqual({ ok: true, findings: [] });
    expect(good.at(-1)?.what).toBe("all chunks merge to a SavedModel");
    const details = ((await chunkNodes(files))?.children ?? []).map(({ detail }) => detail ?? "");
    expect(details.filter((detail) => detail.includes("no field names it"))).toEqual([]);
    expect(details.filter((detail) => detail.includes("(tree of chunks)")).length).toBeGreaterThan(1);
    expect(details.some((detail) => detail.includes(CONTENT))).toBe(true);
  });

  /** A file of a root chunk and one part of the tree, which has these fields. */
  async function withTree(root: bigint[], part: bigint[]): Promise<MemoryStore> {
    const fields = (indexes: bigint[]) =>
      create(ChunkedMessageSchema, {
        chunkIndex: 0n,
        chunkedFields: indexes.map((cairnTreeChunk) => ({ message: { cairnTreeChunk } })),
      });
    const sink = new MemorySink("m.cpb");
    const writer = new RecordWriter(sink, { compression: "none" });
    const tree = toBinary(ChunkedMessageSchema, fields(part));
    await writer.write(new MemorySource(MODEL));
    await writer.write(new MemorySource(tree));
    await writer.flush();
    const chunks = [MODEL, tree].map((bytes, i) => ({
      type: ChunkInfo_Type.MESSAGE,
      size: BigInt(bytes.length),
      offset: BigInt(writer.positions[i] as number),
    }));
    const version = { splitterVersion: 1, joinVersion: EXTENDED_JOIN_VERSION };
    const metadata = create(ChunkMetadataSchema, { version, chunks, message: fields(root) });
    await writer.write(new MemorySource(toBinary(ChunkMetadataSchema, metadata)));
    await writer.finish();
    return new MemoryStore([["m.cpb", sink.bytes]]);
  }

  it.each([
    ["names itself", [1n], [1n]],
    ["is named twice", [1n, 1n], []],
    ["is beyond the chunks", [2n], []],
  ])("is refused when a part of the tree %s", async (_, root, part) => {
    const files = await withTree(root, part);
    const merging = Merger.read("m", SavedModelSchema, { files }).then((merged) => merged.toSource());
    await expect(merging).rejects.toMatchObject({ code: "chunk-index", file: "m.cpb" });
    expect((await verify(files, "m.cpb")).findings).toMatchObject([{ code: "chunk-index", file: "m.cpb" }]);
    await expect(inspect(files, "m.cpb")).rejects.toMatchObject({ code: "chunk-index" });
  });

  it("is read when its parts are named as they should be", async () => {
    expect((await verify(await withTree([1n], []), "m.cpb")).ok).toBe(true);
  });
});
