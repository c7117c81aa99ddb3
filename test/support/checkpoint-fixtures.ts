import { decodeKey } from "../../src/tensor/key.js";
import { fixturePath, readExpected } from "./fixtures.js";

/** A tensor in test/fixtures/checkpoints/expected.json. */
export interface ExpectedTensor {
  key?: string;
  key_hex?: string;
  dtype: string;
  shape: number[];
  shard?: number;
  offset?: number;
  size?: number;
  crc32c?: number;
  slices?: [number, number][][];
  sha256: string;
  tf: string;
}

/** A checkpoint there. */
export interface ExpectedCheckpoint {
  header: { num_shards: number; endianness: number; producer: number; min_consumer: number };
  index: { size: number; data_blocks: number; entries: number };
  files: Record<string, { size: number; sha256: string }>;
  tensors?: ExpectedTensor[];
  slice_entries?: {
    key_hex: string;
    of: string | null;
    extents: [number, number][];
    shard: number;
    offset: number;
    size: number;
    crc32c: number;
  }[];
  object_graph?: { nodes: unknown[] };
}

export const EXPECTED: Record<string, ExpectedCheckpoint> = readExpected("checkpoints/expected.json");

/** The prefixes of all fixtures. */
export const PREFIXES: readonly string[] = Object.keys(EXPECTED);

/** The path of a prefix of the fixtures. */
export function checkpointPath(prefix: string): string {
  return fixturePath(`checkpoints/${prefix}`);
}

/** The key of an expected tensor, as cairn writes it. */
export function keyOf({ key, key_hex }: { key?: string; key_hex?: string }): string {
  return key ?? decodeKey(Uint8Array.from(Buffer.from(key_hex as string, "hex")));
}
