/** ElasticDL's training checkpoints: shard files, version directories, retention, repartition, metrics. */
export { openVersion } from "./locate.js";
export {
  type MetricsRecord,
  rankVersions,
  readMetrics,
  recordMetrics,
  type VersionMetrics,
} from "./metrics.js";
export type {
  DenseVariable,
  EmbeddingRows,
  EmbeddingTable,
  ModelContents,
  RowSlot,
  StoredTensor,
  TrainingState,
} from "./model-contents.js";
export {
  formatShardName,
  formatVersionName,
  type Layout,
  parseShardName,
  parseVersionName,
  type ShardName,
} from "./names.js";
export { intToId, partitionIds, stringToId } from "./partition.js";
export { type ReshardVersionOptions, reshardVersion } from "./reshard.js";
export {
  type RestoredShare,
  type RestoredTable,
  type RestoredTensor,
  type RestoredVariable,
  type RestoreOptions,
  restoreShares,
} from "./restore.js";
export {
  applyRetention,
  planRetention,
  type Removal,
  type RetainedVersion,
  type RetentionOptions,
} from "./retention.js";
export { type SaveShardOptions, saveShard } from "./save-shard.js";
export type { ShardCatalog, StoredEntry, TableEntry, TableInfo } from "./shard-catalog.js";
export { ShardFile } from "./shard-file.js";
export { VersionContents } from "./version-contents.js";
export { TrainingDirectory } from "./versioned.js";
export {
  findLatest,
  findProblem,
  type ListedShard,
  type ListedVersion,
  type ListedVersions,
  listVersion,
  listVersions,
  type VersionProblem,
} from "./versions.js";
export { type WriteVersionOptions, type WrittenVersion, writeVersion } from "./write-version.js";
