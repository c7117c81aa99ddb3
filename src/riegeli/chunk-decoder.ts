import type { ByteSource } from "../bytes/byte-source.js";
import { sliceSource } from "../bytes/byte-source.js";
import { type StreamOptions, streamSource } from "../bytes/copy-source.js";
import type { ScratchFactory, ScratchFile } from "../bytes/file-store.js";
import { MemorySource } from "../bytes/memory-source.js";
import { type BufferPlace, checkAnnouncedSize, loadCodec } from "../codecs/compression.js";
import { CairnError, CorruptionError, LimitError, UnsupportedError } from "../errors.js";
import { MAX_RECORDS_PER_CHUNK } from "../limits.js";
import { ChunkBytes } from "./chunk-bytes.js";
import { CHUNK_TYPES, type ChunkLocation, chunkTypeName } from "./chunk-header.js";
import { HashedBytes } from "./hashed-bytes.js";
import {
  checkValuesSize,
  decodePartSize,
  decodeRecordEnds,
  decodeSimplePrelude,
  decompressPart,
  SIMPLE_PRELUDE_BYTES,
  type SimplePrelude,
} from "./simple-chunk.js";
import { decodeTransposedChunk } from "./transposed/decoder.js";

/** Compressed data up to this is decompressed in memory as a whole, 16 MiB, when its decoded form fits too. */
const MEMORY_DATA_BYTES = 16 * 1024 * 1024;
/** Decompressed data up to this is kept in memory, 32 MiB. */
const MEMORY_DECODED_BYTES = 32 * 1024 * 1024;
/** Data up to this is read at once and kept, also when it is not compressed; the rest stays in the file, 256 KiB. */
const SMALL_DATA_BYTES = 256 * 1024;
/** The same for records that are streamed, of which perhaps a part is wanted only, 4 KiB. */
const SMALL_STREAMED_BYTES = 4 * 1024;

/** How the records of a chunk are going to be used. */
export interface DecodeOptions {
  /** Where large decompressed data goes. */
  readonly scratch: ScratchFactory;
  /**
   * The records are read in order and once, so large uncompressed ones stay in the file and are verified while they
   * are read; otherwise they are verified before they are given out.
   */
  readonly streaming?: boolean | undefined;
  /** Aborts the work. */
  readonly signal?: AbortSignal | undefined;
}

/** The records of one chunk. */
export interface DecodedChunk {
  readonly location: ChunkLocation;
  /** `ends[i]` is where record i ends in {@link DecodedChunk.values}. */
  readonly ends: Float64Array;
  /** The records, one behind the other. */
  readonly values: ByteSource;
  /** Bytes that this holds in memory. */
  readonly memoryBytes: number;
  /** Whether the values are in memory, so that forgetting the chunk frees them. */
  readonly inMemory: boolean;
  /** Whether the data hash has been checked. */
  readonly isVerified: boolean;
  /** Checks the data hash where that has not been done. @throws CorruptionError (`chunk-data`) */
  verify(options?: StreamOptions): Promise<void>;
  /** Gives back scratch storage. */
  dispose(): Promise<void>;
}

/** The bytes of record `index` of a chunk. */
export function recordOf(chunk: DecodedChunk, index: number): ByteSource {
  const start = index === 0 ? 0 : (chunk.ends[index - 1] as number);
  return sliceSource(chunk.values, start, (chunk.ends[index] as number) - start);
}

/**
 * Decodes a chunk that holds records. Memory stays bounded: what is large is left in the file or goes to scratch.
 * @throws {@link CorruptionError} (`chunk-data`, `chunk-contents`, `decompression`, `block-header`),
 * {@link UnsupportedError} (`unsupported-chunk-type`, `unsupported-compression`), {@link LimitError} (`limit`)
 */
export async function decodeChunk(
  file: ByteSource,
  location: ChunkLocation,
  options: DecodeOptions,
): Promise<DecodedChunk> {
  const place = { file: file.name, offset: location.begin };
  checkRecordCount(location, place);
  const data = new HashedBytes(new ChunkBytes(file, location));
  if (location.type === CHUNK_TYPES.transposed) return decodeTransposed(data, location, place);
  if (location.type === CHUNK_TYPES.simple) return decodeSimple(data, location, place, options);
  if (location.recordCount > 0) {
    throw new UnsupportedError("unsupported-chunk-type", "chunk type", {
      ...place,
      actual: `${chunkTypeName(location.type)} with ${location.recordCount} records`,
    });
  }
  await checkEmptyChunk(data, location, place);
  return memoryChunk(location, new Uint8Array(0), new Float64Array(0));
}

function checkRecordCount(location: ChunkLocation, place: BufferPlace): void {
  if (location.recordCount <= MAX_RECORDS_PER_CHUNK) return;
  throw new LimitError("limit", "records in one chunk", {
    ...place,
    expected: `at most ${MAX_RECORDS_PER_CHUNK}`,
    actual: location.recordCount,
  });
}

/** A chunk without records: a later file signature must be empty, padding and unknown types are only hashed. */
async function checkEmptyChunk(data: HashedBytes, location: ChunkLocation, place: BufferPlace): Promise<void> {
  const { type, dataSize, decodedDataSize } = location;
  if (type === CHUNK_TYPES.signature && (dataSize > 0 || decodedDataSize > 0)) {
    throw new CorruptionError("chunk-contents", "file signature chunk with data", {
      ...place,
      expected: "0 bytes",
      actual: `${dataSize} bytes, ${decodedDataSize} decoded`,
    });
  }
  await data.verify();
}

async function decodeTransposed(data: HashedBytes, location: ChunkLocation, place: BufferPlace): Promise<DecodedChunk> {
  const bytes = await data.read(0, data.size);
  if (data.size === 0) await data.verify();
  const { values, ends } = await decodeTransposedChunk(bytes, location, place);
  return memoryChunk(location, values, ends);
}

async function decodeSimple(
  data: HashedBytes,
  location: ChunkLocation,
  place: BufferPlace,
  options: DecodeOptions,
): Promise<DecodedChunk> {
  const inMemory = location.dataSize <= MEMORY_DATA_BYTES && location.decodedDataSize <= MEMORY_DECODED_BYTES;
  const small = options.streaming ? SMALL_STREAMED_BYTES : SMALL_DATA_BYTES;
  if (inMemory && location.dataSize <= small) return decodeSimpleInMemory(data, location, place);
  let prelude: SimplePrelude;
  let ends: Float64Array;
  try {
    const start = await data.read(0, Math.min(SIMPLE_PRELUDE_BYTES, data.size));
    prelude = decodeSimplePrelude(start, data.size, place);
    ends = await readRecordEnds(data, prelude, start, location, place);
  } catch (error) {
    // Damage shows as a wrong hash before it shows as broken rules.
    if (error instanceof CairnError) await data.verify();
    throw error;
  }
  if (prelude.compression !== "none") {
    if (inMemory) return decodeSimpleInMemory(data, location, place);
    return spoolValues(data, location, prelude, ends, place, options);
  }
  checkValuesSize(data.size - prelude.valuesStart, location, place);
  if (!options.streaming) await data.verify();
  const values = data.slice(prelude.valuesStart, data.size - prelude.valuesStart);
  return new StoredChunk(location, values, ends, data);
}

async function decodeSimpleInMemory(
  data: HashedBytes,
  location: ChunkLocation,
  place: BufferPlace,
): Promise<DecodedChunk> {
  const bytes = await data.read(0, data.size);
  if (!data.isVerified) await data.verify();
  const { compression, sizesStart, valuesStart } = decodeSimplePrelude(bytes, bytes.length, place);
  const ends = await decodeRecordEnds(bytes.subarray(sizesStart, valuesStart), compression, location, place);
  const values = await decompressPart(bytes.subarray(valuesStart), compression, place);
  checkValuesSize(values.length, location, place);
  return memoryChunk(location, values, ends);
}

/** Reads the sizes part, going on behind `start` so that the hash sees the data in order. */
async function readRecordEnds(
  data: HashedBytes,
  prelude: SimplePrelude,
  start: Uint8Array,
  location: ChunkLocation,
  place: BufferPlace,
): Promise<Float64Array> {
  const { sizesStart, valuesStart, compression } = prelude;
  const sizesSize = valuesStart - sizesStart;
  checkAnnouncedSize(sizesSize, data.size, place);
  const stored = new Uint8Array(sizesSize);
  stored.set(start.subarray(sizesStart, Math.min(valuesStart, start.length)));
  if (valuesStart > start.length) {
    stored.set(await data.read(start.length, valuesStart - start.length), start.length - sizesStart);
  }
  return decodeRecordEnds(stored, compression, location, place);
}

/** Decompresses large values to scratch storage, hashing what is read. */
async function spoolValues(
  data: HashedBytes,
  location: ChunkLocation,
  prelude: SimplePrelude,
  ends: Float64Array,
  place: BufferPlace,
  options: DecodeOptions,
): Promise<DecodedChunk> {
  const { compression, valuesStart } = prelude;
  if (compression === "none") throw new TypeError("values are not compressed");
  const stored = data.slice(valuesStart, data.size - valuesStart);
  const start = await stored.read(0, Math.min(10, stored.size));
  const { decodedSize, length } = decodePartSize(start, place);
  checkAnnouncedSize(decodedSize, stored.size, place);
  checkValuesSize(decodedSize, location, place);
  const codec = await loadCodec(compression);
  const scratch = await options.scratch(decodedSize);
  try {
    const { signal } = options;
    await data.verify({ signal });
    const input = streamSource(stored.slice(length, stored.size - length), { signal });
    for await (const piece of codec.decompressStream(input)) {
      checkNotLonger(scratch.sink.position + piece.length, location, place);
      await scratch.sink.write(piece);
    }
  } catch (cause) {
    await scratch.dispose();
    options.signal?.throwIfAborted();
    if (cause instanceof CairnError && cause.code !== "decompression") throw cause;
    throw new CorruptionError("decompression", `${compression} buffer does not decompress`, { ...place, cause });
  }
  if (scratch.sink.position !== decodedSize) {
    await scratch.dispose();
    checkValuesSize(scratch.sink.position, location, place);
  }
  return new StoredChunk(location, scratch.source(), ends, data, scratch);
}

function checkNotLonger(size: number, location: ChunkLocation, place: BufferPlace): void {
  if (size > location.decodedDataSize) checkValuesSize(size, location, place);
}

function memoryChunk(location: ChunkLocation, values: Uint8Array, ends: Float64Array): DecodedChunk {
  return {
    location,
    ends,
    values: new MemorySource(values, `records of the chunk at ${location.begin}`),
    memoryBytes: values.length + ends.byteLength,
    inMemory: true,
    isVerified: true,
    verify: async () => {},
    dispose: async () => {},
  };
}

/** Records that are in the file itself or in scratch storage. */
class StoredChunk implements DecodedChunk {
  readonly inMemory = false;
  readonly location: ChunkLocation;
  readonly values: ByteSource;
  readonly ends: Float64Array;
  private readonly data: HashedBytes;
  private readonly scratch: ScratchFile | undefined;

  constructor(
    location: ChunkLocation,
    values: ByteSource,
    ends: Float64Array,
    data: HashedBytes,
    scratch?: ScratchFile,
  ) {
    this.location = location;
    this.values = values;
    this.ends = ends;
    this.data = data;
    this.scratch = scratch;
  }

  get memoryBytes(): number {
    return this.ends.byteLength;
  }

  get isVerified(): boolean {
    return this.data.isVerified;
  }

  verify(options?: StreamOptions): Promise<void> {
    return this.data.verify(options);
  }

  async dispose(): Promise<void> {
    await this.scratch?.dispose();
  }
}
