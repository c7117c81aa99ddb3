import type { ByteSource } from "../bytes/byte-source.js";
import type { CompressionType } from "../codecs/compression.js";
import { ChunkBytes } from "./chunk-bytes.js";
import { CHUNK_TYPES, type ChunkLocation } from "./chunk-header.js";
import { decodeCompressionType } from "./compression-type.js";

/** How the records of a chunk are compressed; reads one byte of its data. Undefined for a chunk without records. */
export async function compressionOf(file: ByteSource, chunk: ChunkLocation): Promise<CompressionType | undefined> {
  const holdsRecords = chunk.type === CHUNK_TYPES.simple || chunk.type === CHUNK_TYPES.transposed;
  if (!holdsRecords || chunk.dataSize === 0) return undefined;
  const [code = 0] = await new ChunkBytes(file, chunk).read(0, 1);
  return decodeCompressionType(code, file.name, chunk.begin);
}
