import type { StreamOptions } from "../bytes/copy-source.js";
import type { FileStore } from "../bytes/file-store.js";
import { sha256Of } from "../codecs/sha256.js";
import { CairnError, UnsupportedError } from "../errors.js";
import type { Detection, Format } from "../formats/format.js";
import { detectFormat } from "../formats/registry.js";
import type { TensorInfo, TensorSource } from "../tensor/tensor-source.js";

/** The tensors of a path, open. Close them in the end. */
export interface OpenTensors {
  readonly detection: Detection;
  readonly tensors: TensorSource;
}

/**
 * Opens the tensors of whatever a path holds.
 * @throws NotFoundError (`not-found`), UnsupportedError (`unknown-format`, `unsupported-operation`)
 */
export async function openTensors(files: FileStore, path: string, formats?: readonly Format[]): Promise<OpenTensors> {
  const { format, detection } = await detectFormat(files, path, formats);
  if (format.openTensors === undefined) {
    throw new UnsupportedError("unsupported-operation", `a ${detection.description} has no tensors`, { file: path });
  }
  return { detection, tensors: await format.openTensors(detection) };
}

/** A tensor as a list has it. */
export interface ListedTensor extends TensorInfo {
  /** Of the data, in hex, where it was asked for. */
  readonly sha256?: string;
  /** Why the data could not be read, where they were asked for. */
  readonly error?: CairnError;
}

/** Options of {@link listTensors}. */
export interface ListOptions {
  /** Only keys that match: `*` stands for any characters, `?` for one. */
  readonly filter?: string | undefined;
  /** Hash the data of each tensor. */
  readonly sha256?: boolean | undefined;
  readonly onBytes?: ((count: number) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * The tensors of a source in key order, hashed where that is asked for; each hashed one is verified. One that is damaged
 * has its error in place of a hash, and the others follow.
 */
export async function* listTensors(source: TensorSource, options: ListOptions = {}): AsyncGenerator<ListedTensor> {
  const { filter, sha256, ...copying } = options;
  const matches = filter === undefined ? () => true : globMatcher(filter);
  let isDamaged = false;
  for await (const info of source.tensors()) {
    if (!matches(info.key)) continue;
    if (!sha256) {
      yield info;
      continue;
    }
    const tensor = await hashTensor(source, info, copying);
    isDamaged ||= tensor.error !== undefined;
    yield tensor;
  }
  if (sha256 && !isDamaged) await source.verify();
}

async function hashTensor(source: TensorSource, info: TensorInfo, copying: StreamOptions): Promise<ListedTensor> {
  try {
    return { ...info, sha256: await sha256Of(await source.data(info.key), copying) };
  } catch (error) {
    copying.signal?.throwIfAborted();
    if (error instanceof CairnError) return { ...info, error };
    throw error;
  }
}

/** A test of keys against a glob: `*` stands for any characters, `?` for one, the rest for itself. */
export function globMatcher(glob: string): (key: string) => boolean {
  const pattern = glob
    .replace(/[.+^${}()|[\]\\]/g, "\\$&")
    .replace(/\*/g, ".*")
    .replace(/\?/g, ".");
  const expression = new RegExp(`^${pattern}$`, "su");
  return (key) => expression.test(key);
}
