import type { Crc32c } from "../../codecs/crc32c.js";
import type { Hasher64 } from "../../codecs/highwayhash.js";

/** Loads HighwayHash in WebAssembly; undefined where that cannot run. */
export async function loadPlatformHasher(): Promise<((key: Uint8Array) => Hasher64) | undefined> {
  try {
    const { HighwayHash } = await import("highwayhasher");
    const module = await HighwayHash.loadModule();
    return (key) => {
      const hash = module.create(key);
      return {
        update: (bytes) => hash.append(bytes),
        digest: () => {
          const bytes = hash.finalize64();
          return new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0, true);
        },
      };
    };
  } catch {
    return undefined; // the portable form does the same, slower
  }
}

/** Starts a SHA-256. */
export async function createSha256(): Promise<{ update(bytes: Uint8Array): void; hex(): string }> {
  const { sha256 } = await import("@noble/hashes/sha2.js");
  const hash = sha256.create();
  return {
    update: (bytes) => void hash.update(bytes),
    hex: () => Array.from(hash.digest(), (byte) => byte.toString(16).padStart(2, "0")).join(""),
  };
}

/** There is no native CRC-32C in browsers. */
export async function loadPlatformCrc32c(): Promise<Crc32c | undefined> {
  return undefined;
}
