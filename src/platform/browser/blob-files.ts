import type { ByteSink } from "../../bytes/byte-sink.js";
import type { OpenedSource } from "../../bytes/byte-source.js";
import type { FileInfo, FileStore, ScratchFile } from "../../bytes/file-store.js";
import { memoryScratch } from "../../bytes/memory-store.js";
import { isDirectoryKey, listKeys, pathKey } from "../../bytes/path-tree.js";
import { NotFoundError, UnsupportedError, UsageError } from "../../errors.js";
import { BlobSource } from "./blob-source.js";

/** A file as an input element or a drop gives it: in a chosen folder with its path there. */
export type ChosenFile = Blob & { readonly name: string; readonly webkitRelativePath?: string };

/** Files that were chosen or dropped in a browser, or any Blobs, by their paths. They are only read. */
export class BlobFiles implements FileStore {
  private readonly blobs = new Map<string, Blob>();

  /** Makes a store with these files. */
  constructor(files: Iterable<readonly [path: string, blob: Blob]> = []) {
    for (const [path, blob] of files) this.blobs.set(pathKey(path), blob);
  }

  /** A store of chosen files; those of a chosen folder stand under its name. */
  static of(files: Iterable<ChosenFile>): BlobFiles {
    return new BlobFiles(Array.from(files, (file) => [file.webkitRelativePath || file.name, file] as const));
  }

  /** See {@link FileStore.open}. */
  async open(path: string): Promise<OpenedSource> {
    const blob = this.blobs.get(pathKey(path));
    if (blob !== undefined) return new BlobSource(path, blob);
    if (isDirectoryKey(this.blobs.keys(), pathKey(path))) throw new UsageError("usage", "not a file", { file: path });
    throw new NotFoundError("not-found", "no such file among those given", { file: path });
  }

  /** See {@link FileStore.stat}. */
  async stat(path: string): Promise<FileInfo | undefined> {
    const key = pathKey(path);
    const blob = this.blobs.get(key);
    if (blob !== undefined) return { path, kind: "file", size: blob.size };
    return isDirectoryKey(this.blobs.keys(), key) ? { path, kind: "directory", size: 0 } : undefined;
  }

  /** See {@link FileStore.isSame}. */
  async isSame(a: string, b: string): Promise<boolean> {
    return pathKey(a) === pathKey(b) && (await this.stat(a)) !== undefined;
  }

  /** See {@link FileStore.list}. */
  async list(path: string): Promise<readonly FileInfo[]> {
    return listKeys(
      Array.from(this.blobs, ([key, { size }]) => [key, size] as const),
      path,
    );
  }

  /** Nothing is written. @throws {@link UnsupportedError} (`unsupported-operation`) */
  async create(path: string): Promise<ByteSink> {
    throw readOnly(path);
  }

  /** Nothing is removed. @throws {@link UnsupportedError} (`unsupported-operation`) */
  async remove(path: string): Promise<void> {
    throw readOnly(path);
  }

  /** Nothing is renamed. @throws {@link UnsupportedError} (`unsupported-operation`) */
  async rename(from: string): Promise<void> {
    throw readOnly(from);
  }

  /** See {@link FileStore.scratch}: in memory. */
  scratch(expectedBytes?: number): Promise<ScratchFile> {
    return memoryScratch(expectedBytes);
  }
}

function readOnly(path: string): UnsupportedError {
  return new UnsupportedError("unsupported-operation", "chosen files are only read", {
    file: path,
    hint: "Write to a MemoryStore and offer its bytes for download.",
  });
}
