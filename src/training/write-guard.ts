import type { ParameterBlock } from "./parameter-block.js";

/** Is asked before parameters change, so that a snapshot can set the old values aside. */
export interface WriteGuard {
  /** Whether anybody wants to know: when not, {@link WriteGuard.beforeWrite} need not be called. */
  readonly isActive: boolean;
  /** The bytes from `start` to `end` of each array of the block are about to change. */
  beforeWrite(block: ParameterBlock, start: number, end: number): void;
}

/** Nobody takes snapshots. */
export const NO_GUARD: WriteGuard = { isActive: false, beforeWrite: () => {} };
