import type { ByteSink } from "./byte-sink.js";
import type { ByteSource, OpenedSource } from "./byte-source.js";

/** What a {@link FileStore} knows of a path. */
export interface FileInfo {
  /** The path that was asked for, or that of an entry of a listed directory. */
  readonly path: string;
  readonly kind: "file" | "directory";
  /** In bytes; 0 for a directory. */
  readonly size: number;
  /**
   * Of a file: differs whenever the contents do, as the inode and time of a local file or the ETag of an object. Absent
   * where a store cannot tell.
   */
  readonly identity?: string | undefined;
  /** When it was changed last, in milliseconds since 1970. Absent where a store cannot tell. */
  readonly modifiedMs?: number | undefined;
}

/** Options of {@link FileStore.create}. */
export interface CreateOptions {
  /** Replace an existing file when the sink is closed; otherwise an existing file is an error (`exists`). */
  readonly overwrite?: boolean | undefined;
  /** Bytes that will be written, where known: a disk without room for them is an error before the work starts. */
  readonly expectedBytes?: number | undefined;
}

/** Room for bytes that do not fit in memory. It vanishes with {@link ScratchFile.dispose}. */
export interface ScratchFile {
  /** Where to write; it has no name of its own and is not closed. */
  readonly sink: ByteSink;
  /** What has been written so far, as a source. */
  source(): ByteSource;
  /** Gives the room back. */
  dispose(): Promise<void>;
}

/**
 * Makes room for about `expectedBytes` bytes, where that is known.
 * @throws LimitError (`limit`), StorageError (`write-failed`) when there is not so much
 */
export type ScratchFactory = (expectedBytes?: number) => Promise<ScratchFile>;

/** A place where files are: the local disk, a web server, an object store, memory. Paths use `/`. */
export interface FileStore {
  /** Opens a file for reading. @throws NotFoundError (`not-found`) */
  open(path: string): Promise<OpenedSource>;
  /** What a path is, or undefined when there is nothing. */
  stat(path: string): Promise<FileInfo | undefined>;
  /** Whether two paths lead to the same file or directory, by whatever names; false when there is none at one. */
  isSame(a: string, b: string): Promise<boolean>;
  /** The entries of a directory, by name. @throws NotFoundError (`not-found`) */
  list(path: string): Promise<readonly FileInfo[]>;
  /** Starts a file that appears when its sink is closed; missing parent directories are made. */
  create(path: string, options?: CreateOptions): Promise<ByteSink>;
  /** Removes a file, or a directory with all in it; nothing happens when there is none. */
  remove(path: string): Promise<void>;
  /**
   * Removes a directory in which there is nothing; gives whether it did. Absent where directories are but parts of
   * names.
   */
  removeEmptyDirectory?(path: string): Promise<boolean>;
  /** Gives a file or directory another name in one step, replacing a file of that name; missing parent directories are made. */
  rename(from: string, to: string): Promise<void>;
  /**
   * Set where a rename copies, file by file, and so is not one step, as in object stores: a directory cannot take the place
   * of another there.
   */
  readonly copiesOnRename?: true;
  /** Room for bytes that do not fit in memory. */
  readonly scratch: ScratchFactory;
}
