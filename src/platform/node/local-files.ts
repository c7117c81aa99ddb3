import { randomBytes } from "node:crypto";
import { mkdir, open, readdir, rename, rm, rmdir, stat, statfs } from "node:fs/promises";
import { tmpdir } from "node:os";
import type { ByteSink } from "../../bytes/byte-sink.js";
import type { OpenedSource } from "../../bytes/byte-source.js";
import type { CreateOptions, FileInfo, FileStore, ScratchFile } from "../../bytes/file-store.js";
import { baseName, joinPath, parentPath } from "../../bytes/path.js";
import { NotFoundError, StorageError, UsageError } from "../../errors.js";
import { FileSink, removeAtExit, syncDirectory, writeError } from "./file-sink.js";
import { FileSource } from "./file-source.js";

/** The files of this machine. Paths are relative to the working directory unless they begin with `/`. */
export class LocalFiles implements FileStore {
  /** See {@link FileStore.open}. */
  async open(path: string): Promise<OpenedSource> {
    try {
      const handle = await open(path, "r");
      const info = await handle.stat();
      if (info.isFile()) return new FileSource(path, handle, info.size);
      await handle.close();
    } catch (cause) {
      throw readError(path, cause);
    }
    throw new UsageError("usage", "not a file", { file: path });
  }

  /** See {@link FileStore.stat}. */
  async stat(path: string): Promise<FileInfo | undefined> {
    try {
      const info = await stat(path);
      const { mtimeMs: modifiedMs } = info;
      if (info.isDirectory()) return { path, kind: "directory", size: 0, modifiedMs };
      const identity = `${info.dev}:${info.ino}:${info.size}:${modifiedMs}`;
      return { path, kind: "file", size: info.size, identity, modifiedMs };
    } catch (cause) {
      if (isMissing(cause)) return undefined;
      throw readError(path, cause);
    }
  }

  /** See {@link FileStore.isSame}. */
  async isSame(a: string, b: string): Promise<boolean> {
    const [left, right] = await Promise.all([a, b].map((path) => stat(path, { bigint: true }).catch(() => undefined)));
    return left !== undefined && right !== undefined && left.dev === right.dev && left.ino === right.ino;
  }

  /** See {@link FileStore.list}. */
  async list(path: string): Promise<readonly FileInfo[]> {
    try {
      const names = (await readdir(path)).sort();
      const infos = await Promise.all(names.map((name) => this.stat(joinPath(path, name))));
      return infos.filter((info) => info !== undefined);
    } catch (cause) {
      throw readError(path, cause);
    }
  }

  /** See {@link FileStore.create}. */
  async create(path: string, options: CreateOptions = {}): Promise<ByteSink> {
    const { overwrite = false, expectedBytes = 0 } = options;
    const folder = parentPath(path);
    const temporaryPath = joinPath(folder, temporaryName(baseName(path)));
    try {
      await mkdir(folder, { recursive: true });
      await checkFreeSpace(folder, path, expectedBytes);
      const handle = await open(temporaryPath, "wx+").catch(async (error) => {
        if (!isMissing(error)) throw error;
        // Another process took the empty directory away in between.
        await mkdir(folder, { recursive: true });
        return open(temporaryPath, "wx+");
      });
      removeAtExit(temporaryPath);
      return new FileSink(path, handle, temporaryPath, overwrite);
    } catch (cause) {
      throw cause instanceof StorageError ? cause : writeError(path, cause);
    }
  }

  /** See {@link FileStore.remove}. */
  async remove(path: string): Promise<void> {
    try {
      await rm(path, { recursive: true, force: true });
    } catch (cause) {
      throw writeError(path, cause);
    }
  }

  /** See {@link FileStore.removeEmptyDirectory}. */
  async removeEmptyDirectory(path: string): Promise<boolean> {
    try {
      await rmdir(path);
      return true;
    } catch (cause) {
      const { code = "" } = cause as NodeJS.ErrnoException;
      // Something is in it, or it is gone already.
      if (["ENOTEMPTY", "EEXIST", "ENOENT", "ENOTDIR"].includes(code)) return false;
      throw writeError(path, cause);
    }
  }

  /** See {@link FileStore.rename}. */
  async rename(from: string, to: string): Promise<void> {
    try {
      await rename(from, to).catch(async (error) => {
        if (!isMissing(error)) throw error;
        await mkdir(parentPath(to), { recursive: true });
        await syncDirectory(parentPath(parentPath(to)));
        await rename(from, to);
      });
      await syncDirectory(parentPath(to));
    } catch (cause) {
      throw writeError(to, cause);
    }
  }

  /** A file in the system's directory for temporary files that has no name: it vanishes with the process. */
  async scratch(expectedBytes = 0): Promise<ScratchFile> {
    const path = joinPath(tmpdir(), temporaryName("scratch"));
    try {
      await checkFreeSpace(tmpdir(), path, expectedBytes);
      const handle = await open(path, "wx+");
      await rm(path);
      const sink = new FileSink("scratch", handle, path, true);
      return {
        sink,
        source: () => new FileSource("scratch", handle, sink.position),
        dispose: () => handle.close().catch(() => {}),
      };
    } catch (cause) {
      throw cause instanceof StorageError ? cause : writeError(path, cause);
    }
  }
}

/** A hidden name that tells whose it is, so that what a crash left behind can be found. */
function temporaryName(name: string): string {
  return `.${name}.cairn-${randomBytes(6).toString("hex")}.tmp`;
}

async function checkFreeSpace(folder: string, path: string, expectedBytes: number): Promise<void> {
  if (expectedBytes === 0) return;
  const { bavail, bsize } = await statfs(folder);
  const free = bavail * bsize;
  if (free >= expectedBytes) return;
  throw new StorageError("write-failed", "not enough room on the disk", {
    file: path,
    expected: `${expectedBytes} bytes`,
    actual: `${free} bytes free`,
    hint: "Free some space on the disk, or write elsewhere.",
  });
}

function isMissing(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === "ENOENT" || code === "ENOTDIR";
}

function readError(path: string, cause: unknown): NotFoundError | StorageError {
  if (isMissing(cause)) return new NotFoundError("not-found", "no such file or directory", { file: path, cause });
  return new StorageError("read-failed", `cannot read: ${(cause as Error).message}`, { file: path, cause });
}
