import { LimitError, NotFoundError, StorageError, UsageError } from "../errors.js";
import { MAX_MEMORY_SCRATCH_BYTES } from "../limits.js";
import { type ByteSink, MemorySink } from "./byte-sink.js";
import type { OpenedSource } from "./byte-source.js";
import type { CreateOptions, FileInfo, FileStore, ScratchFile } from "./file-store.js";
import { MemorySource } from "./memory-source.js";
import { isDirectoryKey, listKeys, pathKey } from "./path-tree.js";

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

/** Files in memory: for tests, for the browser, and for bytes that came from elsewhere. A directory is there while a file is in it. */
export class MemoryStore implements FileStore {
  /** By {@link pathKey} the path. */
  private readonly files = new Map<string, Uint8Array>();

  /** Makes a store with these files. */
  constructor(files: Iterable<readonly [string, Uint8Array]> = []) {
    for (const [path, bytes] of files) this.files.set(pathKey(path), bytes);
  }

  /** See {@link FileStore.open}. */
  async open(path: string): Promise<OpenedSource> {
    const bytes = this.files.get(pathKey(path));
    if (bytes === undefined) throw new NotFoundError("not-found", "no such file", { file: path });
    return Object.assign(new MemorySource(bytes, path), { close: async () => {} });
  }

  /** See {@link FileStore.stat}. */
  async stat(path: string): Promise<FileInfo | undefined> {
    const key = pathKey(path);
    const bytes = this.files.get(key);
    if (bytes !== undefined) return { path, kind: "file", size: bytes.length, identity: identityOf(bytes) };
    return isDirectoryKey(this.files.keys(), key) ? { path, kind: "directory", size: 0 } : undefined;
  }

  /** See {@link FileStore.isSame}. */
  async isSame(a: string, b: string): Promise<boolean> {
    return pathKey(a) === pathKey(b) && (await this.stat(a)) !== undefined;
  }

  /** See {@link FileStore.list}. */
  async list(path: string): Promise<readonly FileInfo[]> {
    const sizes = Array.from(this.files, ([name, bytes]) => [name, bytes.length] as const);
    return listKeys(sizes, path);
  }

  /** See {@link FileStore.create}. */
  async create(path: string, options: CreateOptions = {}): Promise<ByteSink> {
    const { files } = this;
    const key = pathKey(path);
    const refuse = () => {
      if (!options.overwrite && files.has(key)) throw new UsageError("exists", "the output exists", { file: path });
    };
    refuse();
    const sink = new MemorySink(path);
    let isOpen = true;
    sink.close = async () => {
      if (!isOpen) return;
      isOpen = false;
      refuse();
      files.set(key, sink.bytes.slice());
    };
    sink.abort = async () => {
      isOpen = false;
    };
    return sink;
  }

  /** See {@link FileStore.remove}. */
  async remove(path: string): Promise<void> {
    for (const name of this.keysUnder(pathKey(path))) this.files.delete(name);
  }

  /** See {@link FileStore.rename}. */
  async rename(from: string, to: string): Promise<void> {
    const [source, target] = [pathKey(from), pathKey(to)];
    const moved = this.keysUnder(source);
    if (moved.length === 0) throw new NotFoundError("not-found", "no such file", { file: from });
    const isFile = this.files.has(source);
    if (this.keysUnder(target).some((name) => !isFile || name !== target)) {
      throw new StorageError("write-failed", "cannot write: something is there already", { file: to });
    }
    for (const name of moved) {
      const bytes = this.files.get(name) as Uint8Array;
      this.files.delete(name);
      this.files.set(target + name.slice(source.length), bytes);
    }
  }

  /** See {@link FileStore.scratch}. */
  scratch(expectedBytes?: number): Promise<ScratchFile> {
    return memoryScratch(expectedBytes);
  }

  /** The file of a key, or all files below it. */
  private keysUnder(key: string): string[] {
    return [...this.files.keys()].filter((name) => name === key || name.startsWith(`${key}/`));
  }
}

const identities = new WeakMap<Uint8Array, string>();
let identityCount = 0;

/** Each array that stands in a store has a number of its own; a file is replaced with a new array. */
function identityOf(bytes: Uint8Array): string {
  const known = identities.get(bytes);
  if (known !== undefined) return known;
  const identity = `memory:${identityCount++}`;
  identities.set(bytes, identity);
  return identity;
}
