/** Splits protobuf messages of any type and size into chunks, writes them as `.cpb`, and merges them again. */
export {
  type ChunkedField,
  ChunkedFieldSchema,
  type ChunkedMessage,
  ChunkedMessageSchema,
  type ChunkInfo,
  ChunkInfo_Type,
  type ChunkMetadata,
  ChunkMetadataSchema,
  type FieldIndex,
  FieldIndexSchema,
} from "../proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
export { type VersionDef, VersionDefSchema } from "../proto/gen/tensorflow/tools/proto_splitter/versions_pb.js";
export type { Chunk } from "./chunk.js";
export { ChunkedFile, type ChunkedFileOptions } from "./chunked-file.js";
export {
  ComposableSplitter,
  DEFAULT_MAX_CHUNK_SIZE,
  type SplitOutput,
  Splitter,
  type SplitterInput,
  type SplitterOptions,
} from "./composable-splitter.js";
export { type FieldTags, formatTag } from "./field-tag.js";
export { inferRootSchema } from "./infer-root.js";
export type { ChunkProvider } from "./merge-tree.js";
export { MergedProto, Merger, type MergerOptions } from "./merger.js";
export { type SplitSizes, splitMessage, splitSizesFor } from "./split-message.js";
export {
  ConstantSplitter,
  type ElementSplitter,
  FunctionDefSplitter,
  GraphDefSplitter,
  LargeMessageSplitter,
  MessageSplitter,
  RepeatedMessageSplitter,
  SavedModelSplitter,
} from "./splitters.js";
export { EXTENDED_JOIN_VERSION, MERGER_VERSION, SPLITTER_VERSION } from "./version.js";
export { type ExtendedOptions, type WriteOptions, type WrittenProto, writeChunkedProto } from "./write-proto.js";
