import { readSync } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { BaseSource, type OpenedSource, type ReadOptions } from "../../bytes/byte-source.js";
import { StorageError, TruncatedError } from "../../errors.js";

/** The longest read that may be done at once, 1 MiB. */
const SYNC_READ_BYTES = 1024 * 1024;
/** A read from the page cache takes 0.1 to 0.2 ms for a MiB; one that takes longer than this came from the disk. */
const SLOW_READ_MS = 1;
/** How many reads are left to another thread after a slow one, before it is tried again. */
const PATIENT_READS = 64;
/** After this long without one, a read is left to another thread, so that timers and signals get their turn. */
const TURN_MS = 25;
let lastTurnMs = 0;

/**
 * A local file as a source. Reads are done at once as long as they come from the page cache: the way to another thread
 * and back takes longer than a small read, and a core away from a large write. After a read that had to wait for the
 * disk the following ones wait on another thread.
 */
export class FileSource extends BaseSource implements OpenedSource {
  readonly name: string;
  readonly size: number;
  private readonly handle: FileHandle;
  private patientReads = 0;

  /** Reads from an open file of `size` bytes. */
  constructor(name: string, handle: FileHandle, size: number) {
    super();
    this.name = name;
    this.handle = handle;
    this.size = size;
  }

  /** Closes the file. */
  close(): Promise<void> {
    return this.handle.close();
  }

  protected async fill(offset: number, target: Uint8Array, options?: ReadOptions): Promise<void> {
    options?.signal?.throwIfAborted();
    let done = 0;
    while (done < target.length) {
      const count = await this.readOnce(target, done, offset + done);
      if (count === 0) throw this.shrunk(offset + done);
      done += count;
    }
  }

  private async readOnce(target: Uint8Array, at: number, offset: number): Promise<number> {
    const length = target.length - at;
    try {
      const startMs = performance.now();
      if (length <= SYNC_READ_BYTES && this.patientReads-- <= 0 && startMs - lastTurnMs < TURN_MS) {
        const count = readSync(this.handle.fd, target, at, length, offset);
        this.patientReads = performance.now() - startMs > SLOW_READ_MS ? PATIENT_READS : 0;
        return count;
      }
      const { bytesRead } = await this.handle.read(target, at, length, offset);
      lastTurnMs = performance.now();
      return bytesRead;
    } catch (cause) {
      throw new StorageError("read-failed", `cannot read: ${(cause as Error).message}`, {
        file: this.name,
        offset,
        cause,
      });
    }
  }

  private shrunk(offset: number): TruncatedError {
    return new TruncatedError("truncated", "the file became shorter while it was read", {
      file: this.name,
      offset,
      expected: `${this.size} bytes`,
    });
  }
}
