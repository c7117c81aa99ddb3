import type { ByteSink } from "../../src/bytes/byte-sink.js";
import type { CreateOptions, FileStore } from "../../src/bytes/file-store.js";

/** Does so many changes as it is told to, and none after that: as when the machine goes off between two of them. */
export class CrashingStore implements FileStore {
  changes = 0;
  private readonly inner: FileStore;
  private readonly crashesAt: number;

  constructor(inner: FileStore, crashesAt = Number.POSITIVE_INFINITY) {
    this.inner = inner;
    this.crashesAt = crashesAt;
  }

  open(path: string) {
    return this.inner.open(path);
  }

  stat(path: string) {
    return this.inner.stat(path);
  }

  isSame(a: string, b: string) {
    return this.inner.isSame(a, b);
  }

  list(path: string) {
    return this.inner.list(path);
  }

  /** A file appears when its sink is closed, so that is the change. */
  async create(path: string, options?: CreateOptions): Promise<ByteSink> {
    const sink = await this.inner.create(path, options);
    const close = sink.close.bind(sink);
    sink.close = async () => {
      this.change();
      await close();
    };
    return sink;
  }

  async remove(path: string): Promise<void> {
    this.change();
    await this.inner.remove(path);
  }

  async rename(from: string, to: string): Promise<void> {
    this.change();
    await this.inner.rename(from, to);
  }

  scratch(expectedBytes?: number) {
    return this.inner.scratch(expectedBytes);
  }

  private change(): void {
    if (this.changes++ >= this.crashesAt) throw new Error("crash");
  }
}

/** How many changes some work makes. */
export async function countChanges(files: FileStore, work: (store: FileStore) => Promise<void>): Promise<number> {
  const counting = new CrashingStore(files);
  await work(counting);
  return counting.changes;
}
