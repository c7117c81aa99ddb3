import { MemorySource } from "../bytes/memory-source.js";
import { CorruptionError } from "../errors.js";
import type { LazyEmbedding, LazyTensor } from "../tensor/lazy-tensor.js";
import { regionSource, wholeRegion } from "../tensor/region.js";
import type { TensorInfo, TensorSource } from "../tensor/tensor-source.js";

/** Behind the name of an embedding table, where its ids are a tensor of their own. */
export const IDS_SUFFIX = ".ids";
/** Before the name of such a table: how rows of it begin, among the texts that files carry along. */
const INITIALIZER_TEXT = "cairn.initializer.";
/** How rows begin where nothing tells it: as embedding layers have it when nobody says anything. */
const DEFAULT_INITIALIZER = "uniform";
const ID_BYTES = 8;
/** Ids that are looked at in one go, 64 Ki. */
const CHECKED_IDS = 65_536;

/** The ids of an embedding table as a tensor of their own; undefined when it is none. */
export function idsTensor(source: TensorSource, { key, embedding }: TensorInfo): LazyTensor | undefined {
  if (embedding === undefined || source.ids === undefined) return undefined;
  const read = async () => new Uint8Array((await source.ids?.(key))?.buffer ?? new ArrayBuffer(0));
  const shape = [embedding.rows];
  return {
    dtype: "int64",
    shape,
    byteLength: embedding.rows * ID_BYTES,
    data: async (region) =>
      regionSource(new MemorySource(await read(), key), shape, ID_BYTES, region ?? wholeRegion(shape)),
  };
}

/** The tensor with the ids of a table's rows, when one stands beside it; `byName` has the tensors of the source. */
export function idsBeside(
  { key, name = key, shape, embedding }: TensorInfo,
  byName: ReadonlyMap<string, TensorInfo>,
): TensorInfo | undefined {
  const ids = byName.get(name + IDS_SUFFIX);
  if (embedding !== undefined || shape.length !== 2 || ids?.dtype !== "int64" || ids.shape.length !== 1)
    return undefined;
  return ids.shape[0] === shape[0] ? ids : undefined;
}

/** A table whose ids are a tensor beside it. They are read in batches, and all at once only when they do not ascend. */
export function embeddingFrom(source: TensorSource, ids: TensorInfo, initializer: string | undefined): LazyEmbedding {
  let checking: Promise<void> | undefined;
  return {
    initializer: initializer ?? DEFAULT_INITIALIZER,
    async *idBatches(limit) {
      checking ??= checkUnique(source, ids);
      await checking;
      yield* readBatches(source, ids, limit);
    },
  };
}

/** The ids that a source has of a table itself. */
export function embeddingOf(source: TensorSource, key: string, initializer: string): LazyEmbedding {
  return {
    initializer,
    async *idBatches(limit) {
      const ids = (await source.ids?.(key)) ?? new BigInt64Array(0);
      for (let at = 0; at < ids.length; at += limit) yield ids.subarray(at, at + limit);
    },
  };
}

async function* readBatches(source: TensorSource, { key }: TensorInfo, limit: number): AsyncGenerator<BigInt64Array> {
  const data = await source.data(key);
  for (let at = 0; at < data.size; at += limit * ID_BYTES) {
    const bytes = await data.read(at, Math.min(limit * ID_BYTES, data.size - at));
    yield new BigInt64Array(bytes.slice().buffer);
  }
}

/** The ids of a tensor of ids. */
export async function readIds(source: TensorSource, { key }: TensorInfo): Promise<BigInt64Array> {
  const data = await source.data(key);
  const bytes = await data.read(0, data.size);
  return new BigInt64Array(bytes.slice().buffer);
}

/** A row whose id comes again could not be found any more. @throws {@link CorruptionError} (`tensor-data`) */
async function checkUnique(source: TensorSource, info: TensorInfo): Promise<void> {
  if (await isAscending(source, info)) return;
  const sorted = (await readIds(source, info)).sort();
  const at = sorted.findIndex((id, i) => i > 0 && id === sorted[i - 1]);
  if (at < 0) return;
  const { key } = info;
  throw new CorruptionError("tensor-data", `"${key}" has an id twice`, { expected: "each once", actual: sorted[at] });
}

async function isAscending(source: TensorSource, info: TensorInfo): Promise<boolean> {
  let last: bigint | undefined;
  for await (const ids of readBatches(source, info, CHECKED_IDS)) {
    for (const id of ids) {
      if (last !== undefined && id <= last) return false;
      last = id;
    }
  }
  return true;
}

/** The text that carries the initializer of a table along, to where tables have none. */
export function initializerText(table: string): string {
  return INITIALIZER_TEXT + table;
}
