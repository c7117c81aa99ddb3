import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { MemorySource } from "../../src/bytes/memory-source.js";

/** The path of a file under test/fixtures. */
export function fixturePath(path: string): string {
  return fileURLToPath(new URL(`../fixtures/${path}`, import.meta.url));
}

/** The bytes of a file under test/fixtures. */
export function readFixture(path: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(readFileSync(fixturePath(path)));
}

/** A file under test/fixtures as a source named by its path there. */
export function fixtureSource(path: string): MemorySource {
  return new MemorySource(readFixture(path), path);
}

/** A parsed expected.json under test/fixtures. */
export function readExpected<T>(path: string): T {
  return JSON.parse(readFileSync(fixturePath(path), "utf8")) as T;
}
