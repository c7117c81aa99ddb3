import { concatBytes, totalLength } from "../../bytes/byte-sink.js";
import { type CompressionType, loadCodec } from "../../codecs/compression.js";
import { encodeVarint, varintLength, writeVarint } from "../../codecs/varint.js";
import { LimitError } from "../../errors.js";
import { MAX_TRANSPOSED_BYTES } from "../../limits.js";
import { encodeCompressionType } from "../compression-type.js";
import type { BackwardBuffer } from "./backward-buffer.js";
import { ColumnBuilder, type State } from "./columns.js";
import { NODE_TAGS } from "./format.js";
import { encodeTransitions, NodeLayout } from "./layout.js";
import { Walk } from "./walk.js";

/** How a transposed chunk is encoded. */
export interface TransposedChunkOptions {
  readonly compression: CompressionType;
  /** The codec's own scale. */
  readonly level?: number | undefined;
  /** Decompressed bytes that are compressed together, 1 MiB when it is not given. A larger buffer stands alone. */
  readonly bucketBytes?: number | undefined;
}

/** Where Riegeli would begin a new bucket in a chunk of its default size. */
const DEFAULT_BUCKET_BYTES = 1024 * 1024;

/**
 * The data of a transposed chunk with these records, as pieces. A record that is a protobuf message in its shortest
 * form is taken apart to its fields, any other is stored as a whole; all come back byte for byte. The pieces may refer
 * to the memory of the records.
 * @throws {@link LimitError} (`limit`) when the records are too large for one transposed chunk
 */
export async function encodeTransposedChunk(
  records: readonly Uint8Array[],
  options: TransposedChunkOptions,
): Promise<Uint8Array[]> {
  checkSize(totalLength(records));
  const columns = new ColumnBuilder();
  for (const record of records) columns.add(record);
  const { machine, transitions } = encodeMachine(columns);
  const buffers = orderBuffers(columns);
  const buckets: (readonly Uint8Array[])[] = [];
  for (const bucket of groupBuffers(buffers, options.bucketBytes ?? DEFAULT_BUCKET_BYTES)) {
    buckets.push(
      await compressPart(
        bucket.flatMap((buffer) => buffer.take()),
        options,
      ),
    );
  }
  const header = await compressPart(encodeHeader(columns.states, buffers, buckets.map(totalLength), machine), options);
  return [
    Uint8Array.of(encodeCompressionType(options.compression)),
    encodeVarint(totalLength(header)),
    ...header,
    ...buckets.flat(),
    ...(await compressPart([transitions], options)),
  ];
}

function checkSize(size: number): void {
  if (size <= MAX_TRANSPOSED_BYTES) return;
  throw new LimitError("limit", "records of a transposed chunk", {
    expected: `at most ${MAX_TRANSPOSED_BYTES} bytes`,
    actual: size,
  });
}

/** The nodes of a state machine, as in the header. */
interface Machine {
  /** The state of each node; -1 for a stepping stone. */
  readonly nodes: readonly number[];
  readonly next: readonly number[];
  readonly firstNode: number;
}

function encodeMachine(columns: ColumnBuilder): { machine: Machine; transitions: Uint8Array } {
  const { steps, states } = columns;
  // A header names a first node, so there has to be one even when there are no records.
  if (steps.length === 0) return { machine: { nodes: [-1], next: [0], firstNode: 0 }, transitions: new Uint8Array(0) };
  const walk = new Walk(steps, states.length);
  const machine = new NodeLayout(walk, states);
  return { machine, transitions: encodeTransitions(walk, machine) };
}

/** Buffers of a kind together, small ones first; the lengths of non-proto records have to be the last of all. */
function orderBuffers(columns: ColumnBuilder): BackwardBuffer[] {
  const buffers = columns.buffers.toSorted((a, b) => a.kind - b.kind || a.size - b.size);
  if (columns.nonProtoLengths.size > 0) buffers.push(columns.nonProtoLengths);
  return buffers;
}

/** Divides buffers into buckets. Each kind begins a bucket, since what is alike compresses well together. */
function groupBuffers(buffers: readonly BackwardBuffer[], bucketBytes: number): BackwardBuffer[][] {
  const buckets: BackwardBuffer[][] = [];
  let bucket: BackwardBuffer[] = [];
  let size = 0;
  for (const buffer of buffers) {
    if (bucket.length === 0 || bucket[0]?.kind !== buffer.kind || size + buffer.size > bucketBytes) {
      bucket = [];
      buckets.push(bucket);
      size = 0;
    }
    bucket.push(buffer);
    size += buffer.size;
  }
  return buckets;
}

function encodeHeader(
  states: readonly State[],
  buffers: readonly BackwardBuffer[],
  bucketLengths: readonly number[],
  { nodes, next, firstNode }: Machine,
): Uint8Array[] {
  const indexes = new Map(buffers.map((buffer, index) => [buffer, index]));
  const tags: number[] = [];
  const subtypes: number[] = [];
  const bufferIndexes: number[] = [];
  for (const node of nodes) {
    const state = states[node];
    tags.push(state?.tag ?? NODE_TAGS.noOp);
    if (state?.subtype !== undefined) subtypes.push(state.subtype);
    const index = state?.buffer === undefined ? undefined : indexes.get(state.buffer);
    if (index !== undefined) bufferIndexes.push(index);
  }
  return [
    encodeVarints([bucketLengths.length, buffers.length]),
    encodeVarints(bucketLengths),
    encodeVarints(buffers.map((buffer) => buffer.size)),
    encodeVarints([nodes.length]),
    encodeVarints(tags),
    encodeVarints(next),
    Uint8Array.from(subtypes),
    encodeVarints(bufferIndexes),
    encodeVarints([firstNode]),
  ];
}

function encodeVarints(values: readonly number[]): Uint8Array {
  let size = 0;
  for (const value of values) size += varintLength(value);
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const value of values) at = writeVarint(bytes, at, value);
  return bytes;
}

/** Compresses a part of the chunk and puts its decompressed size in front. */
async function compressPart(
  pieces: readonly Uint8Array[],
  { compression, level }: TransposedChunkOptions,
): Promise<readonly Uint8Array[]> {
  if (compression === "none") return pieces;
  const codec = await loadCodec(compression);
  const bytes = concatBytes(pieces);
  return [encodeVarint(bytes.length), await codec.compress(bytes, level)];
}
