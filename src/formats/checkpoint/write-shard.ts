import type { ByteSink } from "../../bytes/byte-sink.js";
import type { ByteSource } from "../../bytes/byte-source.js";
import { MemorySource } from "../../bytes/memory-source.js";
import { maskCrc, prepareCrc32c, unmaskCrc } from "../../codecs/crc32c.js";
import { PlanError, UnsupportedError } from "../../errors.js";
import type { PlannedShard, PlannedSlice } from "../../sharding/shard-plan.js";
import { elementBytes, findDTypeNumber, isPacked } from "../../tensor/dtype.js";
import { regionShape } from "../../tensor/region.js";
import { elementCount } from "../../tensor/shape.js";
import { readStringLengths, STRING_LENGTH_BYTES } from "../../tensor/strings.js";
import type { BundleEntry, SliceExtent } from "./bundle-proto.js";
import { HEADER_KEY, type RawKey, rawKeyOf } from "./checkpoint-key.js";
import { ShardStream, type ShardStreamOptions } from "./shard-stream.js";
import { encodeStringHeader, StringSource } from "./string-tensor.js";
import { extentsOf } from "./tensor-slices.js";
import { checksumOfVariants } from "./variant-tensor.js";

/** A tensor or a slice that was written, as the index has to know it. */
export interface WrittenSlice {
  readonly rawKey: RawKey;
  readonly entry: BundleEntry;
  /** Of a slice that is not the whole tensor. */
  readonly slice?: { readonly extents: readonly SliceExtent[]; readonly fullShape: readonly number[] };
}

/**
 * Writes the bytes of one data file, and gives the entries of what is in it. Nothing stands between the tensors.
 * Source: tensorflow/core/util/tensor_bundle/tensor_bundle.cc, BundleWriter::Add and AddSlice.
 * @throws PlanError (`invalid-plan`), UnsupportedError (`unsupported-dtype`), and what reading the tensors throws
 */
export async function writeShard(
  sink: ByteSink,
  shard: PlannedShard,
  shardId: number,
  options: ShardStreamOptions,
): Promise<WrittenSlice[]> {
  const stream = new ShardStream(sink, options);
  const written: WrittenSlice[] = [];
  await prepareCrc32c(shard.slices.reduce((sum, { tensor }) => sum + tensor.byteLength, 0));
  try {
    for (const slice of shard.slices) written.push(await writeSlice(stream, slice, shardId));
    await stream.flush();
  } catch (error) {
    await stream.settle();
    throw error;
  }
  return written;
}

async function writeSlice(stream: ShardStream, planned: PlannedSlice, shardId: number): Promise<WrittenSlice> {
  const { key, region, fullShape, tensor } = planned;
  const rawKey = rawKeyOf(key);
  if (rawKey === HEADER_KEY) throw new PlanError("invalid-plan", "a tensor needs a key: the empty one is the header's");
  const dtype = dtypeNumber(planned);
  const isWhole = region.every(({ start, end }, i) => start === 0 && end === fullShape[i]);
  const shape = isWhole ? fullShape : regionShape(region);
  const offset = stream.position;
  const data = await tensor.data();
  // A small tensor of numbers in memory is the common case of a save: no other step of it waits for anything.
  const isInMemory = elementBytes(tensor.dtype) > 0 && data instanceof MemorySource;
  const sum = isInMemory ? stream.gather(data.bytes) : undefined;
  const crc32c = maskCrc(sum ?? (await writeData(stream, planned, data)));
  const size = stream.position - offset;
  const entry = { dtype, shape, shardId, offset, size, crc32c, slices: [] };
  if (elementBytes(tensor.dtype) > 0 && size !== elementCount(shape) * elementBytes(tensor.dtype)) {
    throw wrongSize(planned, `${elementCount(shape) * elementBytes(tensor.dtype)} bytes`, `${size} bytes`);
  }
  const extents = isWhole ? undefined : extentsOf(planned.sliceSpec);
  if (!isWhole && extents === undefined) throw wrongSize(planned, "a slice spec", JSON.stringify(planned.sliceSpec));
  return extents === undefined ? { rawKey, entry } : { rawKey, entry, slice: { extents, fullShape } };
}

/** Why the dtype cannot stand in a checkpoint, or undefined when it can. */
export function refusedDType({ dtype }: Pick<PlannedSlice["tensor"], "dtype">): string | undefined {
  if (dtype === "resource") return "a resource is no value";
  if (findDTypeNumber(dtype) === undefined || isPacked(dtype)) return `TensorFlow has no ${dtype}`;
  return undefined;
}

function dtypeNumber({ key, tensor }: PlannedSlice): number {
  const number = findDTypeNumber(tensor.dtype);
  const reason = refusedDType(tensor);
  if (number !== undefined && reason === undefined) return number;
  throw new UnsupportedError("unsupported-dtype", `"${key}" in a checkpoint: ${reason}`);
}

/** Writes the data in the form of the file, and gives their checksum. */
async function writeData(stream: ShardStream, planned: PlannedSlice, data: ByteSource): Promise<number> {
  const { tensor, key } = planned;
  if (tensor.dtype === "string") return writeStrings(stream, planned, data);
  if (tensor.dtype !== "variant") return stream.writeSource(data, 0);
  const bytes = await data.read(0, data.size);
  const place = { file: data.name, offset: 0, key };
  const masked = await checksumOfVariants(bytes, elementCount(regionShape(planned.region)), place);
  await stream.writeBytes(bytes, 0);
  return unmaskCrc(masked);
}

async function writeStrings(stream: ShardStream, planned: PlannedSlice, data: ByteSource): Promise<number> {
  const count = elementCount(regionShape(planned.region));
  if (data instanceof StringSource) {
    const header = encodeStringHeader(data.byteLengths);
    await stream.writeBytes(header.bytes, 0);
    return stream.writeSource(data.strings, header.crc);
  }
  const lengths = planned.tensor.byteLengths ?? (await readStringLengths(data, count));
  const total = lengths.reduce((sum, length) => sum + length + STRING_LENGTH_BYTES, 0);
  if (lengths.length !== count || total !== data.size) {
    throw wrongSize(planned, `${count} strings in ${data.size} bytes`, `${lengths.length} in ${total}`);
  }
  const header = encodeStringHeader(lengths);
  await stream.writeBytes(header.bytes, 0);
  return writeWithoutLengths(stream, planned, data, lengths, header.crc);
}

/** Bytes of strings that are taken at once, unless one is longer. */
const STRING_BATCH_BYTES = 1024 * 1024;

/** Writes the strings without the lengths that stand before them. */
async function writeWithoutLengths(
  stream: ShardStream,
  planned: PlannedSlice,
  data: ByteSource,
  lengths: readonly number[],
  crc: number,
): Promise<number> {
  let sum = crc;
  let at = 0;
  for (let i = 0; i < lengths.length; ) {
    const first = i;
    let size = 0;
    do size += (lengths[i++] as number) + STRING_LENGTH_BYTES;
    while (i < lengths.length && size + (lengths[i] as number) < STRING_BATCH_BYTES);
    const group = lengths.slice(first, i);
    if (group.length === 1 && size > STRING_BATCH_BYTES) {
      checkLength(await data.read(at, STRING_LENGTH_BYTES), group[0] as number, planned);
      sum = await stream.writeSource(data.slice(at + STRING_LENGTH_BYTES, group[0] as number), sum);
    } else {
      sum = await stream.writeBytes(withoutLengths(await data.read(at, size), group, planned), sum);
    }
    at += size;
  }
  return sum;
}

function withoutLengths(bytes: Uint8Array, lengths: readonly number[], planned: PlannedSlice): Uint8Array {
  const strings = new Uint8Array(bytes.length - STRING_LENGTH_BYTES * lengths.length);
  let [from, to] = [0, 0];
  for (const length of lengths) {
    checkLength(bytes.subarray(from), length, planned);
    from += STRING_LENGTH_BYTES;
    strings.set(bytes.subarray(from, from + length), to);
    from += length;
    to += length;
  }
  return strings;
}

function checkLength(bytes: Uint8Array, expected: number, planned: PlannedSlice): void {
  const length = new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true);
  if (length !== BigInt(expected)) throw wrongSize(planned, `a string of ${expected} bytes`, `${length}`);
}

function wrongSize({ key }: PlannedSlice, expected: string, actual: string): PlanError {
  return new PlanError("invalid-plan", `data of "${key}"`, { expected, actual });
}
