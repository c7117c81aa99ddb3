import { CairnError, type ErrorCode, type ErrorDetails } from "../errors.js";
import type { ShardTarget, Snapshot, SnapshotTable } from "./snapshot.js";

/** What the training thread tells the writing one to do. Blocks of a table that it has seen are not sent again. */
export interface SaveJob {
  readonly number: number;
  readonly snapshot: Snapshot;
  readonly target: ShardTarget;
  /** How many versions are kept; 0 keeps all. */
  readonly keepCheckpointMax: number;
}

/** What the writing thread is given at its start. */
export interface SaveThreadData {
  /** Parts of the pool of images come here; they are read when they are needed, within a piece of work. */
  readonly poolPort: import("node:worker_threads").MessagePort;
  /** Milliseconds of rest after each piece. */
  readonly restMs: number;
}

/** A part of the pool of images, or that it is gone. */
export interface PoolPart {
  readonly number: number;
  readonly memory: SharedArrayBuffer | undefined;
}

/** An error on its way to another thread. */
export interface SentError {
  readonly code: ErrorCode;
  readonly message: string;
  readonly file: string | undefined;
  readonly hint: string | undefined;
  readonly expected?: ErrorDetails["expected"];
  readonly actual?: ErrorDetails["actual"];
}

/** What the writing thread answers. */
export interface SaveAnswer {
  readonly number: number;
  /** The file that was written, with its size. */
  readonly saved?: { readonly path: string; readonly byteLength: number };
  /** Versions that were removed since there are enough newer ones. */
  readonly removed?: readonly string[];
  readonly error?: SentError;
}

/** An error as it is sent. */
export function sendError(error: unknown): SentError {
  if (!(error instanceof CairnError)) {
    const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return { code: "write-failed", message, file: undefined, hint: undefined };
  }
  const { code, summary, file, hint, expected, actual } = error;
  return { code, message: summary, file, hint, expected, actual };
}

/** Blocks of tables, as far as another thread knows them. */
export class KnownBlocks {
  private readonly tables = new Map<string, SnapshotTable["blocks"]>();

  /** Leaves out of a snapshot the blocks that the other thread has, and remembers that it has the rest. */
  leaveOut(snapshot: Snapshot): Snapshot {
    const tables = snapshot.tables.map((table) => {
      const known = this.tables.get(table.name)?.length ?? 0;
      this.tables.set(table.name, [...table.blocks]);
      return { ...table, blocks: table.blocks.slice(known).map(({ memory, ids }) => ({ memory, ids })) };
    });
    return { ...snapshot, tables };
  }

  /** Puts back into a snapshot what was left out of it. */
  putBack(snapshot: Snapshot): Snapshot {
    const tables = snapshot.tables.map((table) => {
      const blocks = [...(this.tables.get(table.name) ?? []), ...table.blocks];
      this.tables.set(table.name, blocks);
      return { ...table, blocks };
    });
    return { ...snapshot, tables };
  }
}
