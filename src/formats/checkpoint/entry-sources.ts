import { BaseSource, type ByteSource, type ReadOptions } from "../../bytes/byte-source.js";
import { joinSources } from "../../bytes/joined-source.js";
import { unmaskCrc } from "../../codecs/crc32c.js";
import { LimitError, UnsupportedError } from "../../errors.js";
import { MAX_VARIANT_BYTES } from "../../limits.js";
import { type DType, elementBytes } from "../../tensor/dtype.js";
import { GatheredSource, intersect, linearBoxes, type PlacedBox } from "../../tensor/gather.js";
import { type Region, regionShape } from "../../tensor/region.js";
import { elementCount, type Shape } from "../../tensor/shape.js";
import type { BundleFiles } from "./bundle-files.js";
import { CheckedSource, checksumError, type TensorPlace } from "./checked-source.js";
import type { PlacedEntry } from "./checkpoint-index.js";
import { StringSource } from "./string-tensor.js";
import { SwappedSource } from "./swapped-source.js";
import { checksumOfVariants } from "./variant-tensor.js";

/** Something that was given out and is not checked to its end yet. */
interface Unchecked {
  verify(options?: ReadOptions): Promise<void>;
}

/** The values of stored entries, and which of them have been checked. */
export class EntrySources {
  private readonly files: BundleFiles;
  private readonly isBigEndian: boolean;
  /** By data file and offset; parts of one tensor share one, so that what is read in several parts is checked once. */
  private readonly unchecked = new Map<string, Unchecked>();

  /** Entries of these files. */
  constructor(files: BundleFiles, isBigEndian: boolean) {
    this.files = files;
    this.isBigEndian = isBigEndian;
  }

  /** Reads and checks what was given out and is not checked yet. @throws CorruptionError (`tensor-checksum`) */
  async verify(options?: ReadOptions): Promise<void> {
    for (const [id, source] of this.unchecked) {
      await source.verify(options);
      this.unchecked.delete(id);
    }
  }

  /** The stored bytes of an entry of fixed width, which are checked as they are read. */
  async checked(placed: PlacedEntry): Promise<CheckedSource> {
    const id = idOf(placed);
    const kept = this.unchecked.get(id);
    if (kept instanceof CheckedSource) return kept;
    const checksum = { expected: unmaskCrc(placed.entry.crc32c), initial: 0 };
    const checked = new CheckedSource(await this.files.stored(placed), this.placeOf(placed), checksum, () => {
      this.unchecked.delete(id);
    });
    if (!checked.isVerified) this.unchecked.set(id, checked);
    return checked;
  }

  /** The elements of an entry of fixed width, little-endian. */
  async elements(placed: PlacedEntry, dtype: DType): Promise<ByteSource> {
    const checked = await this.checked(placed);
    return this.isBigEndian ? swapped(checked, dtype) : checked;
  }

  /** The strings of an entry. */
  async strings(placed: PlacedEntry): Promise<StringSource> {
    const { entry } = placed;
    const id = idOf(placed);
    const kept = this.unchecked.get(id);
    if (kept instanceof HeldStrings) return kept.source;
    const stored = await this.files.stored(placed);
    const about = {
      elementCount: elementCount(entry.shape),
      crc32c: entry.crc32c,
      isBigEndian: this.isBigEndian,
      place: this.placeOf(placed),
    };
    const source = await StringSource.open(stored, about, () => this.unchecked.delete(id));
    if (!source.strings.isVerified) this.unchecked.set(id, new HeldStrings(source));
    return source;
  }

  /** The stored bytes of a variant tensor. @throws UnsupportedError (`unsupported-operation`), LimitError (`limit`) */
  async variants(placed: PlacedEntry): Promise<ByteSource> {
    const { entry, place } = placed;
    if (this.isBigEndian) {
      throw new UnsupportedError("unsupported-operation", `"${place.key}" is a variant of a big-endian checkpoint`, {
        file: place.file,
      });
    }
    if (entry.size > MAX_VARIANT_BYTES) {
      const details = { file: place.file, expected: `at most ${MAX_VARIANT_BYTES} bytes`, actual: entry.size };
      throw new LimitError("limit", `variants of "${place.key}"`, details);
    }
    const source = new VariantSource(await this.files.stored(placed), placed, this.placeOf(placed));
    const id = idOf(placed);
    this.unchecked.set(id, {
      verify: async () => {
        await source.read(0, source.size);
      },
    });
    return source;
  }

  /** A region of a tensor in slices. The boxes have been checked to cover it. */
  async gather(boxes: readonly PlacedBoxEntry[], dtype: DType, region: Region): Promise<ByteSource> {
    const needed = boxes.filter((box) => intersect(box.region, region) !== undefined);
    const name = this.files.prefix;
    if (elementBytes(dtype) > 0) {
      const placed: PlacedBox[] = [];
      for (const box of needed) placed.push({ region: box.region, data: await this.elements(box.entry, dtype) });
      return new GatheredSource(name, placed, region, elementBytes(dtype));
    }
    if (dtype !== "string") {
      throw new UnsupportedError("unsupported-dtype", `slices of ${dtype}`, { file: this.files.index.name });
    }
    const strings: PlacedStrings[] = [];
    for (const box of needed) strings.push({ region: box.region, source: await this.strings(box.entry) });
    return gatherStrings(name, strings, region);
  }

  private placeOf({ entry, place }: PlacedEntry): TensorPlace {
    return { file: this.files.shardName(entry.shardId), offset: entry.offset, key: place.key };
  }
}

/** A slice of a tensor, with its place in the whole. */
export interface PlacedBoxEntry {
  readonly region: Region;
  readonly entry: PlacedEntry;
}

function idOf({ entry }: PlacedEntry): string {
  return `${entry.shardId}:${entry.offset}:${entry.size}:${entry.crc32c}`;
}

/** Complex numbers are two numbers each. Source: tensorflow/core/util/tensor_bundle/byte_swap_tensor.cc. */
function swapped(source: ByteSource, dtype: DType): ByteSource {
  const width = dtype.startsWith("complex") ? elementBytes(dtype) / 2 : elementBytes(dtype);
  return width === 1 ? source : new SwappedSource(source, width);
}

class HeldStrings implements Unchecked {
  readonly source: StringSource;

  constructor(source: StringSource) {
    this.source = source;
  }

  verify(options?: ReadOptions): Promise<void> {
    return this.source.strings.verify(options);
  }
}

/** The stored bytes of a variant tensor, which are read and checked as a whole. */
class VariantSource extends BaseSource {
  readonly name: string;
  readonly size: number;
  private readonly stored: ByteSource;
  private readonly placed: PlacedEntry;
  private readonly place: TensorPlace;
  private whole: Promise<Uint8Array> | undefined;

  constructor(stored: ByteSource, placed: PlacedEntry, place: TensorPlace) {
    super();
    this.name = stored.name;
    this.size = stored.size;
    this.stored = stored;
    this.placed = placed;
    this.place = place;
  }

  protected async fill(offset: number, target: Uint8Array): Promise<void> {
    this.whole ??= this.readWhole();
    target.set((await this.whole).subarray(offset, offset + target.length));
  }

  private async readWhole(): Promise<Uint8Array> {
    const { entry } = this.placed;
    const bytes = await this.stored.read(0, this.size);
    const actual = await checksumOfVariants(bytes, elementCount(entry.shape), this.place);
    if (actual !== entry.crc32c) throw checksumError(this.place, unmaskCrc(entry.crc32c), unmaskCrc(actual));
    return bytes;
  }
}

interface PlacedStrings {
  readonly region: Region;
  readonly source: StringSource;
}

/** Strings out of several slices, row by row. */
function gatherStrings(name: string, boxes: readonly PlacedStrings[], region: Region): ByteSource {
  const runs: { at: number; data: ByteSource }[] = [];
  for (const { region: box, source } of boxes) {
    const common = intersect(box, region);
    if (common === undefined) continue;
    const length = rowLength(common);
    for (const row of rowsOf(common)) {
      const start = linearIndex(row, box);
      runs.push({ at: linearIndex(row, region), data: source.elements(start, start + length) });
    }
  }
  runs.sort((a, b) => a.at - b.at);
  return joinSources(
    name,
    runs.map(({ data }) => data),
  );
}

/** The place of a point in the row-major order of a box. */
function linearIndex(point: readonly number[], box: Region): number {
  let index = 0;
  for (const [i, { start, end }] of box.entries()) index = index * (end - start) + (point[i] as number) - start;
  return index;
}

function rowLength(box: Region): number {
  const last = box.at(-1);
  return last === undefined ? 1 : last.end - last.start;
}

/** The first point of each row of a box. */
function* rowsOf(box: Region): Iterable<number[]> {
  const shape: Shape = regionShape(box.slice(0, -1));
  const count = elementCount(shape);
  for (let i = 0; i < count; i++) {
    const [point = []] = linearBoxes(shape, i, i + 1);
    yield [...point.map(({ start }, d) => start + (box[d]?.start ?? 0)), ...box.slice(-1).map(({ start }) => start)];
  }
}

/** A region of the strings of one entry. */
export function regionOfStrings(source: StringSource, shape: Shape, region: Region): ByteSource {
  const whole = shape.map((size) => ({ start: 0, end: size }));
  if (elementCount(regionShape(region)) === 0) return source.slice(0, 0);
  return gatherStrings(source.name, [{ region: whole, source }], region);
}
