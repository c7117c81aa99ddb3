import type { FileStore } from "../../bytes/file-store.js";
import { baseName } from "../../bytes/path.js";
import { CairnError, CorruptionError, isCairnError } from "../../errors.js";
import { MAX_STATE_FILE_BYTES } from "../../limits.js";
import { besides, parseShardName } from "./bundle-paths.js";

/** A file that is to get another name. Both are names in the directory of the checkpoint; `from` may be below it. */
export interface Move {
  readonly from: string;
  readonly to: string;
}

/**
 * What a checkpoint is about to be replaced with. All its files stand complete under other names; from the moment that
 * the journal is there, the new checkpoint is the one that counts: a file whose `from` is there has not been moved yet.
 */
export interface SwapJournal {
  readonly moves: readonly Move[];
}

/** Where the journal of a prefix stands while its checkpoint is being replaced. */
export function journalPath(prefix: string): string {
  return besides(prefix, `.${baseName(prefix)}.cairn-swap.json`);
}

/** A hidden name for a file of a checkpoint that is not in place yet. */
export function stagedName(name: string, token: string): string {
  return `.${name}.cairn-${token}.new`;
}

/** Whether a name is one that {@link stagedName} gives to a file of this prefix. */
export function isStagedName(name: string, prefix: string): boolean {
  return name.startsWith(`.${baseName(prefix)}.`) && /\.cairn-[0-9a-f]{16}\.new$/.test(name);
}

/** The journal as bytes. */
export function encodeJournal({ moves }: SwapJournal): Uint8Array {
  return new TextEncoder().encode(`${JSON.stringify({ cairnSwap: 1, moves })}\n`);
}

/**
 * The journal of a prefix, or undefined when there is none.
 * @throws CorruptionError (`invalid-json`) when it is no journal, or names files elsewhere
 */
export async function readJournal(files: FileStore, prefix: string): Promise<SwapJournal | undefined> {
  const path = journalPath(prefix);
  let bytes: Uint8Array;
  try {
    const source = await files.open(path);
    try {
      if (source.size > MAX_STATE_FILE_BYTES) throw badJournal(path, `${source.size} bytes`);
      bytes = await source.read(0, source.size);
    } finally {
      await source.close();
    }
  } catch (error) {
    // Servers refuse what is not there, or is hidden, in this way too; checksums stand against a mix all the same.
    if (isCairnError(error, "not-found") || isCairnError(error, "read-failed")) return undefined;
    throw error;
  }
  return decodeJournal(bytes, prefix, path);
}

function decodeJournal(bytes: Uint8Array, prefix: string, path: string): SwapJournal {
  let value: { cairnSwap?: unknown; moves?: unknown };
  try {
    value = JSON.parse(new TextDecoder().decode(bytes));
  } catch (cause) {
    throw badJournal(path, "no JSON", cause);
  }
  const moves = value?.moves;
  if (value?.cairnSwap !== 1 || !Array.isArray(moves)) throw badJournal(path, "another form");
  return { moves: moves.map((move) => checkMove(move, prefix, path)) };
}

/** A journal may only give names to files of its own checkpoint, and take them from its own directory. */
function checkMove(move: unknown, prefix: string, path: string): Move {
  const { from, to } = (move ?? {}) as { from?: unknown; to?: unknown };
  if (typeof from !== "string" || typeof to !== "string") throw badJournal(path, "a move without names");
  const isOwn = to.startsWith(`${baseName(prefix)}.`) && !to.includes("/");
  const steps = from.split("/");
  const isInside = !steps.some((step) => step === "" || step === "." || step === "..") && !/[\\:]/.test(from);
  const isKnown = isStagedName(from, prefix) || parseShardName(from) !== undefined;
  if (!isOwn || !isInside || !isKnown) throw badJournal(path, `a move from ${from} to ${to}`);
  return { from, to };
}

function badJournal(path: string, actual: string, cause?: unknown): CorruptionError {
  return new CorruptionError("invalid-json", "journal of an unfinished replacement", { file: path, actual, cause });
}

/**
 * Finishes a replacement that was cut short, as far as this store may be written to: files that stand under the hidden
 * names of the checkpoint are moved into their places, and the journal is removed. It does nothing that is not right
 * twice or at the same time as its writer. Gives whether the moves are done.
 */
export async function finishSwap(files: FileStore, prefix: string, journal: SwapJournal): Promise<boolean> {
  if (!journal.moves.every(({ from }) => isStagedName(from, prefix))) return false;
  try {
    await applyMoves(files, prefix, journal.moves);
    return true;
  } catch (error) {
    if (error instanceof CairnError) return false;
    throw error;
  }
}

/** Moves what has not been moved yet. */
export async function applyMoves(files: FileStore, prefix: string, moves: readonly Move[]): Promise<void> {
  for (const { from, to } of moves) {
    const source = besides(prefix, from);
    if ((await files.stat(source)) === undefined) continue;
    try {
      await files.rename(source, besides(prefix, to));
    } catch (error) {
      // Somebody else has moved it in the meantime.
      if ((await files.stat(source)) !== undefined) throw error;
    }
  }
}
