import { create, toBinary } from "@bufbuild/protobuf";
import { MemorySource } from "../bytes/memory-source.js";
import { varintLength } from "../codecs/varint.js";
import {
  type ChunkedField,
  ChunkedFieldSchema,
  type ChunkedMessage,
  ChunkedMessageSchema,
} from "../proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
import type { Chunk } from "./chunk.js";

/**
 * Moves a ChunkedMessage that is larger than `maxBytes` into chunks of its own: slices of its fields, each a
 * ChunkedMessage, that fields with an empty tag point to. The order of the fields is kept. Only mergers of join version
 * 1000 follow such fields.
 */
export function chunkTree(
  message: ChunkedMessage,
  chunks: readonly Chunk[],
  maxBytes: number,
): { message: ChunkedMessage; chunks: readonly Chunk[] } {
  const slices = sliceFields(message.chunkedFields, maxBytes);
  if (slices.length <= 1) return { message, chunks };
  const moved: Chunk[] = [];
  const fields = slices.map((chunkedFields) => {
    const bytes = toBinary(ChunkedMessageSchema, create(ChunkedMessageSchema, { chunkedFields }));
    moved.push({ type: "message", path: "(tree of chunks)", source: new MemorySource(bytes, "tree of chunks") });
    const cairnTreeChunk = BigInt(chunks.length + moved.length - 1);
    return create(ChunkedFieldSchema, { message: create(ChunkedMessageSchema, { cairnTreeChunk }) });
  });
  const { chunkIndex } = message;
  const root = create(ChunkedMessageSchema, {
    ...(chunkIndex === undefined ? {} : { chunkIndex }),
    chunkedFields: fields,
  });
  return { message: root, chunks: [...chunks, ...moved] };
}

function sliceFields(fields: readonly ChunkedField[], maxBytes: number): ChunkedField[][] {
  const slices: ChunkedField[][] = [[]];
  let size = 0;
  for (const field of fields) {
    const payload = toBinary(ChunkedFieldSchema, field).length;
    const fieldSize = 1 + varintLength(payload) + payload;
    const slice = slices.at(-1) as ChunkedField[];
    if (slice.length > 0 && size + fieldSize > maxBytes) {
      slices.push([field]);
      size = fieldSize;
    } else {
      slice.push(field);
      size += fieldSize;
    }
  }
  return slices;
}
