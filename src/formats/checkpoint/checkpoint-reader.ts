import type { ByteSource, ReadOptions } from "../../bytes/byte-source.js";
import type { StreamOptions } from "../../bytes/copy-source.js";
import type { FileStore } from "../../bytes/file-store.js";
import { MemorySource } from "../../bytes/memory-source.js";
import { type CairnError, NotFoundError, UsageError } from "../../errors.js";
import { type DType, elementBytes } from "../../tensor/dtype.js";
import { GatheredSource } from "../../tensor/gather.js";
import type { LazyTensor } from "../../tensor/lazy-tensor.js";
import { type Region, regionShape, wholeRegion } from "../../tensor/region.js";
import { elementCount, formatShape, type Shape } from "../../tensor/shape.js";
import type { TensorInfo, TensorSource } from "../../tensor/tensor-source.js";
import { BundleFiles } from "./bundle-files.js";
import { prefixOf } from "./bundle-paths.js";
import type { BundleHeader } from "./bundle-proto.js";
import { CheckpointIndex, type LoadedIndex, type PlacedEntry } from "./checkpoint-index.js";
import { type RawKey, rawKeyOf } from "./checkpoint-key.js";
import { EntrySources, type PlacedBoxEntry, regionOfStrings } from "./entry-sources.js";
import { slicesOf } from "./loaded-slices.js";
import { encodeSliceKey } from "./ordered-code.js";
import { type ReadAllOptions, readAllTensors, type TensorBytes } from "./read-all.js";
import {
  checkedDType,
  checkSlice,
  checkStoredSize,
  infoOf,
  missingSlice,
  type StoredEntry,
  storedBytes,
} from "./stored-entry.js";
import { readOwners, type StoredObject } from "./stored-object.js";
import { checkCoverage, checkOverlap, formatExtents, regionOfSlice } from "./tensor-slices.js";

/** Options of {@link openCheckpoint}. */
export interface OpenCheckpointOptions {
  /** Where the checkpoint is. */
  readonly files: FileStore;
}

/**
 * Opens a V2 checkpoint of TensorFlow by its prefix, or by the path of its index or of one of its data files. Reads its
 * index, or of a large index only the end and the first block. Close it in the end.
 * @throws NotFoundError (`not-found`), CorruptionError (`table-footer`, `table-block`, `table-entry`, `bundle-header`),
 *   TruncatedError (`truncated`), UnsupportedError (`unsupported-version`)
 */
export async function openCheckpoint(prefix: string, { files }: OpenCheckpointOptions): Promise<CheckpointReader> {
  const bundle = await BundleFiles.open(files, prefixOf(prefix));
  try {
    return new CheckpointReader(bundle, await CheckpointIndex.open(bundle.index));
  } catch (error) {
    await bundle.close();
    throw error;
  }
}

/** The tensors of a checkpoint: a list, one of them, a region of one, or all of them at once. */
export class CheckpointReader implements TensorSource {
  readonly prefix: string;
  readonly header: BundleHeader;
  /** The `.index` file. */
  readonly index: CheckpointIndex;
  private readonly files: BundleFiles;
  private readonly sources: EntrySources;
  private loaded: Promise<LoadedIndex> | undefined;
  private lastBoxes: { readonly rawKey: RawKey; readonly boxes: Promise<PlacedBoxEntry[]> } | undefined;

  /** Use {@link openCheckpoint}. */
  constructor(files: BundleFiles, index: CheckpointIndex) {
    this.prefix = files.prefix;
    this.files = files;
    this.index = index;
    this.header = index.header;
    files.setShardCount(index.header.shardCount);
    this.sources = new EntrySources(files, index.header.isBigEndian);
  }

  /**
   * All tensors in key order. When entries of the index are damaged, the others are given first, and then the error of
   * the first damage is thrown.
   */
  async *tensors(): AsyncGenerator<TensorInfo> {
    let damage: CairnError | undefined;
    for await (const placed of this.index.tensors((error) => (damage ??= error))) {
      try {
        yield infoOf(placed, placed.entry.slices.length === 0 ? undefined : await this.sliceShards(placed));
      } catch (error) {
        damage ??= error as CairnError;
      }
    }
    if (damage !== undefined) throw damage;
  }

  /** See {@link TensorSource.info}. @throws NotFoundError (`no-such-key`) */
  async info(key: string): Promise<TensorInfo> {
    const placed = await this.find(key);
    return infoOf(placed, await this.sliceShards(placed));
  }

  /**
   * The value of a tensor or of a region of it; slices are put together in any arrangement.
   * @throws NotFoundError (`no-such-key`, `not-found`), CorruptionError (`bundle-entry`, `slice-coverage`, `tensor-data`),
   *   TruncatedError (`truncated`), StorageError (`file-changed`); its reads CorruptionError (`tensor-checksum`)
   */
  async data(key: string, region?: Region): Promise<ByteSource> {
    const placed = await this.find(key);
    const dtype = checkedDType(placed);
    if (region !== undefined) checkRegion(region, placed.entry.shape, key);
    return placed.entry.slices.length > 0
      ? this.gatherSlices(placed, dtype, region ?? wholeRegion(placed.entry.shape))
      : this.wholeOrRegion(placed, dtype, region);
  }

  /** What the index says of a tensor. @throws NotFoundError (`no-such-key`) */
  async entry(key: string): Promise<StoredEntry> {
    return this.storedEntry(await this.find(key));
  }

  /** What the index says of all tensors, in key order. */
  async *entries(): AsyncGenerator<StoredEntry> {
    for await (const placed of this.index.tensors()) yield this.storedEntry(placed);
  }

  /**
   * A tensor whose value is read when it is asked for. Of strings the lengths are read at once.
   * @throws NotFoundError (`no-such-key`), and for strings what {@link CheckpointReader.data} throws
   */
  async lazyTensor(key: string): Promise<LazyTensor> {
    const placed = await this.find(key);
    const dtype = checkedDType(placed);
    const { shape } = placed.entry;
    const data = (region?: Region) => this.data(key, region);
    if (dtype !== "string") return { dtype, shape, byteLength: infoOf(placed).byteLength, data };
    const byteLengths = await this.byteLengths(placed);
    const byteLength = byteLengths.reduce((sum, length) => sum + length, 8 * byteLengths.length);
    return { dtype, shape, byteLength, byteLengths, data };
  }

  /**
   * All tensors with their values, in the order of the data files: the fastest way to restore a checkpoint. Values are
   * views of large arrays, checked; tensors in slices come when their last slice has been read.
   * @throws the errors of {@link CheckpointReader.data} and of its reads
   */
  readAll(options: ReadAllOptions = {}): AsyncIterable<TensorBytes> {
    return readAllTensors(this, this.files, options);
  }

  /** See {@link TensorSource.owners}. */
  owners(): Promise<ReadonlyMap<string, StoredObject>> {
    return readOwners(this);
  }

  /** All entries of the index, in memory. */
  load(): Promise<LoadedIndex> {
    this.loaded ??= this.index.load();
    return this.loaded;
  }

  /** Checks what was given out and not read in order. @throws CorruptionError (`tensor-checksum`) */
  verify(): Promise<void> {
    return this.sources.verify();
  }

  /**
   * Checks the bytes of one entry, that of a whole tensor or of a slice.
   * @throws the errors of {@link CheckpointReader.data} and of its reads
   */
  async verifyEntry(placed: PlacedEntry, options?: ReadOptions): Promise<void> {
    const dtype = checkedDType(placed);
    if (dtype === "string") return (await this.sources.strings(placed)).strings.verify(options);
    if (dtype === "variant") {
      const variants = await this.sources.variants(placed);
      await variants.read(0, variants.size, options);
      return;
    }
    checkStoredSize(placed, dtype);
    return (await this.sources.checked(placed)).verify(options);
  }

  /**
   * Reads and checks the bytes of all tensors, in the order of the data files, and keeps none.
   * @throws the errors of {@link CheckpointReader.data} and of its reads, at the first damage
   */
  async verifyAll({ onBytes, signal }: StreamOptions = {}): Promise<void> {
    const index = await this.index.load();
    const stored = index.tensors.flatMap((placed) => {
      if (placed.entry.slices.length === 0) return [placed];
      return slicesOf(index, placed, checkedDType(placed)).map(({ entry }) => entry);
    });
    stored.sort(({ entry: a }, { entry: b }) => a.shardId - b.shardId || a.offset - b.offset);
    for (const placed of stored) {
      signal?.throwIfAborted();
      await this.verifyEntry(placed, { signal });
      onBytes?.(placed.entry.size);
    }
  }

  /** A data file as it is. @throws NotFoundError (`not-found`), StorageError (`file-changed`) */
  openShard(shard: number): Promise<ByteSource> {
    return this.files.shard(shard);
  }

  /** Closes the files. */
  close(): Promise<void> {
    return this.files.close();
  }

  private async find(key: string): Promise<PlacedEntry> {
    const placed = await this.index.get(rawKeyOf(key));
    if (placed !== undefined) return placed;
    throw new NotFoundError("no-such-key", `no tensor "${key}"`, { file: this.index.name });
  }

  private async wholeOrRegion(placed: PlacedEntry, dtype: DType, region: Region | undefined): Promise<ByteSource> {
    const { shape } = placed.entry;
    if (dtype === "string") {
      const strings = await this.sources.strings(placed);
      return region === undefined ? strings : regionOfStrings(strings, shape, region);
    }
    if (dtype === "variant") {
      if (region === undefined || isWhole(region, shape)) return this.sources.variants(placed);
      throw new UsageError("usage", `"${placed.place.key}" holds variants, which are read as a whole`);
    }
    checkStoredSize(placed, dtype);
    const data = await this.sources.elements(placed, dtype);
    if (region === undefined || isWhole(region, shape)) return data;
    const run = contiguousRun(region, shape, elementBytes(dtype));
    if (run !== undefined) return data.slice(run.offset, run.length);
    return new GatheredSource(data.name, [{ region: wholeRegion(shape), data }], region, elementBytes(dtype));
  }

  private async gatherSlices(placed: PlacedEntry, dtype: DType, region: Region): Promise<ByteSource> {
    const boxes = await this.boxesOf(placed, dtype);
    const { shape } = placed.entry;
    checkCoverage(
      boxes.map((box) => box.region),
      region,
      shape,
      placed.place,
    );
    if (elementCount(regionShape(region)) === 0) return new MemorySource(new Uint8Array(0), this.prefix);
    return this.sources.gather(boxes, dtype, region);
  }

  /** The slices of a tensor; those of the last one are kept, for it is often read slice by slice. */
  private boxesOf(placed: PlacedEntry, dtype: DType): Promise<PlacedBoxEntry[]> {
    if (this.lastBoxes?.rawKey !== placed.rawKey) {
      this.lastBoxes = { rawKey: placed.rawKey, boxes: this.findBoxes(placed, dtype) };
    }
    return this.lastBoxes.boxes;
  }

  private async findBoxes(placed: PlacedEntry, dtype: DType): Promise<PlacedBoxEntry[]> {
    const boxes: PlacedBoxEntry[] = [];
    for (const extents of placed.entry.slices) {
      const region = regionOfSlice(extents, placed.entry.shape, placed.place);
      const entry = await this.index.get(encodeSliceKey(placed.rawKey, extents));
      if (entry === undefined) throw missingSlice(placed, formatExtents(extents));
      boxes.push({ region, entry: checkSlice(entry, placed, region, dtype) });
    }
    checkOverlap(
      boxes.map(({ region }) => region),
      placed.place,
    );
    return boxes;
  }

  private async byteLengths(placed: PlacedEntry): Promise<readonly number[]> {
    if (placed.entry.slices.length === 0) return (await this.sources.strings(placed)).byteLengths;
    // The lengths stand in the data that the slices give, one before each string.
    const data = await this.data(placed.place.key);
    const lengths: number[] = [];
    for (let at = 0; at < data.size; ) {
      const bytes = await data.read(at, 8);
      const length = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
      lengths.push(length);
      at += 8 + length;
    }
    return lengths;
  }

  private async storedEntry(placed: PlacedEntry): Promise<StoredEntry> {
    const { entry, place } = placed;
    const dtype = checkedDType(placed);
    const { shape } = entry;
    if (entry.slices.length === 0) return { key: place.key, dtype, shape, stored: storedBytes(placed), slices: [] };
    const slices = [];
    for (const extents of entry.slices) {
      const slice = await this.index.get(encodeSliceKey(placed.rawKey, extents));
      if (slice === undefined) throw missingSlice(placed, formatExtents(extents));
      slices.push({ extents: formatExtents(extents), stored: storedBytes(slice) });
    }
    return { key: place.key, dtype, shape, slices };
  }

  private async sliceShards(placed: PlacedEntry): Promise<Map<string, number> | undefined> {
    if (placed.entry.slices.length === 0) return undefined;
    const shards = new Map<string, number>();
    for (const extents of placed.entry.slices) {
      const slice = await this.index.get(encodeSliceKey(placed.rawKey, extents));
      if (slice !== undefined) shards.set(formatExtents(extents), slice.entry.shardId);
    }
    return shards;
  }
}

function checkRegion(region: Region, shape: Shape, key: string): void {
  const isGood =
    region.length === shape.length &&
    region.every(({ start, end }, i) => start >= 0 && start <= end && end <= (shape[i] as number));
  if (!isGood) {
    throw new UsageError("usage", `a region passes "${key}"`, {
      expected: formatShape(shape),
      actual: region.map(({ start, end }) => `${start}:${end}`).join(","),
    });
  }
}

function isWhole(region: Region, shape: Shape): boolean {
  return region.every(({ start, end }, i) => start === 0 && end === shape[i]);
}

/** The bytes of a region that is one run: whole in all dimensions behind the first that is not of length one. */
function contiguousRun(region: Region, shape: Shape, width: number): { offset: number; length: number } | undefined {
  let length = width;
  let offset = 0;
  let stride = width;
  let isBroken = false;
  for (let i = shape.length - 1; i >= 0; i--) {
    const { start, end } = region[i] as Region[number];
    if (isBroken && end - start !== 1) return undefined;
    if (end - start !== shape[i]) isBroken = true;
    offset += start * stride;
    length *= end - start;
    stride *= shape[i] as number;
  }
  return { offset: length === 0 ? 0 : offset, length };
}
