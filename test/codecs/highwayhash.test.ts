import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createHasher, hash64 } from "../../src/codecs/hasher.js";
import { PortableHasher } from "../../src/codecs/highwayhash.js";
import { loadPlatformHasher } from "../../src/platform/node/hashing.js";

// The first results of the table that google/highwayhash publishes for the 64-bit form (highwayhash/highwayhash_test.cc):
// key bytes 0..31, data bytes 0..n-1.
const KEY = Uint8Array.from({ length: 32 }, (_, i) => i);
const PUBLISHED = [0x907a56de22c26e53n, 0x7eab43aac7cddd78n, 0xb8d0569ab0b53d62n];

describe("HighwayHash-64", () => {
  it.each(PUBLISHED.map((hash, length) => ({ hash, length })))("gives the published hash of $length bytes", (known) => {
    expect(
      hash64(
        KEY,
        Uint8Array.from({ length: known.length }, (_, i) => i),
      ),
    ).toBe(known.hash);
  });

  it("gives the same hash however the bytes are cut into pieces", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 80 }), { maxLength: 6 }), (pieces) => {
        const hasher = new PortableHasher(KEY);
        for (const piece of pieces) hasher.update(piece);
        expect(hasher.digest()).toBe(hash64(KEY, Uint8Array.from(pieces.flatMap((piece) => [...piece]))));
      }),
    );
  });

  it("is the same in the platform's fast form", async () => {
    const factory = await loadPlatformHasher();
    expect(factory).toBeDefined();
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        const hasher = factory?.(KEY);
        hasher?.update(bytes);
        expect(hasher?.digest()).toBe(hash64(KEY, bytes));
      }),
    );
  });

  it("is the same for data large enough for the fast form", async () => {
    const bytes = Uint8Array.from({ length: 300_001 }, (_, i) => (i * 31) & 255);
    const hasher = await createHasher(KEY, bytes.length);
    hasher.update(bytes);
    expect(hasher.digest()).toBe(hash64(KEY, bytes));
  });
});
