import { readInOrder, type StreamOptions } from "../bytes/copy-source.js";
import type { TensorInfo, TensorSource } from "../tensor/tensor-source.js";

/**
 * A tensor up to this is read whole to check a part of it, 16 MiB: a checksum covers more than the part, and so much is
 * read in a blink.
 */
export const CHECKED_TENSOR_BYTES: number = 16 * 1024 * 1024;

/** Options of {@link checkPart}. */
export interface CheckPartOptions extends StreamOptions {
  /** Read the whole tensor however large it is. */
  readonly always?: boolean | undefined;
}

/**
 * Makes sure that a tensor of which a part is going to be read matches its checksums, as far as its format has any. Gives
 * false when the tensor is too large for that, and nothing was checked.
 * @throws CorruptionError when the data does not match
 */
export async function checkPart(
  source: TensorSource,
  info: TensorInfo,
  options: CheckPartOptions = {},
): Promise<boolean> {
  if (!options.always && info.byteLength > CHECKED_TENSOR_BYTES) return false;
  await readInOrder(await source.data(info.key), () => {}, options);
  await source.verify();
  return true;
}
