import { loadPlatformHasher } from "#hashing";
import { type Hasher64, PortableHasher } from "./highwayhash.js";

/** Below this a hash is done before a faster implementation is loaded. */
const PORTABLE_BYTES = 256 * 1024;

type HasherFactory = (key: Uint8Array) => Hasher64;

let fast: Promise<HasherFactory | undefined> | undefined;

/** A function that hashes short texts, such as headers, with one key, and writes the hash to 8 bytes of `target`. */
export function shortHash(key: Uint8Array): (bytes: Uint8Array, target: Uint8Array, offset: number) => void {
  const hasher = new PortableHasher(key);
  return (bytes, target, offset) => {
    hasher.restart();
    hasher.update(bytes);
    hasher.digestInto(target, offset);
  };
}

/** HighwayHash-64 of a short text. */
export function hash64(key: Uint8Array, bytes: Uint8Array): bigint {
  const hasher = new PortableHasher(key);
  hasher.update(bytes);
  return hasher.digest();
}

/**
 * A hasher for about `expectedBytes` bytes: this platform's native or WebAssembly form for many, plain JavaScript for
 * few or where there is nothing else. All give the same hash.
 */
export async function createHasher(key: Uint8Array, expectedBytes: number): Promise<Hasher64> {
  if (expectedBytes < PORTABLE_BYTES) return new PortableHasher(key);
  fast ??= loadPlatformHasher();
  const factory = await fast;
  return factory === undefined ? new PortableHasher(key) : releasedHasher(factory, key);
}

/** Ends the hashes that nobody ended, since a WebAssembly module has room for a limited number. */
const abandoned = new FinalizationRegistry<Hasher64>((hasher) => void hasher.digest());

/** A hasher of the fast form, whose room is given back though it never ends; the portable form while there is no room. */
function releasedHasher(factory: HasherFactory, key: Uint8Array): Hasher64 {
  let inner: Hasher64;
  try {
    inner = factory(key);
  } catch {
    return new PortableHasher(key);
  }
  const hasher: Hasher64 = {
    update: (bytes) => inner.update(bytes),
    digest: () => {
      abandoned.unregister(hasher);
      return inner.digest();
    },
  };
  abandoned.register(hasher, inner, hasher);
  return hasher;
}
