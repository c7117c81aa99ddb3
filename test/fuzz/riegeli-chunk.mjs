// The inside of a Riegeli chunk: the hashes are put right, so that the fuzzer gets past them.
import { concatBytes } from "../../dist/bytes/byte-sink.js";
import { MemorySource } from "../../dist/bytes/memory-source.js";
import { hash64 } from "../../dist/codecs/hasher.js";
import { BLOCK_HEADER_BYTES, encodeBlockHeader, RIEGELI_HASH_KEY } from "../../dist/riegeli/blocks.js";
import { CHUNK_HEADER_BYTES, encodeChunkHeader } from "../../dist/riegeli/chunk-header.js";
import { RecordReader } from "../../dist/riegeli/index.js";
import { allowed } from "./read-everything.mjs";

export const seeds = ["riegeli"];
const TYPES = [0x72, 0x74, 0x6d, 0x70, 0x73];

/** Of a whole file as seed: the parts of its second chunk. */
export function seedFrom(file) {
  const at = 64;
  if (file.length < at + CHUNK_HEADER_BYTES) return undefined;
  const view = new DataView(file.buffer, file.byteOffset);
  const size = Number(view.getBigUint64(at + 8, true));
  if (size > 60_000) return undefined;
  const type = Math.max(0, TYPES.indexOf(file[at + 24]));
  const counts = new Uint8Array([...file.subarray(at + 25, at + 28), ...file.subarray(at + 32, at + 35)]);
  return Buffer.concat([Uint8Array.of(type), counts, file.subarray(at + 40, at + 40 + size)]);
}

const EMPTY = new Uint8Array(0);
const SIGNATURE = {
  type: 0x73,
  dataSize: 0,
  dataHash: hash64(RIEGELI_HASH_KEY, EMPTY),
  recordCount: 0,
  decodedDataSize: 0,
};

export async function fuzz(data) {
  // Longer ones would need block headers in between.
  if (data.length < 7 || data.length > 65_000) return;
  const bytes = new Uint8Array(data);
  const contents = bytes.subarray(7);
  const header = {
    type: TYPES[bytes[0] % TYPES.length],
    dataSize: contents.length,
    dataHash: hash64(RIEGELI_HASH_KEY, contents),
    recordCount: bytes[1] | (bytes[2] << 8) | (bytes[3] << 16),
    decodedDataSize: bytes[4] | (bytes[5] << 8) | (bytes[6] << 16),
  };
  const block = new Uint8Array(BLOCK_HEADER_BYTES);
  encodeBlockHeader({ previousChunk: 0, nextChunk: 64 }, block);
  const file = concatBytes([block, encodeChunkHeader(SIGNATURE), encodeChunkHeader(header), contents]);
  await allowed(async () => {
    const reader = await RecordReader.open(new MemorySource(file, "x"));
    for await (const record of reader.records()) await record.read(0, Math.min(record.size, 65_536));
  });
}
