import { BaseSource, type ByteSource, type ReadOptions } from "../bytes/byte-source.js";
import type { Region } from "./region.js";
import { regionShape } from "./region.js";
import { elementCount, type Shape } from "./shape.js";

/** A box of a tensor whose elements stand row-major in a source. */
export interface PlacedBox {
  /** Where the box lies in the whole tensor. */
  readonly region: Region;
  readonly data: ByteSource;
}

/** Runs that are so near to one another are read together, 64 KiB. */
const COALESCED_BYTES = 64 * 1024;
/** What is read at once is at most this long, 4 MiB, unless it is one run. */
const READ_BYTES = 4 * 1024 * 1024;

/**
 * A region of a tensor, put together from boxes that cover it and do not overlap: each read takes from each box the
 * rows that it needs, in few reads. Row-major; elements have one width.
 */
export class GatheredSource extends BaseSource {
  readonly name: string;
  readonly size: number;
  private readonly boxes: readonly PlacedBox[];
  private readonly region: Region;
  private readonly shape: Shape;
  private readonly width: number;

  /** The caller has checked that the boxes cover `region`. */
  constructor(name: string, boxes: readonly PlacedBox[], region: Region, width: number) {
    super();
    this.name = name;
    this.boxes = boxes.filter((box) => intersect(box.region, region) !== undefined);
    this.region = region;
    this.shape = regionShape(region);
    this.width = width;
    this.size = elementCount(this.shape) * width;
  }

  protected async fill(offset: number, target: Uint8Array, options?: ReadOptions): Promise<void> {
    const { width } = this;
    const first = Math.floor(offset / width);
    const end = Math.ceil((offset + target.length) / width);
    if (first * width === offset && (end - first) * width === target.length) {
      return this.fillElements(first, end, target, options);
    }
    const elements = new Uint8Array((end - first) * width);
    await this.fillElements(first, end, elements, options);
    target.set(elements.subarray(offset - first * width, offset - first * width + target.length));
  }

  /** Fills `target` with the elements from `first` to `end` of the region. */
  private async fillElements(first: number, end: number, target: Uint8Array, options?: ReadOptions): Promise<void> {
    for (const part of linearBoxes(this.shape, first, end)) {
      const wanted = part.map((range, i) => shifted(range, this.region[i]?.start ?? 0));
      for (const box of this.boxes) {
        const common = intersect(box.region, wanted);
        if (common !== undefined) await this.copyFrom(box, common, { target, first }, options);
      }
    }
  }

  private async copyFrom(
    box: PlacedBox,
    common: Region,
    to: { target: Uint8Array; first: number },
    options?: ReadOptions,
  ): Promise<void> {
    const { width } = this;
    const boxStrides = stridesOf(regionShape(box.region), width);
    const start = offsetOf(common, box.region, boxStrides);
    let covered = width;
    for (const [i, { start, end }] of common.entries()) covered += (end - start - 1) * (boxStrides[i] as number);
    const needed = elementCount(regionShape(common)) * width;
    if (covered > needed && (covered > READ_BYTES || (covered > COALESCED_BYTES && covered > 2 * needed))) {
      const [low, high] = halves(common);
      await this.copyFrom(box, low, to, options);
      return this.copyFrom(box, high, to, options);
    }
    const bytes = await box.data.read(start, covered, options);
    const strides = stridesOf(this.shape, width);
    const at = offsetOf(common, this.region, strides) - to.first * width;
    copyBox({ bytes, at: 0, strides: boxStrides }, { bytes: to.target, at, strides }, regionShape(common), width);
  }
}

function shifted({ start, end }: Region[number], by: number): Region[number] {
  return { start: start + by, end: end + by };
}

/** What two boxes have in common, or undefined when that is nothing. */
export function intersect(a: Region, b: Region): Region | undefined {
  const common: { start: number; end: number }[] = [];
  for (const [i, range] of a.entries()) {
    const other = b[i] as Region[number];
    const start = Math.max(range.start, other.start);
    const end = Math.min(range.end, other.end);
    if (start >= end) return undefined;
    common.push({ start, end });
  }
  return common;
}

/** Two halves of a box of more than one element, along its first dimension of more than one. */
function halves(box: Region): [Region, Region] {
  const dimension = box.findIndex(({ start, end }) => end - start > 1);
  const { start, end } = box[dimension] as Region[number];
  const middle = start + Math.ceil((end - start) / 2);
  const part = (range: Region[number]): Region => box.map((whole, i) => (i === dimension ? range : whole));
  return [part({ start, end: middle }), part({ start: middle, end })];
}

/** Bytes from one index of each dimension to the next. */
export function stridesOf(shape: Shape, width: number): number[] {
  const strides = new Array<number>(shape.length);
  let stride = width;
  for (let i = shape.length - 1; i >= 0; i--) {
    strides[i] = stride;
    stride *= shape[i] as number;
  }
  return strides;
}

/** Where the first element of `inner` stands in the bytes of `outer`. */
function offsetOf(inner: Region, outer: Region, strides: readonly number[]): number {
  let offset = 0;
  for (const [i, { start }] of inner.entries()) {
    offset += (start - (outer[i]?.start ?? 0)) * (strides[i] as number);
  }
  return offset;
}

/** The elements from `from` to `to` of a row-major tensor as boxes: part of a row, whole rows, part of a row. */
export function linearBoxes(shape: Shape, from: number, to: number): Region[] {
  if (from >= to) return [];
  const [size] = shape;
  if (size === undefined) return [[]];
  const rest = shape.slice(1);
  const stride = elementCount(rest);
  const whole = rest.map((length) => ({ start: 0, end: length }));
  const boxes: Region[] = [];
  let at = from;
  while (at < to) {
    const row = Math.floor(at / stride);
    const within = at - row * stride;
    const rows = within === 0 ? Math.floor((to - at) / stride) : 0;
    if (rows > 0) {
      boxes.push([{ start: row, end: row + rows }, ...whole]);
      at += rows * stride;
      continue;
    }
    const end = Math.min(stride, within + to - at);
    for (const box of linearBoxes(rest, within, end)) boxes.push([{ start: row, end: row + 1 }, ...box]);
    at += end - within;
  }
  return boxes;
}

/** Bytes in which a box lies with these strides. */
interface Strided {
  readonly bytes: Uint8Array;
  readonly at: number;
  readonly strides: readonly number[];
}

/** Copies a box; dimensions that are runs in both are copied as one. */
export function copyBox(from: Strided, to: Strided, shape: Shape, width: number): void {
  let dimension = shape.length;
  let run = width;
  while (dimension > 0 && isRun(from, to, shape, dimension - 1, run)) run *= shape[--dimension] as number;
  const copy = (level: number, source: number, target: number): void => {
    if (level === dimension) {
      to.bytes.set(from.bytes.subarray(source, source + run), target);
      return;
    }
    const [sourceStep, targetStep] = [from.strides[level] as number, to.strides[level] as number];
    for (let i = 0; i < (shape[level] as number); i++) {
      copy(level + 1, source + i * sourceStep, target + i * targetStep);
    }
  };
  copy(0, from.at, to.at);
}

function isRun(from: Strided, to: Strided, shape: Shape, dimension: number, run: number): boolean {
  if (shape[dimension] === 1) return true;
  return from.strides[dimension] === run && to.strides[dimension] === run;
}
