import { isCairnError } from "../errors.js";
import type { FileInfo, FileStore } from "./file-store.js";
import { baseName, joinPath, parentPath } from "./path.js";

/**
 * Names of what is not in its place yet, or not any more. They are hidden, and tell what they belong to:
 * `.NAME.cairn-TOKEN.tmp` is a file that was being written, `.new` one or a directory that was to take the place of NAME,
 * `.old` what stepped aside for it. They vanish when the work ends, in whatever way but a crash.
 */
const LEFTOVER = /^\.(.+)\.cairn-[0-9a-f]{12,16}\.(tmp|new|old)$/;

/** After so long nobody is writing any more, an hour. */
const ABANDONED_MS = 3_600_000;

/** Something that a crash left behind. */
export interface Leftover {
  readonly path: string;
  /** What it was to be called. */
  readonly name: string;
  readonly kind: "tmp" | "new" | "old";
  /** When it was changed last, in milliseconds since 1970; undefined where a store cannot tell. */
  readonly modifiedMs: number | undefined;
}

/** What a hidden name says; undefined for other names. */
export function leftoverOf({ path, modifiedMs }: FileInfo): Leftover | undefined {
  const [, name, kind] = LEFTOVER.exec(baseName(path)) ?? [];
  return name === undefined ? undefined : { path, name, kind: kind as Leftover["kind"], modifiedMs };
}

/** A token that nobody else has. */
export function leftoverToken(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The hidden name of a path while it is not in its place. */
export function leftoverPath(path: string, token: string, kind: "new" | "old"): string {
  return joinPath(parentPath(path), `.${baseName(path)}.cairn-${token}.${kind}`);
}

/** What is left of a path, beside it. */
export async function listLeftovers(files: FileStore, path: string): Promise<Leftover[]> {
  return (await leftoversIn(files, parentPath(path))).filter(({ name }) => name === baseName(path));
}

/** All that is left in a directory; nothing in one that is not there or cannot be listed. */
export async function leftoversIn(files: FileStore, directory: string): Promise<Leftover[]> {
  try {
    return (await files.list(directory)).map(leftoverOf).filter((one) => one !== undefined);
  } catch (error) {
    if (isCairnError(error, "not-found") || isCairnError(error, "unsupported-operation")) return [];
    throw error;
  }
}

/** Whether somebody may be writing it still. It is taken for granted where the store tells no times. */
export function mayBeWritten({ modifiedMs }: Leftover, nowMs = Date.now()): boolean {
  return modifiedMs === undefined || nowMs - modifiedMs < ABANDONED_MS;
}

/** Removes what was left of a path so long ago that nobody is writing it any more. What stepped aside stays. */
export async function removeOldLeftovers(files: FileStore, path: string): Promise<void> {
  for (const leftover of await listLeftovers(files, path)) {
    if (leftover.kind !== "old" && !mayBeWritten(leftover)) await files.remove(leftover.path);
  }
}
