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
