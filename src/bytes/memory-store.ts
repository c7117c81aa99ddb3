import { LimitError, NotFoundError, UsageError } from "../errors.js";
import { MAX_MEMORY_SCRATCH_BYTES } from "../limits.js";
import { type ByteSink, MemorySink } from "./byte-sink.js";
import type { OpenedSource } from "./byte-source.js";
import type { CreateOptions, FileInfo, FileStore, ScratchFile } from "./file-store.js";
import { MemorySource } from "./memory-source.js";

/** Scratch room in memory, for where there is no disk. @throws {@link LimitError} (`limit`) */
export async function memoryScratch(expectedBytes = 0): Promise<ScratchFile> {
  if (expectedBytes > MAX_MEMORY_SCRATCH_BYTES) {
    throw new LimitError("limit", "scratch room in memory", {
      expected: `at most ${MAX_MEMORY_SCRATCH_BYTES} bytes`,
      actual: expectedBytes,
    });
  }
  const sink = new MemorySink("scratch");
  return {
    sink,
    source: () => new MemorySource(sink.bytes, "scratch"),
    dispose: () => sink.abort(),
  };
}

/** Files in memory: for tests, for the browser, and for bytes that came from elsewhere. */
export class MemoryStore implements FileStore {
  private readonly files = new Map<string, Uint8Array>();

  /** Makes a store with these files. */
  constructor(files: Iterable<readonly [string, Uint8Array]> = []) {
    for (const [path, bytes] of files) this.files.set(path, bytes);
  }

  /** See {@link FileStore.open}. */
  async open(path: string): Promise<OpenedSource> {
    const bytes = this.files.get(path);
    if (bytes === undefined) throw new NotFoundError("not-found", "no such file", { file: path });
    return Object.assign(new MemorySource(bytes, path), { close: async () => {} });
  }

  /** See {@link FileStore.stat}. */
  async stat(path: string): Promise<FileInfo | undefined> {
    const bytes = this.files.get(path);
    if (bytes !== undefined) return { path, kind: "file", size: bytes.length };
    for (const name of this.files.keys()) if (name.startsWith(`${path}/`)) return { path, kind: "directory", size: 0 };
    return undefined;
  }

  /** See {@link FileStore.list}. */
  async list(path: string): Promise<readonly FileInfo[]> {
    const entries = new Map<string, FileInfo>();
    const start = path === "" || path === "." ? "" : `${path}/`;
    for (const [name, bytes] of this.files) {
      if (!name.startsWith(start)) continue;
      const rest = name.slice(start.length);
      const slash = rest.indexOf("/");
      if (slash < 0) entries.set(rest, { path: name, kind: "file", size: bytes.length });
      else entries.set(rest.slice(0, slash), { path: start + rest.slice(0, slash), kind: "directory", size: 0 });
    }
    if (entries.size === 0) throw new NotFoundError("not-found", "no such directory", { file: path });
    return [...entries].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, info]) => info);
  }

  /** See {@link FileStore.create}. */
  async create(path: string, options: CreateOptions = {}): Promise<ByteSink> {
    const { files } = this;
    const refuse = () => {
      if (!options.overwrite && files.has(path)) throw new UsageError("exists", "the output exists", { file: path });
    };
    refuse();
    const sink = new MemorySink(path);
    sink.close = async () => {
      refuse();
      files.set(path, sink.bytes.slice());
    };
    return sink;
  }

  /** See {@link FileStore.remove}. */
  async remove(path: string): Promise<void> {
    for (const name of [...this.files.keys()])
      if (name === path || name.startsWith(`${path}/`)) this.files.delete(name);
  }

  /** See {@link FileStore.rename}. */
  async rename(from: string, to: string): Promise<void> {
    const moved = [...this.files].filter(([name]) => name === from || name.startsWith(`${from}/`));
    if (moved.length === 0) throw new NotFoundError("not-found", "no such file", { file: from });
    for (const [name, bytes] of moved) {
      this.files.delete(name);
      this.files.set(to + name.slice(from.length), bytes);
    }
  }

  /** See {@link FileStore.scratch}. */
  scratch(expectedBytes?: number): Promise<ScratchFile> {
    return memoryScratch(expectedBytes);
  }
}
