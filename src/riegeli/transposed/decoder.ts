import { ByteCursor } from "../../bytes/byte-cursor.js";
import { type BufferPlace, type CompressionType, checkAnnouncedSize } from "../../codecs/compression.js";
import { varintLength, writeVarint } from "../../codecs/varint.js";
import { type CorruptionError, LimitError } from "../../errors.js";
import { MAX_RECORDS_PER_CHUNK, MAX_TRANSPOSED_BYTES } from "../../limits.js";
import { decodeCompressionType } from "../compression-type.js";
import { decodePartSize, decompressPart } from "../simple-chunk.js";
import { type BufferLengths, type Buffers, readBufferLengths, readBuffers } from "./buffers.js";
import { invalidTransposed, readCount } from "./format.js";
import { NODE_KINDS, type NodeTable, readNodeTable, TAG_STRIDE } from "./nodes.js";

/** Records of a chunk, back to back. */
export interface DecodedRecords {
  readonly values: Uint8Array;
  /** `ends[i]` is where record i ends in {@link DecodedRecords.values}. */
  readonly ends: Float64Array;
}

/** What a chunk's header says of its records. */
export interface ExpectedRecords {
  readonly recordCount: number;
  /** Sum of the record sizes, in bytes. */
  readonly decodedDataSize: number;
}

/**
 * Decodes the data of a transposed chunk; `place` is that of the chunk.
 * @throws {@link CorruptionError} (`chunk-contents`, `decompression`),
 * {@link UnsupportedError} (`unsupported-compression`), {@link LimitError} (`limit`)
 */
export async function decodeTransposedChunk(
  data: Uint8Array,
  expected: ExpectedRecords,
  place: BufferPlace,
): Promise<DecodedRecords> {
  checkExpected(expected, data.length, place);
  if (data.length === 0) throw invalidTransposed(place, "no data");
  const cursor = new ByteCursor(data, place.file, place.offset);
  const compression = decodeCompressionType(cursor.readByte(), place.file, place.offset);
  const headerSize = readCount(cursor, place);
  if (headerSize > cursor.left) {
    throw invalidTransposed(place, "header", { expected: `at most ${cursor.left} bytes`, actual: headerSize });
  }
  const header = await decompressPart(cursor.readBytes(headerSize), compression, place);
  const { lengths, nodes, firstNode } = decodeHeader(header, place);
  const buffers = await readBuffers(cursor, lengths, compression, place);
  const transitions = await readTransitions(cursor.readBytes(cursor.left), compression, expected, place);
  return buildRecords({ nodes, firstNode, buffers, transitions }, expected, place);
}

/** Holds what the chunk header says against the limits, before anything is allocated for it. */
function checkExpected({ recordCount, decodedDataSize }: ExpectedRecords, dataSize: number, place: BufferPlace): void {
  if (recordCount > MAX_RECORDS_PER_CHUNK) {
    throw new LimitError("limit", "records in one chunk", {
      ...place,
      expected: `at most ${MAX_RECORDS_PER_CHUNK}`,
      actual: recordCount,
    });
  }
  if (decodedDataSize > MAX_TRANSPOSED_BYTES) {
    throw new LimitError("limit", "decoded size of a transposed chunk", {
      ...place,
      expected: `at most ${MAX_TRANSPOSED_BYTES} bytes`,
      actual: decodedDataSize,
    });
  }
  checkAnnouncedSize(recordCount * Float64Array.BYTES_PER_ELEMENT, dataSize, place);
  checkAnnouncedSize(decodedDataSize, dataSize, place);
}

function decodeHeader(
  header: Uint8Array,
  place: BufferPlace,
): { lengths: BufferLengths; nodes: NodeTable; firstNode: number } {
  const cursor = new ByteCursor(header, place.file, place.offset);
  const lengths = readBufferLengths(cursor, place);
  const nodes = readNodeTable(cursor, lengths.buffers.length, place);
  const firstNode = readCount(cursor, place);
  if (firstNode >= nodes.count) {
    throw invalidTransposed(place, "first node", { expected: `below ${nodes.count}`, actual: firstNode });
  }
  if (cursor.left > 0) throw invalidTransposed(place, "bytes behind the header", { expected: 0, actual: cursor.left });
  return { lengths, nodes, firstNode };
}

/**
 * Transition bytes that one byte of output or one record can need: two trees of stepping stones, 64 ways wide, over
 * 2^24 nodes at most. More would only burn time.
 */
const MAX_TRANSITIONS_PER_NODE = 8;

async function readTransitions(
  stored: Uint8Array,
  compression: CompressionType,
  { recordCount, decodedDataSize }: ExpectedRecords,
  place: BufferPlace,
): Promise<Uint8Array> {
  let size = stored.length;
  if (compression !== "none") {
    if (size === 0) throw invalidTransposed(place, "transitions are missing");
    size = decodePartSize(stored, place).decodedSize;
  }
  const most = MAX_TRANSITIONS_PER_NODE * (decodedDataSize + recordCount);
  if (size > most) throw invalidTransposed(place, "transitions", { expected: `at most ${most}`, actual: size });
  return decompressPart(stored, compression, place);
}

interface Program {
  readonly nodes: NodeTable;
  readonly firstNode: number;
  readonly buffers: Buffers;
  readonly transitions: Uint8Array;
}

/**
 * Walks through the nodes and builds the records from the last byte to the first.
 *
 * This is the hot loop of the decoder: one long function, so that all it touches is a local variable.
 */
function buildRecords(program: Program, expected: ExpectedRecords, place: BufferPlace): DecodedRecords {
  const { kinds, next, isImplicit, bufferIndexes, valueLengths, tagBytes, tagLengths, count } = program.nodes;
  const { bytes, starts } = program.buffers;
  const { transitions } = program;
  // Where the next value of each buffer is; every buffer is in the order of the walk.
  const positions = starts.slice(0, program.buffers.count);
  const lastBuffer = program.buffers.count - 1;
  const values = new Uint8Array(expected.decodedDataSize);
  const ends = new Float64Array(expected.recordCount).fill(values.length);
  // The submessages whose start is still to come: the node of their end, and where it stands.
  const openNodes: number[] = [];
  const openEnds: number[] = [];
  let recordsLeft = expected.recordCount;
  let recordStart = values.length;
  let at = values.length;
  let node = program.firstNode;
  let transition = 0;
  let repeats = 0;

  for (;;) {
    const kind = kinds[node] as number;
    // The node whose tag is to be put before what the node puts.
    let tagNode = node;
    if (kind > NODE_KINDS.tag || kind === NODE_KINDS.nonProto) {
      const buffer = bufferIndexes[node] as number;
      let length: number;
      if (kind < NODE_KINDS.string && kind !== NODE_KINDS.nonProto) {
        length = valueLengths[node] as number;
      } else if (kind === NODE_KINDS.string) {
        const from = positions[buffer] as number;
        const first = from < bytes.length ? (bytes[from] as number) : 0;
        length = first < 0x80 ? first + 1 : stringLength(bytes, from, starts[buffer + 1] as number, place);
      } else {
        const from = positions[lastBuffer] as number;
        const prefixLength = lengthEnd(bytes, from, starts[lastBuffer + 1] as number, place) - from;
        positions[lastBuffer] = from + prefixLength;
        length = lengthAt(bytes, from, prefixLength);
      }
      const from = positions[buffer] as number;
      if (length > (starts[buffer + 1] as number) - from) throw invalidTransposed(place, "a buffer ends early");
      if (length > at) throw tooLong(place);
      positions[buffer] = from + length;
      at -= length;
      if (kind === NODE_KINDS.varint) {
        const last = length - 1;
        for (let i = 0; i < last; i++) values[at + i] = (bytes[from + i] as number) | 0x80;
        values[at + last] = bytes[from + last] as number;
      } else if (length < SHORT_COPY_BYTES) {
        for (let i = 0; i < length; i++) values[at + i] = bytes[from + i] as number;
      } else {
        values.set(bytes.subarray(from, from + length), at);
      }
    }
    if (kind < NODE_KINDS.tag) {
      tagNode = -1;
      if (kind === NODE_KINDS.submessageEnd) {
        // Each open submessage is still to get a tag and a length, so this also bounds how many there are.
        if (2 * openEnds.length >= at) throw tooLong(place);
        openNodes.push(node);
        openEnds.push(at);
      } else if (kind === NODE_KINDS.submessageStart) {
        const end = openEnds.pop();
        if (end === undefined) throw invalidTransposed(place, "start of a submessage without an end");
        tagNode = openNodes.pop() as number;
        const length = end - at;
        at -= varintLength(length);
        if (at < 0) throw tooLong(place);
        writeVarint(values, at, length);
      } else if (kind !== NODE_KINDS.noOp) {
        if (openEnds.length > 0) throw invalidTransposed(place, "start of a record inside a submessage");
        if (recordsLeft === 0) throw invalidTransposed(place, "more records than announced");
        recordsLeft--;
        if (recordsLeft > 0) ends[recordsLeft - 1] = at;
        recordStart = at;
      }
    }
    if (tagNode >= 0) {
      const tagLength = tagLengths[tagNode] as number;
      const tagStart = tagNode * TAG_STRIDE;
      at -= tagLength;
      if (at < 0) throw tooLong(place);
      values[at] = tagBytes[tagStart] as number;
      for (let i = 1; i < tagLength; i++) values[at + i] = tagBytes[tagStart + i] as number;
    }
    if (isImplicit[node] === 1) {
      node = next[node] as number;
    } else if (repeats > 0) {
      repeats--;
      node = next[node] as number;
    } else {
      if (transition === transitions.length) break;
      const step = transitions[transition++] as number;
      repeats = step & 3;
      node = (next[node] as number) + (step >>> 2);
      if (node >= count) throw invalidTransposed(place, "step beyond the nodes", { actual: `node ${node}` });
    }
  }

  if (openEnds.length > 0) throw invalidTransposed(place, "end of a submessage without a start");
  if (recordsLeft > 0) {
    const actual = ends.length - recordsLeft;
    throw invalidTransposed(place, "fewer records than announced", { expected: ends.length, actual });
  }
  if (at > 0 || recordStart > 0) {
    const actual = `${values.length - recordStart} bytes`;
    throw invalidTransposed(place, "records", { expected: `${values.length} bytes`, actual });
  }
  return { values, ends };
}

/** Below this a loop is faster than the call that copies; measured. */
const SHORT_COPY_BYTES = 32;

/** Bytes of a string at `from`, its length included. */
function stringLength(bytes: Uint8Array, from: number, limit: number, place: BufferPlace): number {
  const prefixLength = lengthEnd(bytes, from, limit, place) - from;
  return prefixLength + lengthAt(bytes, from, prefixLength);
}

/** Where the length at `from` ends. Source: transpose_decoder.cc, which takes 32 bits at most. */
function lengthEnd(bytes: Uint8Array, from: number, limit: number, place: BufferPlace): number {
  for (let at = from; at < limit && at < from + 5; at++) {
    const byte = bytes[at] as number;
    if (byte >= 0x80) continue;
    if (at === from + 4 && byte > 0x0f) break;
    return at + 1;
  }
  throw invalidTransposed(place, "length of a string or record ends early or is over 32 bits");
}

function lengthAt(bytes: Uint8Array, from: number, length: number): number {
  let value = 0;
  for (let i = length - 1; i >= 0; i--) value = value * 128 + ((bytes[from + i] as number) & 0x7f);
  return value;
}

function tooLong(place: BufferPlace): CorruptionError {
  return invalidTransposed(place, "records are longer than announced");
}
