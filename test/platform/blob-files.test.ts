import { describe, expect, it } from "vitest";
import { openTensors } from "../../src/ops/tensors.js";
import { verify } from "../../src/ops/verify.js";
import { BlobFiles, fileSource } from "../../src/platform/browser/index.js";
import { testByteSource } from "../conformance/byte-source.js";
import { readFixture } from "../support/fixtures.js";
import { randomBytes } from "../support/odd-sources.js";

const BYTES = randomBytes(100_000, 3);

testByteSource("a chosen file", () => ({ source: fileSource(new File([BYTES], "x")), bytes: BYTES }));

describe("BlobFiles", () => {
  const files = new BlobFiles([
    ["folder/a.bin", new Blob([BYTES])],
    ["./folder//deep/b.bin", new Blob([BYTES.subarray(0, 5)])],
    ["c", new Blob([])],
  ]);

  it("knows files and the directories above them, by any spelling of the path", async () => {
    expect(await files.stat("folder/a.bin")).toEqual({ path: "folder/a.bin", kind: "file", size: BYTES.length });
    expect(await files.stat("./folder/deep/")).toMatchObject({ kind: "directory", size: 0 });
    expect(await files.stat("")).toMatchObject({ kind: "directory" });
    expect(await files.stat("folder/deep/b")).toBeUndefined();
    expect(await files.isSame("c", "./c")).toBe(true);
    expect(await files.isSame("d", "d")).toBe(false);
    expect(await files.list("folder")).toEqual([
      { path: "folder/a.bin", kind: "file", size: BYTES.length },
      { path: "folder/deep", kind: "directory", size: 0 },
    ]);
    expect((await files.list("")).map(({ path }) => path)).toEqual(["c", "folder"]);
  });

  it("says what is not there, and that nothing is written", async () => {
    await expect(files.open("nothing")).rejects.toMatchObject({ code: "not-found", file: "nothing" });
    await expect(files.list("nothing")).rejects.toMatchObject({ code: "not-found" });
    await expect(files.open("folder")).rejects.toMatchObject({ code: "usage" });
    const refused = [files.create("x"), files.remove("c"), files.rename("c")];
    for (const one of refused) await expect(one).rejects.toMatchObject({ code: "unsupported-operation" });
  });

  it("places the files of a chosen folder under its name", async () => {
    const file = Object.assign(new File([BYTES], "b.bin"), { webkitRelativePath: "model/deep/b.bin" });
    const chosen = BlobFiles.of([file, new File([], "top")]);
    expect(await chosen.stat("model/deep/b.bin")).toMatchObject({ kind: "file" });
    expect(await chosen.stat("top")).toMatchObject({ kind: "file", size: 0 });
  });

  it("opens models like any store", async () => {
    const blob = new Blob([readFixture("cpb/cpb/bigconst__40000_zstd3/saved_model.cpb")]);
    const model = new BlobFiles([["m.cpb", blob]]);
    expect((await verify(model, "m.cpb")).ok).toBe(true);
    const { tensors } = await openTensors(model, "m.cpb");
    expect(await tensors.info("Const_2")).toMatchObject({ dtype: "float32", shape: [4000, 8] });
    await tensors.close();
  });

  it("says so when the browser cannot read the file any more, or gives less of it", async () => {
    const gone = Object.assign(new Blob([BYTES]), {
      slice: () => ({ arrayBuffer: () => Promise.reject(new DOMException("gone", "NotReadableError")) }),
    });
    await expect(fileSource(gone as Blob).read(5, 7)).rejects.toMatchObject({ code: "read-failed", offset: 5 });
    const shorter = Object.assign(new Blob([BYTES]), { slice: () => new Blob([BYTES.subarray(0, 3)]) });
    await expect(fileSource(shorter as Blob).read(5, 7)).rejects.toMatchObject({ code: "file-changed", offset: 5 });
  });
});
