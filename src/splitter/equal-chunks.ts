import type { ByteSource } from "../bytes/byte-source.js";
import { readInOrder } from "../bytes/copy-source.js";
import type { ChunkedMessage } from "../proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
import type { Chunk } from "./chunk.js";

/** Bytes compared before all are. */
const SAMPLE_BYTES = 64;
/** Chunks of equal length and sample that one chunk is compared with. */
const MAX_COMPARED = 8;

/**
 * Leaves out `bytes` chunks that hold the same bytes as an earlier one, and has the fields name that one; TensorFlow's
 * merger takes a chunk that two fields name. Lengths and samples are compared first, so different constants are not read.
 */
export async function shareEqualChunks(chunks: readonly Chunk[], message: ChunkedMessage): Promise<readonly Chunk[]> {
  const firstOf = await findEqual(chunks);
  if (firstOf.size === 0) return chunks;
  const kept: Chunk[] = [];
  const renumbered = new Map<number, number>();
  for (const [index, chunk] of chunks.entries()) {
    const first = firstOf.get(index);
    if (first !== undefined) renumbered.set(index, renumbered.get(first) as number);
    else {
      renumbered.set(index, kept.length);
      kept.push(chunk);
    }
  }
  renumber(message, renumbered);
  return kept;
}

function renumber(message: ChunkedMessage, indexes: ReadonlyMap<number, number>): void {
  if (message.chunkIndex !== undefined) message.chunkIndex = BigInt(indexes.get(Number(message.chunkIndex)) as number);
  for (const field of message.chunkedFields) if (field.message !== undefined) renumber(field.message, indexes);
}

/** For each chunk that equals an earlier one: the index of that one. */
async function findEqual(chunks: readonly Chunk[]): Promise<Map<number, number>> {
  const bySize = new Map<number, number[]>();
  for (const [index, { type, source }] of chunks.entries()) {
    if (type === "bytes") bySize.set(source.size, [...(bySize.get(source.size) ?? []), index]);
  }
  const firstOf = new Map<number, number>();
  for (const indexes of bySize.values()) {
    if (indexes.length < 2) continue;
    const groups = new Map<string, number[]>();
    for (const index of indexes) {
      const { source } = chunks[index] as Chunk;
      const sample = await sampleOf(source);
      const group = groups.get(sample) ?? [];
      groups.set(sample, group);
      const equal = await firstEqual(source, group, chunks);
      if (equal === undefined) group.push(index);
      else firstOf.set(index, equal);
    }
  }
  return firstOf;
}

async function firstEqual(
  source: ByteSource,
  group: readonly number[],
  chunks: readonly Chunk[],
): Promise<number | undefined> {
  for (const index of group.slice(-MAX_COMPARED))
    if (await haveEqualBytes(source, (chunks[index] as Chunk).source)) return index;
  return undefined;
}

/** A few bytes from the middle: where constants of one shape differ, they differ there. */
async function sampleOf(source: ByteSource): Promise<string> {
  const length = Math.min(SAMPLE_BYTES, source.size);
  return String.fromCharCode(...(await source.read(Math.floor((source.size - length) / 2), length)));
}

async function haveEqualBytes(a: ByteSource, b: ByteSource): Promise<boolean> {
  const different = Symbol("different");
  try {
    await readInOrder(a, async (pieces, offset) => {
      let at = offset;
      for (const piece of pieces) {
        const other = await b.read(at, piece.length);
        if (!equalArrays(piece, other)) throw different;
        at += piece.length;
      }
    });
    return true;
  } catch (error) {
    if (error === different) return false;
    throw error;
  }
}

function equalArrays(a: Uint8Array, b: Uint8Array): boolean {
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
