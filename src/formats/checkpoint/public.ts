/** V2 checkpoints of TensorFlow as files: read, write, merge. */
export {
  type CheckpointReader,
  type OpenCheckpointOptions,
  openCheckpoint,
} from "./checkpoint-reader.js";
export {
  type CheckpointState,
  formatCheckpointState,
  latestCheckpoint,
  parseCheckpointState,
  readCheckpointState,
  resolveCheckpointPath,
} from "./checkpoint-state.js";
export { type WriteCheckpointOptions, type WrittenShard, writeCheckpoint } from "./checkpoint-writer.js";
export { type MergeCheckpointsOptions, mergeCheckpoints } from "./merge-checkpoints.js";
export type { ReadAllOptions, TensorBytes } from "./read-all.js";
export type { StoredBytes, StoredEntry, StoredSlice } from "./stored-entry.js";
export type { StoredObject } from "./stored-object.js";
