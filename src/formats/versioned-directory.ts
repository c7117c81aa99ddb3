import type { StreamOptions } from "../bytes/copy-source.js";

/** One saved state of a directory that keeps several. */
export interface DirectoryVersion {
  /** Counts up while the training goes on. */
  readonly version: number;
  /** The directory, file or prefix that can be opened. */
  readonly path: string;
  /** How many data files it has. */
  readonly shards: number;
  readonly byteLength: number;
  /** Whether all of it is there and right, as far as was looked. */
  readonly isComplete: boolean;
  /** What is wrong with one that is not complete. */
  readonly reason?: string | undefined;
  /** How the model of this version was evaluated, where that was recorded. */
  readonly metrics?: Readonly<Record<string, number>> | undefined;
}

/** Something that was passed over, and why. */
export interface PassedOver {
  readonly path: string;
  readonly reason: string;
}

/** How closely versions are looked at. */
export interface LookOptions extends StreamOptions {
  /** Read names and heads only, not every byte for its checksum. */
  readonly quick?: boolean | undefined;
}

/** All versions, oldest first. */
export interface VersionList {
  readonly versions: readonly DirectoryVersion[];
  /** What is in the directory and is no version. */
  readonly skipped: readonly PassedOver[];
}

/** The newest complete version. */
export interface LatestVersion {
  readonly latest: DirectoryVersion | undefined;
  /** Newer ones that are not complete, and what is no version. */
  readonly skipped: readonly PassedOver[];
}

/** The complete version with the best metric. */
export interface BestVersion {
  readonly best: DirectoryVersion | undefined;
  /** What is compared; undefined when no metrics were recorded. */
  readonly metric: string | undefined;
  readonly mode: "max" | "min" | undefined;
  readonly skipped: readonly PassedOver[];
}

/** What {@link VersionedDirectory.planPrune} goes by. */
export interface PruneOptions extends LookOptions {
  /** How many complete versions stay; 0 for all. */
  readonly keep: number;
  /** Take away incomplete versions too that are newer than those that stay: somebody may be writing them. */
  readonly force?: boolean | undefined;
}

/** What is to go and what stays. */
export interface PrunePlan {
  readonly remove: readonly { readonly version: number; readonly path: string; readonly reason: string }[];
  readonly keep: readonly { readonly version: number; readonly path: string }[];
  /** Files that a crash left, of no version, which go too. */
  readonly strays: readonly PassedOver[];
}

/** A directory that keeps several states of one training, whatever wrote it. */
export interface VersionedDirectory {
  readonly path: string;
  /** All versions, each looked at. */
  list(options?: LookOptions): Promise<VersionList>;
  /** The newest complete version; looks at no older ones. */
  latest(options?: LookOptions): Promise<LatestVersion>;
  /** The complete version with the best recorded metric. */
  best(options?: LookOptions): Promise<BestVersion>;
  /** Decides what can go; changes nothing. */
  planPrune(options: PruneOptions): Promise<PrunePlan>;
  /** Removes what a plan says, each version in one step. */
  prune(plan: PrunePlan): Promise<void>;
}
