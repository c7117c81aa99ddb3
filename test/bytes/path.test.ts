import { describe, expect, it } from "vitest";
import { baseName, joinPath, parentPath, withoutSuffix } from "../../src/bytes/path.js";

describe("paths", () => {
  it.each([
    [["a", "b"], "a/b"],
    [["a/", "b"], "a/b"],
    [["", "b"], "b"],
    [["a", "", "b"], "a/b"],
    [["/", "b"], "/b"],
    [["s3://bucket", "b/c"], "s3://bucket/b/c"],
    [[".", "b"], "b"],
    [[], ""],
  ])("%j are joined to %s", (segments, expected) => {
    expect(joinPath(...segments)).toBe(expected);
  });

  it.each([
    ["a/b/c.pb", "c.pb", "a/b"],
    ["c.pb", "c.pb", "."],
    ["a/b/", "b", "a"],
    ["a//", "a", "."],
    ["/a", "a", "/"],
    ["a//b", "b", "a/"],
    ["s3://bucket/key", "key", "s3://bucket"],
  ])("%s is named %s and lies in %s", (path, name, parent) => {
    expect(baseName(path)).toBe(name);
    expect(parentPath(path)).toBe(parent);
  });

  it("loses a suffix only when it has it", () => {
    expect(withoutSuffix("model.pb", ".pb")).toBe("model");
    expect(withoutSuffix("model.pbtxt", ".pb")).toBeUndefined();
  });
});
