import type { ByteSource } from "../bytes/byte-source.js";
import { joinSources } from "../bytes/joined-source.js";
import { MemorySource } from "../bytes/memory-source.js";
import { encodeNpyHeader } from "../tensor/npy.js";
import { parseRegion, regionShape } from "../tensor/region.js";
import type { Shape } from "../tensor/shape.js";
import type { TensorInfo, TensorSource } from "../tensor/tensor-source.js";

/** A tensor or a part of it, to be read. */
export interface GottenTensor {
  readonly info: TensorInfo;
  /** The shape of the part. */
  readonly shape: Shape;
  /** Row-major, little-endian; reads only what is asked for. */
  readonly data: ByteSource;
}

/**
 * One tensor, or a region of it given as in Python (`0:10,:`).
 * @throws NotFoundError (`no-such-key`), UsageError (`usage`) for a bad region
 */
export async function getTensor(source: TensorSource, key: string, region?: string): Promise<GottenTensor> {
  const info = await source.info(key);
  if (region === undefined) return { info, shape: info.shape, data: await source.data(key) };
  const parsed = parseRegion(region, info.shape);
  return { info, shape: regionShape(parsed), data: await source.data(key, parsed) };
}

/** A tensor as a `.npy` file. @throws UnsupportedError (`unsupported-dtype`) */
export function npySource({ info, shape, data }: GottenTensor): ByteSource {
  return joinSources(data.name, [new MemorySource(encodeNpyHeader(info.dtype, shape)), data]);
}
