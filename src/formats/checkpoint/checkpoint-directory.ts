import type { FileStore } from "../../bytes/file-store.js";
import { baseName, joinPath, withoutSuffix } from "../../bytes/path.js";
import { CairnError, TruncatedError } from "../../errors.js";
import type {
  BestVersion,
  DirectoryVersion,
  LatestVersion,
  LookOptions,
  PassedOver,
  PruneOptions,
  PrunePlan,
  VersionedDirectory,
  VersionList,
} from "../versioned-directory.js";
import { listIfThere, shardPath } from "./bundle-paths.js";
import { openCheckpoint } from "./checkpoint-reader.js";
import { type KeptState, readKeptState, removeCheckpoint, writeKeptState } from "./kept-state.js";
import { findStrays } from "./strays.js";

/** A directory of checkpoints that one training wrote under one name, as TensorFlow's CheckpointManager keeps it. */
export class CheckpointDirectory implements VersionedDirectory {
  readonly path: string;
  private readonly files: FileStore;

  /** A directory; nothing is read yet. */
  constructor(files: FileStore, path: string) {
    this.files = files;
    this.path = path;
  }

  /** See {@link VersionedDirectory.list}. */
  async list(options: LookOptions = {}): Promise<VersionList> {
    const versions: DirectoryVersion[] = [];
    for (const prefix of await this.prefixes()) versions.push(await this.look(prefix, options));
    return { versions, skipped: [] };
  }

  /** See {@link VersionedDirectory.latest}. */
  async latest(options: LookOptions = {}): Promise<LatestVersion> {
    const skipped: PassedOver[] = [];
    for await (const version of this.newestFirst(options)) {
      if (version.isComplete) return { latest: version, skipped };
      skipped.push({ path: version.path, reason: version.reason ?? "not complete" });
    }
    return { latest: undefined, skipped };
  }

  /** All versions from the newest on, each looked at when its turn comes. */
  async *newestFirst(options: LookOptions = {}): AsyncGenerator<DirectoryVersion> {
    for (const prefix of (await this.prefixes()).reverse()) yield await this.look(prefix, options);
  }

  /** There are no metrics in such a directory, so none is the best. See {@link VersionedDirectory.best}. */
  async best(): Promise<BestVersion> {
    return { best: undefined, metric: undefined, mode: undefined, skipped: [] };
  }

  /** See {@link VersionedDirectory.planPrune}. */
  async planPrune({ keep, force = false, ...look }: PruneOptions): Promise<PrunePlan> {
    const { versions } = await this.list(look);
    const complete = versions.filter(({ isComplete }) => isComplete);
    const kept = keep === 0 ? complete : complete.slice(-keep);
    const newest = kept.at(-1);
    const remove: PrunePlan["remove"][number][] = [];
    const stays: PrunePlan["keep"][number][] = [];
    for (const [i, { version, path, isComplete, reason }] of versions.entries()) {
      const isOld = newest !== undefined && i < versions.indexOf(newest);
      if (kept.some((one) => one.path === path)) stays.push({ version, path });
      else if (isComplete) remove.push({ version, path, reason: `older than the ${keep} newest` });
      // One that is incomplete may still be written, unless a newer one is complete.
      else if (isOld || (force && newest !== undefined))
        remove.push({ version, path, reason: reason ?? "not complete" });
      else stays.push({ version, path });
    }
    const isDone = (prefix: string) =>
      newest !== undefined && numberOf(prefix) < newest.version && !versions.some(({ path }) => path === prefix);
    return { remove, keep: stays, strays: await findStrays(this.files, this.path, { force, isDone }) };
  }

  /** See {@link VersionedDirectory.prune}. The state file forgets what goes before it goes. */
  async prune({ remove, strays }: PrunePlan): Promise<void> {
    const gone = new Set(remove.map(({ path }) => path));
    const state = await readKeptState(this.files, this.path);
    if (state !== undefined) await this.forget(state, gone);
    for (const path of gone) await removeCheckpoint(this.files, path);
    for (const { path } of strays) await this.files.remove(path);
  }

  private async forget(state: KeptState, gone: ReadonlySet<string>): Promise<void> {
    const kept = state.kept.filter(({ path }) => !gone.has(path));
    const isLatestGone = state.latest !== undefined && gone.has(state.latest);
    if (kept.length === state.kept.length && !isLatestGone) return;
    const latest = isLatestGone ? kept.at(-1)?.path : state.latest;
    await writeKeptState(this.files, this.path, { ...state, kept, latest });
  }

  /**
   * All prefixes, oldest first: those that the state file doesn't name, which were kept for good or come from before, by
   * their number, then those that it names, in its order, and last the one that it calls the latest.
   */
  private async prefixes(): Promise<string[]> {
    const state = await readKeptState(this.files, this.path);
    const named =
      state === undefined
        ? []
        : [...state.kept.map(({ path }) => path), ...(state.latest === undefined ? [] : [state.latest])];
    const inOrder = named.filter((path, i) => named.lastIndexOf(path) === i);
    const found: string[] = [];
    for (const { path, kind } of await listIfThere(this.files, this.path)) {
      const name = withoutSuffix(baseName(path), ".index");
      if (kind !== "file" || name === undefined || name === "" || name.startsWith(".")) continue;
      const prefix = joinPath(this.path, name);
      if (!inOrder.includes(prefix)) found.push(prefix);
    }
    return [...found.sort((a, b) => numberOf(a) - numberOf(b) || (a < b ? -1 : 1)), ...inOrder];
  }

  private async look(path: string, options: LookOptions): Promise<DirectoryVersion> {
    const found = { version: numberOf(path), path, shards: 0, byteLength: 0 };
    try {
      const reader = await openCheckpoint(path, { files: this.files });
      try {
        found.shards = reader.header.shardCount;
        const sizes = await this.shardSizes(path, found.shards);
        found.byteLength = sizes.reduce((sum, size) => sum + size, 0);
        for await (const { key, stored, slices } of reader.entries()) {
          for (const { shard, offset, size } of stored === undefined ? slices.map((slice) => slice.stored) : [stored]) {
            if (offset + size <= (sizes[shard] ?? 0)) continue;
            throw new TruncatedError("truncated", `the data file ends before "${key}" does`, {
              file: shardPath(path, shard, found.shards),
            });
          }
        }
        if (options.quick !== true) await reader.verifyAll(options);
      } finally {
        await reader.close();
      }
      return { ...found, isComplete: true };
    } catch (error) {
      options.signal?.throwIfAborted();
      if (!(error instanceof CairnError)) throw error;
      return { ...found, isComplete: false, reason: error.message };
    }
  }

  private async shardSizes(prefix: string, count: number): Promise<number[]> {
    const sizes: number[] = [];
    for (let shard = 0; shard < count; shard++) {
      const file = shardPath(prefix, shard, count);
      const info = await this.files.stat(file);
      if (info === undefined) throw new TruncatedError("truncated", "a data file is missing", { file });
      sizes.push(info.size);
    }
    return sizes;
  }
}

/** The number at the end of a prefix; 0 without one. */
function numberOf(prefix: string): number {
  return Number(/-(\d{1,15})$/.exec(prefix)?.[1] ?? 0);
}
