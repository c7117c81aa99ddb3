import type { ByteSink } from "../../src/bytes/byte-sink.js";
import type { FileStore } from "../../src/bytes/file-store.js";

/** Numbers from 0 to 1 that are the same for the same seed. */
export function seededRandom(seed: number): () => number {
  let state = seed | 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

/** The files of a store as one of several programs sees them: each operation waits for some of the others' first. */
export function interleaved(files: FileStore, random: () => number): FileStore {
  const turn = async () => {
    for (let i = Math.floor(random() * 6); i > 0; i--) await new Promise((resolve) => setImmediate(resolve));
  };
  const delayed = <T extends object>(target: T, names: readonly string[]): T =>
    new Proxy(target, {
      get(inner, name) {
        const value = Reflect.get(inner, name);
        if (typeof value !== "function") return value;
        if (!names.includes(String(name))) return value.bind(inner);
        return async (...args: unknown[]) => {
          await turn();
          const result = await Reflect.apply(value, inner, args);
          await turn();
          return name === "create" ? delayed(result as ByteSink, ["close"]) : result;
        };
      },
    });
  return delayed(files, ["open", "stat", "list", "create", "remove", "rename", "removeEmptyDirectory"]);
}
