/**
 * Every size and depth that cairn puts a bound on, each with what the bound is for.
 * A number read from a file is held against the bytes that are left, and then against one of these,
 * before anything is allocated, looped over or descended into.
 */

/** 2^53 - 1: sizes and offsets are JavaScript numbers; a larger one cannot be a place in a file. */
export const MAX_OFFSET: number = Number.MAX_SAFE_INTEGER;

/**
 * Bytes that one decoded buffer may take in memory, 64 MiB. What is larger is streamed or spooled to
 * scratch storage, so that memory does not grow with the model.
 */
export const MAX_IN_MEMORY_BYTES: number = 64 * 1024 * 1024;

/**
 * Ratio of decompressed to compressed bytes that is believed above the first 64 MiB, 2^20 to 1. Brotli reaches 660,000
 * on zeros, Zstd 32,000; a larger announcement is a bomb. What is within it still has to find room on the disk.
 */
export const MAX_COMPRESSION_RATIO: number = 2 ** 20;

/** Scratch room in memory, where there is no disk, 1 GiB. */
export const MAX_MEMORY_SCRATCH_BYTES: number = 2 ** 30;

/** Records in one Riegeli chunk, 2^28: the table of their ends has 8 bytes for each. */
export const MAX_RECORDS_PER_CHUNK: number = 2 ** 28;

/** State machine nodes of a transposed Riegeli chunk, 2^24: a node takes 24 bytes. */
export const MAX_TRANSPOSED_NODES: number = 2 ** 24;

/** Decoded bytes of one transposed Riegeli chunk, 1 GiB: it is built in memory as a whole. */
export const MAX_TRANSPOSED_BYTES: number = 2 ** 30;

/** Nesting of messages and groups, 100: the limit of every protobuf implementation. */
export const MAX_MESSAGE_DEPTH = 100;

/** Direct fields of one message that is looked into, 2^28: 13 bytes are kept for each. */
export const MAX_FIELDS_PER_MESSAGE: number = 2 ** 28;

/** Serialized size of a ChunkMetadata, 2^31 - 1: the protobuf limit, since it is parsed as one message. */
export const MAX_CHUNK_METADATA_BYTES: number = 2 ** 31 - 1;

/** Bytes of a text-format protobuf, 512 MiB: it is read into one string. */
export const MAX_TEXT_BYTES: number = 512 * 1024 * 1024;

/** Rank of a tensor, 254: TensorFlow's own limit (tensorflow/core/framework/tensor_shape.h, MaxDimensions). */
export const MAX_RANK = 254;

/** Parameter servers of one training job, 2^20: modular arithmetic on ids stays exact, and no job has so many. */
export const MAX_PARAMETER_SERVERS: number = 2 ** 20;

/** Bytes of one shard of a training checkpoint, 2^31 - 1: it is one protobuf message, and ElasticDL parses it as one. */
export const MAX_SHARD_BYTES: number = 2 ** 31 - 1;

/** Rows of one embedding table in one shard, 2^28: with 8 bytes for each id; a shard of 2 GiB has no room for more. */
export const MAX_EMBEDDING_ROWS: number = 2 ** 28;

/**
 * Header of a safetensors file, 100,000,000 bytes, and its index of shards: they are parsed as a whole. The header's is the
 * reference library's (safetensors/src/tensor.rs, MAX_HEADER_SIZE).
 */
export const MAX_SAFETENSORS_HEADER_BYTES = 100_000_000;

/** Files of one safetensors model, 10,000: each is opened, and the names have five digits. */
export const MAX_SAFETENSORS_SHARDS = 10_000;

/** Nesting of JSON, 128: that of the parser of the reference library of safetensors (serde_json). */
export const MAX_JSON_DEPTH = 128;

/** Objects of one checkpoint, 2^22: TensorFlow's largest graphs have some 100,000. */
export const MAX_TRACKED_OBJECTS: number = 2 ** 22;

/** Numbers in a row of an embedding table that is being trained, 2^20: rows stand in blocks of 4 MiB. */
export const MAX_EMBEDDING_DIM: number = 2 ** 20;

/** Bytes of a message between worker and parameter server, 256 MiB: ElasticDL's own limit (elasticdl/python/common/constants.py, GRPC). */
export const MAX_GRPC_MESSAGE_BYTES: number = 256 * 1024 * 1024;

/** Bytes of one block of a sorted string table, 256 MiB: it is decoded in memory. TensorFlow begins a new one after 256 KiB. */
export const MAX_TABLE_BLOCK_BYTES: number = 2 ** 28;

/** Bytes of a checkpoint's state file or of what cairn writes beside a checkpoint, 64 MiB: they are read into one string. */
export const MAX_STATE_FILE_BYTES: number = 64 * 1024 * 1024;

/** Elements of one string tensor of a checkpoint, 2^27: 8 bytes are kept for each. */
export const MAX_STRING_ELEMENTS: number = 2 ** 27;

/**
 * Bytes of a file on a web server that gives no ranges, 4 GiB: it is fetched as a whole to scratch storage before any of it
 * can be read.
 */
export const MAX_SPOOLED_BYTES: number = 4 * 2 ** 30;

/** Bytes of one variant tensor of a checkpoint, 1 GiB: it is checked in memory as a whole. */
export const MAX_VARIANT_BYTES: number = 2 ** 30;

/** Bytes of one array, 4 GiB: that is the most of Node 20, and browsers have less. */
export const MAX_ARRAY_BYTES: number = 2 ** 32;

/** Slices of one plan of shards, 2^22: each has an entry in the index and in memory. */
export const MAX_PLANNED_SLICES: number = 2 ** 22;

/** Bytes of a `model.json` of TF.js, 256 MiB: it is parsed as a whole, and a string of Node holds 512 MiB. */
export const MAX_TFJS_JSON_BYTES: number = 256 * 1024 * 1024;

/** Files of weights of one TF.js model, 2^18: each is looked at. In files of 4 MB that is 1 TB. */
export const MAX_TFJS_SHARDS: number = 2 ** 18;

/** Bytes of the object graph of a checkpoint, 256 MiB: it is parsed as one message, and takes some times that in memory. */
export const MAX_OBJECT_GRAPH_BYTES: number = 256 * 1024 * 1024;
