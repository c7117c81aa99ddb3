import { UsageError } from "../errors.js";
import { MAX_OFFSET, MAX_RANK } from "../limits.js";
import type { Region } from "./region.js";
import { elementCount, type Shape } from "./shape.js";

/** Where a slice lies: the shape of the whole tensor and the part that is the slice. */
export interface SliceInfo {
  readonly fullShape: Shape;
  readonly region: Region;
}

const COUNT = /^\d{1,16}$/;

/**
 * Parses a slice spec, `full dims start,length:start,length`, where `-` stands for a whole dimension. White space around
 * it doesn't count. Empty text, which stands for a whole tensor of whatever shape, gives undefined.
 * Source: tensorflow/core/util/tensor_slice_util.h and framework/tensor_slice.cc, ParseShapeAndSlice and
 * TensorSlice::Parse; python/ops/variables.py, SaveSliceInfo.from_spec.
 * @throws {@link UsageError} (`slice-spec`) for other text and for a slice that passes the shape
 */
export function parseSliceSpec(text: string): SliceInfo | undefined {
  const trimmed = text.trim();
  if (trimmed === "") return undefined;
  const words = trimmed.split(" ");
  const extents = (words.pop() as string).split(":");
  if (words.length === 0 || words.length !== extents.length || words.length > MAX_RANK) {
    throw badSpec(text, `as many extents as dimensions, 1 to ${MAX_RANK}`, `${words.length} and ${extents.length}`);
  }
  const fullShape = words.map((word) => parseCount(word, text));
  if (elementCount(fullShape.filter((size) => size > 0)) > MAX_OFFSET)
    throw badSpec(text, `at most ${MAX_OFFSET} elements`);
  return { fullShape, region: extents.map((extent, i) => parseExtent(extent, fullShape[i] as number, text)) };
}

/** The spec of a slice as TensorFlow writes it, every extent in full; empty for a scalar. */
export function formatSliceSpec(fullShape: Shape, region: Region): string {
  if (fullShape.length === 0) return "";
  let text = "";
  for (const size of fullShape) text += `${size} `;
  for (const [i, { start, end }] of region.entries()) text += `${i === 0 ? "" : ":"}${start},${end - start}`;
  return text;
}

function parseExtent(extent: string, size: number, text: string): Region[number] {
  if (extent === "-") return { start: 0, end: size };
  const parts = extent.split(",");
  if (parts.length !== 2) throw badSpec(text, "start,length or -", extent);
  const [start, length] = parts.map((part) => parseCount(part, text)) as [number, number];
  if (start + length > size) throw badSpec(text, `an extent within ${size}`, extent);
  // Source: TensorSlice::Parse wants a positive length; a dimension that has nothing can give nothing.
  if (length === 0 && size > 0) throw badSpec(text, "a positive length", extent);
  return { start, end: start + length };
}

function parseCount(word: string, text: string): number {
  const count = COUNT.test(word) ? Number(word) : Number.NaN;
  if (count <= MAX_OFFSET) return count;
  throw badSpec(text, "a whole number", JSON.stringify(word));
}

function badSpec(text: string, expected: string, actual?: string): UsageError {
  const shown = text.length > 100 ? `${text.slice(0, 100)}…` : text;
  return new UsageError("slice-spec", `slice spec ${JSON.stringify(shown)}`, {
    expected,
    actual,
    hint: "A slice spec looks like 10 4 0,5:0,4.",
  });
}
