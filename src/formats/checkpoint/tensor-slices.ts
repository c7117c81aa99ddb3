import { CorruptionError } from "../../errors.js";
import { intersect } from "../../tensor/gather.js";
import type { Region } from "../../tensor/region.js";
import { elementCount, formatShape, type Shape } from "../../tensor/shape.js";
import { type EntryPlace, entryError, type SliceExtent } from "./bundle-proto.js";

/** The extents of a slice as the specs have them: `0,4:-`. Source: tensorflow/core/framework/tensor_slice.cc, DebugString. */
export function formatExtents(extents: readonly SliceExtent[]): string {
  return extents.map(({ start, length }) => (length < 0 ? "-" : `${start},${length}`)).join(":");
}

/** The extents of a slice spec, `full dims start,length:-`; undefined for an empty one. The spec has been checked. */
export function extentsOf(spec: string): SliceExtent[] | undefined {
  const text = spec.trim().split(" ").at(-1) ?? "";
  if (text === "") return undefined;
  return text.split(":").map((extent) => {
    if (extent === "-") return { start: 0, length: -1 };
    const [start, length] = extent.split(",").map(Number);
    return { start: start ?? 0, length: length ?? 0 };
  });
}

/**
 * The box of a slice. Source: tensorflow/core/framework/tensor_slice.cc, SliceTensorShape.
 * @throws CorruptionError (`slice-coverage`) when it passes the shape
 */
export function regionOfSlice(extents: readonly SliceExtent[], shape: Shape, place: EntryPlace): Region {
  if (extents.length !== shape.length) {
    throw entryError("slice-coverage", "rank of a slice", place, shape.length, extents.length);
  }
  return extents.map(({ start, length }, dimension) => {
    const size = shape[dimension] as number;
    if (length < 0) return { start: 0, end: size };
    if (start < 0 || length === 0 || start + length > size) {
      const what = `a slice passes dimension ${dimension}`;
      throw entryError("slice-coverage", what, place, `within 0:${size}`, `${start}:${start + length}`);
    }
    return { start, end: start + length };
  });
}

/** Checks that boxes do not overlap. @throws CorruptionError (`slice-coverage`) */
export function checkOverlap(boxes: readonly Region[], place: EntryPlace): void {
  const clash = findOverlap(boxes);
  if (clash === undefined) return;
  throw entryError("slice-coverage", "slices overlap", place, undefined, clash.map(formatRegion).join(" and "));
}

/**
 * Checks that boxes that do not overlap cover a region.
 * @throws CorruptionError (`slice-coverage`)
 */
export function checkCoverage(boxes: readonly Region[], wanted: Region, shape: Shape, place: EntryPlace): void {
  const total = elementCount(wanted.map(({ start, end }) => end - start));
  let covered = 0;
  for (const box of boxes) {
    const common = intersect(box, wanted);
    if (common !== undefined) covered += elementCount(common.map(({ start, end }) => end - start));
  }
  if (covered === total) return;
  throw new CorruptionError("slice-coverage", `slices of "${place.key}", of shape ${formatShape(shape)}`, {
    file: place.file,
    offset: place.offset,
    expected: `${total} elements`,
    actual: `${covered} elements`,
  });
}

function formatRegion(region: Region): string {
  return `[${region.map(({ start, end }) => `${start}:${end}`).join(", ")}]`;
}

/** Two boxes that overlap, if any do. Boxes are swept along the dimension in which they begin at the most places. */
function findOverlap(boxes: readonly Region[]): [Region, Region] | undefined {
  const rank = boxes[0]?.length ?? 0;
  let best = 0;
  let most = -1;
  for (let dimension = 0; dimension < rank; dimension++) {
    const starts = new Set(boxes.map((box) => box[dimension]?.start)).size;
    if (starts > most) [best, most] = [dimension, starts];
  }
  const startOf = (box: Region): number => box[best]?.start ?? 0;
  const sorted = [...boxes].sort((a, b) => startOf(a) - startOf(b));
  let open: Region[] = [];
  for (const box of sorted) {
    open = open.filter((other) => (other[best]?.end ?? 1) > startOf(box));
    for (const other of open) if (intersect(box, other) !== undefined) return [other, box];
    open.push(box);
  }
  return undefined;
}
