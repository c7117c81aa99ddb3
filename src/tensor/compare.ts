import type { ByteSource } from "../bytes/byte-source.js";
import type { StreamOptions } from "../bytes/copy-source.js";
import { type DType, elementBytes } from "./dtype.js";
import { decodeNumbers } from "./numbers.js";

/** Elements that are compared at a time, 64 Ki. */
const COMPARED_ELEMENTS = 64 * 1024;

/** Data to compare, in the form of `TensorSource.data`. */
export interface ComparedData {
  readonly dtype: DType;
  readonly data: ByteSource;
}

/** Options of {@link compareData}. */
export interface CompareOptions extends StreamOptions {
  /** Differences up to this are none; 0 when it is not given. */
  readonly tolerance?: number | undefined;
  /** The same, as a part of the larger magnitude of the two. */
  readonly relativeTolerance?: number | undefined;
}

/** How two tensors of one shape differ. */
export interface Difference {
  /** How many elements differ by more than the tolerance. */
  readonly count: number;
  /** The largest difference; infinite beside a NaN or an infinity on one side; undefined for what is no number. */
  readonly maxAbs: number | undefined;
  /** The largest difference as a part of the larger magnitude; likewise. */
  readonly maxRel: number | undefined;
  /** The first element that differs, by its place in row-major order. */
  readonly firstIndex: number;
}

/**
 * Compares the elements of two tensors with the same number of elements; undefined when all are equal within the
 * tolerance. Two NaNs are equal, and so are 0 and -0. The dtypes may differ when both are numbers.
 */
export async function compareData(
  left: ComparedData,
  right: ComparedData,
  options: CompareOptions = {},
): Promise<Difference | undefined> {
  const [leftWidth, rightWidth] = [elementBytes(left.dtype), elementBytes(right.dtype)];
  if (leftWidth === 0 || rightWidth === 0) return compareStrings(left.data, right.data, options);
  const difference = new DifferenceBuilder(options);
  const count = left.data.size / leftWidth;
  const scratch = [
    new Uint8Array(COMPARED_ELEMENTS * leftWidth),
    new Uint8Array(COMPARED_ELEMENTS * rightWidth),
  ] as const;
  for (let at = 0; at < count; at += COMPARED_ELEMENTS) {
    options.signal?.throwIfAborted();
    const length = Math.min(COMPARED_ELEMENTS, count - at);
    const [a, b] = await Promise.all([
      readInto(left.data, at * leftWidth, length * leftWidth, scratch[0]),
      readInto(right.data, at * rightWidth, length * rightWidth, scratch[1]),
    ]);
    if (left.dtype !== right.dtype || !equalBytes(a, b)) difference.addBlock(left.dtype, a, right.dtype, b, at);
    options.onBytes?.(a.length + b.length);
  }
  return difference.result();
}

async function readInto(source: ByteSource, offset: number, length: number, target: Uint8Array): Promise<Uint8Array> {
  let done = 0;
  while (done < length) {
    for (const piece of await source.readPieces(offset + done, length - done, target.subarray(done, length))) {
      if (piece.buffer !== target.buffer || piece.byteOffset !== target.byteOffset + done) target.set(piece, done);
      done += piece.length;
    }
  }
  return target.subarray(0, length);
}

function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  const words = (a.byteOffset | b.byteOffset) % 4 === 0 ? a.length >> 2 : 0;
  const [left, right] = [a, b].map((bytes) => new Uint32Array(bytes.buffer, words === 0 ? 0 : bytes.byteOffset, words));
  if (left === undefined || right === undefined) return false;
  for (let i = 0; i < words; i++) if (left[i] !== right[i]) return false;
  for (let i = words * 4; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** Gathers what differs. */
class DifferenceBuilder {
  private readonly absolute: number;
  private readonly relative: number;
  private count = 0;
  private maxAbs = 0;
  private maxRel = 0;
  private firstIndex = -1;
  private areNumbers = true;

  constructor({ tolerance = 0, relativeTolerance = 0 }: CompareOptions) {
    this.absolute = tolerance;
    this.relative = relativeTolerance;
  }

  addBlock(leftType: DType, left: Uint8Array, rightType: DType, right: Uint8Array, start: number): void {
    if (leftType === rightType && (leftType === "int64" || leftType === "uint64")) {
      this.addBigints(left, right, start, leftType === "uint64");
      return;
    }
    const [a, b] = [decodeNumbers(leftType, left), decodeNumbers(rightType, right)];
    if (a === undefined || b === undefined || a.length !== b.length) {
      this.areNumbers = false;
      this.count++;
      if (this.firstIndex < 0) this.firstIndex = start;
      return;
    }
    const parts = leftType.startsWith("complex") ? 2 : 1;
    for (let i = 0; i < a.length; i++) {
      const [x, y] = [a[i] as number, b[i] as number];
      if (x !== y && !(Number.isNaN(x) && Number.isNaN(y))) this.add(x, y, start + Math.floor(i / parts));
    }
  }

  /** Integers of 64 bits: numbers would hide differences beyond 2^53. */
  private addBigints(left: Uint8Array, right: Uint8Array, start: number, isUnsigned: boolean): void {
    const [a, b] = [left, right].map((bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.length));
    if (a === undefined || b === undefined) return;
    for (let at = 0; at + 8 <= left.length; at += 8) {
      const x = isUnsigned ? a.getBigUint64(at, true) : a.getBigInt64(at, true);
      const y = isUnsigned ? b.getBigUint64(at, true) : b.getBigInt64(at, true);
      if (x === y) continue;
      const gap = Number(x > y ? x - y : y - x);
      const size = Math.max(Math.abs(Number(x)), Math.abs(Number(y)));
      this.addGap(gap, gap / size, start + at / 8, size);
    }
  }

  private add(x: number, y: number, index: number): void {
    const gap = Math.abs(x - y);
    const size = Math.max(Math.abs(x), Math.abs(y));
    if (Number.isFinite(gap)) this.addGap(gap, gap / size, index, size);
    else this.addGap(Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, index, 0);
  }

  private addGap(gap: number, share: number, index: number, size: number): void {
    if (gap <= this.absolute + this.relative * size) return;
    this.count++;
    if (this.firstIndex < 0) this.firstIndex = index;
    if (gap > this.maxAbs) this.maxAbs = gap;
    if (share > this.maxRel) this.maxRel = share;
  }

  result(): Difference | undefined {
    const { count, maxAbs, maxRel, firstIndex } = this;
    if (count === 0) return undefined;
    return this.areNumbers
      ? { count, maxAbs, maxRel, firstIndex }
      : { count, maxAbs: undefined, maxRel: undefined, firstIndex };
  }
}

/** Strings one by one: each is its length as uint64 and its bytes. */
async function compareStrings(
  left: ByteSource,
  right: ByteSource,
  options: StreamOptions,
): Promise<Difference | undefined> {
  const strings = [new StringStream(left), new StringStream(right)] as const;
  let [index, count, firstIndex] = [0, 0, -1];
  for (; ; index++) {
    options.signal?.throwIfAborted();
    const [a, b] = [await strings[0].next(), await strings[1].next()];
    if (a === undefined && b === undefined) break;
    if (a === undefined || b === undefined || !(await equalSources(a, b))) {
      count++;
      if (firstIndex < 0) firstIndex = index;
    }
    options.onBytes?.((a?.size ?? 0) + (b?.size ?? 0) + 16);
  }
  return count === 0 ? undefined : { count, maxAbs: undefined, maxRel: undefined, firstIndex };
}

/** The elements of string data, one after another, as parts of it. */
class StringStream {
  private readonly data: ByteSource;
  private offset = 0;

  constructor(data: ByteSource) {
    this.data = data;
  }

  async next(): Promise<ByteSource | undefined> {
    if (this.offset >= this.data.size) return undefined;
    const head = await this.data.read(this.offset, 8);
    const length = Number(new DataView(head.buffer, head.byteOffset, 8).getBigUint64(0, true));
    const element = this.data.slice(this.offset + 8, length);
    this.offset += 8 + length;
    return element;
  }
}

async function equalSources(a: ByteSource, b: ByteSource): Promise<boolean> {
  if (a.size !== b.size) return false;
  for (let at = 0; at < a.size; at += COMPARED_ELEMENTS) {
    const length = Math.min(COMPARED_ELEMENTS, a.size - at);
    const [left, right] = await Promise.all([a.read(at, length), b.read(at, length)]);
    if (!equalBytes(left, right)) return false;
  }
  return true;
}
