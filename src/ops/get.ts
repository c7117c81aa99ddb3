import type { ByteSource } from "../bytes/byte-source.js";
import { joinSources } from "../bytes/joined-source.js";
import { MemorySource } from "../bytes/memory-source.js";
import { UsageError } from "../errors.js";
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

/**
 * Rows of an embedding table, in the order of `ids`: numbers with commas between.
 * @throws NotFoundError (`no-such-key`, `no-such-id`), {@link UsageError} (`usage`) for ids that are no 64-bit numbers
 */
export async function getRows(source: TensorSource, key: string, ids: string): Promise<GottenTensor> {
  const info = await source.info(key);
  if (source.rows === undefined || info.embedding === undefined) {
    throw new UsageError("usage", `"${key}" is no embedding table and has no ids`, {
      hint: "Take a part with --region.",
    });
  }
  const wanted = BigInt64Array.from(ids.split(","), (text) => parseId(text.trim()));
  return { info, shape: [wanted.length, ...info.shape.slice(1)], data: await source.rows(key, wanted) };
}

function parseId(text: string): bigint {
  const id = /^-?\d{1,19}$/.test(text) ? BigInt(text) : undefined;
  if (id !== undefined && BigInt.asIntN(64, id) === id) return id;
  throw new UsageError("usage", `"${text}" is no id`, {
    hint: "Ids are 64-bit numbers with commas between: --ids 5,17.",
  });
}

/** A tensor as a `.npy` file. @throws UnsupportedError (`unsupported-dtype`) */
export function npySource({ info, shape, data }: GottenTensor): ByteSource {
  return joinSources(data.name, [new MemorySource(encodeNpyHeader(info.dtype, shape)), data]);
}
