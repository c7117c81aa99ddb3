import { describe, expect, it } from "vitest";
import { isCairnError } from "../../src/errors.js";
import { parseRename, renamed } from "../../src/ops/rename.js";

function rename(name: string, ...rules: string[]): string {
  return renamed(name, rules.map(parseRename));
}

describe("rename rules", () => {
  it("give a name for a name", () => {
    expect(rename("kernel", "kernel=weight")).toBe("weight");
    expect(rename("kernel/x", "kernel=weight")).toBe("kernel/x");
  });

  it("carry over what the stars stood for", () => {
    expect(rename("encoder/0/kernel", "encoder/*/kernel=enc.*.weight")).toBe("enc.0.weight");
    expect(rename("a/b/c", "*/b/*=*.*")).toBe("a.c");
    expect(rename("a.b", "*=model.*")).toBe("model.a.b");
  });

  it("take other characters for themselves", () => {
    expect(rename("a.b[0]", "a.b[0]=x")).toBe("x");
    expect(rename("axb0", "a.b[0]=x")).toBe("axb0");
  });

  it("understand regular expressions between slashes", () => {
    expect(rename("block12/kernel", "/^block(\\d+)\\//=layers.$1.")).toBe("layers.12.kernel");
    expect(rename("a/b/c", "/\\//g=.")).toBe("a.b.c");
  });

  it("are applied one after another", () => {
    expect(rename("x/kernel", "x/*=y/*", "y/*=z/*")).toBe("z/kernel");
  });

  it.each(["kernel", "=x", "x=", "a=*", "/(/=x"])("refuses %s", (text) => {
    let error: unknown;
    try {
      parseRename(text);
    } catch (caught) {
      error = caught;
    }
    expect(isCairnError(error, "usage")).toBe(true);
  });
});
