import type { ByteSink } from "../../bytes/byte-sink.js";
import type { FileStore } from "../../bytes/file-store.js";
import { leftoversIn, leftoverToken, mayBeWritten } from "../../bytes/leftovers.js";
import { baseName, parentPath } from "../../bytes/path.js";
import { isCairnError, StorageError, UsageError } from "../../errors.js";
import { besides, descriptionPath, findShards, indexPath } from "./bundle-paths.js";
import {
  applyMoves,
  encodeJournal,
  isStagedName,
  journalPath,
  type Move,
  readJournal,
  stagedName,
} from "./swap-journal.js";

/**
 * The way by which the files of a checkpoint come to their names. All are written under hidden names; then a journal says
 * what is to be moved where, and from that instant the new checkpoint counts; then they are moved. Whatever ends the work
 * in between, the old checkpoint or the new one is there, whole. Of several that write one prefix at the same time, only
 * one can have a journal, so that their files do not mix. Where a rename copies, the files of a new checkpoint are
 * written in place, the index last.
 */
export class Publication {
  /** Whether files are written under hidden names first. */
  private readonly isStaged: boolean;
  private readonly files: FileStore;
  private readonly prefix: string;
  private readonly token: string;
  private readonly overwrite: boolean;
  private hasJournal = false;
  private readonly moves: Move[] = [];
  private readonly names = new Set<string>();

  private constructor(files: FileStore, prefix: string, options: { isStaged: boolean; overwrite: boolean }) {
    this.files = files;
    this.prefix = prefix;
    this.isStaged = options.isStaged;
    this.overwrite = options.overwrite;
    this.token = leftoverToken();
  }

  /**
   * Begins a checkpoint; finishes a replacement that was cut short. With `adopts`, files of other checkpoints may be taken
   * over.
   * @throws UsageError (`exists`) when there is one and `overwrite` is not set
   */
  static async begin(
    files: FileStore,
    prefix: string,
    { overwrite = false, adopts = false }: { overwrite?: boolean | undefined; adopts?: boolean },
  ): Promise<Publication> {
    const journal = await readJournal(files, prefix);
    if (journal !== undefined) {
      await applyMoves(files, prefix, journal.moves);
      await files.remove(journalPath(prefix));
    }
    const exists = (await files.stat(indexPath(prefix))) !== undefined;
    if (exists && !overwrite) throw existsAlready(prefix);
    return new Publication(files, prefix, { isStaged: exists || adopts || !files.copiesOnRename, overwrite });
  }

  /** Begins a file of the checkpoint, data files first and the index last. Close the sinks in that order too. */
  create(path: string, expectedBytes?: number): Promise<ByteSink> {
    return this.files.create(this.place(path), { overwrite: true, expectedBytes });
  }

  /** Takes a data file over; it is moved with the others. False when it is not below the directory of the checkpoint. */
  adopt(from: string, path: string): boolean {
    const relative = belowDirectory(from, parentPath(this.prefix));
    if (relative === undefined || !this.isStaged) return false;
    const to = baseName(path);
    this.names.add(to);
    this.moves.push({ from: relative, to });
    return true;
  }

  /**
   * Makes the checkpoint the one that counts, and removes what is left of the one before.
   * @throws UsageError (`exists`) when another one came first
   */
  async commit(): Promise<void> {
    const { files, prefix } = this;
    if (!this.isStaged) return this.removeRemains();
    await this.writeJournal();
    await applyMoves(files, prefix, this.moves);
    // Still under the journal: without it, another one could be moving its files here.
    await this.removeRemains();
    if (await this.counts()) await files.remove(journalPath(prefix));
  }

  /**
   * Whether the checkpoint is still the one that counts. Another save takes a journal that it finds for one that was left,
   * and finishes what it says.
   */
  private async counts(): Promise<boolean> {
    if (!this.isStaged) return true;
    const journal = await readJournal(this.files, this.prefix);
    return journal?.moves[0]?.from === this.moves[0]?.from;
  }

  /** Removes what was written. */
  async abort(): Promise<void> {
    if (!this.isStaged) {
      for (const name of this.names) await this.files.remove(besides(this.prefix, name));
      return;
    }
    if (this.hasJournal) return; // it counts already
    for (const { from } of this.moves) {
      if (isStagedName(from, this.prefix)) await this.files.remove(besides(this.prefix, from));
    }
  }

  private async writeJournal(): Promise<void> {
    const { files, prefix, moves } = this;
    const journal = await files.create(journalPath(prefix));
    try {
      await journal.write(encodeJournal({ moves }));
      if (!this.overwrite && (await files.stat(indexPath(prefix))) !== undefined) throw existsAlready(prefix);
      for (const { from } of moves) {
        if ((await files.stat(besides(prefix, from))) === undefined) throw takenAway(besides(prefix, from));
      }
      await journal.close();
      this.hasJournal = true;
    } catch (error) {
      await journal.abort();
      throw isCairnError(error, "exists") ? existsAlready(prefix) : error;
    }
  }

  private place(path: string): string {
    const name = baseName(path);
    this.names.add(name);
    if (!this.isStaged) return path;
    const from = stagedName(name, this.token);
    this.moves.push({ from, to: name });
    return besides(this.prefix, from);
  }

  /** Data files that no index names any more, a description that is of no plan now, what was never moved. */
  private async removeRemains(): Promise<void> {
    const { files, prefix, names } = this;
    const remains: string[] = [];
    for (const { path } of await findShards(files, prefix)) {
      if (!names.has(baseName(path))) remains.push(path);
    }
    const description = descriptionPath(prefix);
    if (!names.has(baseName(description)) && (await files.stat(description)) !== undefined) remains.push(description);
    for (const leftover of await leftoversIn(files, parentPath(prefix))) {
      if (isStagedName(baseName(leftover.path), prefix) && !mayBeWritten(leftover)) remains.push(leftover.path);
    }
    for (const path of remains) if (await this.counts()) await files.remove(path);
  }
}

/** The rest of a path behind a directory that it is in. */
function belowDirectory(path: string, directory: string): string | undefined {
  const steps = (text: string) => text.split("/").filter((step, i) => (step !== "" || i === 0) && step !== ".");
  const [inner, outer] = [steps(path), steps(directory)];
  const isBelow = outer.every((step, i) => step === inner[i]) && inner.length > outer.length;
  const rest = inner.slice(outer.length);
  return isBelow && !rest.includes("..") && rest[0] !== "" ? rest.join("/") : undefined;
}

function existsAlready(prefix: string): UsageError {
  return new UsageError("exists", "the checkpoint exists already", {
    file: indexPath(prefix),
    hint: "Pass --force to replace it, or choose another name.",
  });
}

function takenAway(file: string): StorageError {
  return new StorageError("file-changed", "somebody else took a file away before the checkpoint was complete", {
    file,
  });
}
