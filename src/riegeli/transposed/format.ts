import type { ByteCursor } from "../../bytes/byte-cursor.js";
import type { BufferPlace } from "../../codecs/compression.js";
import { CorruptionError } from "../../errors.js";

/**
 * What the decoder and the encoder of transposed chunks share.
 * Sources: google/riegeli, doc/riegeli_records_file_format.md, "Transposed chunk with records", and for the numbers
 * riegeli/chunk_encoding/transpose_internal.h.
 *
 * The fields of all records are sorted into buffers, one for each path of field numbers. How they fit together is told
 * by a state machine: each node stands for a piece of output, and the transitions are the walk through the nodes that
 * gives the records, last byte first.
 *
 * | size   | name             | meaning                                                             |
 * | ------ | ---------------- | ------------------------------------------------------------------- |
 * | 1      | compression_type | of all that follows                                                 |
 * | varint | header_size      | length of the next part as it is stored                             |
 * |        | header           | see below; perhaps compressed                                       |
 * |        | buckets          | one after another, each perhaps compressed; together all buffers    |
 * |        | transitions      | all that is left, perhaps compressed; one byte for each step        |
 *
 * A compressed part begins with its decompressed size as a varint. The header is a list of varints:
 *
 * | count        | name           | meaning                                                          |
 * | ------------ | -------------- | ---------------------------------------------------------------- |
 * | 1            | num_buckets    |                                                                  |
 * | 1            | num_buffers    |                                                                  |
 * | num_buckets  | bucket_length  | as stored                                                        |
 * | num_buffers  | buffer_length  | decompressed; no buffer spans two buckets                        |
 * | 1            | num_nodes      |                                                                  |
 * | num_nodes    | tag            | see {@link NODE_TAGS} and below                                  |
 * | num_nodes    | next_node      | plus num_nodes where the step is taken without a transition byte |
 * | (bytes)      | subtype        | one byte for each node that is a varint field                    |
 * | (some nodes) | buffer_index   | one for each node that has a buffer                              |
 * | 1            | first_node     |                                                                  |
 *
 * A transition byte b says: go to next_node + (b >> 2), then b & 3 times to next_node itself.
 */

/** Tags of nodes that are no field. All are below the smallest field tag. */
export const NODE_TAGS = {
  /** A stepping stone on the way to a node that is too far away. */
  noOp: 0,
  /** A whole record that is no message; its length is in the last buffer. */
  nonProto: 1,
  /** Puts the tag and length of the submessage that was ended last. */
  submessageStart: 2,
  /** A record is complete. */
  messageStart: 3,
} as const;

/** The smallest tag with a field number. */
export const MIN_FIELD_TAG = 8;

/** The wire types of protobuf. */
export const WIRE_TYPES = {
  varint: 0,
  fixed64: 1,
  lengthDelimited: 2,
  startGroup: 3,
  endGroup: 4,
  fixed32: 5,
  /** Not protobuf's: the end of a submessage, whose own tag is {@link SUBMESSAGE_END_OFFSET} lower. */
  submessageEnd: 6,
} as const;

/** What is added to the tag of a submessage for the node at its end. */
export const SUBMESSAGE_END_OFFSET: number = WIRE_TYPES.submessageEnd - WIRE_TYPES.lengthDelimited;

/** From this subtype on a varint node holds the value itself, and no buffer; below it is the length less 1. */
export const FIRST_INLINE_SUBTYPE = 10;
/** The subtype of the inline value 127. */
export const LAST_INLINE_SUBTYPE: number = FIRST_INLINE_SUBTYPE + 127;

/** How far beyond a node's next_node one transition byte reaches. */
export const MAX_STEP = 63;

/** A fault in the contents of a transposed chunk. */
export function invalidTransposed(
  place: BufferPlace,
  what: string,
  details: { expected?: string | number; actual?: string | number; cause?: unknown } = {},
): CorruptionError {
  return new CorruptionError("chunk-contents", `transposed chunk: ${what}`, { ...place, ...details });
}

/** The next varint of a chunk's data or header. @throws {@link CorruptionError} (`chunk-contents`) */
export function readCount(cursor: ByteCursor, place: BufferPlace): number {
  try {
    return cursor.readVarint("chunk-contents");
  } catch (cause) {
    throw invalidTransposed(place, "a number ends early or is over 2^53", { cause });
  }
}
