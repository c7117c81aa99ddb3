import type { ByteCursor } from "../../bytes/byte-cursor.js";
import type { BufferPlace } from "../../codecs/compression.js";
import { varintLength, writeVarint } from "../../codecs/varint.js";
import { LimitError } from "../../errors.js";
import { MAX_TRANSPOSED_NODES } from "../../limits.js";
import {
  FIRST_INLINE_SUBTYPE,
  invalidTransposed,
  LAST_INLINE_SUBTYPE,
  MIN_FIELD_TAG,
  NODE_TAGS,
  readCount,
  SUBMESSAGE_END_OFFSET,
  WIRE_TYPES,
} from "./format.js";

/** What a node does. Those from {@link NODE_KINDS.tag} on put their tag, and before it what the name says. */
export const NODE_KINDS = {
  noOp: 0,
  nonProto: 1,
  submessageStart: 2,
  messageStart: 3,
  submessageEnd: 4,
  /** The tag alone, perhaps with an inline value. */
  tag: 5,
  varint: 6,
  fixed: 7,
  string: 8,
} as const;

/** Bytes that a node has in {@link NodeTable.tagBytes}: a tag has 5 at most, and an inline value 1. */
export const TAG_STRIDE = 8;

/** The state machine of a chunk, one entry for each node in every array: 20 bytes for a node. */
export interface NodeTable {
  readonly count: number;
  /** One of {@link NODE_KINDS}. */
  readonly kinds: Uint8Array;
  /** Where the step from a node leads, or begins when it takes a transition byte. */
  readonly next: Uint32Array;
  /** 1 where the step from a node takes no transition byte. */
  readonly isImplicit: Uint8Array;
  /** The buffer of a node, where its kind has one. */
  readonly bufferIndexes: Uint32Array;
  /** Bytes of a varint or fixed field's value. */
  readonly valueLengths: Uint8Array;
  /** The tag as it stands in a message, with the inline value behind it; {@link TAG_STRIDE} bytes for each node. */
  readonly tagBytes: Uint8Array;
  /** How many of its bytes are used. */
  readonly tagLengths: Uint8Array;
}

/**
 * Reads the node table from the header.
 * @throws {@link CorruptionError} (`chunk-contents`), {@link LimitError} (`limit`)
 */
export function readNodeTable(cursor: ByteCursor, bufferCount: number, place: BufferPlace): NodeTable {
  const count = readNodeCount(cursor, place);
  const table: NodeTable = {
    count,
    kinds: new Uint8Array(count),
    next: new Uint32Array(count),
    isImplicit: new Uint8Array(count),
    bufferIndexes: new Uint32Array(count),
    valueLengths: new Uint8Array(count),
    tagBytes: new Uint8Array(count * TAG_STRIDE),
    tagLengths: new Uint8Array(count),
  };
  const varintNodeCount = readTags(cursor, table, place);
  readNextNodes(cursor, table, place);
  if (varintNodeCount > cursor.left) throw invalidTransposed(place, "subtypes end early");
  readSubtypes(cursor.readBytes(varintNodeCount), table, place);
  readBufferIndexes(cursor, table, bufferCount, place);
  shortenImplicitPaths(table, place);
  return table;
}

function readNodeCount(cursor: ByteCursor, place: BufferPlace): number {
  const count = readCount(cursor, place);
  // A node takes at least a byte for its tag and one for its next node.
  if (count > cursor.left / 2) {
    throw invalidTransposed(place, "nodes", { expected: `at most ${Math.floor(cursor.left / 2)}`, actual: count });
  }
  if (count <= MAX_TRANSPOSED_NODES) return count;
  throw new LimitError("limit", "nodes of a transposed chunk", {
    ...place,
    expected: `at most ${MAX_TRANSPOSED_NODES}`,
    actual: count,
  });
}

/** Reads the tags and gives the number of varint fields among them. */
function readTags(cursor: ByteCursor, table: NodeTable, place: BufferPlace): number {
  let varintNodeCount = 0;
  for (let node = 0; node < table.count; node++) {
    const tag = readCount(cursor, place);
    if (tag > 0xffff_ffff) throw invalidTransposed(place, "tag over 32 bits", { actual: tag });
    const kind = kindOf(tag);
    if (kind === undefined) throw invalidTransposed(place, "invalid tag of a node", { actual: tag });
    table.kinds[node] = kind;
    if (kind === NODE_KINDS.varint) varintNodeCount++;
    if (kind === NODE_KINDS.fixed) table.valueLengths[node] = (tag & 7) === WIRE_TYPES.fixed32 ? 4 : 8;
    if (kind < NODE_KINDS.submessageEnd) continue;
    const fieldTag = kind === NODE_KINDS.submessageEnd ? tag - SUBMESSAGE_END_OFFSET : tag;
    table.tagLengths[node] = varintLength(fieldTag);
    writeVarint(table.tagBytes, node * TAG_STRIDE, fieldTag);
  }
  return varintNodeCount;
}

function kindOf(tag: number): number | undefined {
  if (tag <= NODE_TAGS.messageStart) return tag;
  if (tag < MIN_FIELD_TAG) return undefined;
  switch (tag & 7) {
    case WIRE_TYPES.varint:
      return NODE_KINDS.varint;
    case WIRE_TYPES.fixed32:
    case WIRE_TYPES.fixed64:
      return NODE_KINDS.fixed;
    case WIRE_TYPES.lengthDelimited:
      return NODE_KINDS.string;
    case WIRE_TYPES.startGroup:
    case WIRE_TYPES.endGroup:
      return NODE_KINDS.tag;
    case WIRE_TYPES.submessageEnd:
      return NODE_KINDS.submessageEnd;
    default:
      return undefined;
  }
}

function readNextNodes(cursor: ByteCursor, table: NodeTable, place: BufferPlace): void {
  const { count, next, isImplicit } = table;
  for (let node = 0; node < count; node++) {
    const index = readCount(cursor, place);
    if (index >= 2 * count) throw invalidTransposed(place, "next node", { expected: `below ${count}`, actual: index });
    isImplicit[node] = index >= count ? 1 : 0;
    next[node] = index >= count ? index - count : index;
  }
}

function readSubtypes(subtypes: Uint8Array, table: NodeTable, place: BufferPlace): void {
  let at = 0;
  for (let node = 0; node < table.count; node++) {
    if (table.kinds[node] !== NODE_KINDS.varint) continue;
    const subtype = subtypes[at++] as number;
    if (subtype > LAST_INLINE_SUBTYPE) throw invalidTransposed(place, "subtype of a varint", { actual: subtype });
    if (subtype < FIRST_INLINE_SUBTYPE) {
      table.valueLengths[node] = subtype + 1;
      continue;
    }
    const tagLength = table.tagLengths[node] as number;
    table.tagBytes[node * TAG_STRIDE + tagLength] = subtype - FIRST_INLINE_SUBTYPE;
    table.tagLengths[node] = tagLength + 1;
    table.kinds[node] = NODE_KINDS.tag;
  }
}

function readBufferIndexes(cursor: ByteCursor, table: NodeTable, bufferCount: number, place: BufferPlace): void {
  for (let node = 0; node < table.count; node++) {
    const kind = table.kinds[node] as number;
    if (kind !== NODE_KINDS.nonProto && kind < NODE_KINDS.varint) continue;
    const index = readCount(cursor, place);
    if (index >= bufferCount) {
      throw invalidTransposed(place, "buffer of a node", { expected: `below ${bufferCount}`, actual: index });
    }
    table.bufferIndexes[node] = index;
  }
}

/**
 * Refuses cycles of implicit steps, which never come to an end, and lets each implicit step lead past the stepping
 * stones behind it. So every implicit step to a node puts something into the output, and the time of decoding is
 * bounded by the lengths of the output and of the transitions.
 */
function shortenImplicitPaths(table: NodeTable, place: BufferPlace): void {
  const { count, kinds, next, isImplicit } = table;
  // 0 not seen, 1 on the path that is being followed, 2 known to come to an end.
  const seen = new Uint8Array(count);
  const path: number[] = [];
  for (let start = 0; start < count; start++) {
    let node = start;
    while (seen[node] === 0 && isImplicit[node] === 1) {
      seen[node] = 1;
      path.push(node);
      node = next[node] as number;
    }
    if (seen[node] === 1) throw invalidTransposed(place, "nodes go round for ever", { actual: `node ${node}` });
    seen[node] = 2;
    for (let from = path.pop(); from !== undefined; from = path.pop()) {
      const to = next[from] as number;
      if (kinds[to] === NODE_KINDS.noOp && isImplicit[to] === 1) next[from] = next[to] as number;
      seen[from] = 2;
    }
  }
}
