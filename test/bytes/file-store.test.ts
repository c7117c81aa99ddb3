import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { MemoryStore, memoryScratch } from "../../src/bytes/memory-store.js";
import { LocalFiles } from "../../src/platform/node/local-files.js";
import { testFileStore } from "../conformance/file-store.js";

testFileStore("MemoryStore", () => ({ files: new MemoryStore(), root: "root" }));
testFileStore("MemoryStore at its top", () => ({ files: new MemoryStore(), root: "." }));
testFileStore("LocalFiles", async () => {
  const root = await mkdtemp(join(tmpdir(), "cairn-test-"));
  return { files: new LocalFiles(), root, close: () => rm(root, { recursive: true }) };
});

describe("MemoryStore", () => {
  it("has the files that it was made with", async () => {
    const files = new MemoryStore([["a/b", Uint8Array.of(1, 2)]]);
    expect(await files.stat("a")).toMatchObject({ kind: "directory" });
    expect((await files.list("."))[0]).toEqual({ path: "a", kind: "directory", size: 0 });
    expect((await files.open("a/b")).size).toBe(2);
  });

  it("keeps a file as it was when the bytes that were written change", async () => {
    const files = new MemoryStore();
    const bytes = Uint8Array.of(1, 2, 3);
    const sink = await files.create("file");
    await sink.write(bytes);
    bytes.fill(9);
    await sink.close();
    expect([...(await (await files.open("file")).read(0, 3))]).toEqual([1, 2, 3]);
  });
});

describe("memoryScratch", () => {
  it("refuses more than fits in memory before it takes any", async () => {
    await expect(memoryScratch(2 ** 30 + 1)).rejects.toMatchObject({ code: "limit" });
  });
});
