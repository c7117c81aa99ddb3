import { afterEach, describe, expect, it, vi } from "vitest";
import { filesFor } from "../../src/cli/files.js";
import { HttpFiles } from "../../src/platform/http/index.js";
import { LocalFiles } from "../../src/platform/node/local-files.js";
import { parseS3Path } from "../../src/platform/node/s3-client.js";
import { S3Files } from "../../src/platform/node/s3-files.js";

// What needs a server is in test/s3.
afterEach(() => {
  vi.doUnmock("@aws-sdk/client-s3");
  vi.resetModules();
});

describe("S3Files without a server", () => {
  it("tells how to install the client when it is not there", async () => {
    vi.doMock("@aws-sdk/client-s3", () => {
      throw new Error("Cannot find package");
    });
    await expect(new S3Files().stat("s3://bucket/key")).rejects.toMatchObject({
      code: "unsupported-operation",
      hint: expect.stringContaining("npm install @aws-sdk/client-s3"),
    });
  });

  it("reads bucket and key out of a path", () => {
    expect(parseS3Path("s3://b/a/./c//d/")).toEqual({ bucket: "b", key: "a/c/d" });
    expect(parseS3Path("s3://b/a/../../c/..")).toEqual({ bucket: "b", key: "" });
    expect(parseS3Path("s3://b")).toEqual({ bucket: "b", key: "" });
    for (const path of ["s3://", "s3:///x", "http://b/x", "b/x"])
      expect(() => parseS3Path(path)).toThrow(/s3:\/\/bucket/);
  });
});

describe("filesFor", () => {
  it("chooses the store by the scheme, and one for all paths of a scheme", () => {
    expect(filesFor("dir/file")).toBeInstanceOf(LocalFiles);
    expect(filesFor("C:/dir")).toBeInstanceOf(LocalFiles);
    expect(filesFor("https://host/x")).toBeInstanceOf(HttpFiles);
    expect(filesFor("HTTP://host/y")).toBe(filesFor("https://host/x"));
    expect(filesFor("s3://bucket/x")).toBe(filesFor("s3://other/y"));
    expect(() => filesFor("gs://bucket/x")).toThrow(/gs URLs/);
  });
});
