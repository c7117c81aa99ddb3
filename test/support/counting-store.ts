import type { OpenedSource } from "../../src/bytes/byte-source.js";
import type { FileStore } from "../../src/bytes/file-store.js";
import { CountingSource } from "./counting-source.js";
import { CrashingStore } from "./crashing-store.js";

/** Counts what is read of each file. */
export class CountingStore extends CrashingStore {
  readonly sources = new Map<string, CountingSource[]>();
  private readonly counted: FileStore;

  constructor(inner: FileStore) {
    super(inner);
    this.counted = inner;
  }

  override async open(path: string): Promise<OpenedSource> {
    const source = await this.counted.open(path);
    const counting = new CountingSource(source);
    this.sources.set(path, [...(this.sources.get(path) ?? []), counting]);
    return Object.assign(counting, { close: () => source.close() });
  }

  /** Reads and bytes of files whose paths end so. */
  total(suffix = ""): { reads: number; bytes: number } {
    let [reads, bytes] = [0, 0];
    for (const [path, sources] of this.sources) {
      if (!path.includes(suffix)) continue;
      for (const source of sources) {
        reads += source.reads;
        bytes += source.bytes;
      }
    }
    return { reads, bytes };
  }
}
