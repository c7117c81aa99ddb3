import { BaseSource, type ByteSource, type OpenedSource, type ReadOptions } from "../../bytes/byte-source.js";
import type { FileStore } from "../../bytes/file-store.js";
import { joinSources } from "../../bytes/joined-source.js";
import { NotFoundError } from "../../errors.js";

/** Files that are kept open: a large model has thousands. */
const OPEN_FILES = 32;
/** Files that are looked at at a time. */
const PARALLEL_LOOKS = 16;

/** A file of weights that is there. */
export interface ShardFile {
  readonly path: string;
  readonly size: number;
}

/** The files of weights of a model, each opened when it is read, and few at a time. */
export class ShardFiles {
  private readonly files: FileStore;
  /** By path, the one that was used last at the end. */
  private readonly open = new Map<string, OpenFile>();

  /** Nothing is opened yet. */
  constructor(files: FileStore) {
    this.files = files;
  }

  /** Looks which of these files are there; undefined stands for one that is not. */
  async look(paths: readonly string[]): Promise<(ShardFile | undefined)[]> {
    const found: (ShardFile | undefined)[] = [];
    for (let i = 0; i < paths.length; i += PARALLEL_LOOKS) {
      const part = paths.slice(i, i + PARALLEL_LOOKS).map(async (path) => {
        const info = await this.files.stat(path);
        return info?.kind === "file" ? { path, size: info.size } : undefined;
      });
      found.push(...(await Promise.all(part)));
    }
    return found;
  }

  /**
   * Files one behind the other as one source.
   * @throws {@link NotFoundError} (`not-found`)
   */
  async join(name: string, paths: readonly string[]): Promise<ByteSource> {
    const found = await this.look(paths);
    const parts = found.map((file, i) => {
      if (file !== undefined) return new ShardSource(file, this);
      throw new NotFoundError("not-found", "a file of weights is missing", { file: paths[i] });
    });
    return joinSources(name, parts);
  }

  /** Does something with an open file. */
  async use<Result>(path: string, work: (source: OpenedSource) => Promise<Result>): Promise<Result> {
    const file = this.open.get(path) ?? { source: this.files.open(path), users: 0 };
    this.open.delete(path);
    this.open.set(path, file);
    file.users++;
    try {
      return await work(await file.source);
    } catch (error) {
      // One that could not be opened may be tried again.
      await file.source.catch(() => this.open.get(path) === file && this.open.delete(path));
      throw error;
    } finally {
      file.users--;
      await this.closeIdle();
    }
  }

  /** Gives back all files. */
  async close(): Promise<void> {
    const files = [...this.open.values()];
    this.open.clear();
    for (const file of await Promise.allSettled(files.map(({ source }) => source))) {
      if (file.status === "fulfilled") await file.value.close();
    }
  }

  private async closeIdle(): Promise<void> {
    for (const [path, { source, users }] of this.open) {
      if (this.open.size <= OPEN_FILES) return;
      if (users > 0) continue;
      this.open.delete(path);
      await (await source).close();
    }
  }
}

interface OpenFile {
  readonly source: Promise<OpenedSource>;
  users: number;
}

/** A file of known size that is opened when it is read. */
class ShardSource extends BaseSource {
  readonly name: string;
  readonly size: number;
  private readonly shards: ShardFiles;

  constructor({ path, size }: ShardFile, shards: ShardFiles) {
    super();
    this.name = path;
    this.size = size;
    this.shards = shards;
  }

  override readPieces(
    offset: number,
    length: number,
    scratch: Uint8Array,
    options?: ReadOptions,
  ): Promise<readonly Uint8Array[]> {
    return this.shards.use(this.name, (source) => source.readPieces(offset, length, scratch, options));
  }

  protected async fill(offset: number, target: Uint8Array, options?: ReadOptions): Promise<void> {
    target.set(await this.shards.use(this.name, (source) => source.read(offset, target.length, options)));
  }
}
