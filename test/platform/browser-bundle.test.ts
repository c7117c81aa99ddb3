import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { browserSubpaths, bundleForBrowser, root } from "../../scripts/browser-bundle.mjs";

const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

async function nodeImportsOf(targets: readonly string[]): Promise<readonly string[]> {
  const contents = targets.map((target, i) => `export * as s${i} from ${JSON.stringify(target)};`).join("\n");
  const stdin = { contents, resolveDir: root };
  return (await bundleForBrowser({ stdin, write: false, outdir: "out" })).nodeImports;
}

describe("a bundle for browsers", () => {
  it("of every subpath but those of Node has nothing of Node in it", async () => {
    const subpaths = browserSubpaths(exports);
    expect(subpaths.map(([subpath]) => subpath)).toEqual(
      expect.arrayContaining([".", "./browser", "./http", "./splitter"]),
    );
    expect(await nodeImportsOf(subpaths.map(([, target]) => target))).toEqual([]);
  });

  it("of Node's own subpath is found out", async () => {
    expect(await nodeImportsOf([exports["./node"]])).toEqual(
      expect.arrayContaining([expect.stringMatching(/^dist\/platform\/node\/local-files\.js imports node:fs/)]),
    );
  });
});
