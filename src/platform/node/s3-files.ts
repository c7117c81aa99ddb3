import type { S3Client } from "@aws-sdk/client-s3";
import type { ByteSink } from "../../bytes/byte-sink.js";
import type { OpenedSource } from "../../bytes/byte-source.js";
import { BlockCache, type CachedSource } from "../../bytes/cached-source.js";
import type { CreateOptions, FileInfo, FileStore, ScratchFile } from "../../bytes/file-store.js";
import { SharedSource } from "../../bytes/shared-source.js";
import { isCairnError, NotFoundError, StorageError, UsageError } from "../../errors.js";
import { LocalFiles } from "./local-files.js";
import { type LoadedS3, loadS3, parseS3Path, s3Error } from "./s3-client.js";
import { S3Sink } from "./s3-sink.js";
import { probeObject, type S3Object, S3Source } from "./s3-source.js";

/** What is known of an object is asked for anew after so long, 10 s. */
const FRESH_MS = 10_000;
/** Objects that are removed with one request. Source: Amazon S3 API Reference, DeleteObjects. */
const KEYS_PER_REMOVAL = 1000;

/** Options of {@link S3Files}. */
export interface S3FilesOptions {
  /** A client to use; one that finds endpoint, region and credentials as AWS tools do is made when it is not given. */
  readonly client?: S3Client | undefined;
  /** Memory for what was read; 64 MiB when it is not given. */
  readonly cache?: BlockCache | undefined;
}

interface Known {
  readonly object: S3Object;
  readonly source: CachedSource;
  readonly atMs: number;
}

/**
 * Objects of an S3 store, named `s3://bucket/key`; a prefix that ends at a slash counts as a directory. Needs the package
 * `@aws-sdk/client-s3`, which is loaded with the first request. Objects appear whole; one that changes while it is read is
 * an error. A rename copies and is not one step.
 */
export class S3Files implements FileStore {
  readonly copiesOnRename = true;
  private readonly client: S3Client | undefined;
  private readonly cache: BlockCache;
  private readonly local = new LocalFiles();
  private readonly known = new Map<string, Promise<Known>>();
  private loading: Promise<LoadedS3> | undefined;

  /** Makes a store; nothing is loaded or asked for yet. */
  constructor(options: S3FilesOptions = {}) {
    this.client = options.client;
    this.cache = options.cache ?? new BlockCache();
  }

  /** See {@link FileStore.open}. */
  async open(path: string): Promise<OpenedSource> {
    const { source } = await this.find(path);
    return new SharedSource(path, source);
  }

  /** See {@link FileStore.stat}. */
  async stat(path: string): Promise<FileInfo | undefined> {
    const { key } = parseS3Path(path);
    if (key !== "" && !path.endsWith("/")) {
      const object = await this.find(path).catch((error: unknown) => {
        if (!isCairnError(error, "not-found")) throw error;
      });
      if (object !== undefined) return { path, kind: "file", size: object.object.size, identity: object.object.etag };
    }
    for await (const _ of this.keysUnder(path, 1)) return { path, kind: "directory", size: 0 };
    return undefined;
  }

  /** See {@link FileStore.isSame}. */
  async isSame(a: string, b: string): Promise<boolean> {
    return keyOf(a) === keyOf(b) && (await this.stat(a)) !== undefined;
  }

  /** See {@link FileStore.list}. */
  async list(path: string): Promise<readonly FileInfo[]> {
    const { s3, client } = await this.load();
    const { bucket, key } = parseS3Path(path);
    const prefix = key === "" ? "" : `${key}/`;
    const base = path.replace(/\/+$/, "");
    const infos: FileInfo[] = [];
    let token: string | undefined;
    try {
      do {
        const input = { Bucket: bucket, Prefix: prefix, Delimiter: "/", ContinuationToken: token };
        const page = await client.send(new s3.ListObjectsV2Command(input));
        for (const { Key = "", Size = 0, ETag } of page.Contents ?? []) {
          // Some tools make an empty object for a directory.
          if (Key !== prefix)
            infos.push({ path: `${base}/${Key.slice(prefix.length)}`, kind: "file", size: Size, identity: ETag });
        }
        for (const { Prefix = "" } of page.CommonPrefixes ?? []) {
          infos.push({ path: `${base}/${Prefix.slice(prefix.length, -1)}`, kind: "directory", size: 0 });
        }
        token = page.NextContinuationToken;
      } while (token !== undefined);
    } catch (cause) {
      throw s3Error(cause, path, "read");
    }
    if (infos.length === 0 && key !== "") throw new NotFoundError("not-found", "no such directory", { file: path });
    return infos.sort((a, b) => (a.path < b.path ? -1 : 1));
  }

  /** See {@link FileStore.create}. The store itself refuses to replace an object when the file is closed. */
  async create(path: string, options: CreateOptions = {}): Promise<ByteSink> {
    const { overwrite = false } = options;
    if (!overwrite && (await this.stat(path))?.kind === "file") {
      throw new UsageError("exists", "the output exists already", { file: path });
    }
    return new S3Sink(await this.load(), path, { overwrite, onDone: () => this.forget(path) });
  }

  /** See {@link FileStore.remove}. */
  async remove(path: string): Promise<void> {
    const { s3, client } = await this.load();
    const { bucket, key } = parseS3Path(path);
    const keys = [key];
    for await (const { key: below } of this.keysUnder(path)) keys.push(below);
    if (key === "") keys.shift();
    try {
      for (let i = 0; i < keys.length; i += KEYS_PER_REMOVAL) {
        const Objects = keys.slice(i, i + KEYS_PER_REMOVAL).map((Key) => ({ Key }));
        const command = new s3.DeleteObjectsCommand({ Bucket: bucket, Delete: { Objects, Quiet: true } });
        const [problem] = (await client.send(command)).Errors ?? [];
        if (problem?.Code === undefined || problem.Code === "NoSuchKey") continue;
        throw new StorageError("write-failed", `cannot remove: ${problem.Code}`, {
          file: `s3://${bucket}/${problem.Key}`,
        });
      }
    } catch (cause) {
      throw s3Error(cause, path, "write");
    }
    this.known.clear();
  }

  /** Copies within the store and removes what was copied; an object may have up to 5 GB. */
  async rename(from: string, to: string): Promise<void> {
    const [source, target] = [await this.stat(from), await this.stat(to)];
    if (source === undefined) throw new NotFoundError("not-found", "no such file", { file: from });
    if (target !== undefined && !(source.kind === "file" && target.kind === "file")) {
      throw new StorageError("write-failed", "cannot write: something is there already", { file: to });
    }
    const [old, place] = [parseS3Path(from), parseS3Path(to)];
    if (source.kind === "file") await this.copy(old.bucket, old.key, to, place.key);
    else {
      for await (const { key } of this.keysUnder(from)) {
        await this.copy(old.bucket, key, to, place.key + key.slice(old.key.length));
      }
    }
    await this.remove(from);
  }

  /** Room on the local disk. */
  scratch(expectedBytes?: number): Promise<ScratchFile> {
    return this.local.scratch(expectedBytes);
  }

  private async copy(bucket: string, key: string, to: string, target: string): Promise<void> {
    const { s3, client } = await this.load();
    const CopySource = `${bucket}/${key.split("/").map(encodeURIComponent).join("/")}`;
    try {
      await client.send(new s3.CopyObjectCommand({ Bucket: parseS3Path(to).bucket, Key: target, CopySource }));
    } catch (cause) {
      throw s3Error(cause, to, "write");
    }
    this.known.clear();
  }

  /** The objects below a path, `pageSize` at a time. */
  private async *keysUnder(path: string, pageSize?: number): AsyncGenerator<{ key: string }> {
    const { s3, client } = await this.load();
    const { bucket, key } = parseS3Path(path);
    let token: string | undefined;
    do {
      const input = {
        Bucket: bucket,
        Prefix: key === "" ? "" : `${key}/`,
        MaxKeys: pageSize,
        ContinuationToken: token,
      };
      const page = await client.send(new s3.ListObjectsV2Command(input)).catch((cause: unknown) => {
        throw s3Error(cause, path, "read");
      });
      for (const { Key } of page.Contents ?? []) if (Key !== undefined) yield { key: Key };
      token = page.NextContinuationToken;
    } while (token !== undefined);
  }

  private async find(path: string): Promise<Known> {
    const key = keyOf(path);
    const known = await this.known.get(key);
    if (known !== undefined && Date.now() - known.atMs < FRESH_MS) return known;
    const found = this.probe(path, key);
    this.known.set(key, found);
    found.catch(() => this.known.delete(key));
    return found;
  }

  private async probe(path: string, key: string): Promise<Known> {
    const loaded = await this.load();
    const object = await probeObject(loaded, path, this.cache.blockBytes);
    const source = this.cache.wrap(new S3Source(loaded, object, () => this.known.delete(key)));
    source.seed(0, object.head);
    return { object, source, atMs: Date.now() };
  }

  private forget(path: string): void {
    this.known.delete(keyOf(path));
  }

  private load(): Promise<LoadedS3> {
    this.loading ??= loadS3(this.client);
    return this.loading;
  }
}

function keyOf(path: string): string {
  const { bucket, key } = parseS3Path(path);
  return `${bucket}/${key}`;
}
