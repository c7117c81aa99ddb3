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
