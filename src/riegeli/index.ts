/** Riegeli/records files: reading, writing, and reading past damage. */
export type { CompressionChoice } from "../codecs/auto-compression.js";
export type { CompressionType } from "../codecs/compression.js";
export { compressionOf } from "./chunk-facts.js";
export { CHUNK_TYPES, type ChunkHeader, type ChunkLocation, chunkTypeName } from "./chunk-header.js";
export { type RecordOptions, RecordReader, type RecordReaderOptions, type RiegeliRecord } from "./record-reader.js";
export { type RecordPlacement, RecordWriter, type RecordWriterOptions } from "./record-writer.js";
export {
  type Recovered,
  type RecoveredChunk,
  recoverChunks,
  recoverRecords,
  type SkippedRegion,
} from "./recovery.js";
