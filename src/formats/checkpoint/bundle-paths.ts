import type { FileInfo, FileStore } from "../../bytes/file-store.js";
import { baseName, joinPath, parentPath, withoutSuffix } from "../../bytes/path.js";
import { CairnError } from "../../errors.js";

/** The file whose presence is that of the checkpoint. */
export function indexPath(prefix: string): string {
  return `${prefix}.index`;
}

/** A data file. Source: tensorflow/core/util/tensor_bundle/naming.cc, DataFilename: at least five digits, and no end. */
export function shardPath(prefix: string, shard: number, shardCount: number): string {
  return `${prefix}.data-${fiveDigits(shard)}-of-${fiveDigits(shardCount)}`;
}

/** What cairn writes beside a checkpoint: the description of its sharding. TensorFlow does not look at it. */
export function descriptionPath(prefix: string): string {
  return `${prefix}.cairn.json`;
}

function fiveDigits(value: number): string {
  return String(value).padStart(5, "0");
}

const SHARD_NAME = /^(.*)\.data-(\d{5,})-of-(\d{5,})$/s;

/** What the name of a data file says, or undefined for another name. */
export function parseShardName(path: string): { prefix: string; shard: number; shardCount: number } | undefined {
  const match = SHARD_NAME.exec(path);
  if (match === null) return undefined;
  return { prefix: match[1] as string, shard: Number(match[2]), shardCount: Number(match[3]) };
}

/** The prefix that a path means: of its index, of one of its data files, or the path itself. */
export function prefixOf(path: string): string {
  return withoutSuffix(path, ".index") ?? parseShardName(path)?.prefix ?? path;
}

/** A data file that stands in the directory of a checkpoint under its prefix. */
export interface FoundShard extends FileInfo {
  readonly shard: number;
  readonly shardCount: number;
}

/** The data files under a prefix, whether its index names them or not; none where a store cannot list. */
export async function findShards(files: FileStore, prefix: string): Promise<FoundShard[]> {
  const found: FoundShard[] = [];
  for (const info of await listIfThere(files, parentPath(prefix))) {
    const parsed = parseShardName(baseName(info.path));
    if (info.kind === "file" && parsed?.prefix === baseName(prefix)) {
      found.push({ ...info, path: besides(prefix, baseName(info.path)), ...pick(parsed) });
    }
  }
  return found;
}

function pick({ shard, shardCount }: { shard: number; shardCount: number }) {
  return { shard, shardCount };
}

/** A file of this name in the directory of `prefix`, spelled as the prefix is. */
export function besides(prefix: string, name: string): string {
  const parent = parentPath(prefix);
  return parent === "." && !prefix.startsWith("./") ? name : joinPath(parent, name);
}

/** The entries of a directory; none when it cannot be listed. */
export async function listIfThere(files: FileStore, directory: string): Promise<readonly FileInfo[]> {
  try {
    return await files.list(directory);
  } catch (error) {
    if (error instanceof CairnError) return [];
    throw error;
  }
}
