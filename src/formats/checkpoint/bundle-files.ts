import { BaseSource, type ByteSource, type OpenedSource, type ReadOptions } from "../../bytes/byte-source.js";
import type { FileStore } from "../../bytes/file-store.js";
import { baseName } from "../../bytes/path.js";
import { CorruptionError, isCairnError, NotFoundError, StorageError, TruncatedError } from "../../errors.js";
import { besides, indexPath, shardPath } from "./bundle-paths.js";
import type { PlacedEntry } from "./checkpoint-index.js";
import { finishSwap, type Move, readJournal } from "./swap-journal.js";

/** Data files that are open at a time; of more, those that were used longest ago are closed. */
const MAX_OPEN_SHARDS = 128;
/** How often opening is tried when the checkpoint is replaced at that very moment. */
const ATTEMPTS = 4;

/**
 * The files of one checkpoint. When the checkpoint is replaced while it is read, data files that are open stay as they
 * were, and opening another fails: there is never a mix of two.
 */
export class BundleFiles {
  readonly prefix: string;
  readonly index: OpenedSource;
  private readonly files: FileStore;
  private readonly identity: string | undefined;
  private readonly moves: readonly Move[];
  private readonly shards = new Map<number, ShardSource>();
  private shardCount = 0;

  private constructor(files: FileStore, prefix: string, index: OpenedSource, state: SwapState) {
    this.files = files;
    this.prefix = prefix;
    this.index = index;
    this.identity = state.identity;
    this.moves = state.moves;
  }

  /**
   * Opens the index. A replacement that was cut short is finished first; where nothing can be written, the new files are
   * read from where they stand.
   * @throws NotFoundError (`not-found`), StorageError (`file-changed`)
   */
  static async open(files: FileStore, prefix: string): Promise<BundleFiles> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const before = await readState(files, prefix);
      let index: OpenedSource;
      try {
        index = await files.open(placeOf(before.moves, prefix, indexPath(prefix)));
      } catch (error) {
        if (isCairnError(error, "not-found") && (await hasChanged(files, prefix, before))) continue;
        throw missingIndex(error, prefix);
      }
      if (await hasChanged(files, prefix, before)) await index.close();
      else return new BundleFiles(files, prefix, index, before);
    }
    throw changedError(prefix);
  }

  /** Tells how many data files there are, as the header of the index says. */
  setShardCount(count: number): void {
    this.shardCount = count;
  }

  /** The path of a data file, for people. */
  shardName(shard: number): string {
    return shardPath(this.prefix, shard, this.shardCount);
  }

  /**
   * The stored bytes of an entry.
   * @throws NotFoundError (`not-found`), CorruptionError (`bundle-entry`), TruncatedError (`truncated`),
   *   StorageError (`file-changed`)
   */
  async stored({ entry, place }: PlacedEntry): Promise<ByteSource> {
    const { shardId, offset, size } = entry;
    if (shardId >= this.shardCount) {
      throw new CorruptionError("bundle-entry", `shard of "${place.key}"`, {
        file: place.file,
        offset: place.offset,
        expected: `below ${this.shardCount}`,
        actual: shardId,
      });
    }
    let shard: ShardSource;
    try {
      shard = await this.shard(shardId);
    } catch (cause) {
      if (!isCairnError(cause, "not-found")) throw cause;
      throw new NotFoundError("not-found", `the data file of "${place.key}" is missing`, {
        file: this.shardName(shardId),
        cause,
      });
    }
    if (offset + size <= shard.size) return shard.slice(offset, size);
    throw new TruncatedError("truncated", `the data file ends before "${place.key}" does`, {
      file: shard.name,
      offset,
      expected: `${size} bytes`,
      actual: `${Math.max(0, shard.size - offset)} bytes`,
    });
  }

  /** A data file. @throws NotFoundError (`not-found`), StorageError (`file-changed`) */
  async shard(shard: number): Promise<ShardSource> {
    let source = this.shards.get(shard);
    if (source === undefined) {
      source = new ShardSource(
        this.shardName(shard),
        () => this.openShard(shard),
        () => this.touch(shard),
      );
      this.shards.set(shard, source);
    }
    await source.ready();
    return source;
  }

  /** Closes all files. */
  async close(): Promise<void> {
    await Promise.all([this.index.close(), ...[...this.shards.values()].map((shard) => shard.close())]);
    this.shards.clear();
  }

  /** Opens a data file, and makes sure that it belongs to the index that was read. */
  private async openShard(shard: number): Promise<OpenedSource> {
    let source: OpenedSource | undefined;
    let failure: unknown;
    try {
      source = await this.files.open(placeOf(this.moves, this.prefix, this.shardName(shard)));
    } catch (error) {
      // It may just have been moved into its place.
      if (isCairnError(error, "not-found") && this.moves.length > 0) {
        source = await this.files.open(this.shardName(shard)).catch(() => undefined);
      }
      failure = error;
    }
    const state = { moves: this.moves, identity: this.identity };
    if (await hasChanged(this.files, this.prefix, state)) {
      await source?.close();
      throw changedError(this.prefix);
    }
    if (source === undefined) throw failure;
    return source;
  }

  /** Notes the use of a data file, and closes the one that was used longest ago when there are too many. */
  private touch(shard: number): void {
    const source = this.shards.get(shard) as ShardSource;
    this.shards.delete(shard);
    this.shards.set(shard, source);
    let open = 0;
    for (const other of this.shards.values()) if (other.isOpen) open++;
    for (const other of this.shards.values()) {
      if (open < MAX_OPEN_SHARDS) return;
      if (other !== source && other.release()) open--;
    }
  }
}

/** A data file that is opened when it is read, and may be closed in between. */
class ShardSource extends BaseSource {
  readonly name: string;
  size = 0;
  private readonly reopen: () => Promise<OpenedSource>;
  private readonly onOpen: () => void;
  private opened: Promise<OpenedSource> | undefined;
  private readers = 0;
  private isKnown = false;

  constructor(name: string, reopen: () => Promise<OpenedSource>, onOpen: () => void) {
    super();
    this.name = name;
    this.reopen = reopen;
    this.onOpen = onOpen;
  }

  get isOpen(): boolean {
    return this.opened !== undefined;
  }

  /** Learns the size. */
  async ready(): Promise<void> {
    if (!this.isKnown) await this.using(async () => {});
  }

  override async readPieces(
    offset: number,
    length: number,
    scratch: Uint8Array,
    options?: ReadOptions,
  ): Promise<readonly Uint8Array[]> {
    return this.using((source) => source.readPieces(offset, length, scratch, options));
  }

  override async read(offset: number, length: number, options?: ReadOptions): Promise<Uint8Array> {
    return this.using((source) => source.read(offset, length, options));
  }

  /** Closes the file when nothing reads it; it is opened again when it is needed. */
  release(): boolean {
    if (this.readers > 0 || this.opened === undefined) return false;
    void this.close();
    return true;
  }

  async close(): Promise<void> {
    const opened = await this.opened?.catch(() => undefined);
    this.opened = undefined;
    await opened?.close();
  }

  protected override async fill(offset: number, target: Uint8Array, options?: ReadOptions): Promise<void> {
    target.set(await this.read(offset, target.length, options));
  }

  private async using<T>(work: (source: OpenedSource) => Promise<T>): Promise<T> {
    this.readers++;
    try {
      if (this.opened === undefined) {
        this.onOpen();
        this.opened = this.reopen();
      }
      const source = await this.opened.catch((error) => {
        this.opened = undefined;
        throw error;
      });
      if (!this.isKnown) this.size = source.size;
      else if (source.size !== this.size) throw changedError(this.name);
      this.isKnown = true;
      return await work(source);
    } finally {
      this.readers--;
    }
  }
}

interface SwapState {
  readonly moves: readonly Move[];
  /** Of the index file. */
  readonly identity: string | undefined;
}

async function readState(files: FileStore, prefix: string): Promise<SwapState> {
  const journal = await readJournal(files, prefix);
  const isDone = journal === undefined || (await finishSwap(files, prefix, journal));
  const moves = isDone ? [] : await pendingMoves(files, prefix, journal.moves);
  const info = await files.stat(placeOf(moves, prefix, indexPath(prefix)));
  return { moves, identity: info?.identity ?? String(info?.size) };
}

/** The moves whose files still stand under their first names. */
async function pendingMoves(files: FileStore, prefix: string, moves: readonly Move[]): Promise<Move[]> {
  const there = await Promise.all(moves.map(({ from }) => files.stat(besides(prefix, from))));
  return moves.filter((_, i) => there[i] !== undefined);
}

/**
 * Whether the checkpoint is another than it was. A new data file is there only while the journal is, or when the new
 * index is; so after a data file was opened, both are looked at, the journal first.
 */
async function hasChanged(files: FileStore, prefix: string, before: SwapState): Promise<boolean> {
  const now = await readState(files, prefix);
  return now.identity !== before.identity;
}

/** Where a file of the checkpoint stands now. */
function placeOf(moves: readonly Move[], prefix: string, path: string): string {
  const move = moves.find(({ to }) => to === baseName(path));
  return move === undefined ? path : besides(prefix, move.from);
}

function changedError(file: string): StorageError {
  return new StorageError("file-changed", "the checkpoint was replaced while it was read", {
    file,
    hint: "Open it again.",
  });
}

function missingIndex(error: unknown, prefix: string): unknown {
  if (!isCairnError(error, "not-found")) return error;
  return new NotFoundError("not-found", "there is no checkpoint: its index is missing", {
    file: indexPath(prefix),
    cause: error,
  });
}
