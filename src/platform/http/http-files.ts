import type { ByteSink } from "../../bytes/byte-sink.js";
import type { ByteSource, OpenedSource } from "../../bytes/byte-source.js";
import { BlockCache } from "../../bytes/cached-source.js";
import type { FileInfo, FileStore, ScratchFactory, ScratchFile } from "../../bytes/file-store.js";
import { MemorySource } from "../../bytes/memory-source.js";
import { memoryScratch } from "../../bytes/memory-store.js";
import { SharedSource } from "../../bytes/shared-source.js";
import { CairnError, isCairnError, UnsupportedError, UsageError } from "../../errors.js";
import { MAX_SPOOLED_BYTES } from "../../limits.js";
import { HttpClient, type HttpClientOptions } from "./client.js";
import { type Probe, probeFile, RangeSource, spoolFile } from "./remote-file.js";

/** What is known of a file is asked for anew after so long, 60 s, when nobody has it open. */
const FRESH_MS = 60_000;

/** Options of {@link HttpFiles}. */
export interface HttpFilesOptions extends HttpClientOptions {
  /** Memory for what was read; 64 MiB when it is not given. */
  readonly cache?: BlockCache | undefined;
  /** Where a file goes whose server gives no ranges; memory when it is not given. */
  readonly scratch?: ScratchFactory | undefined;
  /** The largest file that is fetched as a whole, in bytes; 4 GiB when it is not given. */
  readonly maxSpooledBytes?: number | undefined;
}

/** What is known of a file. */
interface Known {
  readonly probe: Probe;
  readonly atMs: number;
  /** What it is read from; made when it is opened first. */
  source?: Promise<ByteSource>;
  scratch?: ScratchFile;
  openCount: number;
}

/**
 * Files on web servers, named by their `http(s)://` addresses; they are only read. A file is read in ranges, which are
 * kept in memory. From a server that gives no ranges it is fetched as a whole when it is opened. A file that changes
 * while it is read is an error, never a mixture. An address that ends in `/` stands for a directory, which cannot be listed.
 */
export class HttpFiles implements FileStore {
  readonly scratch: ScratchFactory;
  private readonly client: HttpClient;
  private readonly cache: BlockCache;
  private readonly maxSpooledBytes: number;
  private readonly known = new Map<string, Promise<Known>>();

  /** Makes a store; nothing is asked for yet. */
  constructor(options: HttpFilesOptions = {}) {
    this.client = new HttpClient(options);
    this.cache = options.cache ?? new BlockCache();
    this.scratch = options.scratch ?? memoryScratch;
    this.maxSpooledBytes = options.maxSpooledBytes ?? MAX_SPOOLED_BYTES;
  }

  /** See {@link FileStore.open}. @throws StorageError (`read-failed`), LimitError (`limit`) */
  async open(path: string): Promise<OpenedSource> {
    if (isDirectory(path)) throw new UsageError("usage", "not a file", { file: path });
    const known = await this.find(path);
    known.openCount++;
    try {
      known.source ??= this.makeSource(path, known);
      return new SharedSource(path, await known.source, () => this.closeFile(path, known));
    } catch (error) {
      this.known.delete(keyOf(path));
      throw error;
    }
  }

  /**
   * See {@link FileStore.stat}. Many servers answer 403 for what is not there, so that such a file counts as missing here;
   * opening it tells.
   */
  async stat(path: string): Promise<FileInfo | undefined> {
    if (isDirectory(path)) return { path, kind: "directory", size: 0 };
    try {
      const known = await this.find(path);
      // Servers redirect to a page that lists a directory.
      if (isDirectory(known.probe.url)) return { path, kind: "directory", size: 0 };
      const { etag, lastModified } = known.probe.validators;
      const size = known.probe.size ?? (await this.sizeOfSpooled(path));
      return { path, kind: "file", size, identity: etag ?? lastModified };
    } catch (error) {
      if (isCairnError(error, "not-found") || isForbidden(error)) return undefined;
      throw error;
    }
  }

  /** See {@link FileStore.isSame}. */
  async isSame(a: string, b: string): Promise<boolean> {
    return keyOf(a) === keyOf(b) && (await this.stat(a)) !== undefined;
  }

  /** Web servers have no lists. @throws {@link UnsupportedError} (`unsupported-operation`) */
  async list(path: string): Promise<readonly FileInfo[]> {
    throw new UnsupportedError("unsupported-operation", "a web server has no list of its files", {
      file: path,
      hint: "Give the address of a file.",
    });
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

  /** What is known of a file, or what a first request tells; a failure is remembered as long. */
  private find(path: string): Promise<Known> {
    const key = keyOf(path);
    const known = this.known.get(key);
    if (known !== undefined) return known.then((one) => (isFresh(one) ? one : this.probe(path, key)));
    return this.probe(path, key);
  }

  private probe(path: string, key: string): Promise<Known> {
    const { blockBytes } = this.cache;
    const known = probeFile(this.client, path, key, blockBytes).then((probe) => ({
      probe,
      atMs: Date.now(),
      openCount: 0,
    }));
    this.known.set(key, known);
    known.catch((error: unknown) => {
      // What is not there is not asked for again soon; whether a failure lasts is not known.
      const isMissing = isCairnError(error, "not-found") || isForbidden(error);
      if (!isMissing) this.known.delete(key);
      else setTimeout(() => this.known.delete(key), FRESH_MS).unref?.();
    });
    return known;
  }

  private async makeSource(path: string, known: Known): Promise<ByteSource> {
    const { url, size, validators, hasRanges, head, isWhole } = known.probe;
    if (isWhole) return new MemorySource(head, path);
    const key = keyOf(path);
    if (!hasRanges || size === undefined) {
      const spooling = { file: path, url: key, scratch: this.scratch, limit: this.maxSpooledBytes };
      known.scratch = await spoolFile(this.client, spooling);
      return known.scratch.source();
    }
    const forget = () => this.known.delete(key);
    const file = { name: path, url: key, size, validators, onChange: forget };
    const source = this.cache.wrap(new RangeSource(this.client, file, url));
    source.seed(0, head);
    return source;
  }

  private async sizeOfSpooled(path: string): Promise<number> {
    const source = await this.open(path);
    const { size } = source;
    await source.close();
    return size;
  }

  /** A file that was fetched as a whole is kept for a while, as it may be opened again soon. */
  private async closeFile(path: string, known: Known): Promise<void> {
    known.openCount--;
    const { scratch } = known;
    if (known.openCount > 0 || scratch === undefined) return;
    const dispose = () => {
      if (known.openCount > 0) return;
      this.known.delete(keyOf(path));
      scratch.dispose().catch(() => {});
    };
    setTimeout(dispose, FRESH_MS).unref?.();
  }
}

function isFresh({ openCount, atMs }: Known): boolean {
  return openCount > 0 || Date.now() - atMs < FRESH_MS;
}

/** A path as requests have it: without a fragment, and with everything escaped. */
function keyOf(path: string): string {
  try {
    const url = new URL(path);
    url.hash = "";
    if (url.username === "" && url.password === "") return url.href;
  } catch (cause) {
    throw new UsageError("usage", "not an address", { file: path, cause });
  }
  throw new UsageError("usage", "an address with a user name or password", {
    hint: "Pass them as an Authorization header through the library, or use a signed address.",
  });
}

function isDirectory(path: string): boolean {
  return new URL(keyOf(path)).pathname.endsWith("/");
}

function isForbidden(error: unknown): boolean {
  return error instanceof CairnError && error.code === "read-failed" && error.actual === 403;
}

function readOnly(path: string): UnsupportedError {
  return new UnsupportedError("unsupported-operation", "a web server's files are only read", {
    file: path,
    hint: "Write to a local path or to s3://.",
  });
}
