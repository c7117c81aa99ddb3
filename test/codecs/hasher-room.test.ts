import { expect, it, vi } from "vitest";
import { createHasher, hash64 } from "../../src/codecs/hasher.js";
import { type Hasher64, PortableHasher } from "../../src/codecs/highwayhash.js";

const KEY = Uint8Array.from({ length: 32 }, (_, i) => i);
const state = vi.hoisted(() => ({ made: 0, used: 0 }));

// A module with room for two hashes that have not ended, as the WebAssembly form has for some thousands.
vi.mock("#hashing", () => ({
  loadPlatformHasher:
    async () =>
    (key: Uint8Array): Hasher64 => {
      if (state.used === 2) throw new Error("unable to allocate hasher in slot");
      state.used++;
      state.made++;
      const inner = new PortableHasher(key);
      const digest = () => {
        state.used--;
        return inner.digest();
      };
      return { update: (bytes) => inner.update(bytes), digest };
    },
}));

it("hashes on in plain JavaScript while the platform's form has no room, and with it when it has again", async () => {
  const bytes = Uint8Array.from({ length: 300_001 }, (_, i) => (i * 31) & 255);
  const hashers = await Promise.all(Array.from({ length: 5 }, () => createHasher(KEY, bytes.length)));
  expect(state).toEqual({ made: 2, used: 2 });
  for (const hasher of hashers) hasher.update(bytes);
  for (const hasher of hashers) expect(hasher.digest()).toBe(hash64(KEY, bytes));
  expect(state.used).toBe(0);
  await createHasher(KEY, bytes.length);
  expect(state.made).toBe(3);
});
