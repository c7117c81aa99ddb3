import type { FileStore } from "../../bytes/file-store.js";
import { CorruptionError, LimitError } from "../../errors.js";
import { MAX_SAFETENSORS_HEADER_BYTES, MAX_SAFETENSORS_SHARDS } from "../../limits.js";
import { decodeName, encodeName, type SafetensorsMetadata } from "./header.js";
import { JsonReader } from "./json-reader.js";

/** What a `….safetensors.index.json` says. */
export interface ShardIndex {
  /** Bytes of all tensors, where it is told. */
  readonly totalSize: number | undefined;
  /** The texts of its metadata. */
  readonly metadata: SafetensorsMetadata;
  /** The file of each key, relative to the index. */
  readonly weightMap: ReadonlyMap<string, string>;
}

/**
 * Reads the index of a model in several files. Source: huggingface_hub/serialization/_torch.py, save_torch_state_dict.
 * @throws NotFoundError (`not-found`), {@link CorruptionError} (`invalid-json`, `weight-map`), {@link LimitError} (`limit`)
 */
export async function readShardIndex(files: FileStore, path: string): Promise<ShardIndex> {
  const source = await files.open(path);
  try {
    if (source.size > MAX_SAFETENSORS_HEADER_BYTES) {
      const expected = `at most ${MAX_SAFETENSORS_HEADER_BYTES} bytes`;
      throw new LimitError("limit", "index of shards", { file: path, expected, actual: source.size });
    }
    return decodeShardIndex(await source.read(0, source.size), path);
  } finally {
    await source.close();
  }
}

/** Parses the index of a model in several files. */
export function decodeShardIndex(bytes: Uint8Array, file: string): ShardIndex {
  const json = new JsonReader(bytes, file, 0);
  const index: { totalSize?: number; metadata: [string, string][]; weightMap?: Map<string, string> } = { metadata: [] };
  json.readObject((name) => {
    if (name === "weight_map") index.weightMap = readWeightMap(json, file);
    else if (name === "metadata" && json.isAtObject) {
      json.readObject((key) => {
        if (key === "total_size" && json.isAtInteger) index.totalSize = json.readInteger();
        else if (key !== "total_size" && json.isAtString) index.metadata.push([key, json.readString()]);
        else json.skipValue();
      });
    } else json.skipValue();
  });
  json.readEnd();
  if (index.weightMap === undefined) throw json.wrong("the index has no weight_map");
  const { totalSize, weightMap } = index;
  return { totalSize, metadata: Object.fromEntries(index.metadata), weightMap };
}

function readWeightMap(json: JsonReader, file: string): Map<string, string> {
  const weightMap = new Map<string, string>();
  const shards = new Set<string>();
  json.readObject((key) => {
    const shard = json.readString();
    if (!shards.has(shard)) checkShardName(shard, file);
    if (shards.add(shard).size > MAX_SAFETENSORS_SHARDS) {
      throw new LimitError("limit", "files of a model", { file, expected: `at most ${MAX_SAFETENSORS_SHARDS}` });
    }
    weightMap.set(decodeName(key), shard);
  });
  return weightMap;
}

/** A shard lies beside its index or below it, whatever the index says. */
function checkShardName(shard: string, file: string): void {
  const steps = shard.split("/");
  const isSafe = /^[^\\:?#]+$/.test(shard) && steps.every((step) => step !== "" && step !== "." && step !== "..");
  if (isSafe && !/\p{Cc}/u.test(shard)) return;
  throw new CorruptionError("weight-map", `"${shard}" is no name of a file beside the index`, { file });
}

/** The index of a model in several files, as huggingface_hub writes it. */
export function encodeShardIndex(index: ShardIndex): Uint8Array {
  const metadata = { total_size: index.totalSize, ...index.metadata };
  const weightMap = [...index.weightMap].map(([key, shard]) => [encodeName(key), shard] as const);
  const text = JSON.stringify({ metadata, weight_map: Object.fromEntries(weightMap) }, null, 2);
  return new TextEncoder().encode(`${text}\n`);
}
