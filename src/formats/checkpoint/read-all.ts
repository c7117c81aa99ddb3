import type { ByteSource } from "../../bytes/byte-source.js";
import { MemorySource } from "../../bytes/memory-source.js";
import { crc32c, prepareCrc32c, unmaskCrc } from "../../codecs/crc32c.js";
import { LimitError } from "../../errors.js";
import { MAX_ARRAY_BYTES } from "../../limits.js";
import { type DType, elementBytes } from "../../tensor/dtype.js";
import { copyBox, stridesOf } from "../../tensor/gather.js";
import { type Region, regionShape } from "../../tensor/region.js";
import { elementCount } from "../../tensor/shape.js";
import type { TensorInfo } from "../../tensor/tensor-source.js";
import type { BundleFiles } from "./bundle-files.js";
import type { BundleHeader } from "./bundle-proto.js";
import { checksumError } from "./checked-source.js";
import type { LoadedIndex, PlacedEntry } from "./checkpoint-index.js";
import { slicesOf } from "./loaded-slices.js";
import { checkedDType, checkStoredSize, infoOf } from "./stored-entry.js";
import { StringSource } from "./string-tensor.js";
import { swapBytes } from "./swapped-source.js";
import { checksumOfVariants } from "./variant-tensor.js";

/**
 * Tensors that lie together are read into one array of at most this size, 256 MiB. Each new array makes the engine look
 * for garbage: with 64 MiB the restore of 1 GB in 20,000 tensors takes half as much processor time again.
 */
const ARENA_BYTES = 256 * 1024 * 1024;
/** One read, 4 MiB. */
const READ_BYTES = 4 * 1024 * 1024;
/** Reads that are under way while the one before is checked. */
const READS_AHEAD = 2;
/** A gap between tensors up to this is read with them, 64 KiB. */
const GAP_BYTES = 64 * 1024;
/** Arrays begin where their bytes do in the file, modulo this: what is aligned in the file is aligned in memory. */
const ALIGNMENT = 64;

/** Options of {@link CheckpointReader.readAll}. */
export interface ReadAllOptions {
  /** Which tensors; all of them by default. */
  readonly filter?: ((info: TensorInfo) => boolean) | undefined;
  /**
   * How large an array may be that several tensors share, 256 MiB by default. It stays in memory as long as one of them
   * does: who takes tensors one at a time wants less. A larger tensor has an array of its own.
   */
  readonly arenaBytes?: number | undefined;
  /** Called with the number of bytes just checked. */
  readonly onBytes?: ((count: number) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A tensor with its value. */
export interface TensorBytes {
  readonly info: TensorInfo;
  /**
   * In the form of `TensorSource.data`; aligned for its elements. It may be a part of a larger array that other tensors
   * are in as well.
   */
  readonly bytes: Uint8Array;
}

/** What {@link readAllTensors} needs of a reader. */
export interface BulkReader {
  readonly header: BundleHeader;
  load(): Promise<LoadedIndex>;
  data(key: string): Promise<ByteSource>;
}

/** A tensor that is put together from slices as they come. */
interface Assembly {
  readonly info: TensorInfo;
  readonly bytes: () => Uint8Array;
  missing: number;
}

/** One run of stored bytes to read. */
interface Item {
  readonly placed: PlacedEntry;
  readonly info: TensorInfo;
  readonly dtype: DType;
  /** Of a slice: where it goes. */
  readonly slice?: { readonly assembly: Assembly; readonly region: Region };
}

/** Items whose bytes are read into one array. */
interface Arena {
  readonly shard: number;
  readonly start: number;
  end: number;
  readonly items: Item[];
}

/** See {@link CheckpointReader.readAll}. */
export async function* readAllTensors(
  reader: BulkReader,
  files: BundleFiles,
  options: ReadAllOptions,
): AsyncGenerator<TensorBytes> {
  const { items, deferred } = planItems(await reader.load(), options.filter ?? (() => true));
  for (const { placed } of items) await files.stored(placed);
  await prepareCrc32c(Number.MAX_SAFE_INTEGER);
  const arenas = planArenas(items, options.arenaBytes ?? ARENA_BYTES);
  yield* readArenas(arenas, files, reader.header.isBigEndian, options);
  for (const info of deferred) {
    const source = await reader.data(info.key);
    yield { info, bytes: (await source.read(0, source.size, options)).slice() };
  }
}

/** What is to be read, in the order of the data files; and what is put together by the plain way, in the end. */
function planItems(
  index: LoadedIndex,
  filter: (info: TensorInfo) => boolean,
): { items: Item[]; deferred: TensorInfo[] } {
  const items: Item[] = [];
  const deferred: TensorInfo[] = [];
  for (const placed of index.tensors) {
    const info = infoOf(placed);
    if (!filter(info)) continue;
    const dtype = checkedDType(placed);
    if (placed.entry.slices.length === 0) {
      checkStoredSize(placed, dtype);
      items.push({ placed, info, dtype });
    } else if (elementBytes(dtype) > 0) items.push(...planSlices(index, placed, info, dtype));
    else deferred.push(info);
  }
  items.sort(
    ({ placed: { entry: a } }, { placed: { entry: b } }) =>
      a.shardId - b.shardId || a.offset - b.offset || a.size - b.size,
  );
  return { items, deferred };
}

function planSlices(index: LoadedIndex, placed: PlacedEntry, info: TensorInfo, dtype: DType): Item[] {
  const boxes = slicesOf(index, placed, dtype);
  let bytes: Uint8Array | undefined;
  const assembly: Assembly = {
    info,
    bytes: () => {
      bytes ??= new Uint8Array(checkedLength(info.byteLength, info.key));
      return bytes;
    },
    missing: boxes.length,
  };
  return boxes.map(({ region, entry }) => ({ placed: entry, info, dtype, slice: { assembly, region } }));
}

function checkedLength(byteLength: number, key: string): number {
  if (byteLength <= MAX_ARRAY_BYTES) return byteLength;
  throw new LimitError("limit", `bytes of "${key}" in one array`, {
    expected: `at most ${MAX_ARRAY_BYTES}`,
    actual: byteLength,
    hint: "Read it in regions.",
  });
}

function planArenas(items: readonly Item[], arenaBytes: number): Arena[] {
  const arenas: Arena[] = [];
  let arena: Arena | undefined;
  for (const item of items) {
    const { shardId, offset, size } = item.placed.entry;
    checkedLength(size, item.info.key);
    const end = offset + size;
    const fits =
      arena !== undefined &&
      arena.shard === shardId &&
      offset - arena.end <= GAP_BYTES &&
      Math.max(arena.end, end) - arena.start <= arenaBytes;
    if (arena === undefined || !fits) {
      arena = { shard: shardId, start: offset, end, items: [] };
      arenas.push(arena);
    }
    arena.end = Math.max(arena.end, end);
    arena.items.push(item);
  }
  return arenas;
}

/** A part of an arena that is read at once. */
interface Read {
  readonly arena: FilledArena;
  readonly end: number;
  readonly done: Promise<void>;
}

async function* readArenas(
  arenas: readonly Arena[],
  files: BundleFiles,
  isBigEndian: boolean,
  options: ReadAllOptions,
): AsyncGenerator<TensorBytes> {
  const reads = startReads(arenas, files, options);
  const ahead: Promise<Read | undefined>[] = [];
  const next = () => {
    const read = reads.next().then(({ value }) => value as Read | undefined);
    read.catch(() => {});
    return read;
  };
  try {
    for (let i = 0; i <= READS_AHEAD; i++) ahead.push(next());
    for (;;) {
      const read = await ahead.shift();
      if (read === undefined) return;
      await read.done;
      ahead.push(next());
      options.signal?.throwIfAborted();
      const { arena } = read;
      const before = arena.position;
      for (const item of arena.complete(read.end)) {
        const tensor = await finishItem(arena, item, isBigEndian);
        if (tensor !== undefined) yield tensor;
      }
      options.onBytes?.(arena.position - before);
    }
  } finally {
    for (const read of await Promise.allSettled(ahead)) {
      if (read.status === "fulfilled") await read.value?.done.catch(() => {});
    }
  }
}

/** Begins one read after another; each goes on by itself. */
async function* startReads(
  arenas: readonly Arena[],
  files: BundleFiles,
  options: ReadAllOptions,
): AsyncGenerator<Read> {
  for (const plan of arenas) {
    const arena = new FilledArena(plan, files.shardName(plan.shard));
    const source = await files.shard(plan.shard);
    if (plan.start === plan.end) yield { arena, end: plan.end, done: Promise.resolve() };
    for (let at = plan.start; at < plan.end; at += READ_BYTES) {
      const end = Math.min(plan.end, at + READ_BYTES);
      const done = readInto(source, at, arena.view(at, end), options);
      done.catch(() => {});
      yield { arena, end, done };
    }
  }
}

/** Fills memory from a source, without a copy where the source can read into it. */
async function readInto(
  source: ByteSource,
  offset: number,
  target: Uint8Array,
  options: ReadAllOptions,
): Promise<void> {
  let done = 0;
  while (done < target.length) {
    const rest = target.subarray(done);
    for (const piece of await source.readPieces(offset + done, rest.length, rest, { signal: options.signal })) {
      const isInPlace = piece.buffer === target.buffer && piece.byteOffset === target.byteOffset + done;
      if (!isInPlace) target.set(piece, done);
      done += piece.length;
    }
  }
}

/** The memory of an arena, and how far its items have been checked. */
class FilledArena {
  readonly file: string;
  /** In the file, behind what has been read and checked. */
  position: number;
  private readonly plan: Arena;
  private readonly bytes: Uint8Array;
  private readonly shift: number;
  private current = 0;
  private crc = 0;
  /** Behind what is in `crc` of the current item. */
  private summed: number | undefined;

  constructor(plan: Arena, file: string) {
    this.plan = plan;
    this.file = file;
    this.position = plan.start;
    const lead = plan.start % ALIGNMENT;
    this.bytes = new Uint8Array(lead + plan.end - plan.start);
    this.shift = plan.start - lead;
  }

  /** The memory for bytes of the file. */
  view(start: number, end: number): Uint8Array {
    return this.bytes.subarray(start - this.shift, end - this.shift);
  }

  /** Takes bytes up to `end` into the checksums, and gives the items that are complete and good. */
  *complete(end: number): Iterable<Item> {
    const { items } = this.plan;
    for (; this.current < items.length; this.current++) {
      const item = items[this.current] as Item;
      const { entry, place } = item.placed;
      const itemEnd = entry.offset + entry.size;
      if (elementBytes(item.dtype) > 0) this.sum(entry.offset, Math.min(itemEnd, end));
      if (itemEnd > end) break;
      const expected = unmaskCrc(entry.crc32c);
      if (elementBytes(item.dtype) > 0 && this.crc !== expected) {
        throw checksumError({ file: this.file, offset: entry.offset, key: place.key }, expected, this.crc);
      }
      this.summed = undefined;
      this.crc = 0;
      yield item;
    }
    this.position = Math.max(this.position, end);
  }

  /** Adds what is there of the item that begins at `start` to its checksum. */
  private sum(start: number, end: number): void {
    const from = this.summed ?? start;
    if (from >= end) return;
    this.crc = crc32c(this.view(from, end), this.crc);
    this.summed = end;
  }
}

async function finishItem(arena: FilledArena, item: Item, isBigEndian: boolean): Promise<TensorBytes | undefined> {
  const { dtype, info, slice } = item;
  const { entry } = item.placed;
  const stored = arena.view(entry.offset, entry.offset + entry.size);
  if (dtype === "string") return { info, bytes: await decodeStrings(arena, item, stored, isBigEndian) };
  if (dtype === "variant") {
    const place = { file: arena.file, offset: entry.offset, key: info.key };
    const crc = await checksumOfVariants(stored, elementCount(entry.shape), place);
    if (crc !== entry.crc32c) throw checksumError(place, unmaskCrc(entry.crc32c), unmaskCrc(crc));
    return { info, bytes: stored };
  }
  const width = dtype.startsWith("complex") ? elementBytes(dtype) / 2 : elementBytes(dtype);
  const isMisaligned = slice === undefined && stored.byteOffset % width !== 0;
  const bytes = isMisaligned || isBigEndian ? stored.slice() : stored;
  if (isBigEndian) swapBytes(bytes, width);
  if (slice === undefined) return { info, bytes };
  return placeSlice(item, slice, bytes);
}

/** Copies a slice to its place, and gives the tensor when it was the last. */
function placeSlice(item: Item, slice: NonNullable<Item["slice"]>, bytes: Uint8Array): TensorBytes | undefined {
  const { assembly, region } = slice;
  const width = elementBytes(item.dtype);
  const target = assembly.bytes();
  const shape = regionShape(region);
  const strides = stridesOf(item.info.shape, width);
  const at = region.reduce((sum, { start }, i) => sum + start * (strides[i] as number), 0);
  copyBox({ bytes, at: 0, strides: stridesOf(shape, width) }, { bytes: target, at, strides }, shape, width);
  assembly.missing--;
  return assembly.missing > 0 ? undefined : { info: assembly.info, bytes: target };
}

async function decodeStrings(arena: FilledArena, item: Item, stored: Uint8Array, isBigEndian: boolean) {
  const { entry } = item.placed;
  const source = await StringSource.open(
    new MemorySource(stored, arena.file, entry.offset),
    {
      elementCount: elementCount(entry.shape),
      crc32c: entry.crc32c,
      isBigEndian,
      place: { file: arena.file, offset: entry.offset, key: item.info.key },
    },
    () => {},
  );
  await source.strings.verify();
  return source.read(0, source.size);
}
