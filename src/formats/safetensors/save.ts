import type { ByteSource } from "../../bytes/byte-source.js";
import { openRecovered } from "../../bytes/directory.js";
import type { FileStore } from "../../bytes/file-store.js";
import { MemorySource } from "../../bytes/memory-source.js";
import { type DType, elementBytes } from "../../tensor/dtype.js";
import type { LazyTensor } from "../../tensor/lazy-tensor.js";
import { regionSource } from "../../tensor/region.js";
import type { Shape } from "../../tensor/shape.js";
import type { WriteOptions } from "../format.js";
import { SafetensorsModel } from "./model.js";
import { planSafetensors } from "./plan.js";
import { writeSafetensors } from "./write.js";

/** A tensor to save. */
export interface SavedTensor {
  readonly dtype: DType;
  readonly shape: Shape;
  /** Row-major, little-endian. A source is read when its turn comes. */
  readonly data: Uint8Array | ByteSource;
}

/** Options of {@link saveSafetensors}. */
export interface SaveSafetensorsOptions extends WriteOptions {
  readonly files: FileStore;
  /** Of a directory: how many bytes of tensors go into one file; 5 GB when it is not given. */
  readonly maxShardSize?: number | undefined;
}

/**
 * Opens the tensors of a `.safetensors` file, a `.safetensors.index.json`, or a directory with one of them. Close them in
 * the end.
 * @throws NotFoundError (`not-found`), and what damaged files give
 */
export function openSafetensors(path: string, options: { readonly files: FileStore }): Promise<SafetensorsModel> {
  const { files } = options;
  return openRecovered(files, path, () => SafetensorsModel.open(files, path));
}

/**
 * Saves tensors to a `.safetensors` file or, under any other name, to a directory: as `model.safetensors`, or as several
 * files with an index when they are over `maxShardSize`. Nothing is visible before all of it is written.
 * @throws UsageError (`exists`), UnsupportedError (`unsupported-dtype`), CorruptionError (`tensor-data`), StorageError
 * (`write-failed`)
 */
export async function saveSafetensors(
  path: string,
  tensors: Iterable<readonly [key: string, tensor: SavedTensor]>,
  options: SaveSafetensorsOptions,
): Promise<void> {
  const lazy = Array.from(tensors, ([key, tensor]) => [key, lazily(tensor, key)] as const);
  const isSingle = path.endsWith(".safetensors");
  const plan = planSafetensors(lazy, isSingle ? Number.POSITIVE_INFINITY : options.maxShardSize);
  await writeSafetensors(options.files, path, plan, options);
}

function lazily({ dtype, shape, data }: SavedTensor, key: string): LazyTensor {
  const source = data instanceof Uint8Array ? new MemorySource(data, key) : data;
  return {
    dtype,
    shape,
    byteLength: source.size,
    data: async (region) => (region === undefined ? source : regionSource(source, shape, elementBytes(dtype), region)),
  };
}
