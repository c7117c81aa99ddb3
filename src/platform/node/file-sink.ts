import { unlinkSync, writeSync, writevSync } from "node:fs";
import { type FileHandle, link, open, rename, unlink } from "node:fs/promises";
import { type ByteSink, concatBytes, totalLength } from "../../bytes/byte-sink.js";
import { parentPath } from "../../bytes/path.js";
import { type CairnError, StorageError, UsageError } from "../../errors.js";

/** Pieces that are smaller than this on average are copied together before they are written. */
const SMALL_PIECE_BYTES = 2048;

/** Writes up to this are done at once, 64 KiB: that takes less time than the way to another thread and back. */
const SYNC_WRITE_BYTES = 64 * 1024;

/** Files under temporary names that are being written. */
const temporaries = new Set<string>();
let isWatchingExit = false;

/** Has a temporary file removed when the process is told to exit while it is being written. */
export function removeAtExit(path: string): void {
  temporaries.add(path);
  if (isWatchingExit) return;
  isWatchingExit = true;
  process.once("exit", () => {
    for (const one of temporaries) {
      try {
        unlinkSync(one);
      } catch {
        // It is gone already, or cannot be removed by us.
      }
    }
  });
}

/**
 * Writes a file under a temporary name beside its own, and gives it its name when it is closed, after the data has
 * reached the disk: a crash leaves the old file or the new one.
 */
export class FileSink implements ByteSink {
  readonly name: string;
  position = 0;
  private readonly handle: FileHandle;
  private readonly temporaryPath: string;
  private readonly overwrite: boolean;
  private isOpen = true;

  /** Use {@link createFileSink}. */
  constructor(name: string, handle: FileHandle, temporaryPath: string, overwrite: boolean) {
    this.name = name;
    this.handle = handle;
    this.temporaryPath = temporaryPath;
    this.overwrite = overwrite;
  }

  /** See {@link ByteSink.write}. */
  async write(bytes: Uint8Array | readonly Uint8Array[]): Promise<void> {
    const pieces = bytes instanceof Uint8Array ? [bytes] : bytes;
    const length = totalLength(pieces);
    if (length === 0) return;
    const isSmall = pieces.length > 1 && length < pieces.length * SMALL_PIECE_BYTES;
    const { position } = this;
    this.position += length;
    await this.writeAt(position, isSmall ? [concatBytes(pieces)] : pieces, length);
  }

  /** See {@link ByteSink.patch}. */
  async patch(offset: number, bytes: Uint8Array): Promise<void> {
    await this.writeAt(offset, [bytes], bytes.length);
  }

  /** See {@link ByteSink.close}. @throws {@link UsageError} (`exists`) when a file of the name has appeared */
  async close(): Promise<void> {
    if (!this.isOpen) return;
    try {
      await this.handle.sync();
      this.isOpen = false;
      await this.handle.close();
      await this.publish();
      await syncDirectory(parentPath(this.name));
    } catch (cause) {
      await unlink(this.temporaryPath).catch(() => {});
      throw cause instanceof UsageError ? cause : writeError(this.name, cause);
    } finally {
      temporaries.delete(this.temporaryPath);
    }
  }

  /** See {@link ByteSink.abort}. */
  async abort(): Promise<void> {
    if (!this.isOpen) return;
    this.isOpen = false;
    await this.handle.close().catch(() => {});
    await unlink(this.temporaryPath).catch(() => {});
    temporaries.delete(this.temporaryPath);
  }

  private async writeAt(position: number, pieces: readonly Uint8Array[], length: number): Promise<void> {
    try {
      if (length <= SYNC_WRITE_BYTES) writeAllSync(this.handle.fd, pieces, length, position);
      else await writeAll(this.handle, pieces, length, position);
    } catch (cause) {
      throw writeError(this.name, cause);
    }
  }

  private async publish(): Promise<void> {
    if (this.overwrite) return rename(this.temporaryPath, this.name);
    try {
      await link(this.temporaryPath, this.name);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EEXIST") {
        throw new UsageError("exists", "the output exists already", { file: this.name });
      }
      // A file system without hard links.
      return rename(this.temporaryPath, this.name);
    }
    await unlink(this.temporaryPath);
  }
}

function writeAllSync(fd: number, pieces: readonly Uint8Array[], length: number, position: number): void {
  let done = writevSync(fd, pieces as Uint8Array[], position);
  const rest = done === length ? new Uint8Array(0) : concatBytes(pieces);
  while (done < length) done += writeSync(fd, rest, done, length - done, position + done);
}

async function writeAll(
  handle: FileHandle,
  pieces: readonly Uint8Array[],
  length: number,
  position: number,
): Promise<void> {
  let { bytesWritten: done } = await handle.writev(pieces as Uint8Array[], position);
  if (done === length) return;
  // A short write: go on behind it, with what is left in one buffer.
  const rest = concatBytes(pieces);
  while (done < length) {
    const { bytesWritten } = await handle.write(rest, done, length - done, position + done);
    if (bytesWritten === 0) throw new Error("the disk takes no more bytes");
    done += bytesWritten;
  }
}

/** Makes the entries of a directory durable; not every system can. */
export async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, "r").catch(() => undefined);
  await handle?.sync().catch(() => {});
  await handle?.close();
}

/** The error for a write that the system refused. */
export function writeError(file: string, cause: unknown): CairnError {
  const { code, message } = cause as NodeJS.ErrnoException;
  const hint =
    code === "ENOSPC"
      ? "Free some space on the disk, or write elsewhere."
      : code === "EACCES" || code === "EPERM" || code === "EROFS"
        ? "Check the permissions of the directory, or write elsewhere."
        : undefined;
  return new StorageError("write-failed", `cannot write: ${message}`, { file, cause, hint });
}
