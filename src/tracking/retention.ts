import type { KeptState } from "../formats/checkpoint/kept-state.js";

/** A checkpoint that a manager keeps, and when it was written. */
export interface KeptCheckpoint {
  /** Its prefix. */
  readonly path: string;
  /** Seconds since 1970. */
  readonly time: number;
}

/** What a manager keeps, oldest first. */
export interface Retention {
  readonly kept: readonly KeptCheckpoint[];
  /** The time of the newest checkpoint that is kept for good, or of the beginning. */
  readonly lastPreserved: number;
}

/** How much is kept. */
export interface RetentionRules {
  /** How many checkpoints are kept; all when undefined. */
  readonly maxToKeep: number | undefined;
  /** Keep one for good each time so many hours have gone by. */
  readonly everyHours: number | undefined;
}

/** What follows from {@link planSweep}. */
export interface Sweep extends Retention {
  /** Checkpoints to be removed, oldest first. */
  readonly removed: readonly string[];
}

/** Adds a checkpoint as the newest. One of the same path moves to the end. */
export function recordCheckpoint(retention: Retention, checkpoint: KeptCheckpoint): Retention {
  const others = retention.kept.filter(({ path }) => path !== checkpoint.path);
  return { ...retention, kept: [...others, checkpoint] };
}

/**
 * Says which checkpoints go: the oldest, until there are no more than may be kept. One that is so many hours younger
 * than the last that was kept for good is kept for good, and no longer listed.
 * Source: tensorflow/python/checkpoint/checkpoint_management.py, CheckpointManager._sweep.
 */
export function planSweep(retention: Retention, rules: RetentionRules): Sweep {
  const { maxToKeep = Number.POSITIVE_INFINITY, everyHours } = rules;
  const kept = [...retention.kept];
  let { lastPreserved } = retention;
  const removed: string[] = [];
  while (kept.length > maxToKeep) {
    const { path, time } = kept.shift() as KeptCheckpoint;
    if (everyHours !== undefined && time - everyHours * 3600 >= lastPreserved) lastPreserved = time;
    else removed.push(path);
  }
  return { kept, lastPreserved, removed };
}

/**
 * Takes up what an earlier manager kept. Times that lie ahead are the present; without times all are as old as the last
 * that was kept for good. What is not younger than that was kept for good. Source: same file, CheckpointManager.__init__.
 */
export function resumeRetention(stored: KeptState | undefined, now: number): Retention {
  if (stored === undefined) return { kept: [], lastPreserved: now - 1 };
  const lastPreserved = Math.min(stored.lastPreserved ?? now - 1, now);
  const kept = stored.kept.map(({ path, time }) => ({ path, time: Math.min(time ?? lastPreserved, now) }));
  return { kept: kept.filter(({ time }) => time > lastPreserved), lastPreserved };
}
