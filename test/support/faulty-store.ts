import type { ByteSink } from "../../src/bytes/byte-sink.js";
import type { OpenedSource } from "../../src/bytes/byte-source.js";
import type { CreateOptions, FileInfo, FileStore } from "../../src/bytes/file-store.js";
import { baseName, joinPath, parentPath } from "../../src/bytes/path.js";
import { StorageError } from "../../src/errors.js";

/**
 * What goes wrong at an operation.
 *
 * - `stop`: it and everything behind it does not happen: the machine goes off before it.
 * - `tear`: half of it happens, and nothing behind it: half the bytes of a write, half the files of a directory removed.
 * - `fail`: it fails once, with EIO: a write, an fsync, a rename.
 * - `full`: the disk is full from there on: nothing can be begun, written or closed, but renamed and removed.
 * - `read-only`: nothing can be changed any more, as when a permission is lost.
 * - `unreadable`: a read fails once.
 */
export type Fault = "stop" | "tear" | "fail" | "full" | "read-only" | "unreadable";

/** The machine has gone off. Nobody may catch it and go on. */
export class PowerFailure extends Error {}

type Operation = "create" | "write" | "close" | "remove" | "rename" | "read";

/** A store in which one operation goes wrong: the `at`-th change, or for `unreadable` the `at`-th read. */
export class FaultyStore implements FileStore {
  /** Operations of the kind that is counted, so far. */
  operations = 0;
  private isOff = false;
  private readonly inner: FileStore;
  private readonly fault: Fault;
  private readonly at: number;
  private readonly open_ = new Map<string, { bytes: Uint8Array[] }>();

  /** With `at` beyond all operations it only counts. */
  constructor(inner: FileStore, fault: Fault, at = Number.POSITIVE_INFINITY) {
    this.inner = inner;
    this.fault = fault;
    this.at = at;
  }

  get copiesOnRename() {
    return this.inner.copiesOnRename as true;
  }

  async open(path: string): Promise<OpenedSource> {
    this.begin("read", path);
    const source = await this.inner.open(path);
    return new Proxy(source, {
      get: (target, name) => {
        const value = Reflect.get(target, name);
        if (typeof value !== "function") return value;
        return (...args: unknown[]) => {
          if (name === "read" || name === "readPieces") {
            try {
              this.begin("read", path);
            } catch (error) {
              return Promise.reject(error);
            }
          }
          return Reflect.apply(value, target, args);
        };
      },
    });
  }

  async stat(path: string): Promise<FileInfo | undefined> {
    this.begin("read", path);
    return this.inner.stat(path);
  }

  async isSame(a: string, b: string): Promise<boolean> {
    this.begin("read", a);
    return this.inner.isSame(a, b);
  }

  async list(path: string): Promise<readonly FileInfo[]> {
    this.begin("read", path);
    return this.inner.list(path);
  }

  async create(path: string, options?: CreateOptions): Promise<ByteSink> {
    this.begin("create", path);
    const sink = await this.inner.create(path, options);
    // What a local disk has of a file before it gets its name.
    const token = (this.operations % 2 ** 24).toString(16).padStart(12, "0");
    const temporary = joinPath(parentPath(path), `.${baseName(path)}.cairn-${token}.tmp`);
    const written: Uint8Array[] = [];
    this.open_.set(temporary, { bytes: written });
    const { write, patch, close, abort } = sink;
    sink.write = async (bytes) => {
      const pieces = bytes instanceof Uint8Array ? [bytes] : bytes;
      const isTorn = this.begin("write", path);
      written.push(...pieces.map((piece) => piece.slice(0, isTorn ? piece.length >> 1 : piece.length)));
      if (isTorn) this.stop();
      await write.call(sink, bytes);
    };
    if (patch !== undefined) {
      sink.patch = async (offset, bytes) => {
        if (this.begin("write", path)) this.stop();
        await patch.call(sink, offset, bytes);
      };
    }
    sink.close = async () => {
      if (this.begin("close", path)) this.stop();
      this.open_.delete(temporary);
      await close.call(sink);
    };
    sink.abort = async () => {
      if (this.isOff) this.stop();
      this.open_.delete(temporary);
      await abort.call(sink);
    };
    return sink;
  }

  async remove(path: string): Promise<void> {
    if (this.begin("remove", path)) {
      // A directory is removed file by file.
      const entries = await this.inner.list(path).catch(() => []);
      for (const entry of entries.slice(0, entries.length >> 1)) await this.inner.remove(entry.path);
      this.stop();
    }
    await this.inner.remove(path);
  }

  async removeEmptyDirectory(path: string): Promise<boolean> {
    if (this.begin("remove", path)) this.stop();
    return (await this.inner.removeEmptyDirectory?.(path)) ?? false;
  }

  async rename(from: string, to: string): Promise<void> {
    if (this.begin("rename", to)) this.stop();
    await this.inner.rename(from, to);
  }

  scratch(expectedBytes?: number) {
    return this.inner.scratch(expectedBytes);
  }

  /** Puts the files that were being written when the power failed where a local disk has them. */
  async leaveTemporaries(): Promise<void> {
    for (const [path, { bytes }] of this.open_) {
      const sink = await this.inner.create(path, { overwrite: true });
      await sink.write(bytes);
      await sink.close();
    }
  }

  /** Counts an operation, and lets it go wrong when it is its turn. Gives whether only half of it is to happen. */
  private begin(operation: Operation, path: string): boolean {
    if (this.isOff) this.stop();
    const isRead = operation === "read";
    if (isRead !== (this.fault === "unreadable")) return false;
    const turn = this.operations++;
    if (turn < this.at) return false;
    switch (this.fault) {
      case "stop":
        return this.stop();
      case "tear":
        return true;
      case "fail":
        if (turn > this.at) return false;
        throw new StorageError("write-failed", "cannot write: EIO", { file: path });
      case "unreadable":
        if (turn > this.at) return false;
        throw new StorageError("read-failed", "cannot read: EIO", { file: path });
      case "full":
        if (operation === "remove" || operation === "rename") return false;
        throw new StorageError("write-failed", "cannot write: ENOSPC", { file: path });
      case "read-only":
        throw new StorageError("write-failed", "cannot write: EROFS", { file: path });
    }
  }

  private stop(): never {
    this.isOff = true;
    throw new PowerFailure("the power failed");
  }
}
