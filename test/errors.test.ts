import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { ERROR_CODES } from "../src/errors.js";

const SRC = fileURLToPath(new URL("../src", import.meta.url));

it("lists no error code that nothing gives", () => {
  const used = new Set<string>();
  for (const name of readdirSync(SRC, { recursive: true, encoding: "utf8" })) {
    if (!name.endsWith(".ts") || name === "errors.ts" || name.includes("/gen/")) continue;
    for (const [, text = ""] of readFileSync(join(SRC, name), "utf8").matchAll(/"([a-z-]+)"/g)) used.add(text);
  }
  expect(Object.keys(ERROR_CODES).filter((code) => !used.has(code))).toEqual([]);
});
