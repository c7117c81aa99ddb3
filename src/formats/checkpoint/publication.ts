import type { ByteSink } from "../../bytes/byte-sink.js";
import type { FileStore } from "../../bytes/file-store.js";
import { baseName, parentPath } from "../../bytes/path.js";
import { UsageError } from "../../errors.js";
import { besides, descriptionPath, findShards, indexPath, listIfThere } from "./bundle-paths.js";
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
 * The way by which the files of a checkpoint come to their names. A new checkpoint is there with its index, which comes
 * last. To replace one, all files are written under hidden names; then a journal says what is to be moved where, and
 * from that instant the new checkpoint counts; then they are moved. Whatever ends the work in between, the old
 * checkpoint or the new one is there, whole.
 */
export class Publication {
  /** Whether files are written under hidden names first. */
  private readonly isStaged: boolean;
  private readonly files: FileStore;
  private readonly prefix: string;
  private readonly token: string;
  private readonly moves: Move[] = [];
  private readonly names = new Set<string>();

  private constructor(files: FileStore, prefix: string, isStaged: boolean) {
    this.files = files;
    this.prefix = prefix;
    this.isStaged = isStaged;
    this.token = randomToken();
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
    if (exists && !overwrite) {
      throw new UsageError("exists", "the checkpoint exists already", {
        file: indexPath(prefix),
        hint: "Pass --force to replace it, or choose another name.",
      });
    }
    return new Publication(files, prefix, exists || adopts);
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

  /** Makes the checkpoint the one that counts, and removes what is left of the one before. */
  async commit(): Promise<void> {
    const { files, prefix } = this;
    if (this.isStaged) {
      const journal = await files.create(journalPath(prefix), { overwrite: true });
      await journal.write(encodeJournal({ moves: this.moves }));
      await journal.close();
      await applyMoves(files, prefix, this.moves);
      await files.remove(journalPath(prefix));
    }
    await this.removeRemains();
  }

  /** Removes what was written. */
  async abort(): Promise<void> {
    if (!this.isStaged) {
      for (const name of this.names) await this.files.remove(besides(this.prefix, name));
      return;
    }
    if ((await this.files.stat(journalPath(this.prefix))) !== undefined) return; // it counts already
    for (const { from } of this.moves) {
      if (isStagedName(from, this.prefix)) await this.files.remove(besides(this.prefix, from));
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
    for (const { path } of await findShards(files, prefix)) {
      if (!names.has(baseName(path))) await files.remove(path);
    }
    const description = descriptionPath(prefix);
    if (!names.has(baseName(description)) && (await files.stat(description)) !== undefined) {
      await files.remove(description);
    }
    for (const { path } of await listIfThere(files, parentPath(prefix))) {
      if (isStagedName(baseName(path), prefix)) await files.remove(path);
    }
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

function randomToken(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
