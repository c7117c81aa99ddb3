import type { Crc32c } from "../../codecs/crc32c.js";
import type { Hasher64 } from "../../codecs/highwayhash.js";

/** Loads the native HighwayHash; undefined when there is no binary for this machine. */
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
  const { createHash } = await import("node:crypto");
  const hash = createHash("sha256");
  return { update: (bytes) => void hash.update(bytes), hex: () => hash.digest("hex") };
}

/** Loads the native CRC-32C; undefined when there is no binary for this machine. */
export async function loadPlatformCrc32c(): Promise<Crc32c | undefined> {
  try {
    const { crc32c } = await import("@node-rs/crc32");
    return (bytes, previous = 0) => crc32c(bytes, previous);
  } catch {
    return undefined; // the portable form does the same, slower
  }
}
