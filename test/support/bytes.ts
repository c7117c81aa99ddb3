import { createHash } from "node:crypto";
import { expect } from "vitest";

/** Fails when two byte arrays differ, naming the first place; comparing large arrays with toEqual takes seconds. */
export function expectBytes(actual: Uint8Array, expected: Uint8Array): void {
  expect(actual.constructor).toBe(Uint8Array);
  if (Buffer.compare(actual, expected) === 0) return;
  let at = 0;
  while (at < Math.min(actual.length, expected.length) && actual[at] === expected[at]) at++;
  expect.fail(
    `${actual.length} bytes differ from the expected ${expected.length} at ${at}: ${actual[at]} for ${expected[at]}`,
  );
}

/** SHA-256 of bytes, in hex. */
export function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
